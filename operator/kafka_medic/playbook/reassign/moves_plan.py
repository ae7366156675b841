"""What every plan that copies replicas has in common: waves, throttle, costs, and what one run holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.guard import fit
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.plan.estimate import estimate
from kafka_medic.plan.model import Move
from kafka_medic.plan.model import Plan as Placement
from kafka_medic.plan.wave_limits import WaveLimits
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.leadership.evened import evened_leaders
from kafka_medic.playbook.owners.owned_plan import Division, owner_lines, with_owners
from kafka_medic.playbook.plan_file import MAX_CHANGES, in_file, with_many
from kafka_medic.playbook.reassign.loads import broker_loads
from kafka_medic.playbook.reassign.parameters import ReassignParameters
from kafka_medic.playbook.reassign.reassign_step import present_settings, unsavable, unsaved
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.playbook.settings.min_isr_plan import RaisedMinimums
from kafka_medic.report.units import many
from kafka_medic.resources.durations import format_bytes, format_duration, parse_duration
from kafka_medic.resources.playbook import Step
from kafka_medic.resources.remediation_plan import (
    MAX_INLINE_CHANGES,
    LogDirMoves,
    PartitionChange,
    Plan,
    ReplicaMoves,
    ReplicaRemovals,
    SettingChanges,
)
from kafka_medic.resources.vocabulary import ActionName, Guard

MAX_WAVES = 150
"""Of one run, batches of removals among them: the journal holds 200 entries, one for each of these and a few more."""
MAX_SUMMARY = 32_768
"""Characters of a plan's summary (SummaryText). Names alone can fill it; every edit is in status.plan.ownedTopics."""
MAX_SAVED = 256
"""Settings that one journal entry can hold as they were before."""
SETTINGS_EACH = 2
"""Throttle settings of each topic (lists) and of each broker (rates)."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """What the copies are for. title: the plan in one line. gives_up: whether replicas go afterwards whose place the
    copies take, in batches of `batch`. replaced: brokers that are gone, whose replicas Kafka removes with the copies.
    emptied: brokers that are to hold nothing afterwards. requested: the operator proposes no plan for the rest.
    minimums: what is set afterwards. lines: what else the person who approves has to know; results: the same where it
    depends on what one plan holds. within: what moves within brokers before, and that step in words."""

    title: Callable[[Plan], str]
    gives_up: bool = False
    requested: bool = False
    batch: int = 50
    replaced: tuple[int, ...] = ()
    emptied: tuple[int, ...] = ()
    minimums: Callable[[Sequence[Move]], RaisedMinimums] = lambda _: RaisedMinimums((), {})
    lines: Sequence[str] = field(default_factory=tuple)
    results: Callable[[Plan], Sequence[str]] = lambda _: ()
    within: LogDirMoves = field(default_factory=LogDirMoves)
    within_words: str = ""


def moves_plan(
    request: PlanRequest,
    step: Step,
    placement: Placement,
    settings: ReassignParameters,
    owners: Division,
    purpose: Purpose,
) -> Plan | Refusal:
    """The whole plan, its digest included; a refusal where its receivers are not fit, its time does not suffice, or a
    throttle could not be restored afterwards."""
    snapshot = request.snapshot
    if unfit := _unfit(snapshot, placement):
        return unfit
    plan = _document(request, step, placement, settings, owners, purpose)
    why_not = _too_slow(plan, step)
    if plan.part(ReplicaMoves).throttle_bytes_per_second is not None:
        if unknown := unsaved(plan, snapshot):
            return Refusal(unknown, (Reason(Guard.SOURCES_FRESH, Verdict.UNKNOWN, unknown),))
        why_not = why_not or unsavable(present_settings(plan, snapshot))
    return Refusal(why_not) if why_not else plan


def _too_slow(plan: Plan, step: Step) -> str | None:
    within, lasts = parse_duration(step.verify.within), plan.estimated_seconds
    if lasts is None or lasts <= within:
        return None
    rate = format_bytes(plan.part(ReplicaMoves).throttle_bytes_per_second or 0)
    return (
        f"at {rate}/s the copy takes about {format_duration(lasts)}, but step "
        f"{step.name} has {step.verify.within}; raise throttleBytesPerSecond (or the bandwidth's share), or the step's "
        "verify.within"
    )


def _unfit(snapshot: Snapshot, placement: Placement) -> Refusal | None:
    """A plan names no broker that could not receive its replicas now: that broker's cure comes first."""
    added = {b for m in placement.moves() for b in set(m.replicas) - set(m.replicas_before)}
    reasons = tuple(r for r in fit.fit_to_receive(snapshot, added) if r.verdict is not Verdict.ALLOW)
    return Refusal("; ".join(r.message for r in reasons[:3]), reasons) if reasons else None


def wave_limits(settings: ReassignParameters) -> WaveLimits:
    plain = WaveLimits()
    return WaveLimits(
        bytes_in=settings.wave_bytes_per_broker or plain.bytes_in,
        bytes_out=settings.wave_bytes_per_broker or plain.bytes_out,
        partitions_per_broker=settings.wave_partitions or plain.partitions_per_broker,
    )


def _senders(snapshot: Snapshot, placement: Placement) -> pa.Int32Array:
    """Who leads each partition now, and so sends it: a broker that is gone sends nothing."""
    moves = [(m.topic, m.partition) for m in placement.moves()]
    leaders = {row.tp: row.leader for row in snapshot.rows({TopicPartition(*m) for m in moves})}
    return pa.array([leaders.get(TopicPartition(*m)) for m in moves], pa.int32())


def _document(
    request: PlanRequest,
    step: Step,
    placement: Placement,
    settings: ReassignParameters,
    owners: Division,
    purpose: Purpose,
) -> Plan:
    files = request.files
    inline = files is None or purpose.gives_up
    batch = purpose.batch if purpose.gives_up else None
    taken, rest = _most_exposed(placement, MAX_INLINE_CHANGES if inline else MAX_CHANGES, batch)
    moves = sorted(_led_as_now(request.snapshot, taken), key=lambda m: (m.wave, m.topic, m.partition))
    changes = tuple(
        PartitionChange(
            topic=m.topic,
            partition=m.partition,
            replicas_before=m.replicas_before,
            replicas=_with_all(m) if purpose.gives_up else m.replicas,
            wave=m.wave,
            size_bytes=m.size_bytes,
        )
        for m in moves
    )
    removals = tuple(
        PartitionChange(
            topic=m.topic,
            partition=m.partition,
            replicas_before=_with_all(m),
            replicas=m.preferred_order,
            wave=number // purpose.batch,
        )
        for number, m in enumerate(moves)
        if purpose.gives_up
    )
    minimums = purpose.minimums(moves)
    leaders = evened_leaders(request, moves)
    added = sum(len(set(m.replicas) - set(m.replicas_before)) for m in moves)
    cost = estimate(taken, _senders(request.snapshot, taken), settings.throttle_bytes_per_second)
    known = cost.unknown == 0
    factor = max((len(m.replicas) for m in moves), default=None)
    waves = len({m.wave for m in moves})
    plan = request.draft(
        ReplicaMoves(
            replication_factor=factor,
            lower_bound_moves=placement.summary.lower_bound_moves if not rest else added,
            bytes_to_move=cost.bytes_total if known else None,
            throttle_bytes_per_second=settings.throttle_bytes_per_second,
            waves=waves,
            loads=broker_loads(request.snapshot, moves, leaders.reorders),
            replaced_brokers=purpose.replaced or None,
        ),
        SettingChanges(config_changes=minimums.changes),
        ReplicaRemovals(removals=removals or None, emptied_brokers=purpose.emptied or None),
        purpose.within,
        words={
            ActionName.ALTER_REPLICA_LOG_DIRS: purpose.within_words,
            step.action: _sentence(changes, settings),
            ActionName.REMOVE_REPLICAS: _removal_sentence(removals),
            **minimums.words,
            **leaders.words,
        },
        partitions=len(moves),
        moves=added,
        estimated_seconds=math.ceil(cost.seconds) if known and cost.seconds is not None else None,
    )
    idle = () if purpose.within_words else (ActionName.ALTER_REPLICA_LOG_DIRS,)
    plan = plan.model_copy(update={"steps": tuple(s for s in plan.steps if s.action not in idle)})
    plan = with_many(plan, changes, leaders.reorders, leaders.elections)
    plan = with_owners(request, plan, owners)
    plan = plan if files is None else in_file(plan, files)
    summary = _summary(plan, placement, rest, purpose, evened=bool(leaders.words))
    summary = "\n".join((summary, *owners.lines(), *owner_lines(plan, request.snapshot.cluster)))
    plan = plan.model_copy(update={"summary": summary[:MAX_SUMMARY]})
    return request.sealed(plan)


def _led_as_now(snapshot: Snapshot, placement: Placement) -> list[Move]:
    """The moves. Where the preferred leader leaves, the present leader is the first of those that stay: Kafka would
    elect any other one by itself, also one that is not fit to lead."""
    moves = list(placement.moves())
    leaders = {row.tp: row.leader for row in snapshot.rows({TopicPartition(m.topic, m.partition) for m in moves})}
    return [
        replace(m, replicas=(leader, *(b for b in m.replicas if b != leader)))
        if (leader := leaders.get(TopicPartition(m.topic, m.partition))) in m.replicas
        and m.replicas_before[0] not in m.replicas
        else m
        for m in moves
    ]


def _with_all(move: Move) -> tuple[int, ...]:
    """Those that it has, in their order, and then those that it gets."""
    return (*move.replicas_before, *(b for b in move.replicas if b not in move.replicas_before))


def _removal_sentence(removals: Sequence[PartitionChange]) -> str:
    gone = sum(len(c.replicas_before) - len(c.replicas) for c in removals)
    batches = many(len({c.wave for c in removals}), "batch", "batches")
    return (
        f"remove {many(gone, 'replica')} of {many(len(removals), 'partition')}, in {batches}, once every replica that "
        "remains is in sync"
    )


def _most_exposed(placement: Placement, most: int, batch: int | None) -> tuple[Placement, int]:
    """What one plan holds, at most so many partitions, the most exposed first, and how many partitions are left for the
    next one, which is proposed when this one has succeeded. A run has to fit into its Remediation: the changes, one
    journal entry a wave, and one for each `batch` of partitions that lose replicas, and the settings of every topic and
    broker that the throttle touches. With batches the brokers are throttled that lose a replica, too."""
    table = placement.table
    order = pc.sort_indices(table["wave"])
    ordered = table.select(["wave", "topic", "replicas", "replicasBefore"]).take(order)
    topics: set[str] = set()
    brokers: set[int] = set()
    waves: set[int] = set()
    taken: list[int | None] = []
    for index, row in zip(order.to_pylist(), ordered.to_pylist(), strict=True):
        batches = 0 if batch is None else len(taken) // batch + 1
        if len(taken) == most or len(waves | {row["wave"]}) + batches > MAX_WAVES:
            break
        involved = set(row["replicas"]) if batch is None else {*row["replicas"], *row["replicasBefore"]}
        if SETTINGS_EACH * (len(topics | {row["topic"]}) + len(brokers | involved)) > MAX_SAVED:
            continue
        topics.add(row["topic"])
        brokers.update(involved)
        waves.add(row["wave"])
        taken.append(index)
    rest = table.num_rows - len(taken)
    if not rest:
        return placement, 0
    first = pa.array(taken, pa.int64())
    return Placement(table.take(first), placement.sizes.take(first), placement.summary), rest


def _sentence(changes: Sequence[PartitionChange], settings: ReassignParameters) -> str:
    copies = sum(len(set(c.replicas) - set(c.replicas_before)) for c in changes)
    rate = settings.throttle_bytes_per_second
    throttle = f"throttled to {format_bytes(rate)}/s per broker" if rate else "without a throttle"
    if settings.bandwidth is not None:
        throttle += f" ({settings.bandwidth_share} % of the {format_bytes(settings.bandwidth)}/s stated)"
    return f"copy {many(copies, 'replica')} of {many(len(changes), 'partition')}, {throttle}, then remove the throttle"


def _summary(plan: Plan, placement: Placement, rest: int, purpose: Purpose, *, evened: bool) -> str:
    own = plan.part(ReplicaMoves)
    size = "an unknown amount of data" if own.bytes_to_move is None else format_bytes(own.bytes_to_move)
    lasts = "" if plan.estimated_seconds is None else f", about {format_duration(max(1, plan.estimated_seconds))}"
    figures = placement.summary
    load = figures.replicas_per_broker
    afterwards = "after this and the later plans" if rest else "afterwards"
    lines = [
        purpose.title(plan),
        f"copies {many(plan.moves or 0, 'replica')} (lower bound {own.lower_bound_moves}), {size}{lasts}, "
        f"waves: {own.waves}",
        f"replicas per broker {afterwards} {load.min}..{load.max} (bound {load.bound}), "
        f"partitions on fewer racks than possible: {figures.rack_violations} "
        f"(unavoidable: {figures.rack_violations_bound})",
    ]
    lines += [*purpose.results(plan), *purpose.lines]
    if figures.capacity_unknown:
        lines.append(
            f"free disk space is not known on {many(figures.capacity_unknown, 'receiving broker')}, and not checked "
            "where a broker does not report it"
        )
    if evened and not rest:
        lead = figures.leaders_per_broker
        lines.append(f"preferred leaders per broker finally {lead.min}..{lead.max} (bound {lead.bound})")
    lines += [f"{s.name}: {s.description}" for s in plan.steps]
    if rest:
        lines.append(
            f"{many(rest, 'more partition')} in a later plan{', which you request' if purpose.requested else ''}, the "
            "most exposed first: one plan holds at most "
            f"{MAX_INLINE_CHANGES} partitions ({MAX_CHANGES} where the operator has a volume for plans), {MAX_WAVES} "
            f"waves and batches and {MAX_SAVED} settings"
        )
    for c in own.changes[:20]:
        lines.append(
            f"  {c.topic}-{c.partition}: {list(c.replicas_before)} -> {list(c.replicas)}"
            + (f" ({format_bytes(c.size_bytes)})" if c.size_bytes is not None else "")
        )
    if len(own.changes) > 20:
        where = "status.plan.changes" if own.artifact is None else own.artifact.uri
        lines.append(f"  and {len(own.changes) - 20} more in {where}")
    return "\n".join(lines)


def named_topics(own: ReplicaMoves, to: str = "") -> str:
    """How many topics change, and the first of them."""
    topics = sorted({c.topic for c in own.changes})
    more = f" and {len(topics) - 8} more" if len(topics) > 8 else ""
    return f"{many(len(topics), 'topic')}{to}: {', '.join(topics[:8])}{more}"
