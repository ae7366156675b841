"""What keeps an approved roll from its first restart: nothing is evicted, and the run says why in plain words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.cluster.snapshot import Quorum, TopicPartition, Voter
from kafka_medic.playbook.plan_digest import sealed
from kafka_medic.resources.remediation import Remediation
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BASE, BROKERS, NO_ELECTIONS, World

CLUSTER = f"{BASE}/namespaces/ns/kafkaclusters/c"
PODS = "/api/v1/namespaces/ns/pods"
SETS = "/apis/apps/v1/namespaces/ns/statefulsets"


def planned() -> World:
    """A roll that waits for its approval."""
    kafka = SimKafka()
    kafka.topic("orders", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation={"limits": {"cooldown": "0s"}, **NO_ELECTIONS})
    world.with_pods()
    world.ask("rolling-restart")
    world.until_phase("AwaitingApproval")
    return world


def policy(world: World, **changed: object) -> None:
    world.api.touch(CLUSTER)["spec"]["remediation"].update(changed)


def earlier(world: World, phase: str, number: int = 0) -> None:
    """Another run of the cluster, as it ended or goes on."""
    asked = world.api.get(f"{BASE}/namespaces/ns/remediations/asked-0")
    at = (world.now - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = asked["status"] | {"phase": phase, "startedAt": at} | ({"finishedAt": at} if phase != "Running" else {})
    meta = {"name": f"earlier-{number}", "namespace": "ns", "uid": f"uid-earlier-{number}"}
    body = {"apiVersion": "kafkamedic.dev/v1alpha1", "kind": "Remediation", "metadata": meta, "spec": asked["spec"]}
    run = Remediation.parse(body | {"status": status})
    assert run.status.plan is not None
    plan = sealed(run, run.status.plan).to_kubernetes()
    world.put("remediations", body | {"status": status | {"plan": plan}})


def broker_down(world: World) -> None:
    world.kafka.stop(2)


def out_of_isr(world: World) -> None:
    world.kafka.copies_per_tick = 0
    world.kafka.partitions[TopicPartition("orders", 0)].isr.remove(2)


def moving(world: World) -> None:
    world.kafka.copies_per_tick = 0
    part = world.kafka.partitions[TopicPartition("orders", 0)]
    part.adding, part.before, part.isr = [2], [0, 1], [0, 1]


def blind(world: World) -> None:
    world.kafka.unreadable.add("views")


def half_configured(world: World) -> None:
    """Broker 1 leads it and was restarted with a higher default. Broker 0 answers for topics, with the old one."""
    for broker, least in ((0, "1"), (1, "2"), (2, "1")):
        world.kafka.started_with[broker]["min.insync.replicas"] = least
    world.kafka.topic("ledger", [1, 2])


def thin_quorum(world: World) -> None:
    voters = (Voter(0, 0, 0), Voter(1, 0, 0), Voter(2, 900, 60_000))
    world.kafka.quorum = lambda: Quorum(0, voters)  # type: ignore[method-assign]


def one_voter(world: World) -> None:
    world.kafka.quorum = lambda: Quorum(0, (Voter(0, 0, 0),))  # type: ignore[method-assign]


def rollout(world: World) -> None:
    """Somebody changed the StatefulSet: its Pods do not have its revision yet."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "kafka", "uid": "set", "controller": True}
    for broker in (0, 1, 2):
        meta = world.api.touch(f"{PODS}/kafka-{broker}")["metadata"]
        meta |= {"ownerReferences": [owner], "labels": {"controller-revision-hash": "old"}}
    status = {"updateRevision": "new", "currentRevision": "old", "observedGeneration": 1, "replicas": 3}
    world.api.put(SETS, {"metadata": {"name": "kafka", "uid": "set"}, "spec": {"replicas": 3}, "status": status})


def cordoned(world: World) -> None:
    world.api.touch("/api/v1/nodes/node-1")["spec"]["unschedulable"] = True


def budget(world: World) -> None:
    def refuses(_: str) -> None:
        raise ApiFailure(429, "Cannot evict pod as it would violate the pod's disruption budget.")

    world.api.evicted = refuses


@pytest.mark.parametrize(
    ("hinder", "words"),
    [
        (broker_down, "limit: one at a time"),
        (out_of_isr, "out of the ISR: broker 2 (1 partition)"),
        (moving, "being reassigned with broker 1 in it: orders-0"),
        (blind, "views did not answer"),
        (half_configured, "ledger (2 replicas, min.insync.replicas 2)"),
        (thin_quorum, "voters caught up (required: 2)"),
        (one_voter, "the quorum has one voter"),
        (rollout, "StatefulSet kafka is being rolled out"),
        (cordoned, "its Pod could not start there again"),
        (lambda w: policy(w, paused=True, pauseReason="until Monday"), "until Monday"),
        (
            lambda w: policy(w, windows=[{"days": ["Mon"], "start": "03:00", "end": "04:00", "timeZone": "UTC"}]),
            "outside every window",
        ),
        (lambda w: earlier(w, "Running"), "earlier-0 is acting on this cluster; one at a time"),
        (
            lambda w: (policy(w, limits={"cooldown": "0s", "perDay": 1}), earlier(w, "Succeeded")),
            "limits.perDay is 1",
        ),
    ],
)
def test_nothing_is_restarted_while(hinder: Callable[[World], object], words: str):
    world = planned()
    world.approve(world.run())
    hinder(world)
    for _ in range(4):
        world.step()
    run = next(r for r in world.runs() if r.name == "asked-0")
    assert world.pods.restarts == []
    assert run.status.journal == ()
    told = "; ".join([run.status.message, *(w.message for w in run.status.waiting_for)])
    assert words in told
    assert run.status.phase in ("Approved", "AwaitingApproval")


def test_a_refused_eviction_is_reported_and_retried():
    """A PodDisruptionBudget refuses the eviction. The operator reports that and retries later."""
    world = planned()
    world.approve(world.run())
    budget(world)
    for _ in range(6):
        world.step()
    assert world.pods.restarts == []
    assert any("a PodDisruptionBudget does not permit the eviction" in m for _, m in world.api.events)
    world.api.evicted = world.pods.evict
    world.until(lambda: world.run().status.phase == "Succeeded", reconciles=120)
    assert world.pods.restarts == [1, 2, 0]


def test_an_approval_of_another_plan_is_void():
    world = planned()
    run = world.run()
    world.approve(run, planDigest="sha256:" + "1" * 64)
    for _ in range(4):
        world.step()
    assert world.pods.restarts == []
    (record,) = world.run().status.approvals
    assert not record.counted
    assert "another plan" in record.reason


def test_an_approval_after_expiry_does_not_count():
    world = planned()
    run = world.run()
    world.now += timedelta(days=2)
    world.approve(run)
    world.until_phase("Expired", reconciles=4)
    assert world.pods.restarts == []
