"""Of many brokers a few tell their whole view in each look, in turn; all of them as soon as anything looks odd."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import BrokerView
from kafka_medic.cluster.snapshot import STATES_SCHEMA, Controller, Snapshot, TopicPartition
from kafka_medic.guard.context import RestartContext
from kafka_medic.guard.restart import judge_restart
from kafka_medic.guard.verdict import Verdict
from kafka_medic.observe import view_reads
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from kafka_medic.observe.view_reads import BATCH, BUDGET_SECONDS, ViewRotation, decided
from tests.simulation.kafka import SimKafka
from tests.unit.observe.test_snapshot import Ensemble

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BROKERS = 12
TP = TopicPartition("orders", 0)


class Counted(SimKafka):
    """Which brokers told their whole view; single answers can be replaced."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.whole: list[int] = []
        self.cheap: list[int] = []
        self.instead: dict[int, Any] = {}

    def views(self, brokers: Any) -> Any:
        self.whole += brokers
        return super().views(brokers) | {b: a for b, a in self.instead.items() if b in brokers}

    def memberships(self, brokers: Any) -> Any:
        self.cheap += brokers
        answers = {b: BrokerView(b, tuple(sorted(self.up)), 3) for b in brokers}
        for b in self.instead.keys() & answers.keys():
            answer = self.instead[b]
            answers[b] = answer if isinstance(answer, ReadFailed) else replace(answer, states=None)
        return answers


@pytest.fixture
def kafka() -> Counted:
    kafka = Counted(racks=dict.fromkeys(range(BROKERS)))
    kafka.topic("orders", [1, 0, 2], [2, 1, 0])
    return kafka


def look(kafka: Counted, rotation: ViewRotation, zookeeper: Any = None) -> Snapshot:
    kafka.whole, kafka.cheap = [], []
    return observe_cluster("c", ClusterReaders(kafka, zookeeper), lambda: NOW, rotation)


def some_time_after_its_start(**how: Any) -> ViewRotation:
    """Everybody has shown that it hears of changes."""
    return ViewRotation(heard=set(range(BROKERS)), **how)


def test_right_after_its_start_everybody_tells_its_whole_view_as_far_as_the_network_allows(kafka, monkeypatch):
    rotation = ViewRotation(full=2)
    look(kafka, rotation)
    assert kafka.whole == [0, 1]
    look(kafka, rotation)
    assert kafka.whole == list(range(BROKERS)), "two that have, beside those that have not"
    look(kafka, rotation)
    assert len(kafka.whole) == 2
    monkeypatch.setattr(view_reads, "ROWS_AT_MOST", 10)
    slower = ViewRotation(full=2)
    for brokers in (2, 5, 5, 5, 3, 2):
        look(kafka, slower)
        assert len(kafka.whole) == brokers


def test_of_a_larger_cluster_fewer_tell_it_but_three_at_least(kafka, monkeypatch):
    rotation = some_time_after_its_start()
    look(kafka, rotation)
    for rows, brokers in ((10, 5), (8, 4), (6, 3), (1, 3)):
        monkeypatch.setattr(view_reads, "FULL_ROWS", rows)
        look(kafka, rotation)
        assert len(kafka.whole) == brokers
    look(kafka, some_time_after_its_start(full=1))
    assert len(kafka.whole) == 1, "as somebody wants it"


def whole(snapshot: Snapshot) -> list[int]:
    return [v.broker for v in snapshot.views or () if v.leaders is not None]


def test_everybody_says_who_is_a_member_and_a_few_in_turn_the_rest(kafka):
    rotation = some_time_after_its_start(full=5)
    asked = []
    for _ in range(4):
        snapshot = look(kafka, rotation)
        assert sorted(kafka.cheap + kafka.whole) == list(range(BROKERS)), "everybody once"
        assert len(whole(snapshot)) == 5
        assert whole(snapshot) == sorted(kafka.whole)
        asked += kafka.whole
        assert all(v.members == tuple(range(BROKERS)) and v.observed_at == NOW for v in snapshot.views or ())
        assert all(b.reachable for b in snapshot.brokers or ())
    assert asked[:12] == list(range(BROKERS)), "within three looks everybody has had a turn"


def test_a_small_cluster_tells_everything_at_once(kafka):
    small = Counted(racks=dict.fromkeys(range(5)))
    small.topic("orders", [1, 0, 2])
    assert whole(look(small, ViewRotation(full=5))) == [0, 1, 2, 3, 4]
    assert small.cheap == []
    assert whole(look(kafka, ViewRotation(everything=True))) == list(range(BROKERS))


def test_the_controller_tells_its_whole_view_each_time(kafka):
    ensemble = Ensemble(brokers=tuple(range(BROKERS)), controller=Controller(3, 7))
    kafka.instead = {b: replace(kafka.views([b])[b], controller=3) for b in range(BROKERS)}
    rotation = some_time_after_its_start(full=3)
    for _ in range(4):
        found = whole(look(kafka, rotation, ensemble))
        assert len(found) == 3
        assert 3 in found


def odd_membership(kafka: Counted) -> None:
    kafka.instead = {11: BrokerView(11, (0, 1, 2), 3, kafka.views([11])[11].states)}  # type: ignore[union-attr]


def unreachable(kafka: Counted) -> None:
    kafka.instead = {11: ReadFailed(FailureKind.UNREACHABLE, "timed out")}


def under_replicated(kafka: Counted) -> None:
    kafka.partitions[TP].isr = [1]


def leaderless(kafka: Counted) -> None:
    kafka.partitions[TP].leader = -1


def other_epoch(kafka: Counted) -> None:
    whole_view = kafka.views([1])[1]
    assert isinstance(whole_view, BrokerView)
    rows = [replace(p, leader_epoch=9) for p in whole_view.partitions]
    kafka.instead = {1: BrokerView.of(1, whole_view.members, 3, rows)}


@pytest.mark.parametrize("trouble", [odd_membership, unreachable, under_replicated, leaderless, other_epoch])
def test_anything_odd_and_all_are_asked_in_this_very_look(kafka, trouble):
    trouble(kafka)
    snapshot = look(kafka, ViewRotation(full=5))
    able = {b.id for b in snapshot.brokers or () if b.reachable}
    assert set(whole(snapshot)) == able
    assert len(able) >= BROKERS - 1


def test_a_controller_that_somebody_takes_for_another_is_odd(kafka):
    ensemble = Ensemble(brokers=tuple(range(BROKERS)), controller=Controller(4, 7))
    assert len(whole(look(kafka, ViewRotation(full=5), ensemble))) == BROKERS


def test_what_takes_too_long_is_left_for_the_next_look_and_nobody_is_left_out_for_ever(kafka):
    under_replicated(kafka)
    clock = iter(n * BUDGET_SECONDS for n in range(1000))
    rotation = ViewRotation(full=2, monotonic=lambda: next(clock))
    first = look(kafka, rotation)
    told = set(whole(first))
    assert len(told) == 2 + 2 * BATCH - BATCH, "one batch, and the time was up"
    for _ in range(2):
        told |= set(whole(look(kafka, rotation)))
    assert told == set(range(BROKERS))


def test_who_was_not_asked_is_unknown_to_a_guard_that_needs_every_view(kafka):
    snapshot = look(kafka, ViewRotation(full=5))
    context = RestartContext(outside_kubernetes=True)
    reasons = {r.guard: r for r in judge_restart(snapshot, 1, NOW, context=context).reasons}
    assert reasons["ViewsAgree"].verdict is Verdict.UNKNOWN
    complete = look(kafka, ViewRotation(full=5, everything=True))
    reasons = {r.guard: r for r in judge_restart(complete, 1, NOW, context=context).reasons}
    assert reasons["ViewsAgree"].verdict is Verdict.ALLOW


def test_equal_views_cost_memory_once(kafka):
    snapshot = look(kafka, ViewRotation(everything=True))
    assert len({id(v.leaders) for v in snapshot.views or ()}) == 1


def test_what_has_not_changed_is_held_once_from_look_to_look(kafka):
    rotation = ViewRotation(everything=True)
    look(kafka, rotation)
    (first,) = rotation.tables
    look(kafka, rotation)
    assert rotation.tables[0] is first
    kafka.partitions[TP].elect(2)
    snapshot = look(kafka, rotation)
    assert rotation.tables[0] is not first
    assert next(snapshot.rows({TP})).leader == 2


def test_who_tells_what_everybody_tells_is_still_not_believed_who_the_members_are(kafka):
    rotation = ViewRotation(everything=True)
    look(kafka, rotation)
    kafka.instead = {4: replace(kafka.views([4])[4], members=(4, 4))}
    snapshot = look(kafka, rotation)
    source = snapshot.source("view-4")
    assert source is not None
    assert "the members that broker 4 names" in (source.error or "")
    assert 4 not in whole(snapshot)


def account(*rows: tuple[str, int, int | None]) -> pa.Table:
    """Of partitions 0: topic, leader, epoch."""
    words = [
        {"topic": t, "partition": 0, "leader": leader, "leaderEpoch": epoch, "replicas": [0, 1], "isr": [0, 1]}
        for t, leader, epoch in rows
    ]
    return pa.Table.from_pylist(words, schema=STATES_SCHEMA)


def decide(rotation: ViewRotation, *accounts: pa.Table) -> pa.Table:
    views = {b: BrokerView(b, (0, 1, 2), 0, states) for b, states in enumerate(accounts)}
    found = decided(views, 0, frozenset(views), rotation)
    assert found is not None
    return found


def test_an_account_that_stands_for_the_cluster_is_in_its_order():
    rotation, told = ViewRotation(), account(("orders", 1, 4), ("events", 0, 3))
    states = decide(rotation, told, told)
    assert states["topic"].to_pylist() == ["events", "orders"]
    assert rotation.as_decided(told) is states
    assert decide(rotation, told, told) is states


def test_an_account_that_differs_from_what_is_decided_stays_as_it_was_told():
    rotation, told = ViewRotation(), account(("orders", 1, 4), ("events", 0, 3))
    behind = account(("orders", 0, 3), ("events", 0, 3))
    decide(rotation, told, told)
    assert rotation.as_decided(behind) is behind
    decide(rotation, told, told, behind)
    assert [rotation.as_decided(one) for one in (told, behind)] == [told, behind]
    doubtful = account(("orders", 1, None), ("events", 0, 3))
    states = decide(rotation, doubtful)
    assert rotation.as_decided(doubtful).sort_by("topic").equals(doubtful.sort_by("topic")), states


def test_a_larger_account_is_not_compared(monkeypatch):
    monkeypatch.setattr(view_reads, "MAX_COMPARED", 1)
    rotation, told = ViewRotation(), account(("orders", 1, 4), ("events", 0, 3))
    decide(rotation, told, told)
    assert rotation.as_decided(told) is told
