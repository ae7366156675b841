"""RemediationApproval: one person's word on exactly one plan."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from .base import Model, Resource
from .cel import rule, validations
from .scalars import Digest, GroupName, LineText, ObjectName, Uid, UserName
from .vocabulary import API_VERSION, Decision

IMMUTABLE = rule("self == oldSelf", "spec cannot be changed: create a new object instead")


class RemediationRef(Model):
    """The Remediation that the word is about, in the same namespace."""

    name: ObjectName = Field(description="The Remediation's metadata.name.")
    uid: Uid = Field(description="Its metadata.uid: a later one of the same name is another one.")


class RemediationApprovalSpec(Model):
    """Who says what to which plan. It can never be changed."""

    model_config = ConfigDict(json_schema_extra=validations(IMMUTABLE))

    remediation_ref: RemediationRef = Field(description="The Remediation that the word is about.")
    plan_digest: Digest = Field(
        description="status.plan.digest of the plan that was read. Another plan needs another word."
    )
    decision: Decision = Field(description="Approve or Reject.")
    reason: LineText = Field(default="", description="Why, for the record.")
    approver: UserName = Field(description="Your own user name, as `kubectl auth whoami` shows it.")
    approver_groups: Annotated[tuple[GroupName, ...], Field(max_length=256)] = Field(
        default=(),
        description="Groups of yours through which you may approve: none but those that `kubectl auth whoami` shows. "
        "Needed where the right is bound to a group; filled in by the API server where it can (Kubernetes 1.36).",
    )


class RemediationApproval(Resource):
    """One person's word on exactly one plan."""

    KIND: ClassVar[str] = "RemediationApproval"
    PLURAL: ClassVar[str] = "remediationapprovals"

    api_version: Literal["kafkamedic.dev/v1alpha1"] = API_VERSION
    kind: Literal["RemediationApproval"] = "RemediationApproval"
    spec: Annotated[RemediationApprovalSpec, Field(description="Who says what to which plan.")]
