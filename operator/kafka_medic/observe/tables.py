"""The Snapshot's tables from what was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.clients.answers import LogDirs
from kafka_medic.clients.ports import Reassignment
from kafka_medic.clients.tables import LED_SCHEMA, SIZES_SCHEMA
from kafka_medic.cluster.groups import GROUPS_SCHEMA, GroupOffsets
from kafka_medic.cluster.min_isr import MIN_ISR, UNKNOWN, Minimums
from kafka_medic.cluster.partition_rows import NOWHERE, Ints, Rows
from kafka_medic.cluster.snapshot import (
    CONFIGS_SCHEMA,
    NO_LEADER,
    PARTITIONS_SCHEMA,
    ConfigValue,
    TopicPartition,
)

UNREAD = -1

TOPIC_CONFIGS = (
    MIN_ISR,
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
BROKER_CONFIGS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    MIN_ISR,
    "unclean.leader.election.enable",
    "inter.broker.protocol.version",
    "auto.leader.rebalance.enable",
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
    "log.segment.delete.delay.ms",
)
CLUSTER_CONFIGS = (MIN_ISR,)
"""The settings that decisions rest on; everything else a broker is configured with is left out of the snapshot."""


def led(states: pa.Table, started: npt.NDArray[np.bool_]) -> pa.Table:
    """LED_SCHEMA, of the partitions that somebody leads. `started`: by row, whether to read where its log starts."""
    leaders, epochs = (np.asarray(_filled(states[name], NO_LEADER).to_numpy()) for name in ("leader", "leaderEpoch"))
    columns = [
        states["topic"],
        states["partition"],
        pa.array(leaders, pa.int32()),
        pa.array(epochs, pa.int32(), mask=epochs < 0),
        pa.array(started),
    ]
    return pa.table(columns, schema=LED_SCHEMA).filter(pa.array(leaders >= 0))


def partitions(states: pa.Table, rows: Rows, resting: Mapping[str, Any], bounds: pa.Table | None) -> pa.Table:
    """`states` with STATES_SCHEMA, `rows` of it; `resting`: as `columns_at_rest` answers; `bounds` with
    BOUNDS_SCHEMA."""
    columns = {**resting, **_bounds(rows, states.num_rows, bounds)}
    return pa.table([columns[name] for name in PARTITIONS_SCHEMA.names], schema=PARTITIONS_SCHEMA)


def columns_at_rest(
    states: pa.Table,
    rows: Rows,
    moving: Mapping[TopicPartition, Reassignment] | None,
    disks: Mapping[int, LogDirs] | None,
    minimums: Minimums | None,
) -> Mapping[str, Any]:
    """All columns but log starts and log ends."""
    columns: dict[str, Any] = {name: states[name] for name in states.column_names}
    columns |= _moves(columns["replicas"], rows, moving)
    columns["sizeBytes"] = _sizes(states, rows, disks)
    columns["minIsr"] = _min_isr(columns, minimums)
    return columns


def _moves(
    replicas: pa.ChunkedArray[Any], rows: Rows, moving: Mapping[TopicPartition, Reassignment] | None
) -> dict[str, Any]:
    """The controller's word on what is in flight is newer than a broker's metadata of the same partition."""
    kind = pa.list_(pa.int32())
    if moving is None:
        nothing = pa.nulls(len(replicas), kind)
        return {"adding": nothing, "removing": nothing}
    place = rows.find_each(moving)
    here = [move for move, row in zip(moving.values(), place.tolist(), strict=True) if row != NOWHERE]
    which = np.zeros(len(replicas), dtype=np.int64)  # 0: not in flight, else one more than its place in `here`
    which[place[place != NOWHERE]] = np.arange(1, len(here) + 1)
    in_flight, chosen = pa.array(which > 0), pa.array(which, pa.int64())
    whole = pa.array([(), *(m.replicas for m in here)], kind).take(chosen)
    return {
        "replicas": pc.if_else(in_flight, whole, replicas) if here else replicas,
        "adding": pa.array([(), *(m.adding for m in here)], kind).take(chosen),
        "removing": pa.array([(), *(m.removing for m in here)], kind).take(chosen),
    }


def _bounds(rows: Rows, count: int, bounds: pa.Table | None) -> dict[str, Any]:
    if bounds is None:
        return {name: pa.nulls(count, pa.int64()) for name in ("logStart", "logEnd")}
    place = rows.find(bounds)
    here = place != NOWHERE
    found = {}
    for name, column in (("logStart", "start"), ("logEnd", "end")):
        offsets = np.full(count, UNREAD, dtype=np.int64)
        filled = _filled(bounds[column], UNREAD)
        offsets[place[here]] = np.asarray(filled.to_numpy(), dtype=np.int64)[here]
        found[name] = pa.array(offsets, pa.int64(), mask=offsets == UNREAD)
    return found


def _sizes(states: pa.Table, rows: Rows, disks: Mapping[int, LogDirs] | None) -> pa.Array[Any]:
    """The leader's replica, else the largest that is known."""
    if disks is None:
        return pa.nulls(states.num_rows, pa.int64())
    sizes = [(b, d.replicas) for b, dirs in disks.items() for d in dirs.directories if d.replicas is not None]
    every = pa.concat_tables([SIZES_SCHEMA.empty_table(), *(table for _, table in sizes)])
    broker = np.repeat(np.array([b for b, _ in sizes], dtype=np.int64), [table.num_rows for _, table in sizes])
    place, size = rows.find(every), np.asarray(every["bytes"].to_numpy(), dtype=np.int64)
    here = place != NOWHERE
    place, size, broker = place[here], size[here], broker[here]
    largest = np.full(states.num_rows, UNREAD, dtype=np.int64)
    held = _held(states["replicas"], place, broker)
    np.maximum.at(largest, place[held], size[held])
    leaders = np.asarray(_filled(states["leader"], NO_LEADER).to_numpy(), dtype=np.int64)
    leading = leaders[place] == broker
    largest[place[leading]] = size[leading]
    return pa.array(largest, pa.int64(), mask=largest == UNREAD)


def _held(replicas: pa.ChunkedArray[Any], place: Ints, broker: Ints) -> npt.NDArray[np.bool_]:
    """Whether the broker is one of the replicas of that row."""
    flat = np.asarray(pc.list_flatten(replicas).to_numpy(), dtype=np.int64)
    row = np.asarray(pc.list_parent_indices(replicas).to_numpy(), dtype=np.int64)
    found: Any = pc.is_in(pa.array((place << 32) | broker), value_set=pa.array((row << 32) | flat))
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _filled(column: pa.ChunkedArray[Any], value: int) -> Any:
    return pc.fill_null(column, pa.scalar(value, column.type)) if column.null_count else column


def _min_isr(columns: Mapping[str, Any], minimums: Minimums | None) -> pa.Array[Any]:
    if minimums is None:
        return pa.nulls(len(columns["topic"]), pa.int32())
    found = minimums.column(columns["topic"], columns["replicas"], columns["adding"])
    return pa.array(found, pa.int32(), mask=found == UNKNOWN)


def groups(found: Sequence[GroupOffsets]) -> pa.Table:
    rows = [(g, tp, offset) for g in found for tp, offset in sorted(g.committed.items())]
    columns = [
        [g.group for g, _, _ in rows],
        [g.state for g, _, _ in rows],
        [tp.topic for _, tp, _ in rows],
        [tp.partition for _, tp, _ in rows],
        [offset and offset.offset for _, _, offset in rows],
        [offset and offset.leader_epoch for _, _, offset in rows],
        [offset and offset.metadata for _, _, offset in rows],
    ]
    return pa.table(columns, schema=GROUPS_SCHEMA)


def configs(
    topics: Mapping[str, Mapping[str, ConfigValue]],
    brokers: Mapping[int, Mapping[str, ConfigValue]],
    everywhere: Mapping[str, ConfigValue],
) -> pa.Table:
    """Of those that were read; `Snapshot.unread` names the others."""
    wanted = [("TOPIC", t, n, values.get(n)) for t, values in sorted(topics.items()) for n in TOPIC_CONFIGS]
    wanted += [("BROKER", str(b), n, values.get(n)) for b, values in sorted(brokers.items()) for n in BROKER_CONFIGS]
    wanted += [("BROKER", "", n, everywhere.get(n)) for n in CLUSTER_CONFIGS]
    rows = [
        (kind, resource, name, v.value, v.dynamic)
        for kind, resource, name, v in wanted
        if v is not None and v.value is not None
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(CONFIGS_SCHEMA)
    return pa.table([list(column) for column in columns], schema=CONFIGS_SCHEMA)
