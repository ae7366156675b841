"""What a cluster answers is not trusted: an answer that Kafka would not give is no answer, with the reason said.

Checked here, where it enters: everything behind may rely on legal names, numbers within their bounds, and one row a
partition. A bad answer is Unknown as a whole, since nobody can tell which part of it to believe.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.clients.ports import (
    BrokerView,
    ClusterDescription,
    FailureKind,
    LogDirs,
    ReadFailed,
    Reassignment,
)
from kafka_medic.cluster.groups import GroupOffsets
from kafka_medic.cluster.names import shown
from kafka_medic.cluster.snapshot import TopicPartition

LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""org.apache.kafka.common.internals.Topic."""
MAX_PARTITION = 10_000_000
"""More partitions than any topic of any cluster has."""
MAX_BROKER = 2**31 - 1


class BadAnswer(ReadFailed):
    """Something answered, but not as Kafka does."""

    def __init__(self, what: str) -> None:
        super().__init__(FailureKind.OTHER, f"not an answer of Kafka's: {what}")


def description(found: ClusterDescription) -> ClusterDescription:
    _ids([node.id for node in found.nodes], "the brokers")
    return found


def members(found: BrokerView) -> tuple[int, ...]:
    """The members that a view names, or BadAnswer."""
    _ids(found.members, f"the members that broker {found.broker} names")
    return found.members


def view(found: BrokerView) -> BrokerView:
    """The view, or BadAnswer. A leader epoch of -1 is Kafka's word for not known."""
    members(found)
    states = found.states
    if states is None:
        return found
    told_by = f"broker {found.broker}"
    for topic in pc.unique(states["topic"]).to_pylist():
        _topic(topic, told_by)
    number, leader = (np.asarray(states[name].to_numpy(), dtype=np.int64) for name in ("partition", "leader"))
    _within(states, number, 0, MAX_PARTITION, f"{told_by}: partition")
    _within(states, leader, -1, MAX_BROKER, f"{told_by}: leader")
    epoch = numbers(states["leaderEpoch"])
    _within(states, epoch, -1, MAX_BROKER, f"{told_by}: leader epoch")
    for name in ("replicas", "isr"):
        rows, flat = _flattened(states[name])
        _within(states, flat, 0, MAX_BROKER, f"{told_by}: {name}", rows)
        key = (rows << 32) | flat
        _twice(states, key, rows, f"{told_by}: {name} name a broker twice")
    encoded: Any = pc.dictionary_encode(states["topic"]).combine_chunks()
    codes = np.asarray(encoded.indices.to_numpy(), dtype=np.int64)
    _twice(states, (codes << 32) | number, np.arange(len(codes)), f"{told_by} tells a partition twice")
    if (epoch < 0).any() and not states["leaderEpoch"].null_count:
        index = states.schema.get_field_index("leaderEpoch")
        known = pa.array(epoch.astype(np.int32), mask=epoch < 0)
        states = states.set_column(index, states.schema.field(index), known)
    return BrokerView(found.broker, found.members, found.controller, states)


def reassignments(found: Mapping[TopicPartition, Reassignment]) -> Mapping[TopicPartition, Reassignment]:
    for tp, moving in found.items():
        _partition(tp, "the reassignments")
        for ids in (moving.replicas, moving.adding, moving.removing):
            _ids(ids, f"the reassignment of {tp}")
    return found


def log_dirs(found: Mapping[int, LogDirs]) -> Mapping[int, LogDirs]:
    for broker, told in found.items():
        if told.usable is not None and not 0 <= told.usable < 1 << 63:
            raise BadAnswer(f"broker {broker} says that {told.usable} bytes are free")
        for tp, size in told.sizes.items():
            if size < 0:
                raise BadAnswer(f"broker {broker} says that {shown(str(tp))} has {size} bytes")
    return found


def log_bounds(found: Mapping[TopicPartition, tuple[int, int]]) -> Mapping[TopicPartition, tuple[int, int]]:
    """The start is read before the end, and both only rise, so a start beyond the end is no race."""
    for tp, (start, end) in found.items():
        if not 0 <= start <= end:
            raise BadAnswer(f"{shown(str(tp))} begins at offset {start} and ends at {end}")
    return found


def groups(found: Sequence[GroupOffsets]) -> Sequence[GroupOffsets]:
    """Group names are free text in Kafka, and stay as they are: whoever shows one escapes it."""
    names: set[str] = set()
    for group in found:
        if group.group in names:
            raise BadAnswer(f"group {shown(group.group)} is told twice")
        names.add(group.group)
        for tp, offset in group.committed.items():
            _partition(tp, f"group {shown(group.group)}")
            if offset.offset < 0:
                raise BadAnswer(f"group {shown(group.group)} committed {offset.offset} on {tp}")
    return found


def _flattened(column: pa.ChunkedArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Of a column of lists, which row each entry is of, and the entries."""
    if column.num_chunks == 1 and not column.null_count:  # by far the usual case
        lists: Any = column.chunk(0)
        rows = np.repeat(np.arange(len(lists), dtype=np.int64), np.diff(lists.offsets.to_numpy()))
        return rows, np.asarray(lists.flatten().to_numpy(zero_copy_only=False), dtype=np.int64)
    flat = np.asarray(pc.list_flatten(column).to_numpy(), dtype=np.int64)
    return np.asarray(pc.list_parent_indices(column).to_numpy(), dtype=np.int64), flat


def numbers(column: pa.ChunkedArray[Any]) -> npt.NDArray[np.int64]:
    """A column of 32 bits, with -1 for what is not known, as Kafka has it."""
    if not column.null_count:
        return np.asarray(column.to_numpy(), dtype=np.int64)
    filled: Any = pc.fill_null(column, pa.scalar(-1, pa.int32()))
    return np.asarray(filled.to_numpy(), dtype=np.int64)


def _partition(tp: TopicPartition, who: str) -> None:
    _topic(tp.topic, who)
    if not 0 <= tp.partition <= MAX_PARTITION:
        raise BadAnswer(f"{who}: partition {tp.partition} of {tp.topic}")


def _topic(topic: str | None, who: str) -> None:
    if topic is None or not LEGAL_TOPIC.fullmatch(topic):
        raise BadAnswer(f"{who}: a topic called '{shown(topic or '')}', which Kafka does not allow")


def _ids(ids: Iterable[int], what: str) -> None:
    listed = list(ids)
    if len(set(listed)) != len(listed) or any(not 0 <= b <= MAX_BROKER for b in listed):
        raise BadAnswer(f"{what}: {shown(str(listed))}")


def _within(
    states: pa.Table, values: npt.NDArray[Any], low: int, high: int, what: str, rows: npt.NDArray[Any] | None = None
) -> None:
    bad = np.flatnonzero((values < low) | (values > high))
    if len(bad):
        row = int(bad[0] if rows is None else rows[bad[0]])
        raise BadAnswer(f"{what} {int(values[bad[0]])} of topic {shown(states['topic'][row].as_py())}")


def _twice(states: pa.Table, keys: npt.NDArray[Any], rows: npt.NDArray[Any], what: str) -> None:
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if len(same):
        row = int(rows[order[same[0]]])
        raise BadAnswer(f"{what}: {states['topic'][row].as_py()}-{states['partition'][row].as_py()}")
