"""kill -9 at every write of a run: before it, after it but before anybody knew, and after it was seen.

However often the operator dies, the run ends as an undisturbed one does, and no effect is done twice that matters.
"""

from __future__ import annotations

import os
import pickle
from typing import Any

import pytest

from tests.simulation.kafka import SimKafka
from tests.simulation.world import BROKERS, Killed, World, factor_one_cluster

EVERY = 1 if os.environ.get("THOROUGH") else 16
"""`make simulate` dies at every moment, `make check` at some."""
WRITES = ("alter_reassignments", "alter_configs")


class Interrupted:
    """Passes everything on, and dies at the nth write: before it reaches the other side, or right after."""

    def __init__(self, inner: Any, names: tuple[str, ...], fatal: int | None, when: str) -> None:
        self.inner, self.names, self.fatal, self.when, self.count = inner, names, fatal, when, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name not in self.names:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            mine, self.count = self.count, self.count + 1
            if mine == self.fatal and self.when == "before":
                raise Killed
            answer = found(*args, **kwargs)
            if mine == self.fatal and self.when == "after":
                raise Killed
            return answer

        return call


def heal(world: World) -> int:
    """Run to the end, starting a new operator process whenever one dies. Answers how many died."""
    deaths = 0
    for _ in range(80):
        if world.finished():
            return deaths
        try:
            world.step()
        except Killed:
            deaths += 1
            world.wrap_kafka, world.wrap_api = (lambda k: k), (lambda a: a)
            world.operator()
        waiting = [r for r in world.runs() if r.status.phase == "AwaitingApproval" and not r.status.approvals]
        for run in waiting:
            world.approve(run)
    raise AssertionError(f"the run did not end: {world.runs()}")


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
    heal(world)
    assert world.run().status.phase == "Succeeded"
    return world


def same_end(world: World, undisturbed: World) -> None:
    assert world.run().status.phase == "Succeeded"
    assert end_state(world.kafka) == end_state(undisturbed.kafka)
    assert not any("throttled" in key[2] for key in world.kafka.dynamic)
    assert [e.id for e in world.run().status.journal] == [e.id for e in undisturbed.run().status.journal]
    assert all(e.state == "Done" for e in world.run().status.journal)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", range(4))
def test_killed_at_a_write_to_kafka(nth: int, when: str, undisturbed: World) -> None:
    world = fresh()
    world.wrap_kafka = lambda kafka: Interrupted(kafka, WRITES, nth, when)
    world.operator()
    assert heal(world) == 1
    same_end(world, undisturbed)


def test_the_matrix_covers_every_write(undisturbed: World) -> None:
    assert len(undisturbed.kafka.writes) == 4


class Moments:
    """Passes everything on, and keeps the state of Kafka and of the API server right before and right after each write.

    kill -9 leaves exactly that behind, so a new operator over it is a run that was killed there. A moment that leaves
    nothing else behind than the one before it (an access review, an event, the way from one write to the next) is the
    same death, and is kept once.
    """

    def __init__(self, world: World) -> None:
        self.world, self.inner, self.kept, self.writes = world, world.api, [], 0
        self.last: Any = None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name not in ("create", "replace"):
            return found

        def call(path: str, body: Any) -> Any:
            self.writes += 1
            self.keep(f"before {self.writes}, {name} {path}")
            answer = found(path, body)
            self.keep(f"after {self.writes}, {name} {path}")
            return answer

        return call

    def keep(self, what: str) -> None:
        frozen = pickle.dumps((self.world.kafka, self.inner, self.world.now))
        kafka, api, now = pickle.loads(frozen)
        if (kafka, api.objects, now) != self.last:
            self.last = (kafka, api.objects, now)
            self.kept.append((what, frozen))


def test_killed_at_any_write_to_the_api_server(undisturbed: World) -> None:
    whole = fresh()
    moments = Moments(whole)
    whole.wrap_api = lambda _: moments
    heal(whole)
    same_end(whole, undisturbed)
    assert moments.writes > 100
    for what, frozen in moments.kept[::EVERY]:
        kafka, api, now = pickle.loads(frozen)
        world = World(kafka, api=api, now=now)
        heal(world)
        try:
            same_end(world, undisturbed)
        except AssertionError as problem:
            raise AssertionError(f"killed {what}: {problem}") from problem


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


@pytest.mark.parametrize("when", ["before", "after"] if EVERY == 1 else ["after"])
@pytest.mark.parametrize("nth", range(0, 80, 3) if EVERY == 1 else [33])
@pytest.mark.parametrize("story", [drain, election] if EVERY == 1 else [election])
def test_killed_at_a_write_to_the_api_server_in_a_drain_or_an_election(story: Any, nth: int, when: str) -> None:
    world = story()
    world.wrap_api = lambda api: Interrupted(api, ("create", "replace"), nth, when)
    world.operator()
    assert heal(world) == 1
    assert world.runs()[0].status.phase == "Succeeded", "whatever it proposes meanwhile is for nothing"
    assert [p.leader for _, p in sorted(world.kafka.partitions.items())] == LEADERS[story]
    sent = [w.partition(" ")[0] for w in world.kafka.writes]
    assert sent == ["reassign", "elect", "elect"] if story is drain else ["elect", "elect"], "each effect once"


def test_two_operators_never_both_write() -> None:
    world = fresh()
    first, second = world.operator("one"), world.operator("two")
    for turn in [first, second] * 10:
        world.turn = turn
        world.step(4.0)
    holders = world.api.get("/apis/coordination.k8s.io/v1/namespaces/ns/leases/kafka-medic-c")["spec"]
    assert holders["holderIdentity"] == "one"
    run = world.run()
    world.approve(run)
    world.turn = second
    for _ in range(5):
        world.step(1.0)
    assert world.kafka.writes == []
