"""The plan of a playbook that moves replicas to where they lie better: over racks, or evenly over brokers."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow.compute as pc

from kafka_medic.cluster.elements import failed_directories
from kafka_medic.diagnose.disks import KEPT_FREE, room_above
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.load import OF_BYTES, short_of_room
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.reassign import judge_reassign
from kafka_medic.plan.allowed import Allowed
from kafka_medic.plan.model import Plan as Placement
from kafka_medic.plan.relocation import LowerImbalance, Question, SpreadRacks
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.owners.owned_plan import Division, divided
from kafka_medic.playbook.reassign.leave_plan import placement_of
from kafka_medic.playbook.reassign.moves_plan import Purpose, moves_plan, named_topics
from kafka_medic.playbook.reassign.parameters import SPREAD, asked_of, even_parameters, reassign_parameters
from kafka_medic.playbook.reassign.room import room_of_brokers
from kafka_medic.playbook.reassign.spared import spared_unasked
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.report.units import many
from kafka_medic.resources.playbook import Step
from kafka_medic.resources.remediation_plan import Plan, ReplicaMoves
from kafka_medic.resources.vocabulary import Guard


def even_plan(request: PlanRequest, step: Step) -> Plan | Refusal:
    """The whole plan, its digest included, or why not. Exempt topics stay as they are, and so do topics whose owner the
    plan cannot take."""
    snapshot = request.snapshot
    if snapshot.partitions is None or snapshot.brokers is None or snapshot.configs is None:
        return unread(snapshot)
    if failed := [b.id for b in snapshot.brokers if failed_directories(b)]:
        return Refusal(
            f"a log directory of broker {some(failed)} has failed: replicas on it are never in sync, and "
            "restore-log-dir needs the room on other brokers"
        )
    told = even_parameters(request.playbook, step, request.run.spec.parameters)
    settings = reassign_parameters(request.playbook, step, request.run.spec.parameters)
    expectations = Expectations.from_spec(request.cluster.spec.expectations)
    spread = asked_of(step) == SPREAD
    if told.balance not in ("cause", "replicas", "bytes"):
        return Refusal(f"balance {told.balance!r}: must be replicas, bytes or cause")
    by_bytes = not spread and (told.balance == "bytes" or (told.balance == "cause" and _caused_by_bytes(request)))
    question: Question = SpreadRacks() if spread else LowerImbalance(told.moves, by_bytes=by_bytes)
    names = [str(name) for name in pc.unique(snapshot.partitions["topic"]).to_pylist()]
    stay = tuple(name for name in names if expectations.exempt(name))
    leaving = spared_unasked(request)
    if isinstance(leaving, Refusal):
        return leaving
    # What racks need, or a person asks for, only has to find room at all.
    careful = not spread and request.run.spec.cause is not None
    full = short_of_room(snapshot) if careful else frozenset[int]()
    room = room_of_brokers(request)
    if careful:
        room = {b.id: free for b in snapshot.brokers if (free := room_above(b, KEPT_FREE)) is not None}

    def place(left: Collection[str]) -> Placement | Refusal:
        allowed = Allowed(only_give=frozenset(full | leaving.keys()), exclude_topics=(*stay, *left))
        return placement_of(snapshot, expectations, question, allowed, settings, room)

    found = placed_beside_owners(request, place)
    if isinstance(found, Refusal):
        return found
    placement, owners = found
    if not placement.summary.partitions:
        none = "no replica shares a rack that it need not share" if spread else "no move makes the brokers more even"
        none += " in bytes" if by_bytes else ""
        closed = f"; broker {some(sorted(full))} is short of room on disk" if full else ""
        return Refusal(f"{none}{closed}", nothing_to_do=True)

    def title(plan: Plan) -> str:
        what = "spread over racks" if spread else "make brokers more even with"
        what = "make bytes per broker more even with" if by_bytes else what
        return f"{what} {many(plan.partitions or 0, 'partition')} of {named_topics(plan.part(ReplicaMoves))}"

    requested = not spread and request.run.spec.cause is None
    purpose = Purpose(title, gives_up=True, requested=requested, batch=told.batch)
    return moves_plan(request, step, placement, settings, owners, purpose)


def _caused_by_bytes(request: PlanRequest) -> bool:
    cause = request.run.spec.cause
    return cause is not None and cause.finding_id == OF_BYTES


def placed_beside_owners(
    request: PlanRequest, place: Callable[[Collection[str]], Placement | Refusal]
) -> tuple[Placement, Division] | Refusal:
    """Which replicas go where without the topics whose owner the plan cannot take, which `place` is given; a refusal
    where the cluster is not well enough for any of it."""
    placement = place(())
    if isinstance(placement, Refusal):
        return placement
    owners = divided(request, {move.topic for move in placement.moves()})
    if isinstance(owners, Refusal):
        return owners
    if owners.left:
        placement = place(owners.left)
        if isinstance(placement, Refusal):
            return placement
    # Also where nothing can move: a broker that is down takes nothing, and its partitions stay as they are.
    moves = [(m.topic, m.partition, m.replicas_before, m.replicas_before) for m in placement.moves()]
    refusals = judge_reassign(request.snapshot, moves, 1, request.now, replaced=()).refusals
    refusals = tuple(r for r in refusals if r.guard is not Guard.PRECONDITIONS_HOLD)
    if refusals:
        return Refusal("; ".join(r.message for r in refusals[:3]), refusals)
    return placement, owners
