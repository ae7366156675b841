"""Which effects a plan names, and whose word a status is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.approval import ApprovalJudgement
from kafka_medic.playbook.effects import (
    CallOffRestarts,
    ChangeSettings,
    ElectPreferred,
    Reassign,
    Reorder,
    RescuePart,
    RescueRecords,
    ResignController,
    RestartPod,
    ScaleWorkload,
    SetOffsets,
)
from kafka_medic.playbook.provenance import beyond_plan, own_status
from kafka_medic.resources.admission import Standing
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import PlanStep
from kafka_medic.resources.remediation_status import ApprovalRecord
from kafka_medic.resources.vocabulary import ActionName, Guard, WorkloadKind
from tests.unit.playbook.test_plan_digest import KEPT, planned, run_of

FULL = planned(run_of(KEPT[-2]))
FULL = FULL.model_copy(update={"steps": tuple(PlanStep(name=a.value.lower(), action=a) for a in ActionName)})
"""The plan of which every field holds something."""
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def commits(tp: TopicPartition, after: int) -> dict[TopicPartition, tuple[Committed, Committed]]:
    return {tp: (Committed(1, None), Committed(after, None))}


@pytest.mark.parametrize(
    ("named", "other"),
    [
        (ChangeSettings("i", {("TOPIC", "t", "a"): "x"}), ChangeSettings("i", {("TOPIC", "u", "a"): "x"})),
        (
            ChangeSettings("i", {("BROKER", "2", "leader.replication.throttled.rate"): "1"}),
            ChangeSettings("i", {("BROKER", "3", "leader.replication.throttled.rate"): "1"}),
        ),
        (
            ChangeSettings("i", {("TOPIC", "t", "follower.replication.throttled.replicas"): None}),
            ChangeSettings("i", {("TOPIC", "u", "follower.replication.throttled.replicas"): None}),
        ),
        (Reassign("i", {T0: (1, 2)}), Reassign("i", {T0: (1, 3)})),
        (Reassign("i", {T0: None}), Reassign("i", {T1: None})),
        (Reorder("i", {T0: (2, 1)}), Reorder("i", {T0: (2, 3)})),
        (ElectPreferred("i", {T1: 2}), ElectPreferred("i", {T1: 1})),
        (SetOffsets("i", "g", commits(T0, 3)), SetOffsets("i", "g", commits(T0, 4))),
        (SetOffsets("i", "g", commits(T1, 3)), SetOffsets("i", "h", commits(T1, 3))),
        (
            RescueRecords("i", "kafka-medic-rescue", (1,), (RescuePart(1, T0, 4, 5),)),
            RescueRecords("i", "elsewhere", (1,), (RescuePart(1, T0, 4, 5),)),
        ),
        (RestartPod("i", 1, "p", "u"), RestartPod("i", 1, "q", "u")),
        (CallOffRestarts("i", (("p", "u"),)), CallOffRestarts("i", (("q", "u"),))),
        (
            ScaleWorkload("i", WorkloadKind.DEPLOYMENT, "w", "wu", 0, 2),
            ScaleWorkload("i", WorkloadKind.DEPLOYMENT, "w", "wu", 0, 3),
        ),
        (ResignController("i", 1, 7), ResignController("i", 1, 8)),
    ],
    ids=lambda intent: type(intent).__name__,
)
def test_an_effect_is_what_the_plan_names_and_nothing_else(named, other):
    assert beyond_plan(named, FULL) is None
    assert "is not in its plan" in (beyond_plan(other, FULL) or "")


def judged(decision: str = "Approve", counted: bool = True, at: datetime = NOW) -> ApprovalJudgement:
    raw = {"name": "w", "uid": "u", "approver": "alice", "decision": decision, "at": at, "counted": counted}
    record = ApprovalRecord.model_validate(raw)
    return ApprovalJudgement(Reason(Guard.APPROVAL_VALID, Verdict.WAIT, ""), (record,), None, None)


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("since", "said", "verdict"),
    [
        (-HOUR, judged(at=NOW - 2 * HOUR), Verdict.ALLOW),  # only the operator could write it
        (HOUR, judged(at=NOW + 2 * HOUR), Verdict.ALLOW),  # a person has read it since
        (HOUR, judged(at=NOW), Verdict.WAIT),  # a person's word from before
        (HOUR, judged("Reject", at=NOW + 2 * HOUR), Verdict.WAIT),
        (HOUR, judged(counted=False, at=NOW + 2 * HOUR), Verdict.WAIT),
        (None, judged(at=NOW + 2 * HOUR), Verdict.WAIT),
    ],
)
def test_a_status_counts_for_as_much_as_what_keeps_others_from_it(since, said, verdict):
    policies = Standing(None if since is None else NOW + since, "" if since is not None else "not installed")
    assert own_status(created_now(), said, policies).verdict is verdict


def test_no_status_is_believed_while_the_policies_cannot_be_read():
    assert own_status(created_now(), judged(), None).verdict is Verdict.UNKNOWN


def created_now() -> Remediation:
    run = run_of(KEPT[0])
    return run.model_copy(update={"metadata": run.metadata.model_copy(update={"creation_timestamp": NOW})})
