"""Whose min.insync.replicas counts: the topic's own, else the largest that one of the partition's brokers reports."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from kafka_medic.cluster.min_isr import MIN_ISR, UNKNOWN, Minimums, least_to_keep
from kafka_medic.cluster.snapshot import ConfigValue, TopicPartition
from tests.unit.cluster import worlds


def setting(value: str | None, dynamic: bool = False) -> dict[str, ConfigValue]:
    return {MIN_ISR: ConfigValue(value, dynamic)}


BROKERS = {1: setting("2"), 2: setting("1"), 3: setting("1"), 4: setting("many"), 5: {}}
TOPICS = {
    "own": setting("3", True),
    "falls-back": setting("1"),  # which is what the broker that answers has
    "odd": setting("many", True),
    "untold": {},
}
MINIMUMS = Minimums.of_settings(TOPICS, BROKERS)
EXPECTED = {
    ("own", (2, 3)): 3,
    ("own", (2, 9)): 3,
    ("falls-back", (1, 2)): 2,
    ("falls-back", (2, 3)): 1,
    ("falls-back", (2, 4)): None,
    ("falls-back", (2, 5)): None,
    ("falls-back", (2, 9)): None,
    ("falls-back", ()): None,
    ("odd", (2, 3)): None,
    ("untold", (2, 3)): None,
    ("unread", (2, 3)): None,
}


@pytest.mark.parametrize("case", EXPECTED)
def test_the_rule(case):
    assert MINIMUMS.largest(*case) == EXPECTED[case]


@pytest.mark.parametrize("together", [False, True], ids=["in replicas", "half of them being added"])
def test_the_same_rule_over_columns(together):
    topics, brokers = zip(*EXPECTED, strict=True)
    kind = pa.list_(pa.int32())
    replicas = [b[:1] if together else b for b in brokers]
    adding = [b[1:] if together else () for b in brokers]
    columns = [pa.chunked_array([pa.array(column, kind)]) for column in (replicas, adding)]
    found = MINIMUMS.column(pa.chunked_array([pa.array(topics)]), *columns).tolist()
    assert [None if n == UNKNOWN else n for n in found] == list(EXPECTED.values())


def test_a_list_of_replicas_that_is_not_known_leaves_it_unknown_and_one_of_what_is_added_does_not():
    kind = pa.list_(pa.int32())
    topics = pa.chunked_array([pa.array(["falls-back", "falls-back", "own"])])
    known, unknown = pa.array([[2], [1], [2]], kind), pa.array([None, [1], None], kind)
    assert MINIMUMS.column(topics, unknown, known).tolist() == [UNKNOWN, 2, 3]
    assert MINIMUMS.column(topics, known, pa.nulls(3, kind)).tolist() == [1, 2, 3]
    assert Minimums.of_settings({}, {}).column(topics.slice(0, 0), pa.array([], kind)).tolist() == []


def kept(*settings, replicas=(1, 2), away=(), **row):
    """Of one partition that these settings are about."""
    rows = [worlds.partition("t", 0, replicas, **row)]
    snapshot = worlds.healthy(rows=rows, configs=worlds.configs(*settings))
    (found,) = snapshot.rows({TopicPartition("t", 0)})
    return least_to_keep(snapshot, found, away)


SHOWN = ("TOPIC", "t", MIN_ISR, "1", False)
TOLD = [("BROKER", str(b), MIN_ISR, value, False) for b, value in ((1, "2"), (2, "1"), (3, "3"))]


def test_what_was_given_counts_until_the_settings_say_more():
    assert kept(minIsr=1) == 1
    assert kept(SHOWN, minIsr=1) == 1
    assert kept(SHOWN, *TOLD, minIsr=1) == 2
    assert kept(SHOWN, *TOLD, minIsr=3) == 3
    assert kept(("TOPIC", "t", MIN_ISR, "1", True), *TOLD, minIsr=1) == 1
    assert kept(SHOWN, *TOLD, minIsr=1, adding=[3]) == 3


def test_what_was_not_given_is_known_only_from_the_settings_of_everybody_who_stays():
    assert kept(SHOWN, *TOLD, minIsr=None) == 2
    assert kept(SHOWN, TOLD[0], minIsr=None) is None
    assert kept(SHOWN, TOLD[0], minIsr=None, away={2}) == 2, "who is restarted does not answer, and does not lead"
    assert kept(SHOWN, TOLD[1], minIsr=None, away={2}) is None
    assert kept(SHOWN, *TOLD, minIsr=None, away={1}) == 2, "the largest that is known wins"
    assert kept(*TOLD, minIsr=None) is None
    for some in itertools.combinations(TOLD[:2], 1):
        assert kept(SHOWN, *some, minIsr=None) is None
