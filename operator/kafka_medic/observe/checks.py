"""What a cluster answers is not trusted: an answer that Kafka would not give is no answer, with the reason said.

Checked here, where it enters: everything behind may rely on legal names, numbers within their bounds, and one row a
partition. A bad answer is Unknown as a whole, since nobody can tell which part of it to believe; the answers of others
to the same question are not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.clients.answers import Groups, LogDirs
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import BrokerView, ClusterDescription, Reassignment
from kafka_medic.cluster.groups import GroupOffsets
from kafka_medic.cluster.names import shown
from kafka_medic.cluster.snapshot import TopicPartition

_LETTERS, _LONGEST = "[a-zA-Z0-9._-]", 249
LEGAL_TOPIC = re.compile(f"{_LETTERS}{{1,{_LONGEST}}}")
"""org.apache.kafka.common.internals.Topic."""
_LETTERS_ALONE = rf"\A{_LETTERS}+\z"
"""For RE2, which reads a column at once. With the length in it, it would be built for longer than a view is read."""
MAX_PARTITION = 10_000_000
"""More partitions than any topic of any cluster has."""
MAX_BROKER = 2**31 - 1
T = TypeVar("T")


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
    origin = f"broker {found.broker}"
    names: Any = pc.unique(states["topic"])
    lengths: Any = pc.binary_length(names)
    legal: Any = pc.and_(pc.match_substring_regex(names, _LETTERS_ALONE), pc.less_equal(lengths, pa.scalar(_LONGEST)))
    for topic in names.filter(pc.invert(pc.fill_null(legal, False))).to_pylist():
        _topic(topic, origin)
    number, leader = (np.asarray(states[name].to_numpy(), dtype=np.int64) for name in ("partition", "leader"))
    _within(states, number, 0, MAX_PARTITION, f"{origin}: partition")
    _within(states, leader, -1, MAX_BROKER, f"{origin}: leader")
    epoch = numbers(states["leaderEpoch"])
    _within(states, epoch, -1, MAX_BROKER, f"{origin}: leader epoch")
    for name in ("replicas", "isr"):
        rows, flat = _flattened(states[name])
        _within(states, flat, 0, MAX_BROKER, f"{origin}: {name}", rows)
        key = (rows << 32) | flat
        _twice(states, key, rows, f"{origin}: {name} name a broker twice")
    _each_once(states, f"{origin} tells a partition twice")
    if (epoch < 0).any() and not states["leaderEpoch"].null_count:
        index = states.schema.get_field_index("leaderEpoch")
        known = pa.array(epoch.astype(np.int32), mask=epoch < 0)
        states = states.set_column(index, states.schema.field(index), known)
    return replace(found, states=states)


def reassignments(found: Mapping[TopicPartition, Reassignment]) -> Mapping[TopicPartition, Reassignment]:
    for tp, moving in found.items():
        _partition(tp, "the reassignments")
        for ids in (moving.replicas, moving.adding, moving.removing):
            _ids(ids, f"the reassignment of {tp}")
    return found


def log_dirs(found: Mapping[int, LogDirs | ReadFailed]) -> dict[int, LogDirs | ReadFailed]:
    """Of each broker by itself."""
    return {b: _each(answer, lambda answer=answer, b=b: _log_dirs(b, answer)) for b, answer in found.items()}  # type: ignore[misc]


def _log_dirs(broker: int, answer: LogDirs) -> LogDirs:
    who = f"broker {broker}"
    if len({d.path for d in answer.directories}) < len(answer.directories):
        raise BadAnswer(f"{who} names a log directory twice")
    for directory in answer.directories:
        for words, number in (("free", directory.usable), ("in all", directory.total)):
            if number is not None and not 0 <= number < 1 << 63:
                raise BadAnswer(f"{who} reports {number} bytes {words}")
        for replicas in (directory.replicas, directory.future):
            if replicas is None:
                continue
            negative = replicas.filter(pc.less(replicas["bytes"], pa.scalar(0, pa.int64())))
            for row in negative.slice(0, 1).to_pylist():
                raise BadAnswer(f"{who} reports {row['bytes']} bytes for {_named(row)}")
            _each_once(replicas, f"{who} names a replica of one directory twice")
    return answer


def log_bounds(found: Mapping[int, pa.Table | ReadFailed]) -> dict[int, pa.Table | ReadFailed]:
    """Of each leader by itself. The start is read before the end, and both only rise, so a start beyond the end is no
    race."""
    return {b: _each(answer, lambda answer=answer, b=b: _log_bounds(b, answer)) for b, answer in found.items()}  # type: ignore[misc]


def _log_bounds(broker: int, answer: pa.Table) -> pa.Table:
    known = answer.filter(pc.is_null(answer["error"]))
    unread: Any = pa.scalar(0, pa.int64())
    start, end = (np.asarray(known[name].fill_null(unread).to_numpy(), dtype=np.int64) for name in ("start", "end"))
    bad = np.flatnonzero((start < 0) | (end < start))
    if len(bad):
        (row,) = known.slice(int(bad[0]), 1).to_pylist()
        raise BadAnswer(f"{_named(row)} begins at offset {row['start']} and ends at {row['end']}")
    _each_once(answer, f"broker {broker} reports a log end twice")
    return answer


def _named(row: Mapping[str, Any]) -> str:
    return shown(f"{row['topic']}-{row['partition']}")


def groups(found: Groups) -> Groups:
    """Each group by itself. Group names are free text in Kafka, and stay as they are: whoever shows one escapes it."""
    checked = {one.group: _each(one, lambda one=one: _group(one)) for one in found.offsets}  # type: ignore[misc]
    if len(checked) < len(found.offsets):
        raise BadAnswer("a group is reported twice")
    bad = {group: one for group, one in checked.items() if isinstance(one, ReadFailed)}
    good = tuple(one for one in checked.values() if not isinstance(one, ReadFailed))
    return Groups(good, {**found.unread, **bad}, found.unlisted)


def _group(one: GroupOffsets) -> GroupOffsets:
    for tp, offset in one.committed.items():
        _partition(tp, f"group {shown(one.group)}")
        if offset is not None and offset.offset < 0:
            raise BadAnswer(f"group {shown(one.group)} committed {offset.offset} on {tp}")
    return one


def _each(answer: T | ReadFailed, check: Callable[[], T]) -> T | ReadFailed:
    if isinstance(answer, ReadFailed):
        return answer
    try:
        return check()
    except BadAnswer as problem:
        return problem


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


def _each_once(table: pa.Table, what: str) -> None:
    encoded: Any = pc.dictionary_encode(table["topic"]).combine_chunks()
    codes = np.asarray(encoded.indices.to_numpy(), dtype=np.int64)
    number = np.asarray(table["partition"].to_numpy(), dtype=np.int64)
    _twice(table, (codes << 32) | number, np.arange(len(codes)), what)


def _twice(states: pa.Table, keys: npt.NDArray[Any], rows: npt.NDArray[Any], what: str) -> None:
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if len(same):
        row = int(rows[order[same[0]]])
        raise BadAnswer(f"{what}: {states['topic'][row].as_py()}-{states['partition'][row].as_py()}")
