"""What an effect concerns, and which broker's word on which topics it needs.

A broker that a partition has a replica on serves it or follows its leader, so its own account of that partition counts.
Everybody else's says no more than that they hear of the cluster at all, which topics that changed lately show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.partition_rows import NOWHERE, Rows
from kafka_medic.cluster.snapshot import TopicPartition

Mask = npt.NDArray[np.bool_]
Topics = dict[int, frozenset[str]]
"""By broker."""


@dataclass(frozen=True, slots=True)
class Concern:
    """`brokers`: what they all have replicas of, and their own whole views. `partitions`: single ones, each with the
    brokers that are to receive it and have no replica yet. `receivers`: of something that is not there yet, so that
    they need only show that they hear of changes; `everybody`: all brokers do. `topics`: of plans, by name with the
    id; everybody is asked about those that do not show with that id."""

    brokers: frozenset[int] = frozenset()
    partitions: Mapping[TopicPartition, Sequence[int]] = field(default_factory=dict)
    receivers: frozenset[int] = frozenset()
    everybody: bool = False
    topics: Mapping[str, str | None] = field(default_factory=dict)


NOTHING = Concern()


def topics_needed(partitions: pa.Table, concern: Concern) -> Topics:
    """By broker, the topics on which its own account counts. `partitions`: with the columns topic, partition and
    replicas."""
    found: dict[int, set[str]] = {broker: set() for broker in concern.receivers}
    if concern.brokers:
        for broker, topics in topics_of(partitions, holding(partitions, concern.brokers)).items():
            found.setdefault(broker, set()).update(topics)
    if concern.partitions:
        place = Rows.of(partitions).find_each(concern.partitions)
        mask = np.zeros(partitions.num_rows, dtype=np.bool_)
        mask[place[place != NOWHERE]] = True
        for broker, topics in topics_of(partitions, mask).items():
            found.setdefault(broker, set()).update(topics)
        for tp, receivers in concern.partitions.items():
            for broker in receivers:
                found.setdefault(broker, set()).add(tp.topic)
    return {broker: frozenset(topics) for broker, topics in found.items()}


def holding(partitions: pa.Table, brokers: frozenset[int]) -> Mask:
    """By row, whether one of these brokers has a replica."""
    flat, rows = _flattened(partitions["replicas"])
    mask = np.zeros(partitions.num_rows, dtype=np.bool_)
    mask[rows[np.isin(flat, list(brokers))]] = True
    return mask


def topics_of(partitions: pa.Table, rows: Mask) -> Topics:
    """By broker, the topics of those of `rows` that it has replicas of."""
    chosen = partitions.select(["topic", "replicas"]).filter(pa.array(rows))
    if not chosen.num_rows:
        return {}
    encoded: Any = pc.dictionary_encode(chosen["topic"]).combine_chunks()
    codes = np.asarray(encoded.indices.to_numpy(), dtype=np.int64)
    names = encoded.dictionary.to_pylist()
    flat, place = _flattened(chosen["replicas"])
    found: dict[int, set[str]] = {}
    for pair in np.unique((flat << 32) | codes[place]).tolist():
        found.setdefault(pair >> 32, set()).add(names[pair & 0xFFFFFFFF])
    return {broker: frozenset(topics) for broker, topics in found.items()}


def _flattened(column: pa.ChunkedArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    flat: Any = pc.list_flatten(column)
    rows: Any = pc.list_parent_indices(column)
    return np.asarray(flat.to_numpy(), dtype=np.int64), np.asarray(rows.to_numpy(), dtype=np.int64)
