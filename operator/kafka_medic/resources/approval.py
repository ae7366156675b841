"""RemediationApproval: one person's decision on exactly one plan."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from .base import Model, Resource
from .cel import rule, validations
from .scalars import Digest, GroupName, LineText, ObjectName, Uid, UserName
from .vocabulary import API_VERSION, Decision

IMMUTABLE = rule("self == oldSelf", "spec is immutable; create a new object")


class RemediationRef(Model):
    """A Remediation in the same namespace."""

    name: ObjectName = Field(description="The Remediation's metadata.name.")
    uid: Uid = Field(description="The Remediation's metadata.uid. Another Remediation of the same name does not match.")


class RemediationApprovalSpec(Model):
    """Approval or rejection of one plan. Immutable."""

    model_config = ConfigDict(json_schema_extra=validations(IMMUTABLE))

    remediation_ref: RemediationRef = Field(description="The Remediation of the plan, in the same namespace.")
    plan_digest: Digest = Field(
        description="status.plan.digest of the plan that you read. Another plan needs another approval."
    )
    decision: Decision = Field(description="Your decision: Approve or Reject.")
    reason: LineText = Field(default="", description="Reason for your decision, for the record.")
    approver: UserName = Field(description="Your own user name, as `kubectl auth whoami` shows it.")
    approver_groups: Annotated[tuple[GroupName, ...], Field(max_length=256)] = Field(
        default=(),
        description="Groups that give you the right to approve, among those that `kubectl auth whoami` shows. Required "
        "if your right is bound to a group. From Kubernetes 1.36 the API server fills them in.",
    )


class RemediationApproval(Resource):
    """One person's decision on exactly one plan."""

    KIND: ClassVar[str] = "RemediationApproval"
    PLURAL: ClassVar[str] = "remediationapprovals"

    api_version: Literal["kafkamedic.dev/v1alpha1"] = API_VERSION
    kind: Literal["RemediationApproval"] = "RemediationApproval"
    spec: Annotated[RemediationApprovalSpec, Field(description="Approval or rejection of one plan.")]
