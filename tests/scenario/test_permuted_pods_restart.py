"""Whole runs over Pods that run other brokers than their names say: no Pod goes but the one of the broker judged."""

from __future__ import annotations

from kafka_medic.observe.identities import PodIdentities
from kafka_medic.resources.remediation_plan import Restarts
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BROKERS, NO_ELECTIONS, World

PODS = "/api/v1/namespaces/ns/pods"


def rolling(by: str = "Ordinal", **how) -> World:
    kafka = SimKafka()
    kafka.topic("orders", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    world = World(kafka)
    world.install(brokers=BROKERS | {"idFrom": by}, remediation={"limits": {"cooldown": "0s"}, **NO_ELECTIONS})
    world.with_pods(**how)
    return world


def findings(world: World) -> dict[str, dict]:
    return {f["id"]: f for f in world.cluster()["status"].get("findings", ())}


def waits(world: World) -> set[tuple[str, str]]:
    return {(w.guard, w.verdict) for w in world.run().status.waiting_for}


def test_crossed_pods_are_not_evicted():
    world = rolling(crossed={1: 2, 2: 1})
    world.ask("rolling-restart", brokers="1")
    for _ in range(12):
        world.step()
        assert world.pods.evicted == []
        assert world.kafka.up == {0, 1, 2}
    assert world.run().status.phase == "Planning"
    assert "Pod kafka-1 is broker 1 by its name or label" in world.run().status.message
    assert "broker 2 answers" in world.run().status.message
    found = findings(world)
    assert {"PodIdentityMismatch/broker-1", "PodIdentityMismatch/broker-2"} <= set(found)
    assert found["PodIdentityMismatch/broker-1"]["state"] == "Firing"
    world.reconciler.close()


def test_pods_that_are_not_crossed_are_restarted():
    world = rolling(crossed={1: 2, 2: 1})
    world.ask("rolling-restart", brokers="0")
    world.to_the_end()
    assert world.run().status.phase == "Succeeded", world.run().status.message
    assert world.pods.restarts == [0]


def test_pods_whose_ids_follow_no_rule_are_rolled_by_what_answers():
    """Each goes as the broker that it runs, whatever its name says, and its successor is known once it answers."""
    world = rolling(by="Answer", crossed={1: 2, 2: 1})
    world.ask("rolling-restart")
    world.approve(world.until_phase("AwaitingApproval"))
    planned = world.run().status.plan.part(Restarts).restarts
    assert {r.broker: r.pod for r in planned} == {0: "kafka-0", 1: "kafka-2", 2: "kafka-1"}
    world.to_the_end()
    assert world.run().status.phase == "Succeeded", world.run().status.message
    assert world.pods.restarts == [1, 2, 0]
    assert world.pods.most_down == 1
    assert "PodIdentityMismatch" not in str(findings(world))


def test_a_broker_whose_pod_is_not_known_is_not_restarted_and_nothing_is_ready_beside_it():
    world = rolling(by="Answer")
    world.kafka.deaf.add(1)
    world.ask("restart-broker", brokers="1")
    for _ in range(6):
        world.step()
        assert world.pods.evicted == []
    assert world.run().status.phase == "Planning"
    assert "the Pod of broker 1 is not known" in world.run().status.message
    told = {c["type"]: c for c in world.cluster()["status"]["conditions"]}
    assert told["RestartsPossible"]["status"] == "Unknown"
    assert "no Pod has answered as broker 1: Pod kafka-1: " in told["RestartsPossible"]["message"]
    world.kafka.deaf.clear()
    world.to_the_end()
    assert world.pods.restarts == [1]
    told = {c["type"]: c["status"] for c in world.cluster()["status"]["conditions"]}
    assert told["RestartsPossible"] == told["Ready"] == "True"


def test_pods_crossed_in_mid_run_hold_the_run():
    """Somebody has swapped the volumes of the two that are left, and their Pods were made anew."""
    world = rolling()
    world.ask("rolling-restart")
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: world.pods.restarts == [1])
    world.until(lambda: world.run().status.journal[0].state == "Done")
    before = list(world.pods.restarts)
    world.pods.crossed = {0: 2, 2: 0}
    for broker in (0, 2):
        world.pods.replace(broker)
    for _ in range(12):
        world.step()
        assert world.pods.restarts == before
    assert {"PodIdentityMismatch/broker-0", "PodIdentityMismatch/broker-2"} <= set(findings(world))


def test_a_hung_broker_keeps_its_known_pod():
    """A broker hangs. The operator knows its Pod from an earlier response. Other guards hold its restart, since nothing
    that only it could report is known."""
    world = rolling()
    world.step()
    world.kafka.deaf.add(1)
    world.ask("restart-broker", brokers="1")
    world.until(lambda: any(r.status.plan for r in world.runs()))
    world.approve(world.run())
    for _ in range(6):
        world.step()
    assert world.run().status.phase == "Approved"
    judged = {guard for guard, _ in waits(world)}
    assert judged
    assert "PodIsThatBroker" not in judged


def test_a_new_operator_does_not_know_a_hung_brokers_pod():
    """After a restart of the operator, the Pod of a hung broker is unknown until the broker answers."""
    world = rolling()
    world.kafka.deaf.add(1)
    world.ask("restart-broker", brokers="1")
    world.until(lambda: any(r.status.plan for r in world.runs()))
    world.approve(world.run())
    for _ in range(6):
        world.step()
        assert world.pods.evicted == []
    assert ("PodIsThatBroker", "Unknown") in waits(world)
    told = next(w.message for w in world.run().status.waiting_for if w.guard == "PodIsThatBroker")
    assert "Pod kafka-1 is broker 1 by its name or label alone" in told
    assert "no broker 1 has answered" in told
    assert "PodIdentityMismatch/broker-1" not in findings(world)
    world.kafka.deaf.clear()
    world.to_the_end()
    assert world.pods.restarts == [1]


def test_an_identified_pod_is_not_read_again():
    world = rolling()
    asked = []
    world.kafka.identities = lambda pods, ids: (asked.append(set(pods)), SimKafka.identities(world.kafka, pods, ids))[1]
    world.ask("rolling-restart", brokers="0")
    world.to_the_end()
    assert asked[0] == {0, 1, 2}
    assert all(pods == {0} for pods in asked[1:]), "only the Pod that is new"
    known: PodIdentities = world.reconciler._observer.kept_state.identities
    assert set(known.answered.values()) == {0, 1, 2}
