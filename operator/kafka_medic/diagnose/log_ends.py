"""The last known end of each log, and the logs that became shorter since: records that were there are gone.

Once new writes have passed a committed offset that was too high, nothing in the present shows that a group skipped
them. So a regression is remembered, until nothing of what it was about is left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.elements import groups_unread
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.diagnose.columns import Ints, Partitions, column, numbers

MAX_GROUPS = 10

ENDS_SCHEMA: pa.Schema = pa.schema(
    [
        column("topic", pa.string(), nullable=False),
        column("partition", pa.int32(), nullable=False),
        column("topicId", pa.string()),
        column("logEnd", pa.int64(), nullable=False),
        column("leaderEpoch", pa.int32()),
    ]
)
"""The last log end that was known of each partition. While one is not known, the one before stays."""


@dataclass(frozen=True, slots=True)
class Regression:
    """A log end that went back from `before` to `after`, noticed `at`. `groups`: who had committed beyond `after` by
    then, MAX_GROUPS of them (None: the committed offsets were not known, or not of all groups)."""

    topic: str
    partition: int
    before: int
    after: int
    at: datetime
    epoch_before: int | None = None
    epoch_after: int | None = None
    groups: tuple[str, ...] | None = ()
    topic_id: str | None = None

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def records(self) -> int:
        """How many records are gone, at least: the log may have grown again before it was looked at."""
        return self.before - self.after

    def joined(self, later: Regression) -> Regression:
        """Two regressions of one partition: what is doubtful is all that either made so."""
        groups = None if self.groups is None and later.groups is None else (*(self.groups or ()), *(later.groups or ()))
        return replace(
            self,
            before=max(self.before, later.before),
            after=min(self.after, later.after),
            epoch_after=later.epoch_after,
            topic_id=later.topic_id,
            groups=None if groups is None else tuple(dict.fromkeys(groups))[:MAX_GROUPS],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """What a look tells about log ends. `starts`: the log starts that are known."""

    ends: pa.Table
    regressions: tuple[Regression, ...]
    recreated: frozenset[str]
    partitions: Partitions
    topic_ids: pa.ChunkedArray[Any]

    def passed(self, regression: Regression) -> bool:
        """The topic is gone, or retention has deleted everything that the regression put in doubt."""
        p, row = self.partitions, self._row(regression)
        return row < 0 or bool(p.log_start.known[row] and p.log_start.values[row] >= regression.before)

    def of_another(self, regression: Regression) -> bool:
        """The topic that has the name now is another one. An operator that has just started sees it by this alone."""
        row = self._row(regression)
        now = None if row < 0 else self.topic_ids[row].as_py()
        return None not in (regression.topic_id, now) and regression.topic_id != now

    def _row(self, regression: Regression) -> int:
        topic = pa.chunked_array([pa.array([regression.topic], pa.string())])
        return int(self.partitions.rows_of(topic, np.array([regression.partition], dtype=np.int64))[0])


def compare(
    ends: pa.Table, p: Partitions, topic_ids: pa.ChunkedArray[Any], snapshot: Snapshot, now: datetime
) -> Compared:
    """The log ends of before against those of now. What is not known now is not shorter, and a partition that is not
    there any more has no log. A topic whose id changed was deleted and recreated, whatever its offsets are. So was one
    whose leader epoch went back, where ids are not known: within one incarnation epochs only rise (KIP-101). An older
    epoch of the same topic is an answer from behind."""
    known = np.flatnonzero(p.log_end.known & (p.log_end.values >= 0))
    fresh = _known_ends(p, topic_ids, snapshot, known)
    if not ends.num_rows or not len(p):
        return Compared(fresh, (), frozenset(), p, topic_ids)
    at = p.rows_of(ends["topic"], numbers(ends["partition"]).values)
    there = at >= 0
    has_end = np.zeros(len(p), dtype=np.bool_)
    has_end[known] = True
    old = numbers(ends["logEnd"]).values
    shorter = there & has_end[at] & (p.log_end.values[at] < old)
    regressions, recreated = [], _other_incarnations(ends, fresh)
    carried_rows = np.flatnonzero(there & ~has_end[at]).tolist()
    behind: list[int] = []
    for i in np.flatnonzero(shorter).tolist():
        row = int(at[i])
        ids = ends["topicId"][i].as_py(), topic_ids[row].as_py()
        epochs = ends["leaderEpoch"][i].as_py(), _known(p, row)
        other_id = None not in ids and ids[0] != ids[1]
        epoch_back = None not in epochs and epochs[1] < epochs[0]
        if other_id or (None in ids and epoch_back):
            recreated.add(p.name(row).topic)
        elif epoch_back:
            carried_rows.append(i)
            behind.append(row)
        else:
            ended = int(old[i]), int(p.log_end.values[row])
            regressions.append(Regression(*p.name(row), *ended, now, *epochs, topic_id=ids[1]))
    if behind:
        fresh = fresh.filter(pa.array(~np.isin(known, behind)))
    if carried_rows:
        fresh = pa.concat_tables([fresh, ends.take(carried_rows)]).combine_chunks()
    return Compared(fresh, _with_groups(tuple(regressions), snapshot), frozenset(recreated), p, topic_ids)


def _known_ends(p: Partitions, topic_ids: pa.ChunkedArray[Any], snapshot: Snapshot, known: Ints) -> pa.Table:
    """With ENDS_SCHEMA, the partitions whose log end is known now."""
    assert snapshot.partitions is not None  # `p` was read from them
    topics, partitions, ends, epochs = (
        snapshot.partitions[name] for name in ("topic", "partition", "logEnd", "leaderEpoch")
    )
    columns = [topics, partitions, topic_ids, ends, epochs]
    whole = len(known) == len(p)
    return pa.table([c if whole else c.take(known) for c in columns], schema=ENDS_SCHEMA)


def _other_incarnations(before: pa.Table, now: pa.Table) -> set[str]:
    """Topics whose id changed."""
    if before["topicId"].equals(now["topicId"]) and before["topic"].equals(now["topic"]):
        return set()
    old, new = (dict(zip(t["topic"].to_pylist(), t["topicId"].to_pylist(), strict=True)) for t in (before, now))
    return {str(t) for t, topic_id in new.items() if None not in (topic_id, old.get(t)) and topic_id != old[t]}


def _with_groups(found: tuple[Regression, ...], snapshot: Snapshot) -> tuple[Regression, ...]:
    if not found:
        return ()
    if snapshot.groups is None or groups_unread(snapshot):  # a list that lacks some would clear those
        return tuple(replace(r, groups=None) for r in found)
    beyond: dict[TopicPartition, list[str]] = defaultdict(list)
    after = {r.tp: r.after for r in found}
    for group, tp, committed in committed_on(snapshot.groups, {r.topic for r in found}):
        if committed > after.get(tp, committed):
            beyond[tp].append(group)
    return tuple(replace(r, groups=tuple(sorted(beyond[r.tp]))[:MAX_GROUPS]) for r in found)


def committed_on(groups: pa.Table, topics: set[str]) -> Iterator[tuple[str, TopicPartition, int]]:
    chosen = groups.filter(pc.is_in(groups["topic"], value_set=pa.array(sorted(topics), pa.string())))
    columns: list[list[Any]] = [chosen[name].to_pylist() for name in ("group", "topic", "partition", "committed")]
    for group, topic, partition, offset in zip(*columns, strict=True):
        if offset is not None:
            yield group, TopicPartition(topic, partition), offset


def _known(p: Partitions, row: int) -> int | None:
    return int(p.leader_epoch.values[row]) if p.leader_epoch.known[row] else None
