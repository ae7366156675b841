"""Is what the guards judge by still true? Every answer rests on this one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from kafka_medic.cluster.snapshot import Mode, Snapshot, Source
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.resources.vocabulary import Guard

MAX_AGE = 30.0
"""Seconds that an observation may be old: two probes at the default interval of 15 s."""

SOURCES_FRESH = Guard.SOURCES_FRESH

CORE = ("kafka", "views", "reassignments")
"""What every effect on brokers and partitions rests on."""

OWN_NAMES = frozenset({"views", "reassignments", "log-dirs", "log-ends"})
"""A document that names any of these has one source for each reading, as this project's observers write it;
then a reading without its source was not made. The document's format does not fix the names, though: one from
another writer may have fewer and coarser sources, and then those that it has stand for all that is not null
in it."""


def metadata_sources(snapshot: Snapshot) -> tuple[str, ...]:
    """Where the health of whoever keeps the metadata is read from."""
    return ("zookeeper", "ensemble") if snapshot.cluster.mode is Mode.ZOOKEEPER else ("quorum",)


def begun(source: Source) -> datetime | None:
    """When its reading began: what it told may be as old as that, however late the rest of it came."""
    if source.observed_at is None:
        return None
    return source.observed_at - timedelta(milliseconds=source.duration_ms or 0)


def seconds_since_read(snapshot: Snapshot, now: datetime) -> float:
    """The age at `now` of the oldest of what a restart, an election or a reassignment rests on."""
    needed = (*CORE, "kubernetes", *metadata_sources(snapshot))
    ages = [(now - at).total_seconds() for s in snapshot.sources if s.name in needed and (at := begun(s)) is not None]
    return max(0.0, *ages) if ages else 0.0


def sources_fresh(
    snapshot: Snapshot,
    now: datetime,
    needed: Sequence[str],
    *,
    every: bool = False,
    but: Collection[str] = (),
    max_age: float = MAX_AGE,
) -> tuple[Reason, ...]:
    """The `needed` sources answered, no longer than `max_age` seconds before (or, a probe takes its time,
    after) `now`. With `every`, so did all that the snapshot names, but for those in `but`. One reason for each source
    that did not. What a source that answered could not report is for the guards that need it (`cluster.elements`)."""
    kept = replace(snapshot, sources=tuple(s for s in snapshot.sources if s.name not in but)) if but else snapshot
    problems = tuple(_problems(kept, now, needed, every, max_age))
    if problems:
        return tuple(Reason(SOURCES_FRESH, Verdict.UNKNOWN, p) for p in problems)
    return (Reason(SOURCES_FRESH, Verdict.ALLOW, f"every source answered within {max_age:g} s"),)


def _problems(snapshot: Snapshot, now: datetime, needed: Sequence[str], every: bool, max_age: float) -> Iterator[str]:
    if not snapshot.sources:
        yield "the snapshot names no source, so its age is not known"
        return
    names = {s.name for s in snapshot.sources}
    foreign = not names & OWN_NAMES
    for source in snapshot.sources:
        if (every or foreign or source.name in needed) and (problem := _problem(source, now, max_age)):
            yield problem
    if not foreign:
        yield from (f"the snapshot has no source {name}: it was not read" for name in needed if name not in names)


def _problem(source: Source, now: datetime, max_age: float) -> str | None:
    if not source.known:
        return f"{source.name} did not answer: {source.error or 'no reason given'}"
    if source.observed_at is None:
        return f"{source.name} has no time of reading"
    ahead = (source.observed_at - now).total_seconds()
    if ahead > max_age:
        return f"{source.name} was read {ahead:.0f} s in the future: a clock is wrong"
    age = (now - (begun(source) or now)).total_seconds()
    if age > max_age:
        return f"{source.name} was read {age:.0f} s ago (limit {max_age:g} s)"
    return None
