"""What stands against a plan of restarts is judged for each as things will stand when its turn comes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from kafka_medic.cluster.snapshot import (
    STORAGE_ERROR,
    Directory,
    DivergedLog,
    Mode,
    Quorum,
    Snapshot,
    TopicPartition,
    Voter,
)
from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.plan_digest import plan_digest
from kafka_medic.playbook.planning import propose
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.playbook.restart.drain_first import LEAST_BATCHES, most_batches
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Cause, Remediation
from kafka_medic.resources.remediation_plan import Plan, Restarts
from tests.unit.cluster import worlds

ROOT = Path(__file__).parents[3]
API = "kafkamedic.dev/v1alpha1"
PLAYBOOK = Playbook.parse(yaml.safe_load((ROOT / "playbooks" / "rolling-restart.yaml").read_text()))
CLUSTER = KafkaCluster.parse(
    {
        "apiVersion": API,
        "kind": "KafkaCluster",
        "metadata": {"name": "demo", "namespace": "ns", "uid": "uid-demo"},
        "spec": {"bootstrapServers": "kafka:9092", "brokers": {"podSelector": {"matchLabels": {"app": "kafka"}}}},
    }
)
RUN = Remediation.parse(
    {
        "apiVersion": API,
        "kind": "Remediation",
        "metadata": {"name": "roll", "namespace": "ns", "uid": "uid-roll"},
        "spec": {
            "clusterRef": {"name": "demo", "uid": "uid-demo"},
            "playbook": {"name": "rolling-restart", "digest": PLAYBOOK.digest()},
            "requestedBy": "carol",
        },
    }
)


def planned(snapshot: Snapshot, pending: frozenset[str] = frozenset(), run: Remediation = RUN) -> Plan | Refusal:
    return propose(PlanRequest(run, CLUSTER, PLAYBOOK, snapshot, worlds.NOW, pending=pending))


def drained(**spec: object) -> Remediation:
    """The same run with drainFirst."""
    update = {"parameters": {"drainFirst": "true"}} | spec
    return RUN.model_copy(update={"spec": RUN.spec.model_copy(update=update)})


def measured() -> Snapshot:
    """All is well, and no broker holds what the others lack."""
    world = worlds.healthy()
    return replace(world, views=tuple(replace(v, diverged=()) for v in world.views or ()))


def cut_off(mode: Mode) -> Snapshot:
    """Broker 3 answers and is not registered: the others took it out of their ISRs, and it does not know."""
    rows = [worlds.partition("orders", 0, (1, 2, 3), isr=[1, 2]), worlds.partition("orders", 1, (2, 3, 1), isr=[2, 1])]
    views = [replace(worlds.view(n, rows, members=(1, 2)), diverged=()) for n in (1, 2)]
    views.append(replace(worlds.view(3, rows), diverged=()))
    quorum = Quorum(1, (Voter(1, 0, 0), Voter(2, 0, 0), Voter(3, 400, 60_000)))
    brokers = worlds.brokers(b3={"registered": False, "recovering": None})
    changes = {"quorum": quorum} if mode is Mode.KRAFT else {}
    return worlds.healthy(mode, rows=rows, brokers=brokers, views=tuple(views), **changes)


@pytest.mark.parametrize("mode", list(Mode))
def test_one_that_is_cut_off_goes_first_and_does_not_stand_against_those_after_it(mode):
    plan = planned(cut_off(mode))
    assert isinstance(plan, Plan), plan
    assert [(r.broker, r.stale) for r in plan.part(Restarts).restarts] == [(3, True), (2, False), (1, False)]


def test_a_leader_that_does_not_know_that_it_leads_is_named_with_the_way_out():
    """Brokers 2 and 3 are stale: 2 takes itself for the leader still, and 3 was elected."""
    row = [worlds.partition("orders", 0, (2, 3, 1, 4, 5), leader=3, leaderEpoch=6)]
    told, five = {("orders", 0): (2, 5)}, (1, 2, 3, 4, 5)
    views = [replace(worlds.view(n, row, members=five, told=told if n in (2, 3) else {}), diverged=()) for n in five]
    views[1] = replace(views[1], diverged=(DivergedLog("orders", 0, 5, 130, None),))
    brokers = tuple(worlds.broker(n) for n in five)
    refused = planned(worlds.healthy(rows=row, views=tuple(views), brokers=brokers))
    assert isinstance(refused, Refusal)
    assert "broker 3 is leader but stale; delete its Pod" in refused.message


@pytest.mark.parametrize("finding", ["BrokerZombie", "ViewDiverged"])
def test_a_view_that_is_stale_for_a_moment_is_no_reason_to_save_anything(finding):
    refused = planned(cut_off(Mode.ZOOKEEPER), frozenset({f"{finding}/broker-3"}))
    assert isinstance(refused, Refusal)
    assert [r.verdict for r in refused.reasons] == [Verdict.WAIT], refused
    assert not refused.permanent
    assert isinstance(planned(cut_off(Mode.ZOOKEEPER), frozenset({f"{finding}/broker-1"})), Plan), "not of that broker"


def test_a_voter_that_is_behind_and_not_restarted_stands_against_it():
    quorum = Quorum(1, (Voter(1, 0, 0), Voter(2, 0, 0), Voter(3, 0, 0), Voter(4, 9, 60_000), Voter(5, 9, 60_000)))
    refused = planned(worlds.healthy(quorum=quorum))
    assert isinstance(refused, Refusal)
    assert "voters caught up (required: 3)" in refused.message


def test_what_a_stale_broker_leads_is_not_moved_off_it_first():
    """It would not hear of it, and go on taking records that nobody else has."""
    rows = [worlds.partition("orders", p, (1 + p % 3, 1 + (p + 1) % 3, 1 + (p + 2) % 3)) for p in range(3)]
    late = worlds.view(3, [worlds.partition("orders", 1, (2, 3, 1), leader=3), *rows[::2]])
    views = [replace(v, diverged=()) for v in (worlds.view(1, rows), worlds.view(2, rows), late)]
    plan = planned(worlds.healthy(rows=rows, views=tuple(views)), run=drained())
    assert isinstance(plan, Plan), plan
    assert [r.broker for r in plan.part(Restarts).restarts if r.stale] == [3]
    assert {d.broker for d in plan.part(Restarts).drains} == {1, 2}
    assert "not drained first: it would not learn" in plan.summary


def test_nothing_is_moved_before_a_restart_that_replaces_a_stuck_controller():
    """Who would have to move it is what is stuck."""
    run = drained(cause=Cause(finding_id="ControllerStuck", finding_type="ControllerStuck"), requested_by=None)
    plan = planned(measured(), run=run)
    assert isinstance(plan, Plan), plan
    assert plan.part(Restarts).drains == ()
    assert "not drained first: only a working controller" in plan.summary


def test_the_digest_covers_who_takes_over():
    plan = planned(measured(), run=drained())
    assert isinstance(plan, Plan), plan
    own = plan.part(Restarts)
    first = own.drains[0]
    other = first.model_copy(update={"replicas": (*first.replicas[1:], first.replicas[0])})
    changed = plan.with_parts(own.model_copy(update={"drains": (other, *own.drains[1:])}))
    assert plan_digest(drained(), changed) != plan.digest == plan_digest(drained(), plan)


@pytest.mark.parametrize(("restarts", "drained_brokers"), [(1, 1), (3, 3), (18, 18), (60, 10)])
def test_a_journal_has_room_for_every_batch_each_way(restarts: int, drained_brokers: int):
    most = most_batches(restarts, drained_brokers)
    assert most >= LEAST_BATCHES
    assert 2 + restarts + drained_brokers * (2 + 2 * most) <= 200
    assert most_batches(19, 19) < LEAST_BATCHES, "refused"


def test_replicas_on_a_failed_directory_are_not_back_by_the_time_of_any_restart():
    """Nobody waits for them, so a later restart that they stand against stands against the plan."""
    gone = {
        "directories": (Directory("/data/0"), Directory("/data/1", STORAGE_ERROR)),
        "offline_replicas": (TopicPartition("orders", 0),),
    }
    rows = [
        {**r, "isr": [1, 3], "leader": 1} if r["partition"] == 0 and r["topic"] == "orders" else r for r in worlds.ROWS
    ]
    snapshot = replace(measured(), partitions=worlds.partitions(rows), brokers=worlds.brokers(b2=gone))
    refused = planned(snapshot)
    assert isinstance(refused, Refusal)
    assert "orders-0 would have 1 in sync (required: 2)" in refused.message
    spare = [{**r, "minIsr": 1} for r in rows]
    plan = planned(replace(snapshot, partitions=worlds.partitions(spare)))
    assert isinstance(plan, Plan)
    assert [r.broker for r in plan.part(Restarts).restarts] == [2, 3, 1]
