"""Restarts that Strimzi is asked for, through the operator's own reconciles: what asks for them goes with the run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.resources.phases import TERMINAL_PHASES
from tests.simulation.deaths import Interrupted
from tests.simulation.kafka import SimKafka
from tests.simulation.pods import KAFKA_PATH, PODS, STRIMZI, SimPods
from tests.simulation.world import BASE, BROKERS, NO_ELECTIONS, World
from tests.thorough import thorough

CLUSTER = f"{BASE}/namespaces/ns/kafkaclusters/c"


def strimzi(ticks: int | None = None, playbook: str = "rolling-restart", **parameters: str) -> World:
    """A cluster whose Pods Strimzi owns: it acts on an annotation so many ticks after it was set. None: it is away."""
    kafka = SimKafka()
    kafka.topic("orders", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    world = World(kafka)
    world.install(
        brokers={**BROKERS, "restart": "StrimziAnnotation"},
        remediation={"limits": {"cooldown": "0s", "perDay": 100}, **NO_ELECTIONS},
    )
    world.with_pods(STRIMZI, strimzi_ticks=ticks)
    world.ask(playbook, **parameters)
    world.approve(world.until_phase("AwaitingApproval"))
    return world


def pods_of(world: World) -> SimPods:
    assert world.pods is not None
    return world.pods


def asked(ticks: int | None = None, **parameters: str) -> World:
    """Strimzi has been asked to restart one broker, and has not done so."""
    world = strimzi(ticks, **parameters)
    world.until(lambda: bool(pods_of(world).annotated()))
    return world


def test_strimzi_restarts_brokers_one_by_one():
    world = strimzi(2)
    world.until(lambda: world.run().status.phase in TERMINAL_PHASES, reconciles=200, seconds=5)
    assert world.run().status.phase == "Succeeded", world.run().status.message
    assert pods_of(world).restarts == [1, 2, 0]
    assert pods_of(world).most_down == 1
    assert pods_of(world).evicted == []
    assert pods_of(world).annotated() == {}
    assert not world.run().metadata.finalizers


@pytest.mark.parametrize("right", ["pods/eviction", "pods"])
def test_without_the_right_to_ask_nothing_is_planned_and_the_status_says_how_to_give_it(right):
    kafka = SimKafka()
    kafka.topic("orders", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    world = World(kafka)
    world.api.rules = [{"verbs": ["create", "patch"], "apiGroups": [""], "resources": [right]}]
    world.install(brokers={**BROKERS, "restart": "StrimziAnnotation"}, remediation=NO_ELECTIONS)
    world.with_pods(STRIMZI)
    world.ask("rolling-restart")
    for _ in range(6):
        world.step(15)
    conditions = {c["type"]: c for c in world.cluster()["status"]["conditions"]}
    if right == "pods":
        assert world.run().status.phase == "AwaitingApproval"
        assert conditions["RestartsPossible"]["status"] == "True"
        return
    assert world.run().status.phase == "Planning"
    assert "the operator may not annotate Pod kafka-" in world.run().status.message
    assert conditions["RestartsPossible"]["status"] == "False"
    assert "set strimzi.enabled in the chart" in conditions["RestartsPossible"]["message"]
    assert conditions["Ready"]["status"] == "True"


def test_the_annotation_is_set_once():
    world = asked()
    for _ in range(10):
        world.step(5)
    run = world.run()
    assert run.status.message == "broker 1: Strimzi has not yet restarted Pod kafka-1"
    assert run.status.phase == "Running"
    assert [what for what, _ in world.api.events].count("Effect") == 1
    (entry,) = run.status.journal
    assert entry.saved_values() == {"POD/kafka-1/strimzi.io/manual-rolling-update": None}
    assert run.status.restore_owed
    assert run.held
    for _ in range(10):
        world.step(300)
    assert world.run().status.phase == "Paused", "a person is told that Strimzi does nothing"
    assert "Strimzi has not yet restarted Pod kafka-1" in world.run().status.message


def rejected(world: World) -> None:
    world.approve(world.run(), decision="Reject")


def run_deleted(world: World) -> None:
    world.api.delete(f"{BASE}/namespaces/ns/remediations/{world.run().name}")


def cluster_deleted(world: World) -> None:
    world.api.delete(CLUSTER)


def playbook_changed(world: World) -> None:
    world.api.touch(f"{BASE}/playbooks/rolling-restart")["spec"]["description"] = "another one"


def method_changed(world: World) -> None:
    """What was asked of Strimzi is taken back from Strimzi, whoever restarts brokers by now."""
    world.api.touch(CLUSTER)["spec"]["brokers"]["restart"] = "DeletePod"
    rejected(world)


ENDS: list[Callable[[World], None]] = [rejected, run_deleted, cluster_deleted, playbook_changed, method_changed]


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("paused", [False, True])
def test_the_annotation_goes_at_any_end(ends, paused):
    world = asked()
    if paused:
        world.api.touch(CLUSTER)["spec"]["remediation"]["paused"] = True
    (uid,) = pods_of(world).annotated().values()
    ends(world)
    for _ in range(12):
        for run in world.runs():
            assert not pods_of(world).annotated() or run.status.phase not in TERMINAL_PHASES
        if CLUSTER in world.api.objects:
            world.step(10)
    assert pods_of(world).annotated() == {}
    assert pods_of(world).uid(1) == uid, "and nothing is restarted"
    for run in world.runs():
        assert run.status.phase in ("Aborted", "Superseded"), run.status.message
        assert "the restart annotation of Pod kafka-1 is removed" in run.status.message
        assert not run.status.restore_owed
        assert not run.metadata.finalizers
    assert (CLUSTER in world.api.objects) == (ends is not cluster_deleted)


def test_a_foreign_annotation_stays():
    world = strimzi()
    world.until(lambda: world.run().status.phase == "Running")
    world.api.touch(f"{PODS}/kafka-1")["metadata"]["annotations"] = {"strimzi.io/manual-rolling-update": "true"}
    for _ in range(5):
        world.step(5)
    rejected(world)
    world.until(lambda: world.run().status.phase == "Aborted", seconds=10)
    assert list(pods_of(world).annotated()) == [1]


def test_another_pod_of_that_name_is_left_alone():
    """The annotation went with the Pod that was named. One on its successor is somebody else's."""
    world = asked()
    rejected(world)
    merge, sent = world.api.merge, []

    def slow(path, body):
        if path.startswith(PODS):
            pods_of(world).replace(1)
            world.api.touch(path)["metadata"]["annotations"] = {"strimzi.io/manual-rolling-update": "true"}
            sent.append(body)
        return merge(path, body)

    world.api.merge = slow
    world.until(lambda: world.run().status.phase == "Aborted", seconds=10)
    assert len(sent) == 1
    assert sent[0]["metadata"]["uid"] != pods_of(world).uid(1)
    assert list(pods_of(world).annotated()) == [1]


def test_the_run_waits_for_a_restart_strimzi_may_have_read():
    """Strimzi may have read an annotation that is then removed. The run waits for that restart."""
    world = asked(ticks=6)
    world.step(5)
    rejected(world)
    world.until(lambda: pods_of(world).annotated() == {}, seconds=5)
    world.step(5)
    assert pods_of(world).restarts == []
    assert world.run().status.phase == "Blocked"
    assert "Strimzi may have read it" in world.run().status.message
    world.until(lambda: pods_of(world).restarts == [1], seconds=5)
    world.until(lambda: world.run().status.phase == "Aborted", seconds=5)
    assert "Pod kafka-1 had begun to restart" in world.run().status.message


def test_an_unreadable_pod_is_not_taken_for_gone():
    world = asked()
    rejected(world)
    listed, world.api.list = world.api.list, broken_for(PODS, world.api.list)
    for _ in range(12):
        world.step(10)
    assert world.run().status.phase == "Blocked"
    assert "is not yet removed" in world.run().status.message
    assert world.run().status.restore_owed
    world.api.list = listed
    world.until(lambda: world.run().status.phase == "Aborted", seconds=10)
    assert pods_of(world).annotated() == {}


def broken_for(path, listed):
    def answer(asked_for, query=None):
        if asked_for == path:
            raise ApiFailure(503, "not now")
        return listed(asked_for, query)

    return answer


@thorough
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("fatal", range(20))
def test_a_killed_operator_leaves_no_annotation(fatal, when):
    """The operator dies at any write. No annotation stays behind."""
    world = strimzi()
    world.wrap_api = lambda api: Interrupted(api, ("merge", "replace"), fatal, when)
    world.operator()

    def reject_once_asked():
        run = world.run()
        if pods_of(world).annotated() and not any("reject" in p for p in world.api.objects):
            world.approve(run, decision="Reject")

    world.to_the_end(seconds=10, reconciles=200, meanwhile=reject_once_asked)
    world.step()
    assert pods_of(world).annotated() == {}
    assert world.run().status.phase == "Aborted"
    assert not world.run().metadata.finalizers


def rolls(world: World, begins: bool) -> None:
    """Strimzi has a change to act on, or has acted on it."""
    resource = world.api.touch(KAFKA_PATH)
    resource["metadata"]["generation"] = resource["status"]["observedGeneration"] + begins


def rolled_by_strimzi(world: World, *brokers: int) -> None:
    """Strimzi replaces these Pods by a roll of its own, which takes a minute for each."""
    rolls(world, True)
    for broker in brokers:
        pods_of(world).replace(broker)
        for _ in range(12):
            world.step(5)
    held = world.run().status
    assert "is being rolled out: its latest change has not been acted on yet" in held.message
    assert "NoForeignRollout" in {w.guard for w in held.waiting_for}
    rolls(world, False)


def owned_by_strimzi() -> World:
    return strimzi(2)


def test_strimzis_own_roll_leaves_nothing_to_do_and_the_run_ends_so():
    world = owned_by_strimzi()
    world.until_phase("Approved")
    digest = world.run().status.plan.digest
    rolled_by_strimzi(world, 1, 2, 0)
    assert world.run().status.plan.digest == digest, "meanwhile nothing is planned anew"
    world.until(lambda: world.run().status.phase in TERMINAL_PHASES, seconds=5)
    assert world.run().status.phase == "Superseded"
    assert world.run().status.message == (
        "another client has restarted broker 0, 1, 2 since the plan: request it again if you still need it"
    )
    assert pods_of(world).restarts == []


def test_after_half_a_roll_of_strimzis_the_run_says_why_it_needs_another_approval():
    world = owned_by_strimzi()
    world.until_phase("Approved")
    digest = world.run().status.plan.digest
    rolled_by_strimzi(world, 1)
    world.until(lambda: (p := world.run().status.plan) is not None and p.digest != digest, seconds=5)
    world.until_phase("AwaitingApproval", reconciles=3)
    assert "the plan before is void: broker 1 runs in another Pod than planned" in world.run().status.message
    world.approve(world.run())
    world.until(lambda: world.run().status.phase in TERMINAL_PHASES, reconciles=200, seconds=5)
    assert world.run().status.phase == "Succeeded"


def test_strimzi_rolls_the_rest_in_mid_run():
    world = owned_by_strimzi()
    world.until(lambda: pods_of(world).restarts == [1], seconds=5)
    rolls(world, True)
    world.until(lambda: world.run().status.journal[0].state == "Done", seconds=5)
    rolled_by_strimzi(world, 0, 2)
    world.until(lambda: world.run().status.phase in TERMINAL_PHASES, seconds=5)
    assert world.run().status.phase == "Superseded"
    assert "another client has restarted broker 0, 2 since the plan" in world.run().status.message
    assert pods_of(world).restarts == [1]
