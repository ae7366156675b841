"""The plan of a playbook that raises replication factors: which replicas go where, in which waves, at what cost."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from datetime import datetime

import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import PartitionRow, Snapshot
from kafka_medic.diagnose.expectations import Expectations, below_factor
from kafka_medic.guard.reassign import judge_reassign
from kafka_medic.plan.model import Plan as Placement
from kafka_medic.plan.problem import Broker as PlanBroker
from kafka_medic.plan.problem import Problem, ProblemError
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.verify.rules import verify
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.owners.owned_plan import divided
from kafka_medic.playbook.reassign.moves_plan import Purpose, moves_plan, named_topics, wave_limits
from kafka_medic.playbook.reassign.parameters import ReassignParameters, reassign_parameters
from kafka_medic.playbook.reassign.room import room_of_brokers
from kafka_medic.playbook.reassign.spared import spared_unasked
from kafka_medic.playbook.reassign.throttle_lists import cut
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.playbook.settings.min_isr_plan import raised_minimums
from kafka_medic.report.units import many
from kafka_medic.resources.playbook import Step
from kafka_medic.resources.remediation_plan import Plan, ReplicaMoves


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
    spared = spared_unasked(request)
    if isinstance(spared, Refusal):
        return spared
    settings = reassign_parameters(request.playbook, step, request.run.spec.parameters)
    placement = _placement(request, expectations, factors, settings, spared)
    if isinstance(placement, Refusal):
        return placement
    purpose = Purpose(_title, minimums=lambda moves: raised_minimums(request, expectations, moves))
    return moves_plan(request, step, placement, settings, owners, purpose)


def _title(plan: Plan) -> str:
    own = plan.part(ReplicaMoves)
    factor = many(own.replication_factor or 0, "replica")
    return f"raise {many(plan.partitions or 0, 'partition')} of {named_topics(own, to=f' to {factor}')}"


def _placement(
    request: PlanRequest,
    expectations: Expectations,
    factors: Mapping[str, int],
    settings: ReassignParameters,
    spared: Mapping[int, str],
) -> Placement | Refusal:
    """Which replicas go where, verified; factors: of the topics that change; spared: brokers that get none, and why."""
    try:
        question = _problem(request, expectations, factors, spared)
        placement = plan_local(question, wave_limits(settings))
        placement = placement if settings.throttle_bytes_per_second is None else cut(placement)
    except ProblemError as trouble:
        beside = "".join(f"; broker {b} gets no replica: {why}" for b, why in spared.items())
        return Refusal(f"no plan: {trouble}{beside}")
    violations = verify(question, placement, wave_limits(settings))
    if violations:
        first = "; ".join(str(v) for v in list(violations)[:3])
        return Refusal(
            f"the planner's plan failed its own check, so the operator does not propose it: {first}", permanent=True
        )
    return placement


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


def _problem(
    request: PlanRequest, expectations: Expectations, factors: Mapping[str, int], spared: Container[int]
) -> Problem:
    """Every partition takes part, since those that stay put are load too; only topics in `factors` change."""
    snapshot, room = request.snapshot, room_of_brokers(request)
    assert snapshot.partitions is not None  # propose saw to it
    table = snapshot.partitions
    names = pc.unique(table["topic"]).to_pylist()
    columns = table.select(["topic", "partition", "replicas", "leader", "isr", "sizeBytes"])
    return Problem(
        partitions=columns,
        brokers=tuple(
            PlanBroker(
                b.id, b.rack if expectations.rack_aware else None, b.live, room.get(b.id), takes=b.id not in spared
            )
            for b in snapshot.brokers or ()
        ),
        factor=expectations.replication_factor,
        topic_factors=dict(factors),
        exempt=frozenset(str(n) for n in names if n not in factors),
    )
