"""Whatever is deleted in mid-run: what the run has set in Kafka is taken back first, and nothing is held for longer."""

from __future__ import annotations

from itertools import product

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller.store import Store
from kafka_medic.resources.vocabulary import RESTORE_FINALIZER
from tests.simulation.world import BASE, World, factor_one_cluster
from tests.thorough import only, thorough

CLUSTER = f"{BASE}/namespaces/ns/kafkaclusters/c"


@pytest.fixture
def world() -> World:
    world = World(factor_one_cluster())
    world.install()
    world.kafka.copies_per_tick = 0
    return world


def run_path(world: World) -> str:
    return f"{BASE}/namespaces/ns/remediations/{world.run().name}"


def held(world: World, path: str) -> bool:
    return RESTORE_FINALIZER in world.api.get(path)["metadata"].get("finalizers", ())


def clean(world: World) -> bool:
    left = any("throttled" in key[2] for key in world.kafka.dynamic)
    return not left and not any(p.adding for p in world.kafka.partitions.values())


def copying(world: World) -> None:
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: any(p.adding for p in world.kafka.partitions.values()))
    assert not clean(world)


def until_gone(world: World, path: str, reconciles: int = 10) -> None:
    uid = world.api.get(path)["metadata"]["uid"]
    for _ in range(reconciles):
        if all(o["metadata"]["uid"] != uid for o in world.api.objects.values()):
            return  # a new one of the same name may have been proposed
        try:
            world.step(1.0)
        except ApiFailure as problem:
            if not problem.not_found:
                raise
    raise AssertionError(world.api.get(path))


def test_finalizers_stay_from_first_to_last_effect(world: World) -> None:
    """The run and its KafkaCluster have the finalizer before the first effect and until the last one."""
    world.kafka.copies_per_tick = 2
    world.approve(world.until_phase("AwaitingApproval"))
    path = run_path(world)
    assert not held(world, path)
    for _ in range(60):
        if world.run().status.phase == "Succeeded":
            break
        world.step(1.0)
        assert clean(world) or (held(world, path) and held(world, CLUSTER))
    world.step()
    assert world.run().status.phase == "Succeeded"
    assert not held(world, path)
    assert not held(world, CLUSTER)


@pytest.mark.parametrize(("what", "paused"), only([0, 3], product(["run", "cluster"], [True, False])))
def test_deleted_objects_go_once_kafka_is_restored(world: World, what: str, paused: bool) -> None:
    """An object that is deleted while partitions move goes once Kafka is as it was."""
    copying(world)
    before = {tp: list(p.before or p.replicas) for tp, p in world.kafka.partitions.items()}
    path = run_path(world)
    if paused:
        body = world.cluster()
        body["spec"]["remediation"] = {"paused": True}
        world.put("kafkaclusters", body)
    gone = path if what == "run" else CLUSTER
    world.api.delete(gone)
    assert gone in world.api.objects, "it is held"
    until_gone(world, gone)
    assert clean(world)
    assert {tp: p.replicas for tp, p in world.kafka.partitions.items()} == before
    if what == "cluster":
        assert path not in world.api.objects, "the Remediation goes with its KafkaCluster"
    else:
        assert not held(world, CLUSTER)


@thorough
def test_deletion_waits_for_an_unreachable_cluster(world: World) -> None:
    """A deleted object waits for a Kafka that does not answer, with pauses between the reconciles."""
    copying(world)
    world.kafka.reachable = False
    world.api.delete(CLUSTER)
    assert world.reconciler is not None
    pauses = [world.reconciler.reconcile() for _ in range(5)]
    assert pauses[-1] > 1.0
    assert "being deleted" in world.run().status.journal[-1].detail
    assert world.condition("RemediationAllowed")["reason"] == "Deleting"
    world.kafka.reachable = True
    until_gone(world, CLUSTER)
    assert clean(world)


def test_a_new_operator_finishes_the_deletion(world: World) -> None:
    copying(world)
    path = run_path(world)
    world.api.delete(path)
    world.operator()
    until_gone(world, path)
    assert clean(world)


def test_a_deletion_right_before_an_effect_holds_it(world: World) -> None:
    """Between the reading of the run and the sending: the run is read once more."""
    world.approve(world.until_phase("AwaitingApproval"))
    path, observe = run_path(world), world.kafka.describe_cluster
    world.until(lambda: world.run().status.restore_owed)
    assert world.kafka.writes == []
    looks: list[int] = []

    def describe():
        looks.append(1)
        if len(looks) == 2:  # the look right before the effect
            world.api.delete(path)
        return observe()

    world.kafka.describe_cluster = describe  # type: ignore[method-assign]
    until_gone(world, path)
    assert len(looks) >= 2
    assert world.kafka.writes == []


def test_a_run_without_effects_is_deleted_at_once(world: World) -> None:
    path = f"{BASE}/namespaces/ns/remediations/{world.until_phase('AwaitingApproval').name}"
    world.api.delete(path)
    assert path not in world.api.objects


def test_a_foreign_finalizer_stays(world: World) -> None:
    """A deleted object keeps the finalizer of somebody else, and no run starts."""
    run = world.until_phase("AwaitingApproval")
    path = run_path(world)
    world.api.touch(path)["metadata"]["finalizers"] = ["example.com/theirs"]
    world.api.delete(path)
    world.approve(run)
    world.until_phase("Aborted", 5)
    for _ in range(3):
        world.step()
    assert world.kafka.writes == []
    assert world.api.get(path)["metadata"]["finalizers"] == ["example.com/theirs"]


def test_a_finalizer_is_added_to_the_version_that_was_read(world: World) -> None:
    store = Store(world.api)
    cluster = store.cluster("ns", "c")
    body = world.cluster()
    world.put("kafkaclusters", body)
    with pytest.raises(ApiFailure) as raised:
        store.hold(cluster)
    assert raised.value.conflict
    fresh = store.hold(store.cluster("ns", "c"))
    assert fresh.held
    assert store.let_go(fresh).metadata.finalizers == ()
