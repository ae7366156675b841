"""What Auto does by itself, and that beyond each of its bounds it asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook.approval import AUTOMATIC, judge_approvals
from kafka_medic.playbook.auto import beyond_auto
from kafka_medic.playbook.plan_digest import sealed
from kafka_medic.playbook.registry import cost_of
from kafka_medic.resources.admission import Standing
from kafka_medic.resources.kafkacluster_remediation import AutoBounds, RemediationPolicy
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.vocabulary import ActionName, Risk
from tests.simulation.world import World, factor_one_cluster

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)  # a Thursday
ZERO = "sha256:" + "0" * 64
CAUSE = {"cause": {"findingId": "f", "findingType": "ReplicationFactorLow"}}
LATER = {"windows": [{"days": ["Thu"], "start": "20:00", "end": "22:00"}]}


def change(partition=0, size=10, before=(1,), after=(1, 2, 3)):
    found = {"topic": "t", "partition": partition, "replicasBefore": before, "replicas": after}
    return found | ({"sizeBytes": size} if size is not None else {})


def run(origin=None, **plan) -> Remediation:
    steps = [{"name": action.value.lower(), "action": action.value} for action in ActionName]
    body = {"digest": ZERO, "proposedAt": NOW, "expiresAt": NOW + timedelta(hours=1), "steps": steps, **plan}
    raw = {
        "apiVersion": "kafkamedic.dev/v1alpha1",
        "kind": "Remediation",
        "metadata": {"name": "r", "namespace": "ns", "uid": "u", "creationTimestamp": NOW.isoformat()},
        "spec": {"clusterRef": {"name": "c", "uid": "c"}, "playbook": {"name": "p", "digest": ZERO}}
        | (origin or CAUSE),
        "status": {"plan": body},
    }
    found = Remediation.parse(raw)
    assert found.status.plan is not None
    plan = sealed(found, found.status.plan)
    return found.model_copy(update={"status": found.status.model_copy(update={"plan": plan})})


def beyond(run, bounds=None, risk=Risk.LOW, now=NOW, started=False):
    return beyond_auto(
        run,
        run.status.plan,
        cost_of(run.status.plan),
        AutoBounds.model_validate(bounds or {}),
        risk,
        now,
        started=started,
    )


@pytest.mark.parametrize(
    ("at", "past", "bounds", "word"),
    [
        (run(changes=[change(n) for n in range(3)]), run(changes=[change(n) for n in range(4)]),
         {"maxPartitions": 3}, "4 partitions, auto.maxPartitions is 3"),
        (run(changes=[change()]), run(changes=[change(after=(1, 2, 3, 4))]),
         {"maxMoves": 2}, "3 moves, auto.maxMoves is 2"),
        (run(changes=[change(size=10)]), run(changes=[change(size=11)]),
         {"maxBytes": 20}, "22 bytes to copy, auto.maxBytes is 20"),
        (run(restarts=[{"broker": 1, "pod": "k", "podUid": "a"}]),
         run(restarts=[{"broker": b, "pod": "k", "podUid": "a"} for b in (1, 2)]),
         {}, "2 restarts, auto.maxRestarts is 1"),
        (run(elections=[{"broker": 1, "topic": "t", "partitions": [0, 1]}]),
         run(elections=[{"broker": 1, "topic": "t", "partitions": [0, 1]},
                        {"broker": 1, "topic": "u", "partitions": [0]}]), {"maxPartitions": 2}, "3 partitions"),
        (run(reorders=[change(after=(2, 1), before=(1, 2))]),
         run(reorders=[change(n, after=(2, 1), before=(1, 2)) for n in (0, 1)]), {"maxPartitions": 1}, "2 partitions"),
        (run(offsets=[{"group": "g", "topic": "t", "partition": 0, "before": 1, "after": 0}]),
         run(offsets=[{"group": "g", "topic": "t", "partition": n, "before": 1, "after": 0} for n in (0, 1)]),
         {"maxPartitions": 1}, "2 partitions"),
        (run(), run(drains=[{"broker": 1, "topic": "t", "partitions": [0], "replicasBefore": [1, 2],
                             "replicas": [2, 1]}]), {"maxPartitions": 0}, "1 partition,"),
        (run(changes=[change(size=10)]), run(changes=[change(size=None)]), {}, "is not known"),
        (run(), run(artifact={"uri": "file:///x", "sha256": "a" * 64}), {}, "not in the Remediation"),
        (run(), run(staticSettings=[{"name": "n", "before": "1", "after": "3", "brokers": [1]}]),
         {}, "only a person can confirm that the brokers' configuration was changed"),
        (run(), run({"requestedBy": "anna"}), {}, "anna requested it"),
        (run(), run({"cause": {"findingId": "f", "findingType": "BrokerZombie"}}),
         {"findings": ["ReplicationFactorLow"]}, "BrokerZombie is not among auto.findings"),
    ],
)  # fmt: skip
def test_up_to_the_bound_and_not_past_it(at, past, bounds, word):
    assert beyond(at, bounds) == ()
    (told,) = beyond(past, bounds)
    assert word in told


def test_sizes_that_the_digest_does_not_stand_for_are_not_counted():
    now, other = run(changes=[change(size=1)]), run(changes=[change(size=10**13)])
    assert now.status.plan.digest != other.status.plan.digest
    plan = now.status.plan.model_copy(update={"digest": ZERO})
    (told,) = beyond_auto(now, plan, cost_of(plan), AutoBounds(), Risk.LOW, NOW, started=False)
    assert "does not cover sizes" in told
    assert beyond_auto(now, plan, cost_of(plan), AutoBounds(), Risk.LOW, NOW, started=True) == (), (
        "what has begun is finished"
    )


def test_a_size_that_is_not_known_does_not_matter_where_nothing_is_copied():
    assert beyond(run(changes=[change(size=None, before=(1, 2), after=(1, 2))])) == ()


@pytest.mark.parametrize("bound", list(Risk))
@pytest.mark.parametrize("risk", [*Risk, None])
def test_the_risk(bound, risk):
    order = list(Risk)
    within = risk is not None and order.index(risk) <= order.index(bound)
    assert (beyond(run(), {"maxRisk": bound}, risk) == ()) == within


def test_its_own_windows_are_for_the_start():
    assert "auto.windows" in beyond(run(), LATER)[0]
    assert beyond(run(), LATER, now=NOW + timedelta(hours=8)) == ()
    assert beyond(run(), LATER, started=True) == (), "what has begun is finished"
    assert beyond(run(), {"windows": [{"days": ["Thu"], "start": "00:00", "end": "23:59", "timeZone": "No/Where"}]})


def test_a_stale_broker_is_restarted_by_itself_only_where_its_records_are_saved():
    stale = {"broker": 1, "pod": "k", "podUid": "a", "stale": True}
    alone = run(restarts=[stale], steps=[{"name": "restart", "action": "RestartBrokers"}])
    (text,) = beyond(alone)
    assert "no step saves the records that only it holds" in text
    saved = [{"name": "save", "action": "RescueRecords"}, {"name": "restart", "action": "RestartBrokers"}]
    assert beyond(run(restarts=[stale], steps=saved)) == ()
    assert beyond(run(restarts=[{**stale, "stale": False}], steps=saved[1:])) == ()


def test_beyond_it_asks_and_people_may_say_yes():
    made = run(changes=[change(n) for n in range(101)])

    def judged(policy, risk=Risk.LOW):
        rules = RemediationPolicy.model_validate({"playbooks": [{"name": "p"}], **policy})
        return judge_approvals(
            made, rules, [], Standing(NOW), NOW, started=False, risk=risk, cost=cost_of(made.status.plan)
        )

    answer = judged({"mode": "Auto"})
    assert answer.reason.verdict is Verdict.WAIT
    assert "101 partitions" in answer.reason.message
    assert "waits for 1 approval" in answer.reason.message
    assert answer.approved_by is None
    wide = {"mode": "Auto", "auto": {"maxPartitions": 101, "maxMoves": 202}}
    assert judged(wide).approved_by == AUTOMATIC
    assert judged(wide, risk=None).approved_by is None, "unknown is too high"


def test_from_the_finding_to_the_cure_without_a_person_within_the_bounds():
    world = World(factor_one_cluster())
    world.install(remediation={"mode": "Auto"})
    done = world.until_phase("Succeeded")
    assert done.status.approved_by == AUTOMATIC


def test_beyond_them_nothing_happens_until_somebody_approves():
    world = World(factor_one_cluster())
    world.install(remediation={"mode": "Auto", "auto": {"maxPartitions": 6}})
    waits = world.until_phase("AwaitingApproval")
    for _ in range(4):
        world.step()
    assert world.kafka.writes == []
    assert world.run().status.phase is Phase.AWAITING_APPROVAL
    assert "7 partitions, auto.maxPartitions is 6" in world.run().status.message
    world.approve(waits)
    world.until_phase("Running")
    assert world.run().status.approved_by == "alice"
