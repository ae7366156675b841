"""Remediation: one run of one playbook on one cluster."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from .approval import IMMUTABLE
from .base import Model, Resource
from .cel import rule, validations
from .kafkacluster_status import FindingId
from .remediation_status import RemediationStatus
from .scalars import CamelWord, Digest, ObjectName, ParameterName, Uid, UserName
from .vocabulary import API_VERSION

ParameterText = Annotated[str, StringConstraints(max_length=1024)]


class ClusterRef(Model):
    """The KafkaCluster, in the same namespace."""

    name: ObjectName = Field(description="The KafkaCluster's metadata.name.")
    uid: Uid = Field(description="Its metadata.uid: a later one of the same name is another one.")


class PlaybookRef(Model):
    """The Playbook, exactly as it was."""

    name: ObjectName = Field(description="The Playbook's metadata.name.")
    digest: Digest = Field(description="Its status.digest: a playbook that was edited since is another one.")


class Cause(Model):
    """The finding that made the operator propose this run."""

    finding_id: FindingId = Field(description="The finding's id in the KafkaCluster's status.")
    finding_type: CamelWord = Field(description="The finding's type.")


class RemediationSpec(Model):
    """What is to be treated with what. It can never be changed."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            IMMUTABLE,
            rule(
                "has(self.cause) != has(self.requestedBy)",
                "exactly one of cause (the operator's) and requestedBy (a person's) must be set",
            ),
        )
    )

    cluster_ref: ClusterRef = Field(description="The KafkaCluster, in the same namespace.")
    playbook: PlaybookRef = Field(description="The Playbook, pinned.")
    parameters: Annotated[dict[ParameterName, ParameterText], Field(max_length=32)] = Field(
        default_factory=dict, description="Values of the playbook's parameters, as text."
    )
    cause: Cause | None = Field(default=None, description="The finding that made the operator propose this run.")
    requested_by: UserName | None = Field(
        default=None, description="The person who asked for this run: your own user name."
    )

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.cause is None) == (self.requested_by is None):
            raise ValueError(
                "exactly one of cause and requestedBy must be set; people set requestedBy to their own user name"
            )
        return self


class Remediation(Resource):
    """One run of one playbook on one cluster."""

    KIND: ClassVar[str] = "Remediation"
    PLURAL: ClassVar[str] = "remediations"

    api_version: Literal["kafkamedic.dev/v1alpha1"] = API_VERSION
    kind: Literal["Remediation"] = "Remediation"
    spec: RemediationSpec
    status: RemediationStatus = Field(default_factory=RemediationStatus)
