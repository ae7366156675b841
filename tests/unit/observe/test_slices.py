"""Of a cluster that is too large for everybody's whole view, each broker is asked about what counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.cluster.agreement import agreement
from kafka_medic.cluster.concern import NOTHING, Concern
from kafka_medic.cluster.document import from_document, to_document
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.guard.context import RestartContext
from kafka_medic.guard.covered import uncovered
from kafka_medic.guard.fit import fit_to_receive
from kafka_medic.guard.restart import judge_restart
from kafka_medic.guard.verdict import Verdict
from kafka_medic.observe import view_reads
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from kafka_medic.observe.view_reads import ViewRotation
from tests.simulation.kafka import SimKafka

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BROKERS = 12
TOPICS = 24
RESTART_OF_1 = Concern(frozenset({1}))


class Asked(SimKafka):
    """Who was asked for a whole view, and who about which topics. `meanwhile` happens once, behind the next whole
    views."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.whole: list[int] = []
        self.about: dict[int, set[str]] = {}
        self.meanwhile: Any = None

    def views(self, brokers: Any) -> Any:
        self.whole += brokers
        answers = super().views(brokers)
        happens, self.meanwhile = self.meanwhile, None
        if happens:
            happens()
        return answers

    def slices(self, topics: Any) -> Any:
        for broker, names in topics.items():
            self.about.setdefault(broker, set()).update(names)
        return super().slices(topics)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Topic t<n> lies on brokers n, n+1 and n+2, in a circle."""
    monkeypatch.setattr(view_reads, "ROWS_AT_MOST", 5 * BROKERS)
    monkeypatch.setattr(view_reads, "ACTING_SLICE_ROWS", 4 * BROKERS)
    kafka = Asked(racks=dict.fromkeys(range(BROKERS)))
    for n in range(TOPICS):
        kafka.topic(f"t{n:02}", [n % BROKERS, (n + 1) % BROKERS, (n + 2) % BROKERS])
    return kafka


@pytest.fixture
def rotation() -> ViewRotation:
    return ViewRotation(full=3)


def look(kafka: Asked, rotation: ViewRotation, concern: Concern | None = None) -> Snapshot:
    """`concern`: somebody is about to act on it."""
    kafka.whole, kafka.about = [], {}
    rotation.everything, rotation.concern = concern is not None, concern or NOTHING
    return observe_cluster("c", ClusterReaders(kafka), lambda: NOW, rotation)


def heard_of_all(kafka: Asked, rotation: ViewRotation) -> None:
    """Everybody has had its turn since the operator was started."""
    for _ in range(BROKERS):
        look(kafka, rotation)
    assert rotation.heard == set(range(BROKERS))


def views_agree(snapshot: Snapshot, broker: int) -> Verdict:
    reasons = judge_restart(snapshot, broker, NOW, context=RestartContext(outside_kubernetes=True)).reasons
    return next(r.verdict for r in reasons if r.guard == "ViewsAgree")


def goes_deaf(kafka: Asked, broker: int) -> None:
    kafka.stale[broker] = kafka.view()


def test_before_a_restart_each_broker_is_asked_about_what_it_shares_with_the_target(kafka, rotation):
    heard_of_all(kafka, rotation)
    snapshot = look(kafka, rotation, RESTART_OF_1)
    assert len(kafka.whole) <= 3
    assert 1 in kafka.whole
    assert kafka.about[3] >= {"t01", "t13"}
    assert "t02" not in kafka.about[3] | kafka.about[4], "nothing of broker 1"
    assert views_agree(snapshot, 1) is Verdict.ALLOW
    assert uncovered(snapshot, RESTART_OF_1) is None
    assert agreement(snapshot).witnessed


def test_without_it_nobody_may_act_on_that(kafka, rotation):
    heard_of_all(kafka, rotation)
    snapshot = look(kafka, rotation, NOTHING)
    assert (uncovered(snapshot, Concern(frozenset({9}))) or "").startswith("broker")
    assert "topic t05 was not read" in (uncovered(snapshot, Concern(partitions={TopicPartition("t05", 0): ()})) or "")
    assert uncovered(snapshot, NOTHING) is None


def test_a_stale_view_on_what_the_target_has_is_named_and_read_as_a_whole(kafka, rotation):
    heard_of_all(kafka, rotation)
    goes_deaf(kafka, 3)
    kafka.partitions[TopicPartition("t01", 0)].elect(2)
    kafka.partitions[TopicPartition("t03", 0)].elect(4)
    snapshot = look(kafka, rotation, RESTART_OF_1)
    (stale,) = agreement(snapshot).disagreements.values()
    assert stale.broker == 3
    assert 3 in kafka.whole
    assert {row["topic"] for row in stale.beliefs.to_pylist()} == {"t01", "t03"}, "all that it does not know"
    assert views_agree(snapshot, 1) is Verdict.DENY


def test_whoever_hears_of_nothing_contradicts_what_changed_last(kafka, rotation):
    """Also where that is long ago, and of a topic that nobody asks it about for any other reason."""
    heard_of_all(kafka, rotation)
    goes_deaf(kafka, 9)
    kafka.partitions[TopicPartition("t01", 0)].elect(2)
    assert set(agreement(look(kafka, rotation)).disagreements) == {9}, "in the very observation"
    for _ in range(10):
        snapshot = look(kafka, rotation)
    assert set(agreement(snapshot).disagreements) == {9}
    preferred = {TopicPartition("t09", 0): (9,)}
    told = look(kafka, rotation, Concern(partitions=preferred))
    assert fit_to_receive(told, {9}, list(preferred))[0].verdict is Verdict.DENY


def test_whoever_has_not_shown_that_it_hears_gives_its_whole_view_before_it_receives_anything(kafka, rotation):
    """A process that was just started knows of no change that a deaf broker would contradict."""
    goes_deaf(kafka, 9)
    kafka.partitions[TopicPartition("t01", 0)].elect(2)
    receives = Concern(partitions={TopicPartition("t08", 0): (9,)})
    snapshot = look(kafka, rotation, receives)
    assert 9 in kafka.whole
    assert set(agreement(snapshot).disagreements) == {9}


def test_where_time_does_not_allow_that_it_is_unknown_and_it_goes_on_the_next_time(kafka, monkeypatch):
    monkeypatch.setattr(view_reads, "FORGOTTEN_SECONDS", 1e9)
    clock = iter(n * view_reads.ACTING_BUDGET_SECONDS for n in range(1000))
    rotation = ViewRotation(full=3, monotonic=lambda: next(clock))
    everybody = Concern(partitions={TopicPartition(f"t{n:02}", 0): () for n in range(TOPICS)})
    first = look(kafka, rotation, everybody)
    silent = {v.broker for v in first.views or () if v.leaders is None}
    assert silent
    assert fit_to_receive(first, {min(silent)})[0].verdict is Verdict.UNKNOWN
    for _ in range(4):
        last = look(kafka, rotation, everybody)
    assert all(v.leaders is not None for v in last.views or ())
    assert uncovered(last, everybody) is None


def test_what_changes_while_it_is_read_makes_nobody_stale(kafka, rotation):
    heard_of_all(kafka, rotation)
    kafka.meanwhile = lambda: kafka.partitions[TopicPartition("t01", 0)].elect(2)
    snapshot = look(kafka, rotation, RESTART_OF_1)
    assert agreement(snapshot).disagreements == {}
    assert next(snapshot.rows({TopicPartition("t01", 0)})).leader == 2
    assert views_agree(snapshot, 1) is Verdict.ALLOW


def test_a_topic_that_was_made_and_one_that_was_deleted_count_as_changed(kafka, rotation):
    heard_of_all(kafka, rotation)
    goes_deaf(kafka, 7)
    kafka.topic("new", [0, 1, 2])
    kafka.delete("t05")
    found = agreement(look(kafka, rotation)).disagreements
    assert {(row["topic"], row["kind"]) for row in found[7].beliefs.to_pylist()} == {
        ("new", "missing"),
        ("t05", "gone"),
    }


def test_who_does_not_answer_is_unknown_and_has_to_show_again_that_it_hears(kafka, rotation):
    heard_of_all(kafka, rotation)
    kafka.deaf.add(5)  # gives no answer
    snapshot = look(kafka, rotation, Concern(partitions={TopicPartition("t05", 0): (5,)}))
    assert next(v for v in snapshot.views or () if v.broker == 5).members is None
    assert 5 not in rotation.heard


def test_many_that_share_too_much_of_what_changed_give_their_whole_views(kafka, rotation, monkeypatch):
    heard_of_all(kafka, rotation)
    monkeypatch.setattr(view_reads, "SLICE_ROWS", BROKERS)
    for n in (0, 1, 2):  # all three of which broker 2 has
        kafka.partitions[TopicPartition(f"t{n:02}", 0)].bump()
    rotation.last = 5
    look(kafka, rotation)
    assert 2 in kafka.whole
    assert all(len(topics) <= 2 for topics in kafka.about.values()), "one of its own and the last one at most"


def test_the_document_keeps_what_each_broker_was_asked(kafka, rotation):
    heard_of_all(kafka, rotation)
    snapshot = look(kafka, rotation, RESTART_OF_1)
    again = from_document(to_document(snapshot))
    assert [v.covers for v in again.views or ()] == [v.covers for v in snapshot.views or ()]
    assert uncovered(again, RESTART_OF_1) is None
    assert uncovered(again, Concern(frozenset({9}))) is not None


def test_a_failed_slice_is_that_brokers_unknown_alone(kafka, rotation, monkeypatch):
    heard_of_all(kafka, rotation)
    usual = kafka.slices
    failed = ReadFailed(FailureKind.UNREACHABLE, "timed out")
    monkeypatch.setattr(kafka, "slices", lambda topics: usual(topics) | ({3: failed} if 3 in topics else {}))
    rotation.last = 5
    snapshot = look(kafka, rotation, RESTART_OF_1)
    silent = {v.broker for v in snapshot.views or () if v.leaders is None}
    assert silent == {3}
    assert [b.id for b in snapshot.brokers or () if b.reachable is False] == [3]


def test_a_stale_one_among_the_whole_views_is_told_by_what_everybody_says(kafka):
    """Three whole views are no majority of twelve."""
    rotation = ViewRotation(full=3, heard=set(range(BROKERS)))
    goes_deaf(kafka, 0)
    kafka.partitions[TopicPartition("t05", 0)].elect(6)
    snapshot = look(kafka, rotation)
    assert set(agreement(snapshot).disagreements) == {0}
    assert agreement(snapshot).undecided == ()
    assert set(kafka.about[9]) == {"t05"}
    assert len(kafka.whole) == 3


def test_an_observation_alone_reads_the_whole_views_of_all(kafka):
    """The command line's, for which no other comes."""
    snapshot = observe_cluster("c", ClusterReaders(kafka), lambda: NOW)
    assert sorted(set(kafka.whole)) == list(range(BROKERS))
    assert all(v.covers is None for v in snapshot.views or ())


def test_trouble_leaves_room_for_the_last_change(kafka, rotation, monkeypatch):
    """Which a broker that hears of nothing contradicts."""
    heard_of_all(kafka, rotation)
    monkeypatch.setattr(view_reads, "SLICE_ROWS", BROKERS)
    goes_deaf(kafka, 9)
    kafka.partitions[TopicPartition("t20", 0)].elect(10)
    for n in (0, 1, 2, 3):
        kafka.partitions[TopicPartition(f"t{n:02}", 0)].isr.pop()
    assert set(agreement(look(kafka, rotation)).disagreements) == {9}
    kafka.partitions[TopicPartition("t21", 0)].bump()
    for _ in range(3):
        found = set(agreement(look(kafka, rotation)).disagreements)
    assert found == {9}


def test_two_that_are_stale_alike_are_not_what_the_others_are_compared_with(kafka, rotation):
    heard_of_all(kafka, rotation)
    for broker in (3, 4):
        goes_deaf(kafka, broker)
    kafka.partitions[TopicPartition("t20", 0)].elect(9)
    for _ in range(4):
        found = look(kafka, rotation)
        assert set(agreement(found).disagreements) == {3, 4}
        assert len(kafka.whole) <= 6
    assert rotation.heard == set(range(BROKERS)) - {3, 4}


def test_after_a_long_time_without_an_observation_nobody_counts_as_hearing(kafka, monkeypatch):
    now = [0.0]
    rotation = ViewRotation(full=3, monotonic=lambda: now[0])
    heard_of_all(kafka, rotation)
    now[0] += view_reads.FORGOTTEN_SECONDS + 1
    receives = Concern(partitions={TopicPartition("t08", 0): (9,)})
    look(kafka, rotation, receives)
    assert 9 in kafka.whole


def test_who_is_to_hold_saved_records_has_shown_that_it_hears(kafka, rotation):
    look(kafka, rotation)
    look(kafka, rotation, Concern(receivers=frozenset({9, 10})))
    assert {9, 10} <= set(kafka.whole)
    rotation.heard.clear()
    look(kafka, rotation, Concern(everybody=True))
    assert set(kafka.whole) == set(range(BROKERS))


def test_another_order_of_topics_is_the_same_view(kafka, rotation, monkeypatch):
    usual = kafka.views

    def other_way_round(brokers: Any) -> Any:
        told = dict(usual(brokers))
        if 5 in told:
            told[5] = replace(told[5], states=told[5].states.take(list(range(TOPICS))[::-1]))
        return told

    monkeypatch.setattr(kafka, "views", other_way_round)
    heard_of_all(kafka, rotation)


def test_a_topic_made_anew_with_the_same_replicas_has_changed_for_its_replicas(kafka, rotation):
    heard_of_all(kafka, rotation)
    kafka.delete("t05")
    kafka.topic("t05", [5, 6, 7])
    look(kafka, rotation)
    assert rotation.lately[0].held[6] == {"t05"}


def test_members_that_one_broker_names_otherwise_do_not_hold_the_turn_up(kafka, rotation, monkeypatch):
    heard_of_all(kafka, rotation)
    usual = kafka.memberships
    odd = lambda told: {b: replace(v, members=(0, 1)) if b == 8 else v for b, v in told.items()}  # noqa: E731
    monkeypatch.setattr(kafka, "memberships", lambda brokers: odd(usual(brokers)))
    seen = set[int]()
    for _ in range(BROKERS):
        look(kafka, rotation)
        seen |= set(kafka.whole)
    assert seen == set(range(BROKERS))


def test_a_word_on_what_differs_is_no_sign_of_hearing(kafka, monkeypatch):
    """Time was up before a receiver gave its whole view. That it is asked once more like everybody changes nothing."""
    monkeypatch.setattr(view_reads, "FORGOTTEN_SECONDS", 1e9)
    monkeypatch.setattr(view_reads, "BATCH", 1)
    clock = iter(n * view_reads.ACTING_BUDGET_SECONDS for n in range(1000))
    rotation = ViewRotation(full=3, heard={0, 1, 2}, monotonic=lambda: next(clock))
    goes_deaf(kafka, 0)
    kafka.partitions[TopicPartition("t05", 0)].elect(6)
    rotation.last = -1
    snapshot = look(kafka, rotation, Concern(receivers=frozenset({9, 10, 11})))
    unknown = {b for b in (9, 10, 11) if b not in kafka.whole}
    assert unknown
    assert {v.broker for v in snapshot.views or () if v.leaders is None} >= unknown
