"""Partitions that nobody leads, that lack replicas in the ISR, or that refuse acks=all writes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from kafka_medic.cluster.document import timestamp
from kafka_medic.cluster.elements import failed_directories, groups_unread
from kafka_medic.diagnose.columns import Ints, Mask, Partitions, numbers, partitions_of, some, strings
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.refusing import Refusing, refusing
from kafka_medic.diagnose.scene import Scene
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Severity

LEADERLESS_FOR = 15.0
"""Seconds: an election leaves a partition without a leader for a moment; one that has had none for a whole
probe interval is not waiting for an election."""
UNDER_MIN_ISR_FOR = 15.0
UNDER_REPLICATED_FOR = 30.0
"""Seconds: `replica.lag.time.max.ms`, after which a follower leaves the ISR, is 30 s by default."""


def detect(scene: Scene) -> Iterator[Finding]:
    """PartitionLeaderless, PartitionUnderReplicated, PartitionUnderMinIsr."""
    p = scene.partitions
    if p is None:
        return
    leaderless = p.leader.known & (p.leader.values < 0)
    if leaderless.any():
        yield _leaderless(scene, p, leaderless)
    yield from _under_replicated(scene, p)
    # One that nobody leads cannot be written to for a worse reason, which has its own finding.
    short = refusing(scene.snapshot)
    if short is not None and short.rows.any():
        yield _under_min_isr(scene, p, short)


def _leaderless(scene: Scene, p: Partitions, leaderless: Mask) -> Finding:
    rows = np.flatnonzero(leaderless)
    lists = _replicas_of(p, leaderless)
    by_brokers: Counter[tuple[int, ...]] = Counter()
    with_replica_alive = []
    for row in rows.tolist():
        replicas = lists.get(row)
        if not replicas:
            continue
        if all(scene.down(b) for b in replicas):
            by_brokers[tuple(sorted(replicas))] += 1
        else:
            with_replica_alive.append(str(p.name(row)))
    evidence = [
        f"{many(count, 'partition has its', 'partitions have their')} only replicas on {_missing(brokers)} back"
        for brokers, count in by_brokers.most_common(10)
    ]
    if with_replica_alive:
        evidence.append(
            f"with a replica on a broker that may be up: {some(with_replica_alive)}; "
            "if that replica is not in the ISR, electing it would lose acknowledged records"
        )
    evidence += [*_unreadable(scene, p, leaderless), scene.read_from("kafka", "views")]
    return Finding(
        id="PartitionLeaderless",
        type="PartitionLeaderless",
        severity=Severity.CRITICAL,
        message=(
            f"{many(len(rows), 'partition has', 'partitions have')} no leader, so clients can neither write nor read"
        ),
        affected=p.names(leaderless),
        evidence=tuple(evidence),
        for_seconds=LEADERLESS_FOR,
    )


def _unreadable(scene: Scene, p: Partitions, leaderless: Mask) -> Iterator[str]:
    """How many records, from its committed offset to the log end, each group cannot read. A partition without
    a leader has nobody to ask for its log end, so the last one that was known is used and said to be old."""
    now, before = scene.snapshot, scene.previous
    groups = now.groups if now.groups is not None else before.groups if before else None
    if groups is None:
        yield "which groups wait for these partitions is not known"
        return
    if now.groups is not None and (unread := groups_unread(now)):
        yield f"whether other groups wait for these partitions is not known: {some(unread, 3)}"
    row_of = p.rows_of(groups["topic"], numbers(groups["partition"]).values)
    committed = numbers(groups["committed"])
    waiting = (row_of >= 0) & committed.known & (committed.values >= 0)
    waiting[waiting] = leaderless[row_of[waiting]]
    if not waiting.any():
        return
    ends, known, as_of = _log_ends(scene, p)
    names = strings(groups["group"])
    missing: dict[str, int] = defaultdict(int)
    unsure: set[str] = set()
    details: dict[str, list[str]] = defaultdict(list)
    for i in np.flatnonzero(waiting).tolist():
        row = int(row_of[i])
        if not known[row]:
            missing.setdefault(names[i], 0)
            unsure.add(names[i])
            details[names[i]].append(f"{p.name(row)} committed {committed.values[i]}, log end not known")
            continue
        missing[names[i]] += max(0, int(ends[row] - committed.values[i]))
        details[names[i]].append(f"{p.name(row)} committed {committed.values[i]}, log end {ends[row]}")
    for group in sorted(missing, key=lambda g: (-missing[g], g))[:10]:
        count = f"{'at least ' if group in unsure else ''}{many(missing[group], 'record')}"
        if not missing[group] and group in unsure:
            count = "an unknown number of records"
        yield f"group {group} cannot read {count}: {some(details[group], 3)}{as_of}"


def _log_ends(scene: Scene, p: Partitions) -> tuple[Ints, Mask, str]:
    """Each partition's log end, where it is known, and in words what those are that nobody tells now."""
    ends, known = p.log_end.values.copy(), p.log_end.known.copy()
    before, memory = scene.previous, scene.memory
    if memory is not None and memory.ends.num_rows:
        at = p.rows_of(memory.ends["topic"], numbers(memory.ends["partition"]).values)
        use = (at >= 0) & ~known[at]
        ends[at[use]] = numbers(memory.ends["logEnd"]).values[use]
        known[at[use]] = True
        return ends, known, " (unknown log ends: the last known ones)" if use.any() else ""
    older = None if before is None else partitions_of(before)
    if before is None or older is None:
        return ends, known, ""
    at = older.rows_of(pa.chunked_array([pa.array(_topics(p), pa.string())]), p.partition)
    use = ~known & (at >= 0)
    use[use] = older.log_end.known[at[use]]
    ends[use] = older.log_end.values[at[use]]
    return ends, known | use, f" (unknown log ends: those of {timestamp(before.taken_at)})"


def _under_replicated(scene: Scene, p: Partitions) -> Iterator[Finding]:
    """A replica that a reassignment is adding is expected to be out of the ISR, and does not count."""
    both = p.replicas.known & p.isr.known
    out = ~p.replicas.within(p.isr) & ~p.replicas.within(p.adding) & both[p.replicas.rows]
    short = p.replicas.per_row(out) > 0
    if not short.any():
        return
    ids, counts = np.unique(p.replicas.ids[out], return_counts=True)
    lagging = [
        f"broker {b}{_state(scene, b)} is out of the ISR of {many(n, 'partition')}"
        for b, n in zip(ids.tolist(), counts.tolist(), strict=True)
    ]
    yield Finding(
        id="PartitionUnderReplicated",
        type="PartitionUnderReplicated",
        severity=Severity.WARNING,
        message=f"{many(int(short.sum()), 'partition has', 'partitions have')} a replica that is not in sync",
        affected=p.names(short),
        evidence=(some(lagging), scene.read_from("kafka", "views")),
        for_seconds=UNDER_REPLICATED_FOR,
    )


def _state(scene: Scene, broker: int) -> str:
    if scene.down(broker):
        return " (down)"
    return " (a log directory failed)" if failed_directories(scene.snapshot.broker(broker)) else ""


def _under_min_isr(scene: Scene, p: Partitions, short: Refusing) -> Finding:
    examples = [
        f"{p.name(int(r))} has {p.isr.counts[r]} in sync (required: {short.needed[r]})"
        for r in np.flatnonzero(short.rows)[:10]
    ]
    return Finding(
        id="PartitionUnderMinIsr",
        type="PartitionUnderMinIsr",
        severity=Severity.CRITICAL,
        message=f"{many(int(short.rows.sum()), 'partition refuses', 'partitions refuse')} acks=all writes: ISR below "
        "min.insync.replicas",
        affected=p.names(short.rows),
        evidence=(some(examples), scene.read_from("kafka", "views")),
        for_seconds=UNDER_MIN_ISR_FOR,
    )


def _replicas_of(p: Partitions, rows: Mask) -> dict[int, list[int]]:
    chosen = rows[p.replicas.rows]
    lists: dict[int, list[int]] = defaultdict(list)
    for row, broker in zip(p.replicas.rows[chosen].tolist(), p.replicas.ids[chosen].tolist(), strict=True):
        lists[row].append(broker)
    return lists


def _topics(p: Partitions) -> list[str]:
    return [p.topics[code] for code in p.topic.tolist()]


def _missing(ids: tuple[int, ...]) -> str:
    if len(ids) == 1:
        return f"broker {ids[0]}, which is missing: bring it"
    return f"brokers {', '.join(map(str, ids))}, which are missing: bring one of them"
