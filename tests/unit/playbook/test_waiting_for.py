"""Whatever refuses is in the status: no guard is left out of it."""

from __future__ import annotations

from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.decision import waiting_for
from kafka_medic.resources.remediation_status import MAX_WAITING
from kafka_medic.resources.vocabulary import Guard


def test_every_guard_that_refuses_is_named() -> None:
    assert len(Guard) <= MAX_WAITING
    refusals = [Reason(g, Verdict.WAIT, f"{n} of {g}") for g in Guard for n in range(3)]
    told = waiting_for([*refusals, Reason(Guard.NOT_PAUSED, Verdict.ALLOW, "not paused")])
    assert {w.guard for w in told} == set(Guard)
    assert len(told) == MAX_WAITING


def test_few_refusals_keep_their_order() -> None:
    reasons = [
        Reason(Guard.VIEWS_AGREE, Verdict.DENY, "the view of broker 1 differs"),
        Reason(Guard.NOT_PAUSED, Verdict.ALLOW, "not paused"),
        Reason(Guard.VIEWS_AGREE, Verdict.UNKNOWN, "broker 2 did not report its view"),
        Reason(Guard.WITHIN_WINDOW, Verdict.WAIT, "outside every window"),
    ]
    assert [w.message for w in waiting_for(reasons)] == [r.message for r in reasons if r.verdict is not Verdict.ALLOW]
