"""Runs in a cluster that is too large for everybody's whole view, through the operator's own reconciles."""

from __future__ import annotations

import pytest

from kafka_medic.observe import view_reads
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BROKERS, NO_ELECTIONS, World

TOPICS = 6


class Counted(SimKafka):
    """How many whole views were read."""

    whole = 0

    def views(self, brokers):
        self.whole += len(brokers)
        return super().views(brokers)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    for name, rows in (("ROWS_AT_MOST", 0), ("SLICE_ROWS", TOPICS), ("ACTING_SLICE_ROWS", TOPICS), ("FEWEST", 1)):
        monkeypatch.setattr(view_reads, name, rows)
    kafka = Counted(racks=dict.fromkeys(range(TOPICS)))
    for n in range(TOPICS):
        kafka.topic(f"t{n}", [n, (n + 1) % TOPICS, (n + 2) % TOPICS])
    world = World(kafka)
    limits = {"limits": {"cooldown": "0s"}, **NO_ELECTIONS}
    world.install(brokers=BROKERS, remediation=limits, probes={"fullViews": 1})
    world.with_pods()
    world.ask("rolling-restart", brokers="2,3")
    return world


def test_a_roll_needs_no_whole_view_of_every_broker(world):
    world.approve(world.until_phase("AwaitingApproval"))
    world.to_the_end(reconciles=250)
    assert world.run().status.phase == "Succeeded", world.run().status.message
    assert world.pods.restarts == [2, 3]


def test_nothing_is_sent_while_a_broker_was_not_read(world, monkeypatch):
    monkeypatch.setattr(view_reads, "topics_needed", lambda *_: {})
    world.approve(world.until_phase("AwaitingApproval"))
    for _ in range(20):
        world.step(15.0)
    assert world.pods.restarts == []
    monkeypatch.undo()
    for name, rows in (("ROWS_AT_MOST", 0), ("FEWEST", 1)):
        monkeypatch.setattr(view_reads, name, rows)
    world.to_the_end(reconciles=250)
    assert world.run().status.phase == "Succeeded", world.run().status.message
