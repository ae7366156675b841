"""The plan of a playbook that raises replication factors: which replicas go where, in which waves, at what cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import PartitionRow, Snapshot
from kafka_medic.diagnose.expectations import Expectations, below_factor
from kafka_medic.guard import fit
from kafka_medic.guard.reassign import judge_reassign
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.plan.estimate import estimate
from kafka_medic.plan.model import Plan as Placement
from kafka_medic.plan.problem import Broker as PlanBroker
from kafka_medic.plan.problem import Problem, ProblemError
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.verify.rules import verify
from kafka_medic.plan.wave_limits import WaveLimits
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.leadership.evened import evened_leaders
from kafka_medic.playbook.owners.owned_plan import Division, divided, owner_lines, with_owners
from kafka_medic.playbook.plan_file import MAX_CHANGES, in_file, with_many
from kafka_medic.playbook.reassign.loads import broker_loads
from kafka_medic.playbook.reassign.parameters import ReassignParameters, reassign_parameters
from kafka_medic.playbook.reassign.reassign_step import present_settings, unsavable, unsaved
from kafka_medic.playbook.reassign.throttle_lists import cut
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.playbook.settings.min_isr_plan import raised_minimums
from kafka_medic.report.units import many
from kafka_medic.resources.durations import format_bytes, format_duration, parse_duration
from kafka_medic.resources.playbook import Step
from kafka_medic.resources.remediation_plan import (
    MAX_INLINE_CHANGES,
    PartitionChange,
    Plan,
    ReplicaMoves,
    SettingChanges,
)
from kafka_medic.resources.vocabulary import Guard

MAX_WAVES = 150
"""Of one run: the journal holds 200 entries, one for each wave and a few more."""
MAX_SUMMARY = 32_768
"""Characters of a plan's summary (SummaryText). Names alone can fill it; every edit is in status.plan.ownedTopics."""
MAX_SAVED = 256
"""Settings that one journal entry can hold as they were before."""
SETTINGS_EACH = 2
"""Throttle settings of each topic (lists) and of each broker (rates)."""


def raise_plan(request: PlanRequest, step: Step) -> Plan | Refusal:
    """The whole plan, its digest included, or why not. Never half a plan: with fewer live brokers than the wanted
    factor there is none."""
    snapshot = request.snapshot
    if snapshot.partitions is None or snapshot.brokers is None or snapshot.configs is None:
        return unread(snapshot)
    expectations = Expectations.from_spec(request.cluster.spec.expectations)
    low = below_factor(snapshot, expectations)
    if low is None:
        return unread(snapshot)
    if not low:
        return Refusal("no topic has fewer replicas than expected", nothing_to_do=True)
    owners = divided(request, {row.topic for row in low})
    if isinstance(owners, Refusal):
        return owners
    low = [row for row in low if row.topic not in owners.left]
    factors = {row.topic: expectations.factor_of(row.topic) or 0 for row in low}
    refused = _live_enough(snapshot, low, factors, request.now)
    if refused:
        return refused
    settings = reassign_parameters(request.playbook, step, request.run.spec.parameters)
    placement = _placement(snapshot, expectations, factors, settings)
    if isinstance(placement, Refusal):
        return placement
    plan = _document(request, step, expectations, placement, settings, owners)
    why_not = _too_slow(plan, step)
    if plan.part(ReplicaMoves).throttle_bytes_per_second is not None:
        if unknown := unsaved(plan, snapshot):
            return Refusal(unknown, (Reason(Guard.SOURCES_FRESH, Verdict.UNKNOWN, unknown),))
        why_not = why_not or unsavable(present_settings(plan, snapshot))
    return Refusal(why_not) if why_not else plan


def _placement(
    snapshot: Snapshot, expectations: Expectations, factors: Mapping[str, int], settings: ReassignParameters
) -> Placement | Refusal:
    """Which replicas go where, verified; factors: of the topics that change."""
    try:
        question = _problem(snapshot, expectations, factors)
        placement = plan_local(question, _limits(settings))
        placement = placement if settings.throttle_bytes_per_second is None else cut(placement)
    except ProblemError as trouble:
        return Refusal(f"no plan: {trouble}")
    violations = verify(question, placement, _limits(settings))
    if violations:
        first = "; ".join(str(v) for v in list(violations)[:3])
        return Refusal(
            f"the planner's plan failed its own check, so the operator does not propose it: {first}", permanent=True
        )
    return _unfit(snapshot, placement) or placement


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


def _live_enough(
    snapshot: Snapshot, low: Sequence[PartitionRow], factors: Mapping[str, int], now: datetime
) -> Refusal | None:
    """The cluster's own guards on the question itself: enough brokers, every present replica alive, nobody else moving
    partitions. The targets are not chosen yet, so each partition stands with the replicas it has."""
    moves = [(r.topic, r.partition, r.replicas or (), r.replicas or ()) for r in low]
    refusals = judge_reassign(snapshot, moves, max(factors.values()), now).refusals
    if not refusals:
        return None
    return Refusal("; ".join(r.message for r in refusals[:3]), refusals)


def _unfit(snapshot: Snapshot, placement: Placement) -> Refusal | None:
    """A plan names no broker that could not receive its replicas now: that broker's cure comes first."""
    added = {b for m in placement.moves() for b in set(m.replicas) - set(m.replicas_before)}
    reasons = tuple(r for r in fit.fit_to_receive(snapshot, added) if r.verdict is not Verdict.ALLOW)
    return Refusal("; ".join(r.message for r in reasons[:3]), reasons) if reasons else None


def _problem(snapshot: Snapshot, expectations: Expectations, factors: Mapping[str, int]) -> Problem:
    """Every partition takes part, since those that stay put are load too; only topics in `factors` change."""
    assert snapshot.partitions is not None  # propose saw to it
    table = snapshot.partitions
    names = pc.unique(table["topic"]).to_pylist()
    columns = table.select(["topic", "partition", "replicas", "leader", "isr", "sizeBytes"])
    return Problem(
        partitions=columns,
        brokers=tuple(
            PlanBroker(b.id, b.rack if expectations.rack_aware else None, b.live, b.disk_free)
            for b in snapshot.brokers or ()
        ),
        factor=expectations.replication_factor,
        topic_factors=dict(factors),
        exempt=frozenset(str(n) for n in names if n not in factors),
    )


def _limits(settings: ReassignParameters) -> WaveLimits:
    plain = WaveLimits()
    return WaveLimits(
        bytes_in=settings.wave_bytes_per_broker or plain.bytes_in,
        bytes_out=settings.wave_bytes_per_broker or plain.bytes_out,
        partitions_per_broker=settings.wave_partitions or plain.partitions_per_broker,
    )


def _document(
    request: PlanRequest,
    step: Step,
    expectations: Expectations,
    placement: Placement,
    settings: ReassignParameters,
    owners: Division,
) -> Plan:
    files = request.files
    taken, rest = _most_exposed(placement, MAX_INLINE_CHANGES if files is None else MAX_CHANGES)
    moves = sorted(taken.moves(), key=lambda m: (m.wave, m.topic, m.partition))
    changes = tuple(
        PartitionChange(
            topic=m.topic,
            partition=m.partition,
            replicas_before=m.replicas_before,
            replicas=m.replicas,
            wave=m.wave,
            size_bytes=m.size_bytes,
        )
        for m in moves
    )
    minimums = raised_minimums(request, expectations, moves)
    leaders = evened_leaders(request, moves)
    added = sum(len(m.replicas) - len(m.replicas_before) for m in moves)
    cost = estimate(taken, throttle=settings.throttle_bytes_per_second)
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
        ),
        SettingChanges(config_changes=minimums.changes),
        words={step.action: _sentence(changes, settings), **minimums.words, **leaders.words},
        partitions=len(moves),
        moves=added,
        estimated_seconds=math.ceil(cost.seconds) if known and cost.seconds is not None else None,
    )
    plan = with_many(plan, changes, leaders.reorders, leaders.elections)
    plan = with_owners(request, plan, owners)
    plan = plan if files is None else in_file(plan, files)
    summary = _summary(plan, placement, rest, evened=bool(leaders.words))
    summary = "\n".join((summary, *owners.lines(), *owner_lines(plan, request.snapshot.cluster)))
    plan = plan.model_copy(update={"summary": summary[:MAX_SUMMARY]})
    return request.sealed(plan)


def _most_exposed(placement: Placement, most: int) -> tuple[Placement, int]:
    """What one plan holds, at most so many partitions, the most exposed first, and how many partitions are left for the
    next one, which is proposed when this one has succeeded. A run has to fit into its Remediation: the changes, one
    journal entry a wave, and the settings of every topic and broker that the throttle touches."""
    table = placement.table
    order = pc.sort_indices(table["wave"])
    ordered = table.select(["wave", "topic", "replicas"]).take(order)
    topics: set[str] = set()
    brokers: set[int] = set()
    waves: set[int] = set()
    taken: list[int | None] = []
    for index, row in zip(order.to_pylist(), ordered.to_pylist(), strict=True):
        if len(taken) == most or (row["wave"] not in waves and len(waves) == MAX_WAVES):
            break
        if SETTINGS_EACH * (len(topics | {row["topic"]}) + len(brokers | set(row["replicas"]))) > MAX_SAVED:
            continue
        topics.add(row["topic"])
        brokers.update(row["replicas"])
        waves.add(row["wave"])
        taken.append(index)
    rest = table.num_rows - len(taken)
    if not rest:
        return placement, 0
    first = pa.array(taken, pa.int64())
    return Placement(table.take(first), placement.sizes.take(first), placement.summary), rest


def _sentence(changes: Sequence[PartitionChange], settings: ReassignParameters) -> str:
    copies = sum(len(c.replicas) - len(c.replicas_before) for c in changes)
    rate = settings.throttle_bytes_per_second
    throttle = f"throttled to {format_bytes(rate)}/s per broker" if rate else "without a throttle"
    if settings.bandwidth is not None:
        throttle += f" ({settings.bandwidth_share} % of the {format_bytes(settings.bandwidth)}/s stated)"
    return f"copy {many(copies, 'replica')} of {many(len(changes), 'partition')}, {throttle}, then remove the throttle"


def _summary(plan: Plan, placement: Placement, rest: int, *, evened: bool) -> str:
    own = plan.part(ReplicaMoves)
    topics = sorted({c.topic for c in own.changes})
    named = ", ".join(topics[:8]) + (f" and {len(topics) - 8} more" if len(topics) > 8 else "")
    size = "an unknown amount of data" if own.bytes_to_move is None else format_bytes(own.bytes_to_move)
    lasts = "" if plan.estimated_seconds is None else f", about {format_duration(max(1, plan.estimated_seconds))}"
    figures = placement.summary
    load = figures.replicas_per_broker
    lines = [
        f"raise {many(plan.partitions or 0, 'partition')} of {many(len(topics), 'topic')} to "
        f"{many(own.replication_factor or 0, 'replica')}: {named}",
        f"copies {many(plan.moves or 0, 'replica')} (lower bound {own.lower_bound_moves}), {size}{lasts}, "
        f"waves: {own.waves}",
        f"replicas per broker afterwards {load.min}..{load.max} (bound {load.bound}), "
        f"partitions on fewer racks than possible: {figures.rack_violations} "
        f"(unavoidable: {figures.rack_violations_bound})",
    ]
    if figures.capacity_unknown:
        lines.append(
            f"free disk space is not known, and not checked, on {many(figures.capacity_unknown, 'receiving broker')}"
        )
    if evened and not rest:
        lead = figures.leaders_per_broker
        lines.append(f"preferred leaders per broker finally {lead.min}..{lead.max} (bound {lead.bound})")
    lines += [f"{s.name}: {s.description}" for s in plan.steps]
    if rest:
        lines.append(
            f"{many(rest, 'more partition')} in a later plan, the most exposed first: one plan holds at most "
            f"{MAX_INLINE_CHANGES} partitions ({MAX_CHANGES} where the operator has a volume for plans), {MAX_WAVES} "
            f"waves and {MAX_SAVED} settings"
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
