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
    uid: Uid = Field(
        description="The KafkaCluster's metadata.uid. Another KafkaCluster of the same name does not match."
    )


class PlaybookRef(Model):
    """The Playbook, pinned by its digest."""

    name: ObjectName = Field(description="The Playbook's metadata.name.")
    digest: Digest = Field(description="The Playbook's status.digest. A Playbook that was edited since does not match.")


class Cause(Model):
    """The finding for which the operator proposed this run."""

    finding_id: FindingId = Field(description="The finding's id in the KafkaCluster's status.")
    finding_type: CamelWord = Field(description="The finding's type.")


_ONE_ORIGIN = (
    "cause and requestedBy are both set or both missing; set only requestedBy, to your own user name (cause is the "
    "operator's)"
)


class RemediationSpec(Model):
    """The playbook and the cluster of the run. Immutable."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            IMMUTABLE,
            rule(
                "has(self.cause) != has(self.requestedBy)",
                _ONE_ORIGIN,
            ),
        )
    )

    cluster_ref: ClusterRef = Field(description="The KafkaCluster, in the same namespace.")
    playbook: PlaybookRef = Field(description="The Playbook, pinned by its digest.")
    parameters: Annotated[dict[ParameterName, ParameterText], Field(max_length=32)] = Field(
        default_factory=dict, description="Values of the playbook's parameters, as text."
    )
    cause: Cause | None = Field(
        default=None,
        description="The finding for which the operator proposed this run. Absent: a person requested the run.",
    )
    requested_by: UserName | None = Field(
        default=None,
        description="Name of the user who requested this run: your own. Absent: the operator proposed the run.",
    )

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.cause is None) == (self.requested_by is None):
            raise ValueError(_ONE_ORIGIN)
        return self


class Remediation(Resource):
    """One run of one playbook on one cluster."""

    KIND: ClassVar[str] = "Remediation"
    PLURAL: ClassVar[str] = "remediations"

    api_version: Literal["kafkamedic.dev/v1alpha1"] = API_VERSION
    kind: Literal["Remediation"] = "Remediation"
    spec: RemediationSpec
    status: RemediationStatus = Field(default_factory=RemediationStatus)
