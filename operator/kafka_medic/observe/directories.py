"""Which replicas are on a failed log directory. No broker reports that: a failed directory is not listed.

A broker continues with its other directories, and the replicas on the failed one are offline (KIP-112). They are
derived. The broker holds a replica by the cluster's word, no directory that answers lists it, and it is out of the ISR
or nobody leads. A replica that a reassignment adds or removes may be missing for that reason. One that is in the ISR of
a partition that is led may not have been created yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.clients.answers import LogDir, LogDirs, sizes_of
from kafka_medic.clients.ports import Reassignment
from kafka_medic.cluster.log_dirs import Placed, ReplicaDirs
from kafka_medic.cluster.names import shown
from kafka_medic.cluster.partition_rows import Rows
from kafka_medic.cluster.snapshot import NO_LEADER, STORAGE_ERROR, Directory, TopicPartition
from kafka_medic.observe.checks import BadAnswer


def directories(answer: LogDirs) -> tuple[Directory, ...]:
    return tuple(
        Directory(d.path, d.error, d.total, d.usable, None if d.replicas is None else d.future.num_rows)
        for d in answer.directories
    )


def replica_dirs(broker: int, answer: LogDirs) -> ReplicaDirs:
    """Which replica is in which directory. Raises BadAnswer where one is in two."""
    current: dict[TopicPartition, Placed] = {}
    future: dict[TopicPartition, Placed] = {}
    for directory in answer.directories:
        for found, table in ((current, directory.replicas), (future, directory.future)):
            for tp, size in ({} if table is None else sizes_of(table)).items():
                if tp in found:
                    raise BadAnswer(f"broker {broker} has {shown(str(tp))} in two log directories")
                found[tp] = Placed(directory.path, size)
    return ReplicaDirs(directories(answer), current, future)


def offline_replicas(
    states: pa.Table,
    rows: Rows,
    moving: Mapping[TopicPartition, Reassignment] | None,
    broker: int,
    answer: LogDirs,
) -> tuple[TopicPartition, ...] | None:
    """Those of `broker`, empty while none of its directories has failed. None when that is not known: a replica may be
    on another directory that could not be read, reassignments are not known, or nothing decides the ISR of a replica
    that is not listed. `states` has STATES_SCHEMA, `rows` are its own."""
    if not any(_failed(d) for d in answer.directories):
        return ()
    if moving is None or any(d.replicas is None and not _failed(d) for d in answer.directories):
        return None
    listed = {row for d in answer.directories if d.replicas is not None for row in rows.find(d.replicas).tolist()}
    found = []
    for row in _rows_on(states["replicas"], broker):
        if row in listed:
            continue
        tp = TopicPartition(states["topic"][row].as_py(), states["partition"][row].as_py())
        move = moving.get(tp)
        if move is not None and broker in (*move.adding, *move.removing):
            continue
        in_sync: Any = states["isr"][row].as_py()
        if in_sync is None:
            return None
        if broker not in in_sync or states["leader"][row].as_py() == NO_LEADER:
            found.append(tp)
    return tuple(found)


def unknown_topics(topics: pa.Array[Any], answer: LogDirs) -> tuple[str, ...] | None:
    """Of the replicas that the directories list, those that are not among `topics`. None when a directory that has not
    failed could not be read."""
    if any(d.replicas is None and not _failed(d) for d in answer.directories):
        return None
    found: set[str] = set()
    for directory in answer.directories:
        for table in (directory.replicas, directory.future):
            listed: Any = pc.unique((directory.future if table is None else table)["topic"])
            found.update(listed.filter(pc.invert(pc.is_in(listed, value_set=topics))).to_pylist())
    return tuple(sorted(found))


def _failed(directory: LogDir) -> bool:
    return directory.error == STORAGE_ERROR


def _rows_on(replicas: pa.ChunkedArray[Any], broker: int) -> list[int]:
    flat: Any = pc.list_flatten(replicas)
    parents: Any = pc.list_parent_indices(replicas)
    chosen = np.asarray(flat.to_numpy()) == broker
    rows: list[int] = np.asarray(parents.to_numpy())[chosen].tolist()
    return rows
