"""May preferred leaders be elected now?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from kafka_medic.cluster.snapshot import PartitionRow, Snapshot, TopicPartition
from kafka_medic.guard import fit
from kafka_medic.guard.evaluate import evaluate, some
from kafka_medic.guard.freshness import MAX_AGE, SOURCES_FRESH, sources_fresh
from kafka_medic.guard.peers import NO_FOREIGN_ROLLOUT, nothing_rolls_out
from kafka_medic.guard.rows import known_ids, troubled_rows
from kafka_medic.guard.verdict import Judgement, Reason, Verdict
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Guard

NEEDED = ("kafka", "views", "reassignments")
PARTITIONS_KNOWN = Guard.PARTITIONS_KNOWN
CONTROLLER_ACTIVE = Guard.CONTROLLER_ACTIVE
PREFERRED_IN_ISR = Guard.PREFERRED_IN_ISR
PREFERRED_CAUGHT_UP = Guard.PREFERRED_CAUGHT_UP
NOT_REASSIGNING = Guard.NOT_REASSIGNING

ELECT_GUARDS = (
    PARTITIONS_KNOWN,
    CONTROLLER_ACTIVE,
    PREFERRED_IN_ISR,
    fit.FIT_TO_RECEIVE,
    PREFERRED_CAUGHT_UP,
    NOT_REASSIGNING,
    NO_FOREIGN_ROLLOUT,
)
"""Mandatory for every election; SourcesFresh comes before them."""


def judge_elect(
    snapshot: Snapshot,
    now: datetime,
    partitions: Collection[TopicPartition] | None = None,
    *,
    max_age: float = MAX_AGE,
) -> Judgement:
    """All guards on electing the preferred leaders of `partitions`, or (None) of every partition that another
    broker leads. Kafka itself only asks that the preferred replica is registered and in the ISR, and so would
    elect a stopped process whose session has not ended."""
    rows = _wanted(snapshot, partitions)
    return evaluate(
        [
            (SOURCES_FRESH, lambda: sources_fresh(snapshot, now, NEEDED, max_age=max_age)),
            (PARTITIONS_KNOWN, lambda: _partitions_known(snapshot, rows, partitions)),
            (CONTROLLER_ACTIVE, lambda: controller_active(snapshot)),
            (PREFERRED_IN_ISR, lambda: _in_isr(rows)),
            (fit.FIT_TO_RECEIVE, lambda: fit.fit_to_receive(snapshot, _receivers(rows), [r.tp for r in rows])),
            (PREFERRED_CAUGHT_UP, lambda: _caught_up(snapshot, rows)),
            (NOT_REASSIGNING, lambda: _not_reassigning(rows)),
            (NO_FOREIGN_ROLLOUT, lambda: nothing_rolls_out(snapshot)),
        ]
    )


def able_to_lead(snapshot: Snapshot) -> frozenset[int] | None:
    """Brokers that are fit to receive, and in every ISR they belong to; None when that is not known of any."""
    troubled, able = troubled_rows(snapshot), fit.fit_brokers(snapshot)
    if troubled is None or able is None:
        return None
    behind: set[int] = set()
    for row in troubled:
        replicas, isr = known_ids(row.replicas), known_ids(row.isr)
        if replicas is not None and isr is not None:
            behind |= replicas - isr
    return able - behind


def _wanted(snapshot: Snapshot, partitions: Collection[TopicPartition] | None) -> tuple[PartitionRow, ...]:
    if partitions is not None:
        return tuple(snapshot.rows(set(partitions)))
    # A leader or replica list that is not known may be away from home as well, so it is asked about.
    return tuple(r for r in snapshot.rows() if not (_preferred(r) is not None and r.leader == _preferred(r)))


def _receivers(rows: Sequence[PartitionRow]) -> frozenset[int]:
    return frozenset(p for r in rows if (p := _preferred(r)) is not None)


def _preferred(row: PartitionRow) -> int | None:
    return row.replicas[0] if row.replicas else None


def _partitions_known(
    snapshot: Snapshot, rows: Sequence[PartitionRow], partitions: Collection[TopicPartition] | None
) -> Reason:
    if snapshot.partitions is None:
        return Reason(PARTITIONS_KNOWN, Verdict.UNKNOWN, "the partitions are not known")
    if missing := sorted(set(partitions or ()) - {r.tp for r in rows}):
        return Reason(PARTITIONS_KNOWN, Verdict.DENY, f"partition {some(missing)} does not exist")
    if unknown := [r.tp for r in rows if _preferred(r) is None or r.leader is None]:
        return Reason(PARTITIONS_KNOWN, Verdict.UNKNOWN, f"replicas or leader not known: {some(unknown)}")
    sentence = f"{many(len(rows), 'partition')} to elect" if rows else "every partition is led by its preferred replica"
    return Reason(PARTITIONS_KNOWN, Verdict.ALLOW, sentence)


def controller_active(snapshot: Snapshot) -> Reason:
    controller = snapshot.controller
    if controller is None or controller.id is None or controller.id < 0:
        return Reason(CONTROLLER_ACTIVE, Verdict.UNKNOWN, "the active controller, which elects, is not known")
    return Reason(CONTROLLER_ACTIVE, Verdict.ALLOW, f"the active controller is {controller.id}")


def _in_isr(rows: Sequence[PartitionRow]) -> tuple[Reason, ...]:
    unknown = [r.tp for r in rows if known_ids(r.isr) is None]
    known = [(r, isr) for r in rows if (isr := known_ids(r.isr)) is not None and _preferred(r) is not None]
    out = [r.tp for r, isr in known if _preferred(r) not in isr]
    return tuple(
        _answer(
            PREFERRED_IN_ISR,
            "every preferred replica is in the ISR",
            (Verdict.DENY, "the preferred replica is not in the ISR: {}", out),
            (Verdict.UNKNOWN, "the ISR is not known: {}", unknown),
        )
    )


def _caught_up(snapshot: Snapshot, rows: Sequence[PartitionRow]) -> tuple[Reason, ...]:
    """A broker that is out of any ISR is still catching up, and would have to lead and to copy at once."""
    troubled = troubled_rows(snapshot)
    if troubled is None:
        return (Reason(PREFERRED_CAUGHT_UP, Verdict.UNKNOWN, "the partitions are not known"),)
    preferred = _receivers(rows)
    behind: set[int] = set()
    unknown = []
    for row in troubled:
        replicas, isr = known_ids(row.replicas), known_ids(row.isr)
        if replicas is None or isr is None:
            unknown.append(row.tp)
        else:
            behind |= (replicas - isr) & preferred
    return tuple(
        _answer(
            PREFERRED_CAUGHT_UP,
            "every preferred broker is in every ISR of its replicas",
            (Verdict.WAIT, "still catching up: broker {}", sorted(behind)),
            (Verdict.UNKNOWN, "replicas or ISR not known: {}", unknown),
        )
    )


def _not_reassigning(rows: Sequence[PartitionRow]) -> tuple[Reason, ...]:
    return tuple(
        _answer(
            NOT_REASSIGNING,
            "none of the partitions is being reassigned",
            (Verdict.WAIT, "being reassigned: {}", [r.tp for r in rows if r.adding or r.removing]),
            (
                Verdict.UNKNOWN,
                "whether a reassignment is in flight is not known: {}",
                [r.tp for r in rows if known_ids(r.adding) is None or known_ids(r.removing) is None],
            ),
        )
    )


def _answer(guard: Guard, fine: str, *refusals: tuple[Verdict, str, Sequence[object]]) -> Iterator[Reason]:
    """One reason for each kind of refusal that names anything; else Allow."""
    given = [(verdict, text.format(some(names))) for verdict, text, names in refusals if names]
    for verdict, message in given:
        yield Reason(guard, verdict, message)
    if not given:
        yield Reason(guard, Verdict.ALLOW, fine)
