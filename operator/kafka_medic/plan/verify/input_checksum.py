"""Checksums of the input and of the plan, for a table that is seen in parts: both have to agree.

A sum of hashes over the partitions to be changed, with their replicas, is the same in any order and any
division into parts, so what was planned is compared with the input without joining the two tables.
It shares no code with the planner.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_medic.plan.allowed import Allowed
from kafka_medic.plan.arrow import Column, integers, names
from kafka_medic.plan.lists import Lists, flatten, place_among
from kafka_medic.plan.problem import Broker
from kafka_medic.plan.verify.rules import Check

__all__ = ["InputChecksum", "PlanChecksum", "input_checksum", "mix", "plan_checksum"]

Array = npt.NDArray[Any]
DENSE_IDS = 1 << 20
"""Below this, all ids are counted, not only those that there are."""
Wish = Callable[[str], int | None]


@dataclass(frozen=True, eq=False)
class InputChecksum:
    """Of the partitions as they are. below: how many lack replicas and have none on a dead broker; missing: replicas
    they lack; checksum: hash of those partitions. stuck: how many lack replicas, but have one on a dead broker.
    load, stored: int64[B] replicas and known bytes per broker (brokers by id, dead ones too); first: int64[B] first
    replicas of the others."""

    below: int
    missing: int
    checksum: int
    load: Array
    first: Array
    stored: Array
    stuck: int = 0


@dataclass(frozen=True, eq=False)
class PlanChecksum:
    """Of a plan's rows. problems: rules that a row breaks. gained: int64[B] replicas added; before, lead: int64[B]
    first replicas before and in the preferred order. wave, records, added: int64[W] each wave seen here, its partitions
    and its replicas. violations, unavoidable: as a Summary counts them."""

    problems: tuple[str, ...]
    rows: int
    checksum: int
    gained: Array
    before: Array
    lead: Array
    wave: Array
    records: Array
    added: Array
    violations: int
    unavoidable: int


def input_checksum(table: pa.Table, brokers: Sequence[Broker], wish: Wish) -> InputChecksum:
    """Count a part of the partitions; every broker named has to be listed."""
    ids = _ids(brokers)
    size = integers(_whole(table, "sizeBytes"), 0) if "sizeBytes" in table.column_names else None
    table = _with_codes(table.select(["topic", "partition", "replicas"]))
    replicas = flatten(_whole(table, "replicas"))
    stored = np.zeros(len(ids), dtype=np.int64)
    if size is not None:
        np.add.at(stored, place_among(ids, replicas.values), replicas.each(size))
    encoded = _whole(table, "topic")
    factor = np.array([wish(name) or 0 for name in names(encoded.dictionary)], dtype=np.int64)
    wanted = factor[integers(encoded.indices)] if len(factor) else np.zeros(0, dtype=np.int64)
    below = replicas.length < wanted
    dead = np.array([broker.id for broker in brokers if not broker.alive], dtype=np.int64)
    stuck = np.zeros(len(below), dtype=bool)
    stuck[replicas.row[np.isin(replicas.values, dead)] if len(dead) else slice(0)] = True
    stuck &= below
    below &= ~stuck
    first = replicas.values[replicas.start]
    return InputChecksum(
        int(below.sum()),
        int((wanted - replicas.length)[below].sum()),
        _checksum(table if below.all() else table.filter(pa.array(below))),
        _count(replicas.values, ids),
        _count(first[~below], ids),
        stored,
        int(stuck.sum()),
    )


def plan_checksum(table: pa.Table, brokers: Sequence[Broker], wish: Wish) -> PlanChecksum:
    """Count and check a part of a plan; its own replicasBefore stand for the partitions as they were."""
    table = _with_codes(table.combine_chunks())
    partitions = table.select(["topic", "partition", "replicasBefore"]).rename_columns(
        ["topic", "partition", "replicas"]
    )
    ids = _ids(brokers)
    check = Check(_PartRequest(partitions, brokers, wish), table)
    problems = tuple(check.placement())
    violations, unavoidable = (0, 0) if problems else check.rack_figures()
    wave, of = np.unique(integers(table.column("wave")), return_inverse=True)
    added = np.bincount(of, weights=check.after.length - check.claimed.length, minlength=len(wave))
    return PlanChecksum(
        problems,
        table.num_rows,
        _checksum(partitions),
        _count(check.after.values, ids) - _count(check.claimed.values, ids),
        _count(check.claimed.values[check.claimed.start], ids),
        _count(check.order.values[check.order.start], ids),
        wave,
        np.bincount(of, minlength=len(wave)),
        added.astype(np.int64),
        violations,
        unavoidable,
    )


def mix(numbers: Array) -> Array:
    """uint64: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), a bijection that scatters its input."""
    z: Array = numbers.astype(np.uint64)
    z += np.uint64(0x9E3779B97F4A7C15)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


@dataclass(frozen=True, eq=False)
class _PartRequest:
    partitions: pa.Table
    brokers: Sequence[Broker]
    wish: Wish
    allowed: Allowed = field(default_factory=Allowed)

    def wanted(self, topic: str) -> int | None:
        return self.wish(topic)


def _checksum(table: pa.Table) -> int:
    """Sum, modulo 2**64, of a hash of each row's topic, partition and list of replicas, as a signed number."""
    if not table.num_rows:
        return 0
    encoded = _whole(table, "topic")
    words = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names(encoded.dictionary)]
    row = np.frombuffer(b"".join(words), dtype=np.uint64)[integers(encoded.indices)]
    row ^= mix(integers(table.column("partition")))
    row = mix(row)
    row += _list_hashes(flatten(_whole(table, "replicas")))
    return int(np.sum(mix(row), dtype=np.uint64).astype(np.int64))


def _list_hashes(lists: Lists) -> Array:
    """uint64[N]: for each list the sum of a hash of each item and its place."""
    values = lists.values.astype(np.int64)
    width, top = int(lists.length.max(initial=0)), int(lists.values.max(initial=0))
    if width * (top + 1) <= len(lists.values) and int(lists.values.min(initial=0)) >= 0:
        # Fewer pairs of an item and a place than there are items: look them up.
        known = mix(np.arange(top + 1)[:, None] << 8 | np.arange(width) & 0xFF).ravel()
        items = known[values * width + lists.position]
    else:
        items = mix(values << 8 | lists.position & 0xFF)
    if lists.width:
        return np.asarray(items.reshape(-1, lists.width).sum(axis=1, dtype=np.uint64))
    running = np.concatenate((np.zeros(1, dtype=np.uint64), np.cumsum(items, dtype=np.uint64)))
    return np.asarray(running[lists.start + lists.length] - running[lists.start])


def _with_codes(table: pa.Table) -> pa.Table:
    """The table with its topics as a dictionary, so that each name is hashed once."""
    topic = _whole(table, "topic")
    if not pa.types.is_dictionary(topic.type):
        topic = topic.cast(pa.string()).dictionary_encode()
    return table.set_column(table.column_names.index("topic"), "topic", topic)


def _ids(brokers: Sequence[Broker]) -> Array:
    return np.array(sorted(broker.id for broker in brokers), dtype=np.int64)


def _count(values: Array, ids: Array) -> Array:
    if len(ids) and ids[-1] < DENSE_IDS:
        return np.bincount(values, minlength=int(ids[-1]) + 1)[ids].astype(np.int64)
    return np.bincount(np.searchsorted(ids, values), minlength=len(ids)).astype(np.int64)


def _whole(table: pa.Table, name: str) -> Column:
    column: Column = table.column(name).combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
