"""Slices of views, against the same worked out partition by partition."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafka_medic.cluster.accounts import settle
from kafka_medic.cluster.concern import Concern, topics_needed
from kafka_medic.cluster.snapshot import STATES_SCHEMA, TopicPartition
from kafka_medic.observe.slices import Changes, Reference, changes, in_turn, patched, requests

TOPICS = ("a", "b", "c", "d")
BROKERS = range(4)
Row = tuple[int, int, tuple[int, ...], tuple[int, ...], str | None]
"""Leader, leader epoch, replicas, ISR, topic id."""
Account = dict[tuple[str, int], Row]

ids = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True).map(tuple)
rows = st.tuples(st.sampled_from((-1, 0, 1)), st.integers(0, 2), ids, ids)


@st.composite
def accounts(draw: Any) -> Account:
    """Each topic has one id in an account."""
    chosen = draw(st.dictionaries(st.tuples(st.sampled_from(TOPICS), st.integers(0, 2)), rows, max_size=6))
    named = {topic: draw(st.sampled_from(("x", "y"))) for topic in TOPICS}
    return {key: (*row, named[key[0]]) for key, row in chosen.items()}


def table(account: Account) -> pa.Table:
    columns: list[list[Any]] = [[] for _ in STATES_SCHEMA.names]
    for (topic, number), (leader, epoch, replicas, isr, topic_id) in account.items():
        for column, value in zip(columns, (topic, number, leader, epoch, replicas, isr, topic_id), strict=True):
            column.append(value)
    return pa.table(columns, schema=STATES_SCHEMA)


def plain(row: Row) -> Any:
    """The order of an ISR says nothing."""
    return row[0], row[1], row[2], frozenset(row[3]), row[4]


def of(account: Account, topics: Any) -> Account:
    return {key: row for key, row in account.items() if key[0] in topics}


def differing(one: Account, other: Account, topics: Any = TOPICS) -> set[str]:
    def said(account: Account, topic: str) -> Any:
        return {key: plain(row) for key, row in account.items() if key[0] == topic}

    return {topic for topic in topics if said(one, topic) != said(other, topic)}


@given(accounts(), accounts(), st.sets(st.sampled_from(TOPICS)))
def test_a_topic_differs_where_any_of_its_partitions_does(base, other, covers):
    reference = Reference.of(table(base))
    assert reference.differing(table(other)) == differing(base, other)
    assert reference.differing(table(of(other, covers)), covers) == differing(base, other, covers)


@given(accounts(), accounts(), st.sets(st.sampled_from(TOPICS)))
def test_newer_words_take_the_place_of_older_ones(base, other, covers):
    made = patched(table(base), table(of(other, covers)), covers)
    wanted = of(base, set(TOPICS) - covers) | of(other, covers)
    assert not Reference.of(made).differing(table(wanted))


@given(accounts(), accounts())
def test_what_changed_and_who_has_it(before, now):
    found = changes(table(before), table(now))
    assert found.topics == differing(before, now)
    held: dict[int, set[str]] = {}
    for key in before.keys() | now.keys():
        old, new = before.get(key), now.get(key)
        kept = old is not None and new is not None and plain(old) == plain(new)
        for broker in () if kept else (new or old or ((), (), ()))[2]:
            held.setdefault(broker, set()).add(key[0])
    assert found.held == held


@given(st.lists(st.tuples(accounts(), st.none() | st.sets(st.sampled_from(TOPICS))), min_size=2, max_size=4))
def test_on_a_topic_only_those_count_that_were_asked_about_it(told):
    """One topic at a time: as if the others had given no account."""
    views = {broker: table(account) for broker, (account, _) in enumerate(told)}
    covers = {broker: frozenset(parts) for broker, (_, parts) in enumerate(told) if parts is not None}
    found = settle(views, None, len(views), covers=covers).states
    for topic in TOPICS:
        asked_ = {b: table(of(told[b][0], {topic})) for b in views if b not in covers or topic in covers[b]}
        if not asked_:
            continue
        alone = settle(asked_, None, len(views)).states
        mine = found.filter(pa.array([t == topic for t in found["topic"].to_pylist()], pa.bool_()))
        assert mine.to_pylist() == alone.to_pylist()


@given(
    accounts(),
    st.sets(st.sampled_from(BROKERS), max_size=2),
    st.sets(st.tuples(st.sampled_from(TOPICS), st.integers(0, 2))),
)
def test_on_whose_word_an_effect_rests(account, brokers, partitions):
    concern = Concern(frozenset(brokers), {TopicPartition(*key): (3,) for key in partitions})
    wanted: dict[int, set[str]] = {}
    for (topic, number), row in account.items():
        if brokers & set(row[2]) or (topic, number) in partitions:
            for broker in row[2]:
                wanted.setdefault(broker, set()).add(topic)
    for topic, _ in partitions:
        wanted.setdefault(3, set()).add(topic)
    assert topics_needed(table(account), concern) == wanted


@given(
    st.lists(st.dictionaries(st.sampled_from(BROKERS), st.sets(st.sampled_from(TOPICS)), max_size=3), max_size=3),
    st.integers(0, 12),
)
def test_a_slice_has_room_and_always_the_last_change(lately, limit):
    sizes = {"a": 1, "b": 2, "c": 5, "d": 9}
    told = [
        Changes(frozenset().union(*held.values()), {b: frozenset(topics) for b, topics in held.items()})
        for held in lately
        if any(held.values())
    ]
    found = requests(BROKERS, {}, told, sizes, limit)
    for topics in found.topics.values():
        assert not told or set(topics) & told[0].topics
        assert sum(sizes[t] for t in topics) <= limit + max(sizes.values())
    every = sum(sizes[t] for t in frozenset().union(*(each.topics for each in told)))
    if every <= limit:
        assert all(set(topics) == set().union(*(each.topics for each in told)) for topics in found.topics.values())
        assert found.whole == ()


@given(st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1), st.integers(0, 20))
def test_every_topic_has_its_turn(sizes, limit):
    last, seen = "", set()
    for _ in range(len(sizes) + 1):
        turn = in_turn(sizes, last, limit)
        assert len(turn) == 1 or sum(sizes[t] for t in turn) <= limit
        seen |= set(turn)
        last = turn[-1]
    assert {topic for topic, size in sizes.items() if size <= limit} <= seen
