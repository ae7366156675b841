"""ElectPreferredLeaders: leadership goes home in batches, the next only when the leaders of the last one serve.

The plan's partitions stand in a fixed order; a batch is a set of places in it, kept in the journal entry that was
written before the batch was sent. For each of its partitions a snapshot can say:

1. another broker leads it: not elected yet. If it is of the batch that is written down, that batch was not sent, or
   not in full, and is sent again: who leads already is left alone.
2. its preferred replica leads it, and has answered where its log ends: it serves.
3. its preferred replica leads it and has not answered, or nobody leads it: not serving yet. Nothing more is sent.

How large the next batch is follows from how long the last ones took to serve.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kafka_medic.cluster.snapshot import PartitionRow, Snapshot, TopicPartition
from kafka_medic.guard.elect import able_to_lead
from kafka_medic.guard.evaluate import some
from kafka_medic.playbook.effects import ElectPreferred
from kafka_medic.playbook.leadership.parameters import ElectParameters
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.durations import format_duration
from kafka_medic.resources.remediation_plan import MAX_ELECTED_AT_ONCE, Elections, Plan
from kafka_medic.resources.remediation_status import IntentState, JournalEntry, Progress

PLACES = "places"
"""Name of the saved value that holds which of the plan's partitions a batch names, as `0-49,60`."""
MAX_BATCHES = 150
JOURNAL_ROOM = 195
"""Entries of one step, and of all steps: a journal holds 200, a few of them for the end of a run. Batches that would be
more become larger instead."""


@dataclass(frozen=True, slots=True)
class _Standing:
    """Places in the plan's order, by what the snapshot says of the partition."""

    away: list[int]
    silent: list[int]
    serving: list[int]
    unknown: list[int]


def planned_elections(plan: Plan) -> list[tuple[TopicPartition, int]]:
    """Partition and preferred broker, in the plan's order."""
    return [(TopicPartition(e.topic, p), e.broker) for e in plan.part(Elections).elections for p in e.partitions]


def assess(
    step: str,
    plan: Plan,
    journal: Mapping[str, JournalEntry],
    snapshot: Snapshot,
    settings: ElectParameters,
    now: datetime,
) -> StepReport:
    """Where the step stands."""
    others = sum(entry.step != step for entry in journal.values())
    most = min(MAX_BATCHES, JOURNAL_ROOM - others)
    return elect(f"{step}/elect", planned_elections(plan), journal, snapshot, settings, now, most)


def elect(
    prefix: str,
    planned: list[tuple[TopicPartition, int]],
    journal: Mapping[str, JournalEntry],
    snapshot: Snapshot,
    settings: ElectParameters,
    now: datetime,
    most: int = MAX_BATCHES,
) -> StepReport:
    """Where elections stand whose batches have the journal ids `prefix`-0, `prefix`-1 and so on, at most `most`:
    the last one names all that are left, and what moves away once more after it is not followed. At most one batch is
    ever between its election and its leaders' serving."""
    if snapshot.partitions is None or snapshot.brokers is None:
        return StepReport(StepState.UNKNOWN, "the partitions could not be read")
    rows = {row.tp: row for row in snapshot.rows({tp for tp, _ in planned})}
    if moved := next((m for tp, broker in planned if (m := _reordered(rows.get(tp), broker))), None):
        return StepReport(StepState.DRIFTED, moved)
    standing = _standing(planned, rows)
    progress = Progress(done=len(standing.serving), total=len(planned), unit="partitions")
    batches = [e for e in journal.values() if e.id.startswith(f"{prefix}-")]
    begun = next((e for e in batches if e.state is IntentState.INTENDED), None)
    if begun is not None:
        return _begun(begun, standing, planned, settings, now, progress)
    if standing.unknown:
        message = f"leaders could not be read: {some([planned[i][0] for i in standing.unknown], 3)}"
        return StepReport(StepState.UNKNOWN, message, progress=progress)
    if not standing.away or len(batches) >= most:
        # What serves no more by now is for its own finding: nothing is left to elect.
        words = "skipped, leaders are already balanced"
        if planned:
            words = (
                f"led by the preferred replica and serving: {len(standing.serving)} of "
                f"{many(len(planned), 'partition')}"
            )
        return StepReport(StepState.REACHED, words, progress=progress)
    able = able_to_lead(snapshot) or frozenset()
    ready = [i for i in standing.away if planned[i][1] in able]
    # Where nobody is able, and in the last batch that there may be, the guards are asked about those next in line as
    # well, and say why not.
    last = len(batches) + 1 >= most
    chosen = (standing.away if last else ready or standing.away)[
        : batch_size(batches, settings, len(standing.away), most)
    ]
    return _elect(f"{prefix}-{len(batches)}", chosen, chosen, planned, progress)


def batch_size(batches: Sequence[JournalEntry], settings: ElectParameters, left: int, most: int = MAX_BATCHES) -> int:
    """How many partitions the next batch may name. It doubles after a batch that served within a quarter of the bound,
    and halves after one that took more than half of it: a loaded cluster takes longer, and gets less at once."""
    size = settings.batch_size
    for entry in batches:
        if entry.done_at is None:
            continue
        took = (entry.done_at - entry.intended_at).total_seconds()
        if took <= settings.leaderless_within / 4:
            size = min(size * 2, settings.batch_size * 8)
        elif took > settings.leaderless_within / 2:
            size = max(size // 2, 1)
    enough = -(-left // max(most - len(batches), 1))
    return min(max(size, enough), MAX_ELECTED_AT_ONCE)


def _reordered(row: PartitionRow | None, broker: int) -> str | None:
    if row is None or not row.replicas or row.replicas[0] == broker:
        return None
    return f"the preferred replica of {row.tp} is {row.replicas[0]} (planned: {broker})"


def _standing(planned: list[tuple[TopicPartition, int]], rows: Mapping[TopicPartition, PartitionRow]) -> _Standing:
    standing = _Standing([], [], [], [])
    for place, (tp, broker) in enumerate(planned):
        row = rows.get(tp)
        if row is None:
            standing.serving.append(place)  # its topic is gone: there is nothing to elect, and nothing is sent
        elif row.leader is None or not row.replicas:
            standing.unknown.append(place)
        elif row.leader == broker:
            (standing.serving if row.log_end is not None else standing.silent).append(place)
        elif row.leader < 0:
            standing.silent.append(place)
        else:
            standing.away.append(place)
    return standing


def _begun(
    entry: JournalEntry,
    standing: _Standing,
    planned: list[tuple[TopicPartition, int]],
    settings: ElectParameters,
    now: datetime,
    progress: Progress,
) -> StepReport:
    """The batch that was written down last: sent, or to be sent again, or waited for until its leaders serve."""
    places = _places(entry)
    since = (now - entry.intended_at).total_seconds()
    unsent = [i for i in standing.away if i in places]
    if unsent:
        return _elect(entry.id, unsent, sorted(places), planned, progress)
    waiting = [i for i in (*standing.silent, *standing.unknown) if i in places]
    if not waiting:
        message = f"a batch of {len(places)} serves; {many(len(standing.away), 'partition')} left"
        return StepReport(StepState.WAIT, message, observed=(entry.id,), progress=progress, streak=0)
    names = some([planned[i][0] for i in waiting], 3)
    message = f"not yet serving: {len(waiting)} of {many(len(places), 'partition')} of the last batch: {names}"
    late = None
    if since > settings.leaderless_within:
        late = f"{message}, {since:.0f} s after the election (limit {format_duration(settings.leaderless_within)})"
    return StepReport(StepState.WAIT, message, progress=progress, streak=0, stuck=late)


def _elect(
    id_: str, places: Sequence[int], batch: Sequence[int], planned: list[tuple[TopicPartition, int]], progress: Progress
) -> StepReport:
    return StepReport(
        StepState.ACT,
        f"electing the preferred leaders of {many(len(places), 'partition')}",
        intent=ElectPreferred(id_, {planned[i][0]: planned[i][1] for i in places}),
        target=some([planned[i][0] for i in batch], 5),
        saved={PLACES: _ranges(batch)},
        progress=progress,
    )


def _ranges(places: Sequence[int]) -> str:
    parts: list[str] = []
    first = last = places[0]
    for place in [*places[1:], -1]:
        if place == last + 1:
            last = place
            continue
        parts.append(str(first) if first == last else f"{first}-{last}")
        first = last = place
    return ",".join(parts)


def _places(entry: JournalEntry) -> frozenset[int]:
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", entry.saved_values().get(PLACES) or ""):
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
