"""Offsets set while the operator dies (kill -9) at every write: each group once, and the way back stays."""

from __future__ import annotations

import pickle

import pytest

from kafka_medic.cluster.groups import Committed
from tests.simulation.kafka import SimKafka
from tests.simulation.world import Killed, World
from tests.unit.controller.offset_worlds import ORDERS, PAYMENTS, asked_for, commit, committed, healed


@pytest.fixture
def world() -> World:
    return asked_for()


class Mortal:
    """Dies at the nth commit: before it reaches Kafka, or right after."""

    def __init__(self, kafka: SimKafka, fatal: int, when: str) -> None:
        self.kafka, self.fatal, self.when, self.count = kafka, fatal, when, 0

    def __getattr__(self, name):
        return getattr(self.kafka, name)

    def commit_offsets(self, group, offsets):
        mine, self.count = self.count, self.count + 1
        if (mine, self.when) == (self.fatal, "before"):
            raise Killed
        answer = self.kafka.commit_offsets(group, offsets)
        if mine == self.fatal:
            raise Killed
        return answer


def two_groups(world: World) -> World:
    commit(world.kafka, "billing", {PAYMENTS: Committed(60, 2)})
    commit(world.kafka, "audit", {ORDERS: Committed(90, 1, "a")})
    return world


def survived(world: World) -> World:
    for _ in range(60):
        for run in world.runs():
            if run.status.phase == "AwaitingApproval" and not run.status.approvals:
                world.approve(run)
        if world.finished():
            return world
        try:
            world.step()
        except Killed:
            world.wrap_kafka, world.wrap_api = (lambda k: k), (lambda a: a)
            world.operator()
    raise AssertionError([(r.status.phase, r.status.message) for r in world.runs()])


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", range(2))
def test_killed_at_a_commit(world, nth, when):
    two_groups(world)
    world.wrap_kafka = lambda kafka: Mortal(kafka, nth, when)
    world.operator()
    run = survived(world).run()
    assert run.status.phase == "Succeeded", run.status.message
    wanted = ["commit audit [('orders-0', 21)]", "commit billing [('orders-0', 21), ('payments-0', 21)]"]
    assert world.kafka.writes == wanted, "each once"
    assert {(c.group, c.topic): c.before for c in run.status.plan.offsets} == {
        ("audit", "orders"): 90,
        ("billing", "orders"): 32,
        ("billing", "payments"): 60,
    }
    assert all(e.state == "Done" for e in run.status.journal)


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_the_commit_of_an_undo(world, when):
    before = committed(world)
    first = healed(world).run()
    world.ask("undo-offset-reset", remediation=first.name)
    world.wrap_kafka = lambda kafka: Mortal(kafka, 0, when)
    world.operator()
    assert [r.status.phase for r in survived(world).runs()] == ["Succeeded", "Succeeded"]
    assert committed(world) == before
    assert len(world.kafka.writes) == 2


def test_a_run_that_got_half_way_is_undone_as_far_as_it_came(world):
    two_groups(world)
    kafka = world.kafka
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: bool(kafka.writes))
    world.kafka.committed["billing"][ORDERS] = 33  # somebody else, before its turn comes
    world.until_phase("Superseded")
    first = world.runs()[0]
    assert kafka.writes == ["commit audit [('orders-0', 21)]"]
    world.ask("undo-offset-reset", remediation=first.name)
    world.until(lambda: any(r.status.plan for r in world.runs() if r.spec.playbook.name == "undo-offset-reset"))
    (undo,) = [r for r in world.runs() if r.spec.playbook.name == "undo-offset-reset"]
    assert [(c.group, c.after, c.after_metadata) for c in undo.status.plan.offsets] == [("audit", 90, "a")]


class Moments:
    """Keeps the world right before and right after each write to the API server: what a kill -9 leaves behind."""

    def __init__(self, world: World) -> None:
        self.world, self.inner, self.kept = world, world.api, []

    def __getattr__(self, name):
        found = getattr(self.inner, name)
        if name not in ("create", "replace"):
            return found

        def call(path, body):
            self.keep()
            answer = found(path, body)
            self.keep()
            return answer

        return call

    def keep(self) -> None:
        frozen = pickle.dumps((self.world.kafka, self.inner, self.world.now))
        if not self.kept or frozen != self.kept[-1]:
            self.kept.append(frozen)


def test_killed_at_any_write_to_the_api_server(world):
    two_groups(world)
    moments = Moments(world)
    world.wrap_api = lambda _: moments
    world.until_phase("AwaitingApproval")
    moments.kept.clear()
    survived(world)
    end = committed(world)
    assert len(moments.kept) > 20
    for frozen in moments.kept[::12]:
        kafka, api, now = pickle.loads(frozen)
        again = survived(World(kafka, api=api, now=now))
        assert again.run().status.phase == "Succeeded"
        assert committed(again) == end
        assert len(kafka.writes) == 2
