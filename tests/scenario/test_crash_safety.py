"""kill -9 at every write of a run: before it, after it but before anybody knew, and after it was seen.

However often the operator dies, the run ends as an undisturbed one does, and no effect is done twice that matters.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.deaths import Interrupted, Moments
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BROKERS, World, factor_one_cluster
from tests.thorough import THOROUGH, only, thorough

EVERY = 1 if THOROUGH else 72
"""`make simulate` dies at every moment, `make check` at some."""
WRITES = ("alter_reassignments", "alter_configs")


def end_state(kafka: SimKafka) -> Any:
    return {tp: sorted(p.replicas) for tp, p in kafka.partitions.items()}, kafka.dynamic


def fresh() -> World:
    world = World(factor_one_cluster())
    world.kafka.copies_per_tick = 3
    world.install()
    return world


@pytest.fixture(scope="module")
def undisturbed() -> World:
    world = fresh()
    world.to_the_end()
    assert world.run().status.phase == "Succeeded"
    return world


def same_end(world: World, undisturbed: World) -> None:
    assert world.run().status.phase == "Succeeded"
    assert end_state(world.kafka) == end_state(undisturbed.kafka)
    assert not any("throttled" in key[2] for key in world.kafka.dynamic)
    assert [e.id for e in world.run().status.journal] == [e.id for e in undisturbed.run().status.journal]
    assert all(e.state == "Done" for e in world.run().status.journal)


DEATHS = [(nth, when) for nth in range(4) for when in ("before", "after")]


@pytest.mark.parametrize(("nth", "when"), only([3], DEATHS))
def test_killed_at_a_write_to_kafka(nth: int, when: str, undisturbed: World) -> None:
    world = fresh()
    world.wrap_kafka = lambda kafka: Interrupted(kafka, WRITES, nth, when)
    world.operator()
    assert world.to_the_end() == 1
    same_end(world, undisturbed)


def test_the_matrix_covers_every_write(undisturbed: World) -> None:
    assert len(undisturbed.kafka.writes) == 4


@thorough
def test_killed_at_any_write_to_the_api_server(undisturbed: World) -> None:
    whole = fresh()
    moments = Moments(whole)
    whole.wrap_api = lambda _: moments
    whole.to_the_end()
    same_end(whole, undisturbed)
    assert moments.writes > 100
    for told, world in moments.worlds(range(0, len(moments.kept), EVERY)):
        world.to_the_end()
        try:
            same_end(world, undisturbed)
        except AssertionError as problem:
            raise AssertionError(f"{told}: {problem}") from problem


def drain() -> World:
    kafka = SimKafka()
    kafka.topic("orders", [1, 2, 0], [1, 0, 2], [0, 1, 2])
    return asked(kafka, "drain-broker", brokers="1", batchSize="1")


def election() -> World:
    kafka = SimKafka()
    kafka.topic("orders", *([[1, 2, 0]] * 3))
    kafka.stop(1)
    kafka.start(1)
    for _ in range(10):
        kafka.tick()
    return asked(kafka, "elect-preferred-leaders", batchSize="1")


def asked(kafka: SimKafka, playbook: str, **parameters: str) -> World:
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS)
    world.with_pods()
    world.ask(playbook, **parameters)
    return world


LEADERS = {drain: [2, 0, 0], election: [1, 1, 1]}


@pytest.mark.parametrize("when", only([1], ["before", "after"]))
@pytest.mark.parametrize("nth", only([11], range(0, 80, 3)))
@pytest.mark.parametrize("story", only([1], [drain, election]))
def test_killed_at_an_api_write_of_a_drain_or_an_election(story: Any, nth: int, when: str) -> None:
    """The operator dies at a write to the API server during a drain or an election."""
    world = story()
    world.wrap_api = lambda api: Interrupted(api, ("create", "replace"), nth, when)
    world.operator()
    assert world.to_the_end() == 1
    assert world.runs()[0].status.phase == "Succeeded", "whatever it proposes meanwhile is for nothing"
    assert [p.leader for _, p in sorted(world.kafka.partitions.items())] == LEADERS[story]
    sent = [w.partition(" ")[0] for w in world.kafka.writes]
    assert sent == ["reassign", "elect", "elect"] if story is drain else ["elect", "elect"], "each effect once"


def test_two_operators_never_both_write() -> None:
    world = fresh()
    first, second = world.operator("one"), world.operator("two")
    for reconciler in [first, second] * 10:
        world.reconciler = reconciler
        world.step(4.0)
    holders = world.api.get("/apis/coordination.k8s.io/v1/namespaces/ns/leases/kafka-medic-c")["spec"]
    assert holders["holderIdentity"] == "one"
    run = world.run()
    world.approve(run)
    world.reconciler = second
    for _ in range(5):
        world.step(1.0)
    assert world.kafka.writes == []
