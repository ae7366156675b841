"""The Snapshot's tables from what was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_medic.clients.answers import LogDirs
from kafka_medic.clients.ports import Reassignment
from kafka_medic.cluster.groups import GROUPS_SCHEMA, GroupOffsets
from kafka_medic.cluster.min_isr import MIN_ISR, UNKNOWN, Minimums
from kafka_medic.cluster.snapshot import (
    CONFIGS_SCHEMA,
    PARTITIONS_SCHEMA,
    ConfigValue,
    TopicPartition,
)

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
)
CLUSTER_CONFIGS = (MIN_ISR,)
"""The settings that decisions rest on; everything else a broker is configured with is left out of the snapshot."""


def addresses(states: pa.Table) -> list[TopicPartition]:
    """(topic, partition) of each row."""
    topics: list[Any] = states["topic"].to_pylist()
    numbers: list[Any] = states["partition"].to_pylist()
    return [TopicPartition(t, n) for t, n in zip(topics, numbers, strict=True)]


def partitions(
    states: pa.Table,
    keys: Sequence[TopicPartition],
    moving: Mapping[TopicPartition, Reassignment] | None,
    disks: Mapping[int, LogDirs] | None,
    bounds: Mapping[TopicPartition, tuple[int, int]] | None,
    minimums: Minimums | None,
) -> pa.Table:
    """`states` with STATES_SCHEMA, `keys` the addresses of its rows."""
    columns: dict[str, Any] = {name: states[name] for name in states.column_names}
    columns |= _moves(columns["replicas"], keys, moving)
    unread = (None, None)
    known = [bounds.get(tp, unread) for tp in keys] if bounds is not None else [unread] * len(keys)
    columns["logStart"] = pa.array([start for start, _ in known], pa.int64())
    columns["logEnd"] = pa.array([end for _, end in known], pa.int64())
    columns["sizeBytes"] = _sizes(states, keys, disks)
    columns["minIsr"] = _min_isr(columns, minimums)
    return pa.table([columns[name] for name in PARTITIONS_SCHEMA.names], schema=PARTITIONS_SCHEMA)


def _moves(
    replicas: pa.ChunkedArray[Any], keys: Sequence[TopicPartition], moving: Mapping[TopicPartition, Reassignment] | None
) -> dict[str, Any]:
    """The controller's word on what is in flight is newer than a broker's metadata of the same partition."""
    kind = pa.list_(pa.int32())
    if moving is None:
        nothing = pa.nulls(len(keys), kind)
        return {"adding": nothing, "removing": nothing}
    if not moving:
        offsets: Any = pa.array(np.zeros(len(keys) + 1, dtype=np.int32))
        none = pa.ListArray.from_arrays(offsets, pa.array([], pa.int32()))
        return {"adding": none, "removing": none}
    at = [moving.get(tp) for tp in keys]
    told = replicas.to_pylist()
    return {
        "replicas": pa.array([m.replicas if m else r for m, r in zip(at, told, strict=True)], kind),
        "adding": pa.array([m.adding if m else () for m in at], kind),
        "removing": pa.array([m.removing if m else () for m in at], kind),
    }


def _sizes(states: pa.Table, keys: Sequence[TopicPartition], disks: Mapping[int, LogDirs] | None) -> pa.Array[Any]:
    """The leader's replica, else the largest that is known."""
    if disks is None:
        return pa.nulls(len(keys), pa.int64())
    sizes = {broker: told.sizes for broker, told in disks.items()}
    leaders: list[Any] = states["leader"].to_pylist()
    found: list[int | None] = [
        sizes[leader].get(tp) if leader in sizes else None for tp, leader in zip(keys, leaders, strict=True)
    ]
    for row in [i for i, size in enumerate(found) if size is None]:
        tp = keys[row]
        replicas: Any = states["replicas"][row].as_py()
        found[row] = max((sizes[b][tp] for b in replicas or () if tp in sizes.get(b, {})), default=None)
    return pa.array(found, pa.int64())


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
