"""Whose word counts, and for exactly what."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_medic.cluster.clock import Skew
from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook.approval import AUTOMATIC, ApprovalFact, judge_approvals
from kafka_medic.playbook.plan_digest import plan_digest
from kafka_medic.playbook.registry import cost_of
from kafka_medic.resources.admission import Standing
from kafka_medic.resources.approval import RemediationApproval
from kafka_medic.resources.kafkacluster_remediation import RemediationPolicy
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import (
    Artifact,
    ConfigChange,
    ConfigResourceType,
    PartitionChange,
    Plan,
    PlanStep,
    Precondition,
    ReplicaMoves,
)
from kafka_medic.resources.vocabulary import ActionName, Risk

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
API = "kafkamedic.dev/v1alpha1"
ZERO = "sha256:" + "0" * 64


def remediation(
    plan: Plan | None, *, requested_by: str | None = None, created: datetime = NOW, **spec: Any
) -> Remediation:
    origin = {"requestedBy": requested_by} if requested_by else {"cause": {"findingId": "f", "findingType": "F"}}
    raw = {
        "apiVersion": API,
        "kind": "Remediation",
        "metadata": {"name": "r", "namespace": "ns", "uid": "run-uid", "creationTimestamp": created.isoformat()},
        "spec": {"clusterRef": {"name": "c", "uid": "c-uid"}, "playbook": {"name": "p", "digest": ZERO}, **origin}
        | spec,
    }
    run = Remediation.parse(raw)
    return run.model_copy(update={"status": run.status.model_copy(update={"plan": plan})})


CHANGE = PartitionChange(topic="t", partition=0, replicas_before=(1,), replicas=(1, 2, 3), wave=0, size_bytes=10)
SETTING = ConfigChange(
    resource_type=ConfigResourceType.TOPIC, resource_name="t", name="min.insync.replicas", before=None, after="2"
)
BARE = Plan(
    digest=ZERO,
    proposed_at=NOW,
    expires_at=NOW + timedelta(hours=24),
    summary="words",
    replication_factor=3,
    throttle_bytes_per_second=1000,
    steps=(PlanStep(name="add", action=ActionName.REASSIGN_PARTITIONS, description="words"),),
    changes=(CHANGE,),
    config_changes=(SETTING,),
    preconditions=(Precondition(name="id", value="x"),),
)


def sealed(plan: Plan = BARE, **spec: Any) -> Remediation:
    run = remediation(plan, **spec)
    return remediation(plan.model_copy(update={"digest": plan_digest(run, plan)}), **spec)


def word(
    run: Remediation, who: str = "alice", may: bool | None = True, at: datetime = NOW, **spec: Any
) -> ApprovalFact:
    assert run.status.plan is not None
    raw = {
        "apiVersion": API,
        "kind": "RemediationApproval",
        "metadata": {
            "name": f"{who.replace(':', '-')}-{spec.get('decision', 'Approve').lower()}",
            "namespace": "ns",
            "uid": f"uid-{who.replace(':', '-')}-{len(str(spec))}",
            "creationTimestamp": at.isoformat(),
        },
        "spec": {
            "remediationRef": {"name": "r", "uid": "run-uid"},
            "planDigest": run.status.plan.digest,
            "decision": "Approve",
            "approver": who,
        }
        | spec,
    }
    return ApprovalFact(RemediationApproval.parse(raw), may)


def judged(run, facts, policy=None, installed=True, now=NOW, started=False, risk=Risk.MEDIUM, skew=None):
    policy = RemediationPolicy.model_validate(policy or {})
    since = Standing(NOW - timedelta(hours=2)) if installed else Standing(None, "one of them is gone")
    policies = since if isinstance(installed, bool) else installed
    return judge_approvals(
        run,
        policy,
        facts,
        policies,
        now,
        started=started,
        risk=risk,
        cost=cost_of(run.status.plan) if run.status.plan else None,
        skew=skew,
    )


def test_one_person_who_may_approves():
    run = sealed()
    answer = judged(run, [word(run)])
    assert answer.reason.verdict is Verdict.ALLOW
    assert answer.approved_by == "alice"
    assert [r.counted for r in answer.records] == [True]


@pytest.mark.parametrize(
    ("change", "may", "at", "why"),
    [
        ({"remediationRef": {"name": "r", "uid": "older-uid"}}, True, NOW, "another Remediation of the same name"),
        ({"planDigest": ZERO}, True, NOW, "another plan"),
        ({}, False, NOW, "alice may not approve"),
        ({}, None, NOW, "could not be checked"),
        ({}, True, NOW + timedelta(hours=24), "after the plan's expiry"),
    ],
)
def test_each_reason_for_not_counting_is_recorded(change, may, at, why):
    run = sealed()
    answer = judged(run, [word(run, may=may, at=at, **change)])
    assert answer.reason.verdict is not Verdict.ALLOW
    assert answer.approved_by is None
    assert not answer.records[0].counted
    assert why in answer.records[0].reason


@pytest.mark.parametrize("ahead", [-3600, -60, 0, 60, 3600])
def test_whether_it_came_in_time_is_told_by_one_clock(ahead):
    """The API server's clock, which dates it, is so far ahead, known to a second: what cannot be told is too late."""
    run, skew = sealed(), Skew(ahead - 0.5, ahead + 0.5)
    expiry = run.status.plan.expires_at
    for seconds, counts in ((-30, True), (-1, False), (0, False), (30, False)):
        at = expiry + timedelta(seconds=seconds + ahead)
        now = expiry - timedelta(seconds=40)
        (record,) = judged(run, [word(run, at=at)], now=now, skew=skew).records
        assert record.counted is counts, seconds
        assert judged(run, [word(run, at=at)], started=True, now=now, skew=skew).records[0].counted
    assert judged(run, [word(run)], now=expiry, skew=skew).reason.verdict is Verdict.DENY


def test_who_could_not_be_asked_is_unknown_and_not_merely_missing():
    run = sealed()
    assert judged(run, [word(run, may=None)]).reason.verdict is Verdict.UNKNOWN
    assert judged(run, [word(run, may=False)]).reason.verdict is Verdict.WAIT


@pytest.mark.parametrize("mode", ["Approve", "Auto"])
def test_a_no_of_somebody_whose_right_could_not_be_asked_permits_nothing(mode):
    run, policy = sealed(), {"mode": mode}
    no = word(run, "bob", may=None, decision="Reject")
    answer = judged(run, [word(run), no], policy)
    assert answer.reason.verdict is Verdict.UNKNOWN
    assert "bob" in answer.reason.message
    assert answer.rejected_by is None
    elsewhere = word(run, "bob", may=None, decision="Reject", planDigest=ZERO)
    assert judged(run, [word(run), elsewhere], policy).reason.verdict is Verdict.ALLOW


def test_who_asked_for_it_does_not_count_unless_allowed():
    run = sealed(requested_by="alice")
    assert judged(run, [word(run)]).reason.verdict is Verdict.WAIT
    assert judged(run, [word(run, "bob")]).reason.verdict is Verdict.ALLOW
    allowed = {"approvals": {"allowRequester": True}}
    assert judged(run, [word(run)], allowed).reason.verdict is Verdict.ALLOW
    # To stop it they need nobody's leave.
    assert judged(run, [word(run, decision="Reject")]).rejected_by == "alice"


def test_several_people_have_to_be_several():
    run, two = sealed(), {"approvals": {"required": 2}}
    assert judged(run, [word(run), word(run, reason="again")], two).reason.verdict is Verdict.WAIT
    answer = judged(run, [word(run), word(run, "bob")], two)
    assert answer.reason.verdict is Verdict.ALLOW
    assert answer.approved_by == "alice, bob"
    assert judged(run, [word(run), word(run, "bob", may=False)], two).reason.verdict is Verdict.WAIT


def test_a_rejection_outweighs_every_approval_even_ones_own():
    run = sealed()
    answer = judged(run, [word(run), word(run, "bob"), word(run, decision="Reject")])
    assert answer.reason.verdict is Verdict.DENY
    assert answer.rejected_by == "alice"
    stranger = judged(run, [word(run), word(run, "mallory", may=False, decision="Reject")])
    assert stranger.reason.verdict is Verdict.ALLOW
    assert stranger.rejected_by is None


def test_observe_never_and_auto_without_a_person_but_with_the_policies():
    run = sealed()
    assert judged(run, [word(run)], {"mode": "Observe"}).reason.verdict is Verdict.DENY
    named = {"mode": "Auto", "playbooks": [{"name": "p"}]}
    assert judged(run, [], named).approved_by == AUTOMATIC
    unnamed = judged(run, [], {"mode": "Auto"})
    assert unnamed.reason.verdict is Verdict.WAIT
    assert "p is not a shipped playbook, and spec.remediation.playbooks does not list it" in unnamed.reason.message
    assert judged(run, [], {"mode": "Auto"}, installed=False).reason.verdict is Verdict.DENY
    assert judged(run, [word(run, decision="Reject")], {"mode": "Auto"}).reason.verdict is Verdict.DENY
    assert judged(run, [word(run)], {"playbooks": [{"name": "p", "mode": "Observe"}]}).reason.verdict is Verdict.DENY


def test_nothing_counts_without_the_admission_policies_or_a_plan_or_an_answer():
    run = sealed()
    assert judged(run, [word(run)], installed=False).reason.verdict is Verdict.DENY
    assert judged(run, [word(run)], installed=None).reason.verdict is Verdict.UNKNOWN
    assert judged(run, None).reason.verdict is Verdict.UNKNOWN
    assert judged(remediation(None), []).reason.verdict is Verdict.DENY


EARLIER = NOW - timedelta(hours=3)


def test_an_approval_from_before_the_policies_counts_for_nothing_also_under_way():
    run = sealed()
    for started in (False, True):
        answer = judged(run, [word(run, at=EARLIER)], started=started)
        assert answer.reason.verdict is Verdict.WAIT
        assert "policies check objects created after 2026-01-01 10:00:00 UTC" in answer.records[0].reason
    assert judged(run, [word(run, at=EARLIER, decision="Reject")]).rejected_by == "alice"


@pytest.mark.parametrize("policy", [{}, {"mode": "Auto"}])
def test_nobodys_word_counts_about_a_run_from_before_the_policies(policy):
    """Its cause may be made up, and so may who asked for it."""
    run = sealed(created=EARLIER)
    for started in (False, True):
        answer = judged(run, [word(run)], policy, started=started)
        assert answer.reason.verdict is Verdict.DENY
        assert "so its requester is not proven; approve its plan again, then delete it" in answer.reason.message


def test_expiry_bounds_the_start_and_not_a_run_under_way():
    run = sealed()
    late = NOW + timedelta(hours=24)
    assert judged(run, [word(run)], now=late).reason.verdict is Verdict.DENY
    assert judged(run, [word(run)], now=late, started=True).reason.verdict is Verdict.ALLOW


def test_a_plan_that_was_changed_after_its_digest_was_taken_is_nobodys():
    run = sealed()
    assert run.status.plan is not None
    moves = run.status.plan.part(ReplicaMoves)
    others = moves.model_copy(update={"changes": (CHANGE.model_copy(update={"replicas": (9, 8, 7)}),)})
    forged = run.status.plan.with_parts(others)
    answer = judged(remediation(forged), [word(run)])
    assert answer.reason.verdict is Verdict.DENY
    assert answer.records == ()
    assert "another writer changed it" in answer.reason.message
    assert judged(remediation(forged), [], {"mode": "Auto"}).reason.verdict is Verdict.DENY


def changed(**update: Any) -> Plan:
    return Plan.model_validate(BARE.model_dump() | update)


@pytest.mark.parametrize(
    "plan",
    [
        changed(changes=(CHANGE.model_copy(update={"topic": "u"}),)),
        changed(changes=(CHANGE.model_copy(update={"partition": 1}),)),
        changed(changes=(CHANGE.model_copy(update={"replicas": (1, 3, 2)}),)),
        changed(changes=(CHANGE.model_copy(update={"replicas_before": (2,)}),)),
        changed(changes=(CHANGE.model_copy(update={"wave": 1}),)),
        changed(changes=()),
        changed(config_changes=()),
        changed(config_changes=(SETTING.model_copy(update={"resource_name": "u"}),)),
        changed(config_changes=(SETTING.model_copy(update={"resource_type": ConfigResourceType.BROKER}),)),
        changed(config_changes=(SETTING.model_copy(update={"name": "retention.ms"}),)),
        changed(config_changes=(SETTING.model_copy(update={"before": "1"}),)),
        changed(config_changes=(SETTING.model_copy(update={"after": "3"}),)),
        changed(throttle_bytes_per_second=None),
        changed(replication_factor=2),
        changed(steps=()),
        changed(steps=(PlanStep(name="other", action=ActionName.REASSIGN_PARTITIONS),)),
        changed(steps=(PlanStep(name="add", action=ActionName.SET_MIN_INSYNC_REPLICAS),)),
        changed(preconditions=(Precondition(name="id", value="y"),)),
        changed(artifact=Artifact(uri="file:///p", sha256="a" * 64)),
    ],
)
def test_whatever_decides_what_is_done_is_in_the_digest(plan):
    run = remediation(None)
    assert plan_digest(run, plan) != plan_digest(run, BARE)


@pytest.mark.parametrize(
    "spec",
    [
        {"clusterRef": {"name": "c", "uid": "other"}},
        {"playbook": {"name": "p", "digest": "sha256:" + "1" * 64}},
        {"playbook": {"name": "q", "digest": ZERO}},
        {"parameters": {"throttleBytesPerSecond": "1"}},
    ],
)
def test_so_is_whose_plan_it_is(spec):
    assert plan_digest(remediation(None, **spec), BARE) != plan_digest(remediation(None), BARE)


def test_times_prose_and_estimates_are_not():
    run = remediation(None)
    later = {"proposed_at": NOW + timedelta(hours=1), "expires_at": NOW + timedelta(hours=30), "summary": "other"}
    steps = (BARE.steps[0].model_copy(update={"description": "other"}),)
    plan = changed(**later, steps=steps, estimated_seconds=9, bytes_to_move=11)
    assert plan_digest(run, plan) == plan_digest(run, BARE)


ROBOT, OTHER_ROBOT = "system:serviceaccount:ci:robot", "system:serviceaccount:ci:other"


@pytest.mark.parametrize(
    ("listed", "counts"), [([], False), ([OTHER_ROBOT], False), ([ROBOT], True), ([OTHER_ROBOT, ROBOT], True)]
)
def test_a_service_account_approves_only_where_it_is_listed(listed, counts):
    run = sealed()
    answer = judged(run, [word(run, ROBOT)], {"approvals": {"serviceAccounts": listed}})
    assert (answer.reason.verdict is Verdict.ALLOW) == counts
    assert counts or "is a ServiceAccount, and approvals.serviceAccounts does not list it" in answer.records[0].reason


def test_its_no_counts_all_the_same():
    run = sealed()
    assert judged(run, [word(run, ROBOT, decision="Reject")]).rejected_by == ROBOT


@pytest.mark.parametrize(
    ("policy", "needed"),
    [
        ({}, 2),  # whoever approves first may hold its token
        ({"required": 2}, 3),
        ({"allowRequester": True}, 1),
        ({"serviceAccounts": [ROBOT]}, 1),
        ({"serviceAccounts": [OTHER_ROBOT]}, 2),
    ],
)
def test_a_request_by_a_service_account_is_not_another_persons(policy, needed):
    run = sealed(requested_by=ROBOT)
    words = [word(run, who) for who in ("alice", "bob", "carol")]
    for count in range(4):
        answer = judged(run, words[:count], {"approvals": policy})
        assert (answer.reason.verdict is Verdict.ALLOW) == (count >= needed)
    short = judged(run, words[: needed - 1], {"approvals": policy}).reason.message
    assert ("because a ServiceAccount requested the run" in short) == (needed > policy.get("required", 1))


def test_a_listed_one_does_not_approve_its_own_request():
    run = sealed(requested_by=ROBOT)
    answer = judged(run, [word(run, ROBOT)], {"approvals": {"serviceAccounts": [ROBOT]}})
    assert answer.reason.verdict is not Verdict.ALLOW
    assert "requested this run" in answer.records[0].reason


@pytest.mark.parametrize("name", ["alice", "system:serviceaccount:ci", "system:serviceaccount:ci:robot:x", "ci:robot"])
def test_what_is_no_service_account_is_refused_in_the_list(name):
    with pytest.raises(ValueError, match="serviceAccounts"):
        RemediationPolicy.model_validate({"approvals": {"serviceAccounts": [name]}})
