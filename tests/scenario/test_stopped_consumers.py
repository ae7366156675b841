"""Whole runs that stop consumers for a reset and start them again: at any end, and over any crash."""

from __future__ import annotations

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.cluster.groups import Committed, GroupMember
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.phases import TERMINAL_PHASES
from kafka_medic.resources.remediation_plan import StoppedConsumers
from tests.simulation.deaths import Interrupted, Moments
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World
from tests.thorough import THOROUGH, only, thorough

ORDERS = TopicPartition("orders", 0)
FOUND = Committed(32, 3, "of the application")
COLLECTION = "/apis/apps/v1/namespaces/ns/deployments/shop"
SCALE = f"{COLLECTION}/scale"


def arrange() -> World:
    """Two replicas of Deployment shop consume as group billing, whose offset no log has."""
    kafka = SimKafka()
    kafka.topic("orders", [0, 1, 2])
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    kafka.partitions[ORDERS].epoch = 5
    kafka.commit_offsets("billing", {ORDERS: FOUND})
    kafka.writes.clear()
    world = World(kafka)
    quiet = [{"name": "reset-consumer-offsets", "mode": "Observe"}]
    world.install(remediation={"limits": {"cooldown": "0s"}, "playbooks": quiet})
    world.api.put(COLLECTION, {"metadata": {"name": "scale"}, "spec": {"replicas": 2}, "status": {"replicas": 2}})
    controllers(world)
    return world


@pytest.fixture
def world() -> World:
    found = arrange()
    found.ask("reset-offsets-of-workload", workload="Deployment/shop", groups="billing")
    return found


def replicas(world: World) -> int:
    return int(world.api.objects[SCALE]["spec"]["replicas"])


def controllers(world: World, members: int | None = None) -> None:
    """What the Deployment's controller and the group's coordinator do of it."""
    scale = world.api.objects[SCALE]
    scale["status"] = {"replicas": scale["spec"]["replicas"]}
    alive = scale["spec"]["replicas"] if members is None else members
    world.kafka.states["billing"] = "Stable" if alive else "Empty"
    world.kafka.members_of["billing"] = [GroupMember("shop", f"/10.0.0.{n}") for n in range(alive)]


def settled(world: World) -> int:
    """To the end, whoever dies on the way."""
    return world.to_the_end(seconds=5, meanwhile=lambda: controllers(world))


def stopped(world: World) -> None:
    """Until the consumers have been told to go."""
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: replicas(world) == 0)


def test_consumers_are_stopped_reset_and_started(world):
    run = world.until_phase("AwaitingApproval")
    assert run.status.plan.part(StoppedConsumers).workload.to_kubernetes() == {
        "kind": "Deployment",
        "name": "shop",
        "uid": world.api.objects[SCALE]["metadata"]["uid"],
        "replicas": 2,
    }
    assert (
        "Deployment shop stops before and runs 2 replicas again afterwards, however the run ends"
        in run.status.plan.summary
    )
    for _ in range(3):
        world.step()
    assert replicas(world) == 2, "nobody has approved it"
    settled(world)
    done = world.run()
    assert done.status.phase == "Succeeded", done.status.message
    assert [(e.kind, e.state) for e in done.status.journal] == [
        ("ScaleWorkload", "Done"),
        ("SetOffsets", "Done"),
        ("ScaleWorkload", "Done"),
    ]
    assert world.kafka.writes == ["commit billing [('orders-0', 21)]"]
    assert replicas(world) == 2


def test_offsets_wait_until_the_last_member_has_left(world):
    stopped(world)
    controllers(world, members=1)  # killed hard: its session lasts
    for _ in range(3):
        world.step()
    assert world.kafka.writes == []
    assert "billing has a member until its session times out" in world.run().status.message
    assert world.run().metadata.finalizers == ("kafkamedic.dev/restore",), "not deleted before they are started"
    settled(world)
    assert world.run().metadata.finalizers == ()
    assert world.kafka.writes == ["commit billing [('orders-0', 21)]"]


def test_a_foreign_member_ends_the_run(world):
    """The group has a member that is not of the workload. The run ends, and the consumers are started."""
    stopped(world)
    for _ in range(20):
        if world.finished():
            break
        controllers(world, members=1)
        world.step(60)
    assert world.run().status.phase == "Failed", world.run().status.message
    assert "stop-consumers did not reach its goal within 5m" in world.run().status.message
    assert replicas(world) == 2
    assert world.kafka.writes == []


def rejected(world: World) -> None:
    world.approve(world.run(), decision="Reject")


def deleted(world: World) -> None:
    world.api.delete(f"/apis/kafkamedic.dev/v1alpha1/namespaces/ns/remediations/{world.run().name}")


def moved_on(world: World) -> None:
    """Its last words were another offset."""
    world.kafka.committed["billing"][ORDERS] = 33


def changed_playbook(world: World) -> None:
    path = "/apis/kafkamedic.dev/v1alpha1/playbooks/reset-offsets-of-workload"
    world.api.touch(path)["spec"]["description"] = "another"


@pytest.mark.parametrize("end", [rejected, deleted, moved_on, changed_playbook])
def test_consumers_start_again_at_any_end(world, end):
    stopped(world)
    controllers(world, members=1)
    end(world)
    for _ in range(15):
        world.step(60)
        controllers(world)
        if all(r.status.phase in TERMINAL_PHASES for r in world.runs()):
            break
    assert replicas(world) == 2
    assert world.kafka.writes == []
    assert [r.status.phase for r in world.runs()] in (["Aborted"], ["Superseded"], [])


def scaled(world: World) -> None:
    world.api.touch(SCALE)["spec"]["replicas"] = 3


def replaced(world: World) -> None:
    world.api.touch(SCALE)["metadata"]["uid"] = "another"


@pytest.mark.parametrize("change", [scaled, replaced])
def test_another_workload_than_planned_is_not_stopped(world, change):
    run = world.until_phase("AwaitingApproval")
    change(world)
    world.approve(run)
    before = replicas(world)
    for _ in range(4):
        world.step()
        assert replicas(world) == before
    assert world.run().status.plan.digest != run.status.plan.digest


@pytest.mark.parametrize("change", [scaled, replaced])
def test_foreign_changes_of_the_workload_stay(world, change):
    stopped(world)
    controllers(world, members=1)
    change(world)
    before = replicas(world)
    world.until_phase("Superseded")
    assert replicas(world) == before
    assert world.kafka.writes == []


def test_a_missing_right_is_reported_before_the_start(world):
    inner = world.api

    class Forbidden:
        def __getattr__(self, name):
            return getattr(inner, name)

        def get(self, path, query=None):
            if path == SCALE:
                raise ApiFailure(403, "deployments.apps shop is forbidden")
            return inner.get(path, query)

    world.wrap_api = lambda _: Forbidden()
    world.operator()
    for _ in range(3):
        world.step()
    assert world.run().status.phase == "Planning"
    assert "Deployment shop could not be read" in world.run().status.message


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"groups": "billing"}, "write Deployment/NAME or StatefulSet/NAME"),
        ({"groups": "billing", "workload": "Pod/shop"}, "write Deployment/NAME or StatefulSet/NAME"),
        ({"groups": "billing", "workload": "Deployment/../secrets"}, "write Deployment/NAME or StatefulSet/NAME"),
        ({"workload": "Deployment/shop"}, "name the groups whose consumers are to be stopped"),
    ],
)
def test_a_workload_that_cannot_be_stopped_is_refused(parameters, told):
    world = arrange()
    world.ask("reset-offsets-of-workload", **parameters)
    assert told in world.until_phase("Failed").status.message


@pytest.mark.parametrize("when", only([1], ["before", "after"]))
def test_killed_at_the_commit(world, when):
    world.wrap_kafka = lambda kafka: Interrupted(kafka, ("commit_offsets",), 0, when)
    world.operator()
    assert settled(world) == 1
    assert world.run().status.phase == "Succeeded", world.run().status.message
    assert world.kafka.writes == ["commit billing [('orders-0', 21)]"]
    assert replicas(world) == 2


@thorough
def test_killed_at_any_write_to_the_api_server(world):
    moments = Moments(world, ("create", "replace", "merge"))
    world.wrap_api = lambda _: moments
    settled(world)
    scaled = [n for n, (what, _) in enumerate(moments.kept) if what.startswith("after") and "/scale" in what]
    assert len(scaled) == 2, "down and up"
    before = [n - 1 for n in scaled]
    chosen = {*range(0, len(moments.kept), 6), *before, *scaled} if THOROUGH else {scaled[0], before[1]}
    for told, again in moments.worlds(sorted(chosen)):
        settled(again)
        assert again.run().status.phase == "Succeeded", f"{told}: {again.run().status.message}"
        assert replicas(again) == 2, told
        assert again.kafka.writes == ["commit billing [('orders-0', 21)]"], told
