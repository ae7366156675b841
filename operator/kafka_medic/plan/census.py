"""The verifier's count of a table that is seen in parts: what went in, what came out, and that both are the same.

A sum of hashes over the partitions to be changed, with their replicas, is the same in any order and any
division into parts, so what was planned is compared with what was asked without joining the two tables.
It shares no code with the planner.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_medic.plan.arrow import Column, compute, flat_values, integers, list_lengths, names
from kafka_medic.plan.problem import Broker
from kafka_medic.plan.verify import Check

__all__ = ["Asking", "Outcome", "asking", "mix", "outcome"]

Array = npt.NDArray[Any]
DENSE_IDS = 1 << 20
"""Below this, all ids are counted, not only those that there are."""
Wish = Callable[[str], int | None]


@dataclass(frozen=True, eq=False)
class Asking:
    """Of the partitions as they are. below: how many lack replicas; missing: replicas they lack; mark: hash of those
    partitions. load: int64[B] replicas per broker (brokers by id, dead ones too); first: int64[B] first replicas of
    the others."""

    below: int
    missing: int
    mark: int
    load: Array
    first: Array


@dataclass(frozen=True, eq=False)
class Outcome:
    """Of a plan's rows. problems: rules that a row breaks. gained: int64[B] replicas added; before, lead: int64[B]
    first replicas before and in the preferred order. wave, records, added: int64[W] each wave seen here, its partitions
    and its replicas. violations, unavoidable: as a Summary counts them."""

    problems: tuple[str, ...]
    rows: int
    mark: int
    gained: Array
    before: Array
    lead: Array
    wave: Array
    records: Array
    added: Array
    violations: int
    unavoidable: int


def asking(table: pa.Table, brokers: Sequence[Broker], wish: Wish) -> Asking:
    """Count a part of the partitions; every broker named has to be listed."""
    ids = _ids(brokers)
    replicas = _whole(table, "replicas")
    length, values = list_lengths(replicas), flat_values(replicas)
    encoded = _whole(table, "topic").cast(pa.string()).dictionary_encode()
    factor = np.array([wish(name) or 0 for name in names(encoded.dictionary)], dtype=np.int64)
    wanted = factor[integers(encoded.indices)] if len(factor) else np.zeros(0, dtype=np.int64)
    below = length < wanted
    first = values[np.cumsum(length) - length]
    return Asking(
        int(below.sum()),
        int((wanted - length)[below].sum()),
        _mark(table.filter(pa.array(below)), "replicas"),
        _count(values, ids),
        _count(first[~below], ids),
    )


def outcome(table: pa.Table, brokers: Sequence[Broker], wish: Wish) -> Outcome:
    """Count and check a part of a plan; its own replicasBefore stand for the partitions as they were."""
    table = table.combine_chunks()
    partitions = table.select(["topic", "partition", "replicasBefore"]).rename_columns(
        ["topic", "partition", "replicas"]
    )
    ids = _ids(brokers)
    check = Check(_Asked(partitions, brokers, wish), table)
    problems = tuple(check.placement())
    violations, unavoidable = (0, 0) if problems else check.rack_figures()
    held, after, order = (_whole(table, name) for name in ("replicasBefore", "replicas", "preferredOrder"))
    wave, of = np.unique(integers(table.column("wave")), return_inverse=True)
    added = np.bincount(of, weights=list_lengths(after) - list_lengths(held), minlength=len(wave))
    return Outcome(
        problems,
        table.num_rows,
        _mark(partitions, "replicas"),
        _count(flat_values(after), ids) - _count(flat_values(held), ids),
        _count(integers(compute.list_element(held, 0)), ids),
        _count(integers(compute.list_element(order, 0)), ids),
        wave,
        np.bincount(of, minlength=len(wave)),
        added.astype(np.int64),
        violations,
        unavoidable,
    )


def mix(numbers: Array) -> Array:
    """uint64: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), a bijection that scatters its input."""
    z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    scattered: Array = z ^ (z >> np.uint64(31))
    return scattered


@dataclass(frozen=True, eq=False)
class _Asked:
    partitions: pa.Table
    brokers: Sequence[Broker]
    wish: Wish

    def wanted(self, topic: str) -> int | None:
        return self.wish(topic)


def _mark(table: pa.Table, lists: str) -> int:
    """Sum, modulo 2**64, of a hash of each row's topic, partition and list of brokers, as a signed number."""
    if not table.num_rows:
        return 0
    encoded = _whole(table, "topic").cast(pa.string()).dictionary_encode()
    words = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names(encoded.dictionary)]
    topic = np.frombuffer(b"".join(words), dtype=np.uint64)[integers(encoded.indices)]
    column = _whole(table, lists)
    length, values = list_lengths(column), flat_values(column)
    end = np.cumsum(length)
    place = np.arange(len(values)) - np.repeat(end - length, length)
    items = np.cumsum(mix(values << 8 | place & 0xFF), dtype=np.uint64)
    running = np.concatenate((np.zeros(1, dtype=np.uint64), items))
    row = mix(mix(topic ^ mix(integers(table.column("partition")))) + (running[end] - running[end - length]))
    return int(np.sum(row, dtype=np.uint64).astype(np.int64))


def _ids(brokers: Sequence[Broker]) -> Array:
    return np.array(sorted(broker.id for broker in brokers), dtype=np.int64)


def _count(values: Array, ids: Array) -> Array:
    if len(ids) and ids[-1] < DENSE_IDS:
        return np.bincount(values, minlength=int(ids[-1]) + 1)[ids].astype(np.int64)
    return np.bincount(np.searchsorted(ids, values), minlength=len(ids)).astype(np.int64)


def _whole(table: pa.Table, name: str) -> Column:
    column: Column = table.column(name).combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
