"""PlanPart: one piece of a plan file that is too long for its Remediation, for people to read."""

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
    """One piece of a plan file. The joined pieces are valid only with the SHA-256 that the plan names."""

    remediation_ref: RemediationRef = Field(description="The Remediation of the plan.")
    sha256: Annotated[str, StringConstraints(min_length=64, max_length=64, pattern=r"^[a-f0-9]{64}$")] = Field(
        description="SHA-256 of the whole file, as in status.plan.artifact."
    )
    part: Count = Field(description="Number of the piece, from 0.")
    parts: Annotated[int, Field(ge=1, le=MAX_PARTS, strict=True)] = Field(description="Number of pieces of the file.")
    data: Annotated[str, StringConstraints(max_length=MAX_PART_BYTES // 3 * 4, pattern=r"^[A-Za-z0-9+/]*={0,2}$")] = (
        Field(description="Content of the piece, in Base64.")
    )


class PlanPart(Resource):
    """One piece of a plan file that is too long for its Remediation."""

    KIND: ClassVar[str] = "PlanPart"
    PLURAL: ClassVar[str] = "planparts"

    api_version: Literal["kafkamedic.dev/v1alpha1"] = API_VERSION
    kind: Literal["PlanPart"] = "PlanPart"
    spec: Annotated[PlanPartSpec, Field(description="One piece of a plan file.")]


def part_name(remediation_uid: str, part: int) -> str:
    """`metadata.name`: of the uid, which no other Remediation has."""
    return f"{remediation_uid}-plan-{part}"
