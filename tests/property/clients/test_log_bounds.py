"""Log bounds by columns are those of one partition after the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from kafka import errors

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kafka_log_bounds import bounds, by_leader
from kafka_medic.clients.kafka_log_ends import log_ends
from kafka_medic.clients.log_columns import OFFSETS_SCHEMA
from kafka_medic.clients.tables import BOUNDS_SCHEMA, LED_SCHEMA, table_of
from kafka_medic.cluster.snapshot import TopicPartition
from tests.simulation.log_bounds import bounds_of, led_table

tps = st.builds(TopicPartition, st.sampled_from(["orders", "events", "a-b", "z"]), st.integers(0, 4))
STORAGE = errors.KafkaStorageError.errno
codes = st.sampled_from([0, 0, 0, 0, 6, 3, 74, 75, 78, STORAGE, 9999, -1])
answers = st.lists(st.tuples(tps, codes, st.integers(-1, 5)), max_size=12)


def told(answer: Any) -> Any:
    """As kafka-python decodes it."""

    def topic(tp: TopicPartition, code: int, offset: int) -> Any:
        part = SimpleNamespace(partition_index=tp.partition, error_code=code, offset=offset)
        return SimpleNamespace(name=tp.topic, partitions=[part])

    return SimpleNamespace(topics=[topic(*row) for row in answer])


def one_by_one(asked: Any, starts: Any, ends: Any, unread: Any = ()) -> dict[TopicPartition, Any]:
    """By `log_ends`, of what a dict has of each answer. `unread`: whose start is not to be read."""
    found: dict[TopicPartition, Any] = {}
    begun, ended = log_ends(told(starts)), log_ends(told(ends))
    for tp in asked:
        start, end = begun.get(tp), ended.get(tp)
        if tp in unread and end is not None:
            found[tp] = end.message if isinstance(end, ReadFailed) else (None, end)
        elif tp in unread:
            continue
        elif isinstance(start, ReadFailed):
            found[tp] = start.message
        elif start is not None and end is not None:
            found[tp] = end.message if isinstance(end, ReadFailed) else (start, end)
    return found


def table(answer: Any) -> pa.Table:
    return table_of([(*tp, code, offset) for tp, code, offset in answer], OFFSETS_SCHEMA)


@given(st.lists(tps, unique=True, max_size=12), answers, answers, st.booleans(), st.sets(tps))
def test_bounds_are_those_of_one_partition_after_the_other(
    asked: list[TopicPartition], starts: Any, ends: Any, usual: bool, unread: set[TopicPartition]
) -> None:
    """`usual`: both answers have what was requested, in that order."""
    starts = [row for row in starts if row[0] not in unread]
    if usual:
        begun = [tp for tp in asked if tp not in unread]
        starts = [(tp, code, offset) for tp, (_, code, offset) in zip(begun, starts, strict=False)]
        ends = [(tp, code, offset) for tp, (_, code, offset) in zip(asked, ends, strict=False)]
    wanted = pa.array([tp not in unread for tp in asked], pa.bool_())
    led = led_table(dict.fromkeys(asked, 1))
    found = bounds(led.set_column(4, LED_SCHEMA.field("start"), wanted), table(starts), table(ends))
    assert found.schema == BOUNDS_SCHEMA
    found.validate(full=True)
    simple = {tp: b.message if isinstance(b, ReadFailed) else b for tp, b in bounds_of(found).items()}
    assert simple == one_by_one(asked, starts, ends, unread)
    assert list(simple) == [tp for tp in asked if tp in simple]
    failures = [b for b in bounds_of(found).values() if isinstance(b, ReadFailed)]
    assert {b.kind for b in failures} <= {FailureKind.OTHER}


@given(st.dictionaries(tps, st.integers(0, 4)), st.dictionaries(tps, st.integers(0, 9)), st.integers(0, 5))
def test_each_row_is_its_leaders_and_topics_are_together(
    leaders: dict[TopicPartition, int], epochs: dict[TopicPartition, int], cut: int
) -> None:
    whole = led_table(leaders, epochs)
    found = by_leader(pa.concat_tables([whole.slice(0, cut), whole.slice(cut)]))
    assert list(found) == sorted(set(leaders.values()))
    seen = {}
    for leader, rows in found.items():
        assert rows.schema == LED_SCHEMA
        listed = rows.to_pylist()
        assert {row["leader"] for row in listed} == {leader}
        topics = [row["topic"] for row in listed]
        runs = [topic for n, topic in enumerate(topics) if not n or topics[n - 1] != topic]
        assert len(runs) == len(set(topics))
        seen |= {TopicPartition(row["topic"], row["partition"]): row["epoch"] for row in listed}
    assert seen == {tp: epochs.get(tp) for tp in leaders}
