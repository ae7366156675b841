"""Offsets set while the operator dies (kill -9) at every write: each group once, and the way back stays."""

from __future__ import annotations

from itertools import product

import pytest

from kafka_medic.cluster.groups import Committed
from kafka_medic.resources.remediation_plan import OffsetChanges
from tests.scenario.offset_worlds import ORDERS, PAYMENTS, asked_for, commit, committed
from tests.simulation.deaths import Interrupted, Moments
from tests.simulation.world import World
from tests.thorough import only, thorough


@pytest.fixture
def world() -> World:
    return asked_for()


def two_groups(world: World) -> World:
    commit(world.kafka, "billing", {PAYMENTS: Committed(60, 2)})
    commit(world.kafka, "audit", {ORDERS: Committed(90, 1, "a")})
    return world


@pytest.mark.parametrize(("nth", "when"), only([1], product(range(2), ["before", "after"])))
def test_killed_at_a_commit(world, nth, when):
    two_groups(world)
    world.wrap_kafka = lambda kafka: Interrupted(kafka, ("commit_offsets",), nth, when)
    world.operator()
    assert world.to_the_end() == 1
    run = world.run()
    assert run.status.phase == "Succeeded", run.status.message
    wanted = ["commit audit [('orders-0', 21)]", "commit billing [('orders-0', 21), ('payments-0', 21)]"]
    assert world.kafka.writes == wanted, "each once"
    assert {(c.group, c.topic): c.before for c in run.status.plan.part(OffsetChanges).offsets} == {
        ("audit", "orders"): 90,
        ("billing", "orders"): 32,
        ("billing", "payments"): 60,
    }
    assert all(e.state == "Done" for e in run.status.journal)


@pytest.mark.parametrize("when", only([1], ["before", "after"]))
def test_killed_at_the_commit_of_an_undo(world, when):
    before = committed(world)
    world.to_the_end()
    first = world.run()
    world.ask("undo-offset-reset", remediation=first.name)
    world.wrap_kafka = lambda kafka: Interrupted(kafka, ("commit_offsets",), 0, when)
    world.operator()
    assert world.to_the_end() == 1
    assert [r.status.phase for r in world.runs()] == ["Succeeded", "Succeeded"]
    assert committed(world) == before
    assert len(world.kafka.writes) == 2


def test_an_undo_of_half_a_run_undoes_that_half(world):
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
    assert [(c.group, c.after, c.after_metadata) for c in undo.status.plan.part(OffsetChanges).offsets] == [
        ("audit", 90, "a")
    ]


@thorough
def test_killed_at_any_write_to_the_api_server(world):
    two_groups(world)
    moments = Moments(world)
    world.wrap_api = lambda _: moments
    world.until_phase("AwaitingApproval")
    moments.kept.clear()
    world.to_the_end()
    end = committed(world)
    assert len(moments.kept) > 20
    for told, again in moments.worlds(range(0, len(moments.kept), 12)):
        again.to_the_end()
        assert again.run().status.phase == "Succeeded", told
        assert committed(again) == end, told
        assert len(again.kafka.writes) == 2, told
