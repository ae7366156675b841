"""The verifier's counts of one part of a plan that is made in parts: what adds up to the summary of the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kafka_medic.plan.arrow import Column, integers
from kafka_medic.plan.lists import Array, place_among
from kafka_medic.plan.verify.rules import Check
from kafka_medic.plan.wave_limits import WaveLimits

__all__ = ["LOADS", "PartCounts", "count_part", "replicas_of_brokers", "wave_loads"]

LOADS = ("wave", "broker", "bytesIn", "bytesOut", "partitions", "records")
"""Columns of what waves load brokers with; broker -1 stands for the wave itself, of which records are counted."""


@dataclass(frozen=True, eq=False)
class PartCounts:
    """Of the partitions of one part, before and after the plan.

    problems: rules that the plan of this part breaks. rows: partitions that it changes; moves: replicas that come;
    least: moves that no plan can do without. Per broker, by id, dead ones too, int64[B]: before, after: replicas;
    given: of those before the ones that stay; reach: replicas after the plan of the partitions that it changes;
    led_before, led: preferred leaders; led_reassigned: those before replicas are reordered, which `reordered`
    partitions are; fixed: those of the partitions that the plan leaves alone; stored, arriving: known bytes before, and
    bytes that come. wave, records, added: int64[W] each wave seen here, its partitions and its replicas. violations,
    unavoidable: as a Summary counts them. left_out: partitions that stay though they should change, by LeftOut's key.
    """

    problems: tuple[str, ...]
    rows: int
    moves: int
    least: int
    before: Array
    after: Array
    given: Array
    reach: Array
    led_before: Array
    led: Array
    led_reassigned: Array
    fixed: Array
    stored: Array
    arriving: Array
    wave: Array
    records: Array
    added: Array
    violations: int
    unavoidable: int
    reordered: int
    left_out: Mapping[str, int]


def count_part(check: Check, sizes: Column, limits: WaveLimits) -> PartCounts:
    """Check a part and count it. sizes: bytes of each row of the plan, null: unknown."""
    problems = check.placement() or check.waves(sizes, check.senders(), limits)
    if problems:
        return _nothing(problems)
    ids = check.ids

    def count(values: Array) -> Array:
        return np.bincount(place_among(ids, values), minlength=len(ids)).astype(np.int64)

    before, claimed, reach = count(check.before.values), count(check.claimed.values), count(check.after.values)
    first = check.before.values[check.before.start]
    fixed = count(first[~check.touched])
    lead, first_now = (lists.values[lists.start] for lists in (check.order, check.after))
    stored = np.zeros(len(ids), dtype=np.int64)
    if "sizeBytes" in check.raw.column_names:
        size = integers(check.raw.column("sizeBytes"), 0)
        np.add.at(stored, place_among(ids, check.before.values), check.before.each(size))
    added = check.after.length - check.staying.length
    wave, of = np.unique(integers(check.table.column("wave")), return_inverse=True)
    violations, unavoidable = check.rack_figures()
    return PartCounts(
        (),
        check.table.num_rows,
        int(added.sum()),
        check.least_moves(),
        before,
        before - claimed + reach,
        before - claimed + count(check.staying.values),
        reach,
        count(first),
        fixed + count(lead),
        fixed + count(first_now),
        fixed,
        stored,
        check.arriving(sizes),
        wave,
        np.bincount(of, minlength=len(wave)).astype(np.int64),
        np.bincount(of, weights=added, minlength=len(wave)).astype(np.int64),
        violations,
        unavoidable,
        int((lead != first_now).sum()),
        {why.key: count for why, count in check.left_out.items() if count},
    )


def replicas_of_brokers(check: Check) -> tuple[Array, Array]:
    """(int64[B], twice) replicas on each broker before and after the plan of a part, dead brokers too."""

    def count(values: Array) -> Array:
        return np.bincount(place_among(check.ids, values), minlength=len(check.ids)).astype(np.int64)

    before = count(check.before.values)
    return before, before - count(check.claimed.values) + count(check.after.values)


def _nothing(problems: list[str]) -> PartCounts:
    """What is counted of a part that breaks a rule."""
    none = np.zeros(0, dtype=np.int64)
    broker, wave = (none,) * 10, (none,) * 3
    return PartCounts(tuple(problems), 0, 0, 0, *broker, *wave, 0, 0, 0, {})


def wave_loads(check: Check, limits: WaveLimits) -> tuple[pa.Table, Array]:
    """(what each wave of a part loads each broker with, where it does: LOADS, int64 each; int64[B] bytes that come to
    each broker). A partition larger than a whole allowance counts as one allowance. After `placement`."""
    ids, wave = check.ids, integers(check.table.column("wave"))
    size = np.zeros(len(wave), dtype=np.int64)
    if "sizeBytes" in check.raw.column_names:
        size = np.maximum(integers(check.raw.column("sizeBytes"), 0)[check.place], 0)
    added, new = check.after.length - check.staying.length, check.new()
    row, to = check.after.row[new], place_among(ids, check.after.values[new])
    arriving = np.zeros(len(ids), dtype=np.int64)
    np.add.at(arriving, to, size[row])
    sender = place_among(ids, check.senders())
    one, none = np.ones(len(wave), dtype=np.int64), np.zeros(len(wave), dtype=np.int64)
    entries = [
        (wave[row], to, np.minimum(size, limits.bytes_in)[row], none[row], one[row], none[row]),
        (wave, sender, none, np.minimum(size * added, limits.bytes_out), one, none),
        (wave, none - 1, none, none, none, one),
    ]
    numbers, broker, *amounts = (np.concatenate(part) for part in zip(*entries, strict=True))
    key, of = np.unique(numbers * (len(ids) + 1) + broker + 1, return_inverse=True)
    totals = []
    for amount in amounts:
        total = np.zeros(len(key), dtype=np.int64)
        np.add.at(total, of, amount)
        totals.append(pa.array(total))
    columns = [pa.array(key // (len(ids) + 1)), pa.array(key % (len(ids) + 1) - 1), *totals]
    return pa.table(columns, names=list(LOADS)), arriving
