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
from .remediation_plan import Plan
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
        "a Remediation cannot go from its phase to this one",
    )


class IntentState(StrEnum):
    """Written as Intended before the effect; Done or Void only from what was observed afterwards."""

    INTENDED = "Intended"
    DONE = "Done"
    VOID = "Void"


class Progress(Model):
    """How far a step has come."""

    done: BigCount = Field(description="How much is done.")
    total: BigCount = Field(description="Of how much.")
    unit: ShortText = Field(default="", description="Of what: partitions, bytes, brokers.")
    bytes_done: BigCount | None = Field(
        default=None,
        description="Bytes of what is done, as large as the plan saw it; absent where a size is not known.",
    )
    bytes_total: BigCount | None = Field(default=None, description="Bytes of all of it.")
    seconds_left: BigCount | None = Field(
        default=None, description="What is left takes at least so long at the plan's throttle."
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
    """How one step of the run stands."""

    name: StepName = Field(description="The step's name in the playbook.")
    action: ActionName = Field(description="The step's action.")
    phase: StepPhase = Field(default=StepPhase.PENDING, description="How it stands.")
    started_at: Timestamp | None = Field(default=None, description="When it started.")
    finished_at: Timestamp | None = Field(default=None, description="When it ended.")
    held_since: Timestamp | None = Field(default=None, description="Since when a pause or a window holds it.")
    held_seconds: BigCount | None = Field(
        default=None, description="How long pauses and windows have held it before; not counted in its within."
    )
    extended_at: Timestamp | None = Field(
        default=None, description="When people gave it as much time as its within once more."
    )
    message: LineText = Field(default="", description="What it is doing, or why it does not.")
    progress: Progress | None = Field(default=None, description="How far it has come.")


class SavedValue(Model):
    """A setting as it was before the run changed it.

    Absent rather than null stands for `was not set`: the API server drops nulls inside lists from a merge
    patch.
    """

    name: SettingText = Field(description="The setting, such as TOPIC/orders/leader.replication.throttled.replicas.")
    value: ConfigValue | None = Field(default=None, description="Its value. Absent: it was not set.")


class JournalEntry(Model):
    """One effect: written down before it is sent, settled from what is observed afterwards."""

    id: JournalId = Field(description="Stays the same however often the effect is tried.")
    step: StepName = Field(description="The step that it belongs to.")
    kind: CamelWord = Field(description="What kind of effect.")
    target: LineText = Field(default="", description="What it is done to.")
    target_uid: Uid | None = Field(default=None, description="uid of the Pod that it is done to.")
    state: IntentState = Field(description="Intended before the effect; Done or Void when observed.")
    intended_at: Timestamp = Field(description="When it was written down.")
    asked_at: Timestamp | None = Field(default=None, description="When it was last due again. Absent: only once.")
    done_at: Timestamp | None = Field(default=None, description="When it was observed to have happened.")
    saved: Annotated[
        tuple[SavedValue, ...],
        Field(
            max_length=256,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default=(), description="What was there before, to restore it.")
    detail: LongText = Field(default="", description="Anything else a person would want to know.")

    def saved_values(self) -> dict[str, str | None]:
        """Setting -> value before, None for one that was not set."""
        return {entry.name: entry.value for entry in self.saved}

    @property
    def last_asked(self) -> datetime:
        """When it may have been sent for the last time."""
        return self.asked_at or self.intended_at


def saved_from(values: Mapping[str, str | None]) -> tuple[SavedValue, ...]:
    """The same the other way, in a fixed order."""
    return tuple(SavedValue(name=name, value=values[name]) for name in sorted(values))


class ApprovalRecord(Model):
    """One RemediationApproval, and whether it counted."""

    name: ObjectName = Field(description="The RemediationApproval's metadata.name.")
    uid: Uid = Field(description="Its metadata.uid.")
    approver: UserName = Field(description="Whose word it is.")
    decision: Decision = Field(description="Approve or Reject.")
    at: Timestamp = Field(description="When the API server took it in.")
    counted: Flag = Field(description="Whether it counts.")
    reason: LineText = Field(default="", description="Why it does not count, or what the approver wrote.")


MAX_WAITING = 40
"""More than there are guards, so that each of them has room."""


class Waiting(Model):
    """One guard that the run waits for."""

    guard: Guard = Field(description="The guard.")
    verdict: Verdict = Field(description="What it says.")
    message: LineText = Field(default="", description="Why, and what would change it.")
    remediation: ObjectName | None = Field(default=None, description="The other Remediation that goes first.")


MAX_WAITS = 60
"""Waits that a run keeps, the longest ones."""


class Wait(Model):
    """A guard that held the run, and for how long."""

    guard: Guard = Field(description="The guard.")
    verdict: Verdict = Field(description="Its verdict.")
    message: ShortText = Field(default="", description="Its reason, when it first refused.")
    since: Timestamp = Field(description="When it first refused.")
    until: Timestamp | None = Field(default=None, description="When it no longer refused. Absent: it still does.")


class CanaryEffect(Model):
    """How the canary's records fared while the run acted."""

    before_ms: BigCount = Field(description="The slowest acknowledgement right before the run's first effect.")
    worst_ms: BigCount = Field(description="The slowest acknowledgement that a reconcile of the run has seen.")
    at: Timestamp = Field(description="When that was.")
    consume_before_ms: BigCount | None = Field(
        default=None, description="The slowest record from send to read, right before the run's first effect."
    )
    consume_worst_ms: BigCount | None = Field(
        default=None, description="The slowest record from send to read that a reconcile of the run has seen."
    )
    failing: Count = Field(default=0, description="The most canary partitions that failed at one time.")


MAX_EVIDENCE_KEPT = 8


class Cure(Model):
    """The finding that a run is there to cure, as it stood before the run began."""

    finding_id: FindingId = Field(description="The finding's id.")
    severity: Severity = Field(description="Its severity. Of two runs, the cure of the graver finding goes first.")
    message: LineText = Field(default="", description="The finding in a sentence, as it was then.")
    evidence: Annotated[tuple[LineText, ...], Field(max_length=MAX_EVIDENCE_KEPT)] = Field(
        default=(), description="Its evidence then. Cut off."
    )


class RemediationStatus(Model):
    """Where the run stands. Everything that is unknown is absent."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule(
                "!has(oldSelf.phase) || has(self.phase)",
                "a Remediation cannot lose its phase",
                field_path=".phase",
            ),
        )
    )

    observed_generation: BigCount | None = Field(
        default=None, description="The metadata.generation that this status was computed from."
    )
    phase: Annotated[Phase, Field(json_schema_extra=validations(_phase_rule()))] | None = Field(
        default=None, description="Where the run stands."
    )
    risk: Risk | None = Field(default=None, description="The playbook's risk.")
    message: LongText = Field(default="", description="What is happening, or why nothing is, in a sentence.")
    plan: Plan | None = Field(default=None, description="What exactly would be done.")
    current_step: StepName | None = Field(default=None, description="The step that is running.")
    steps: Annotated[
        tuple[StepStatus, ...],
        Field(
            max_length=20,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default=(), description="How each step stands.")
    journal: Annotated[
        tuple[JournalEntry, ...],
        Field(
            max_length=200,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]},
        ),
    ] = Field(default=(), description="Every effect, in order, written down before it was sent.")
    approvals: Annotated[
        tuple[ApprovalRecord, ...],
        Field(
            max_length=50,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"]},
        ),
    ] = Field(default=(), description="Every approval seen, and whether it counted.")
    approved_by: Annotated[str, StringConstraints(max_length=2048)] | None = Field(
        default=None, description="The approvers that counted, joined by commas."
    )
    waiting_for: Annotated[tuple[Waiting, ...], Field(max_length=MAX_WAITING)] = Field(
        default=(), description="The guards that the run waits for."
    )
    waits: Annotated[tuple[Wait, ...], Field(max_length=MAX_WAITS)] = Field(
        default=(), description="The guards that held the run so far, for its report. Past 60 the shortest are dropped."
    )
    canary: CanaryEffect | None = Field(
        default=None, description="The canary's records while the run acted. Absent: none were seen."
    )
    started_at: Timestamp | None = Field(default=None, description="When the first effect was intended.")
    finished_at: Timestamp | None = Field(default=None, description="When the run ended.")
    consecutive_verified: Count | None = Field(
        default=None, description="Observations in a row that said that the current step is done."
    )
    well_since: Timestamp | None = Field(
        default=None, description="Since when brokers that were restarted have been seen back in everything."
    )
    restore_owed: Flag = Field(
        default=False,
        description="Whether the run has set something that has to be taken back if it ends now: a throttle, a "
        "reassignment in flight, an order of replicas for the time of a restart, stopped consumers, or the annotation "
        "that asks Strimzi for a restart. While it is so, the finalizer kafkamedic.dev/restore holds the run.",
    )
    cures: Cure | None = Field(
        default=None, description="The finding that it cures. Absent: none, or an earlier version began the run."
    )
    holds: LineText | None = Field(
        default=None,
        description="What it has set or sent and not seen settled; no other run acts meanwhile. Empty: nothing, so it "
        "gives way to the approved cure of a graver finding. Absent: not known.",
    )
    conditions: Conditions = Field(default=(), description="Planned, Approved, Executed and so on.")
