"""Remediation.status: the plan, the run's progress and its journal. Only the operator writes it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from .base import Model
from .cel import literal, rule, validations
from .conditions import Conditions
from .durations import format_bytes, format_duration
from .kafkacluster_status import FindingId
from .phases import LEGAL_TRANSITIONS, Phase, StepPhase
from .remediation_plan import MAX_INLINE_CHANGES, Plan
from .scalars import (
    BigCount,
    CamelWord,
    ConfigValue,
    Count,
    Flag,
    LineText,
    LongText,
    ObjectName,
    ShortText,
    StepName,
    Timestamp,
    TopicName,
    Uid,
    UserName,
)
from .vocabulary import ActionName, Decision, Guard, Risk, Severity, Verdict

JournalId = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$")]


SettingText = Annotated[str, StringConstraints(max_length=320)]
"""A setting with its resource: a topic name alone may have 249 characters."""


def _phase_rule() -> dict[str, str]:
    table = ", ".join(
        f"{literal(before)}: [{', '.join(literal(after) for after in sorted(afters))}]"
        for before, afters in LEGAL_TRANSITIONS.items()
    )
    return rule(
        f"self == oldSelf || self in {{{table}}}[oldSelf]",
        "status.phase may not change from the present phase to this; docs/reference/phases.md lists the legal changes",
    )


class IntentState(StrEnum):
    """Written as Intended before the effect; Done or Void only from what was observed afterwards."""

    INTENDED = "Intended"
    DONE = "Done"
    VOID = "Void"


class Progress(Model):
    """Progress of a step."""

    done: BigCount = Field(description="Completed amount, in `unit`.")
    total: BigCount = Field(description="Total amount, in `unit`.")
    unit: ShortText = Field(default="", description="Unit of done and total, such as partitions or brokers.")
    bytes_done: BigCount | None = Field(
        default=None,
        description="Completed bytes, by the sizes in the plan. Absent: a size is unknown.",
    )
    bytes_total: BigCount | None = Field(
        default=None, description="Total bytes, by the sizes in the plan. Absent: a size is unknown."
    )
    seconds_left: BigCount | None = Field(
        default=None,
        description="Lower bound of the remaining time at the plan's throttle, in seconds. Absent: unknown.",
    )

    @property
    def share(self) -> float:
        """Of the bytes if they are known, else of what is counted: 0 to 1."""
        done, total = (self.bytes_done or 0, self.bytes_total) if self.bytes_total else (self.done, self.total)
        return min(done / total, 1.0) if total else 1.0

    def describe(self) -> str:
        """`5/10 partitions, 1.2 GB of 3.4 GB, at least 2m30s left`."""
        text = f"{self.done}/{self.total} {self.unit}".rstrip()
        if self.bytes_done is not None and self.bytes_total is not None:
            text += f", {format_bytes(self.bytes_done)} of {format_bytes(self.bytes_total)}"
        return text if not self.seconds_left else f"{text}, at least {format_duration(self.seconds_left)} left"


class StepStatus(Model):
    """State of one step of the run."""

    name: StepName = Field(description="The step's name in the playbook.")
    action: ActionName = Field(description="The step's action.")
    phase: StepPhase = Field(default=StepPhase.PENDING, description="Phase of the step.")
    started_at: Timestamp | None = Field(default=None, description="Time when the step started.")
    finished_at: Timestamp | None = Field(default=None, description="Time when the step ended.")
    held_since: Timestamp | None = Field(
        default=None, description="Start of the present hold, such as a pause or a closed window. Absent: no hold."
    )
    held_seconds: BigCount | None = Field(
        default=None, description="Duration of earlier holds, in seconds. They do not count towards the step's timeout."
    )
    extended_at: Timestamp | None = Field(
        default=None, description="Time when approvers last restarted the step's timeout. Absent: never."
    )
    message: LineText = Field(default="", description="What the step does now, or why it waits.")
    progress: Progress | None = Field(default=None, description="Progress of the step. Absent: unknown.")


class SavedValue(Model):
    """A setting as it was before the run changed it."""

    # Absent and not null stands for "not set": the API server drops nulls inside lists from a merge patch.
    name: SettingText = Field(
        description="Name of the setting, such as TOPIC/orders/leader.replication.throttled.replicas."
    )
    value: ConfigValue | None = Field(default=None, description="Value of the setting. Absent: not set.")


class JournalEntry(Model):
    """One effect. The operator writes the entry before it sends the effect, and settles it by observation."""

    id: JournalId = Field(description="Id of the effect, the same for every attempt.")
    step: StepName = Field(description="Name of the effect's step.")
    kind: CamelWord = Field(description="Kind of the effect.")
    target: LineText = Field(default="", description="Object of the effect.")
    target_uid: Uid | None = Field(default=None, description="uid of the Pod that the effect concerns.")
    state: IntentState = Field(description="Intended before the effect. Done or Void once observed.")
    intended_at: Timestamp = Field(description="Time when the operator wrote the entry.")
    asked_at: Timestamp | None = Field(
        default=None, description="Time when the effect was last due again. Absent: it was due once."
    )
    done_at: Timestamp | None = Field(
        default=None, description="Time when the operator observed the outcome. Absent: not yet."
    )
    saved: Annotated[
        tuple[SavedValue, ...],
        Field(
            max_length=256,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default=(), description="Settings before the effect, for the revert.")
    detail: LongText = Field(default="", description="Further details for people.")

    def saved_values(self) -> dict[str, str | None]:
        """Setting -> value before, None for one that was not set."""
        return {entry.name: entry.value for entry in self.saved}

    @property
    def last_asked(self) -> datetime:
        """The last time at which the operator may have sent the effect."""
        return self.asked_at or self.intended_at


def saved_from(values: Mapping[str, str | None]) -> tuple[SavedValue, ...]:
    """The same the other way, in a fixed order."""
    return tuple(SavedValue(name=name, value=values[name]) for name in sorted(values))


class ApprovalRecord(Model):
    """One RemediationApproval, and whether it counts."""

    name: ObjectName = Field(description="The RemediationApproval's metadata.name.")
    uid: Uid = Field(description="The RemediationApproval's metadata.uid.")
    approver: UserName = Field(description="Name of the user who approved or rejected.")
    decision: Decision = Field(description="Approve or Reject.")
    at: Timestamp = Field(description="Creation time of the RemediationApproval.")
    counted: Flag = Field(description="Whether the RemediationApproval counts.")
    reason: LineText = Field(
        default="", description="Why the RemediationApproval does not count. If it counts: the approver's reason."
    )


MAX_WAITING = 40
"""More than the number of guards, so that each has room."""


class Waiting(Model):
    """One guard that the run waits for."""

    guard: Guard = Field(description="Name of the guard.")
    verdict: Verdict = Field(description="Verdict of the guard.")
    message: LineText = Field(default="", description="Why the guard refuses, and what would change that.")
    remediation: ObjectName | None = Field(
        default=None, description="Name of the other Remediation that goes first. Absent: none."
    )


MAX_WAITS = 60
"""Most waits that a run keeps."""


class Wait(Model):
    """A guard that held the run, and for how long."""

    guard: Guard = Field(description="Name of the guard.")
    verdict: Verdict = Field(description="Verdict of the guard.")
    message: ShortText = Field(default="", description="Reason of the guard when it first refused.")
    since: Timestamp = Field(description="Time when the guard first refused.")
    until: Timestamp | None = Field(
        default=None, description="Time when the guard stopped refusing. Absent: it still refuses."
    )


class CanaryEffect(Model):
    """Latency and failures of the canary while the run acted."""

    before_ms: BigCount = Field(
        description="Slowest acknowledgement right before the run's first effect, in milliseconds."
    )
    worst_ms: BigCount = Field(description="Slowest acknowledgement during the run, in milliseconds.")
    at: Timestamp = Field(description="Time of `worstMs`.")
    consume_before_ms: BigCount | None = Field(
        default=None,
        description="Slowest record from send to read, right before the run's first effect, in milliseconds.",
    )
    consume_worst_ms: BigCount | None = Field(
        default=None, description="Slowest record from send to read during the run, in milliseconds."
    )
    failing: Count = Field(default=0, description="Largest number of canary partitions that failed at one time.")


MAX_EVIDENCE_KEPT = 8


class Cure(Model):
    """The finding that a run cures, as it was before the run began."""

    finding_id: FindingId = Field(description="Id of the finding.")
    severity: Severity = Field(
        description="Severity of the finding. Of two runs, the cure of the more severe finding goes first."
    )
    message: LineText = Field(default="", description="The finding in one sentence, as it was before the run.")
    evidence: Annotated[tuple[LineText, ...], Field(max_length=MAX_EVIDENCE_KEPT)] = Field(
        default=(), description="Evidence of the finding before the run. Truncated."
    )


class RemediationStatus(Model):
    """State of the run. An unknown value is absent."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule(
                "!has(oldSelf.phase) || has(self.phase)",
                "status.phase cannot be removed",
                field_path=".phase",
            ),
        )
    )

    observed_generation: BigCount | None = Field(
        default=None, description="metadata.generation from which the operator computed this status."
    )
    phase: Annotated[Phase, Field(json_schema_extra=validations(_phase_rule()))] | None = Field(
        default=None, description="Phase of the run."
    )
    risk: Risk | None = Field(default=None, description="The playbook's risk.")
    message: LongText = Field(default="", description="What the run does now, or why it waits, in one sentence.")
    plan: Plan | None = Field(default=None, description="What the run would do.")
    current_step: StepName | None = Field(default=None, description="Name of the running step. Absent: none.")
    steps: Annotated[
        tuple[StepStatus, ...],
        Field(
            max_length=20,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default=(), description="State of each step.")
    journal: Annotated[
        tuple[JournalEntry, ...],
        Field(
            max_length=200,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]},
        ),
    ] = Field(default=(), description="Effects in order. The operator writes each entry before it sends the effect.")
    approvals: Annotated[
        tuple[ApprovalRecord, ...],
        Field(
            max_length=50,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"]},
        ),
    ] = Field(default=(), description="RemediationApprovals of this run, and whether each counts.")
    approved_by: Annotated[str, StringConstraints(max_length=2048)] | None = Field(
        default=None, description="Names of the approvers whose approvals count, separated by commas."
    )
    waiting_for: Annotated[tuple[Waiting, ...], Field(max_length=MAX_WAITING)] = Field(
        default=(), description="Guards that the run waits for."
    )
    waits: Annotated[tuple[Wait, ...], Field(max_length=MAX_WAITS)] = Field(
        default=(),
        description="Guards that held the run so far, for its report. Beyond 60 waits, the shortest are dropped.",
    )
    canary: CanaryEffect | None = Field(
        default=None, description="Latency and failures of the canary while the run acted. Absent: no data."
    )
    started_at: Timestamp | None = Field(default=None, description="Time when the operator intended the first effect.")
    finished_at: Timestamp | None = Field(default=None, description="Time when the run ended.")
    consecutive_verified: Count | None = Field(
        default=None, description="Number of observations in a row that verified the current step."
    )
    well_since: Timestamp | None = Field(
        default=None, description="Time since which the restarted brokers are fully back, without interruption."
    )
    restore_owed: Flag = Field(
        default=False,
        description="Whether the run must revert temporary changes if it ends now, such as throttles, reassignments in "
        "flight, replica orders, stopped consumers or Strimzi's restart annotation. While true, the finalizer "
        "kafkamedic.dev/restore keeps the run from being deleted.",
    )
    cures: Cure | None = Field(
        default=None, description="The finding that the run cures. Absent: none, or an earlier version began the run."
    )
    holds: LineText | None = Field(
        default=None,
        description="What the run must revert, or sent without an observed outcome. No other run acts meanwhile. "
        "Empty: nothing, so the run gives way to the approved cure of a more severe finding. Absent: unknown.",
    )
    deleted_topics: Annotated[tuple[TopicName, ...], Field(max_length=MAX_INLINE_CHANGES)] = Field(
        default=(),
        description="Topics of the plan that were deleted after its approval. The run continues without them. It does "
        "not touch a new topic of the same name.",
    )
    conditions: Conditions = Field(default=(), description="Planned, Approved, Executed and others.")

    @property
    def plan_left(self) -> Plan | None:
        """The plan without the topics that were deleted since."""
        return self.plan.without(self.deleted_topics) if self.plan is not None and self.deleted_topics else self.plan
