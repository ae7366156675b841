"""For how long partitions have had no leader, observation by observation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_medic.cluster.quorum import FETCH_TIMEOUT_MS
from kafka_medic.cluster.snapshot import NO_LEADER, Broker, Mode, Snapshot
from kafka_medic.diagnose.columns import Ints, Mask, Partitions, column, is_any, numbers, strings

MARGIN = 1.5
STEP_MS = 5_000
DEFAULT_API_TIMEOUT_MS = 60_000
"""Kafka's own default of the clients' `default.api.timeout.ms`."""

LEADERLESS_SCHEMA: pa.Schema = pa.schema(
    [
        column("topic", pa.string(), nullable=False),
        column("partition", pa.int32(), nullable=False),
        column("leader", pa.int32(), nullable=False),
        column("epoch", pa.int32()),
        column("seconds", pa.float64(), nullable=False),
    ]
)
"""Partitions without a leader, or whose leader is gone, and for how many seconds that has been seen."""


@dataclass(frozen=True, slots=True)
class Outage:
    """A time that a partition of `topic` had no leader; `at`: when it was last seen so, or seen to be over."""

    topic: str
    seconds: float
    at: datetime
    leader: int = NO_LEADER
    epoch: int | None = None


def implied_timeout_ms(seconds: float) -> int:
    """The `default.api.timeout.ms` with which clients would have outlasted that: half as much again, in whole steps of
    5 s, and never less than Kafka's own default."""
    wanted = seconds * 1000 * MARGIN
    return max(DEFAULT_API_TIMEOUT_MS, int(-(-wanted // STEP_MS)) * STEP_MS)


def gone(broker: Broker | None, snapshot: Snapshot, pods_known: bool) -> bool:
    """The broker does not run, as far as anybody but the controller can tell. In ZooKeeper it is its session that says
    so. With KRaft it is the controller that would take it out of the metadata, so one that does not answer and has no
    Ready Pod is gone as well; unless it keeps up with the quorum as a voter: then it runs, and only its clients, the
    kubelet among them, do not get through to it."""
    if broker is None or broker.registered is False:
        return True
    if snapshot.cluster.mode is not Mode.KRAFT or broker.reachable is not False:
        return False
    ages = [v.last_caught_up_ms for v in snapshot.quorum.voters if v.id == broker.id] if snapshot.quorum else []
    if any(age is not None and age < FETCH_TIMEOUT_MS for age in ages):
        return False
    return broker.pod.ready is False if broker.pod is not None else pods_known


def without_leader(p: Partitions, snapshot: Snapshot) -> Mask:
    """Rows that nobody leads, or only a broker that is gone."""
    if snapshot.brokers is None:
        return p.leader.known & (p.leader.values < 0)
    source = snapshot.source("kubernetes")
    pods_known = source is not None and source.known and not snapshot.unplaced
    dead = [
        int(b)
        for b in np.unique(p.leader.values[p.leader.known])
        if b >= 0 and gone(snapshot.broker(int(b)), snapshot, pods_known)
    ]
    return p.leader.known & ((p.leader.values < 0) | is_any(p.leader.values, dead))


def lengthen(before: pa.Table, p: Partitions, snapshot: Snapshot, passed: float) -> tuple[pa.Table, pa.Table]:
    """(partitions without a leader now, partitions that have one again), `passed` seconds after `before`. A partition
    that had a leader in between, as its epoch shows, begins anew. One whose leader is not known now stays as it was."""
    leaderless = without_leader(p, snapshot)
    rows = np.flatnonzero(leaderless)
    seconds = np.zeros(len(p))
    none: pa.Table = before.slice(0, 0)
    if not before.num_rows or not len(p):
        return _table(p, rows, seconds), none
    at = p.rows_of(before["topic"], numbers(before["partition"]).values)
    exists = at >= 0
    known = exists & p.leader.known[at]
    epochs = numbers(before["epoch"])
    led_between = epochs.known & p.leader_epoch.known[at] & (p.leader_epoch.values[at] - epochs.values > 1)
    same = known & leaderless[at] & ~led_between
    lasted = before["seconds"].to_numpy() + passed
    seconds[at[same]] = lasted[same]
    index = before.schema.get_field_index("seconds")
    longer = before.set_column(index, before.schema.field(index), pa.array(lasted))
    ended = longer.take(np.flatnonzero(known & ~same))
    unsure = before.take(np.flatnonzero(exists & ~known))
    return pa.concat_tables([_table(p, rows, seconds), unsure]).combine_chunks(), ended


def outages(leaderless: pa.Table, now: datetime) -> Iterator[Outage]:
    """The longest of each topic."""
    if not leaderless.num_rows:
        return
    grouped = leaderless.group_by("topic").aggregate([("seconds", "max")])
    lasted: list[Any] = grouped["seconds_max"].to_pylist()
    for topic, seconds in zip(strings(grouped["topic"]), lasted, strict=True):
        if seconds > 0:
            yield Outage(topic, seconds, now)


def longest_of(outages: Iterable[Outage], limit: int) -> tuple[Outage, ...]:
    """The longest of each topic, the longest first, `limit` topics."""
    best: dict[str, Outage] = {}
    for outage in outages:
        held = best.get(outage.topic)
        if held is None or outage.seconds > held.seconds:
            best[outage.topic] = outage
    return tuple(sorted(best.values(), key=lambda o: (-o.seconds, o.topic))[:limit])


def _table(p: Partitions, rows: Ints, seconds: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> pa.Table:
    if not len(rows):
        return LEADERLESS_SCHEMA.empty_table()
    epochs = pa.array(p.leader_epoch.values[rows].astype(np.int32), mask=~p.leader_epoch.known[rows])
    columns = [
        pa.array([p.topics[c] for c in p.topic[rows].tolist()], pa.string()),
        pa.array(p.partition[rows].astype(np.int32)),
        pa.array(p.leader.values[rows].astype(np.int32)),
        epochs,
        pa.array(seconds[rows]),
    ]
    return pa.table(columns, schema=LEADERLESS_SCHEMA)
