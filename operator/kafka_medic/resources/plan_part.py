"""PlanPart: a piece of the file of a plan that is too long for its Remediation, for people to read."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from .approval import RemediationRef
from .base import Model, Resource
from .scalars import Count
from .vocabulary import API_VERSION

MAX_PART_BYTES = 450_000
"""Of the file. In Base64 600,000 characters: less than half of what etcd takes in one request (1.5 MiB)."""
MAX_PARTS = 16


class PlanPartSpec(Model):
    """Which piece of which file. What the pieces make up counts only if it has the SHA-256 that the plan names."""

    remediation_ref: RemediationRef = Field(description="The Remediation whose plan it is.")
    sha256: Annotated[str, StringConstraints(min_length=64, max_length=64, pattern=r"^[a-f0-9]{64}$")] = Field(
        description="SHA-256 of the whole file, as status.plan.artifact has it."
    )
    part: Count = Field(description="Which piece, from 0.")
    parts: Annotated[int, Field(ge=1, le=MAX_PARTS, strict=True)] = Field(description="How many there are.")
    data: Annotated[str, StringConstraints(max_length=MAX_PART_BYTES // 3 * 4, pattern=r"^[A-Za-z0-9+/]*={0,2}$")] = (
        Field(description="In Base64.")
    )


class PlanPart(Resource):
    """A piece of the file of a plan that is too long for its Remediation."""

    KIND: ClassVar[str] = "PlanPart"
    PLURAL: ClassVar[str] = "planparts"

    api_version: Literal["kafkamedic.dev/v1alpha1"] = API_VERSION
    kind: Literal["PlanPart"] = "PlanPart"
    spec: Annotated[PlanPartSpec, Field(description="Which piece of which file.")]


def part_name(remediation_uid: str, part: int) -> str:
    """`metadata.name`: of the uid, which no other Remediation has."""
    return f"{remediation_uid}-plan-{part}"
