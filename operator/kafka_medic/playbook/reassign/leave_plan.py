"""The plan of a playbook that empties brokers: those that are gone, for others to replace, those that are to go, and
log directories that have failed."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_medic.cluster.elements import failed_directories, on_failed_directory
from kafka_medic.cluster.snapshot import Broker, PartitionRow, Snapshot, TopicPartition
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.reassign import judge_reassign
from kafka_medic.guard.rows import known_ids, troubled_rows
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.plan.allowed import Allowed, LeftOut
from kafka_medic.plan.model import Plan as Placement
from kafka_medic.plan.problem import Broker as PlanBroker
from kafka_medic.plan.problem import ProblemError
from kafka_medic.plan.relocation import Leave, Question, Relocation
from kafka_medic.plan.solver.relocate import plan_relocation
from kafka_medic.plan.verify.moves import verify_moves
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.owners.owned_plan import divided
from kafka_medic.playbook.reassign.moves_plan import Purpose, moves_plan, named_topics, wave_limits
from kafka_medic.playbook.reassign.parameters import (
    MOVED,
    REPLACED,
    RESTORED,
    LeaveParameters,
    ReassignParameters,
    asked_of,
    leave_parameters,
    reassign_parameters,
)
from kafka_medic.playbook.reassign.room import room_of_brokers
from kafka_medic.playbook.reassign.spared import spared_brokers
from kafka_medic.playbook.reassign.throttle_lists import cut
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.report.units import many
from kafka_medic.resources.playbook import Step
from kafka_medic.resources.remediation_plan import MAX_REPLACED, Plan, ReplicaMoves
from kafka_medic.resources.vocabulary import Guard

_TITLES = {
    REPLACED: "replace broker {} in",
    RESTORED: "replace what is on the failed log directory of broker {}:",
    MOVED: "move every replica off broker {} in",
}
SHOWN = 10
"""Partitions that stay behind and that the plan names."""


def leave_plan(request: PlanRequest, step: Step) -> Plan | Refusal:
    """The whole plan, its digest included, or why not. Where the step says that the replicas are gone, with their
    brokers (REPLACED) or their log directories (RESTORED), partitions that nobody else has in sync are left out, and
    named: what such a replica alone has cannot be copied, and comes back with it."""
    snapshot, asked = request.snapshot, asked_of(step)
    gone = asked != MOVED
    if snapshot.partitions is None or snapshot.brokers is None or snapshot.configs is None:
        return unread(snapshot)
    told = leave_parameters(request.playbook, step, request.run.spec.parameters)
    named = _named(request, told)
    if isinstance(named, Refusal):
        return named
    leaving, onto, spared = named
    if unable := _unable(snapshot, onto, leaving, asked):
        return unable
    names = some(sorted(leaving))
    held = _held(snapshot, leaving, offline=asked == RESTORED)
    if isinstance(held, Refusal):
        return held
    owners = divided(request, {row.topic for row in held})
    if isinstance(owners, Refusal):
        return owners
    refused = _well_enough(request, held, leaving, gone=gone)
    if refused:
        return refused
    settings = reassign_parameters(request.playbook, step, request.run.spec.parameters)
    expectations = Expectations.from_spec(request.cluster.spec.expectations)
    others = frozenset(b.id for b in snapshot.brokers) - leaving
    closed = others - onto if onto else others & spared.keys()
    crowded = _crowded(held, {b.id for b in snapshot.brokers if b.live} - closed - leaving, leaving)
    allowed = Allowed(only_give=closed, exclude_topics=tuple(owners.left))
    only = frozenset(row.tp for row in held) - crowded if crowded or asked == RESTORED else None
    question = Leave(tuple(sorted(leaving)), gone=gone, skip_lost=gone, only=only)
    placement = placement_of(snapshot, expectations, question, allowed, settings, room_of_brokers(request))
    if isinstance(placement, Refusal):
        return placement
    behind = _left_behind(held, placement, leaving, crowded, some_closed=bool(closed), gone=gone)
    behind += [
        f"broker {b} gets no replica: {spared[b]}; to have it filled, name it in the parameter onto"
        for b in sorted(closed & spared.keys())
    ]
    if not placement.summary.partitions:
        verb = "replaced" if gone else "moved"
        return Refusal(f"no replica of broker {names} can be {verb}: {'; '.join(behind)}", nothing_to_do=True)

    def title(plan: Plan) -> str:
        which = f"{many(plan.partitions or 0, 'partition')} of {named_topics(_moves(plan))}"
        return f"{_TITLES[asked].format(names)} {which}"

    back = "the directory" if asked == RESTORED else f"broker {names}"
    after = (
        f"if {back} comes back meanwhile, the run ends: copies in flight are cancelled, and what was replaced by then "
        "stays replaced"
        if gone
        else f"broker {names} holds none of these replicas afterwards; while the Remediation exists, the operator "
        "proposes no run that fills it again"
    )
    purpose = Purpose(
        title,
        gives_up=not gone,
        requested=not gone,
        batch=told.batch,
        replaced=tuple(sorted(leaving)) if gone else (),
        emptied=() if gone else tuple(sorted(leaving)),
        lines=(*behind, after),
    )
    return moves_plan(request, step, placement, settings, owners, purpose)


def _named(
    request: PlanRequest, told: LeaveParameters
) -> tuple[frozenset[int], frozenset[int], Mapping[int, str]] | Refusal:
    """The brokers that are emptied, those that alone may get replicas, and those that get none unless they are named,
    with the reason."""
    leaving = named_brokers(request, told.brokers)
    if isinstance(leaving, Refusal):
        return leaving
    if told.onto != "any":
        onto = _ids(told.onto, "onto")
        return onto if isinstance(onto, Refusal) else (leaving, onto, {})
    spared = spared_brokers(request, runs=True)
    return spared if isinstance(spared, Refusal) else (leaving, frozenset(), spared)


def _held(snapshot: Snapshot, leaving: frozenset[int], *, offline: bool) -> list[PartitionRow] | Refusal:
    """What these brokers hold; of that, with `offline`, what is on their failed log directories."""
    rows: dict[TopicPartition, PartitionRow] = {}
    if offline and (absent := sorted(leaving - {b.id for b in snapshot.brokers or ()})):
        return Refusal(f"broker {some(absent)} is not part of the cluster", permanent=True)
    for broker_id in sorted(leaving):
        broker = snapshot.broker(broker_id)
        if offline and not _directories_known(broker):
            message = f"which replicas are on a failed log directory of broker {broker_id} is not known"
            return Refusal(message, (Reason(Guard.REPLACED_BROKERS_DOWN, Verdict.UNKNOWN, message),))
        found = (row for row in troubled_rows(snapshot, broker_id) or () if broker_id in (row.replicas or ()))
        there = on_failed_directory(broker)
        rows |= {row.tp: row for row in found if not offline or row.tp in there}
    if not rows:
        where = " on a failed log directory" if offline else ""
        verb = "has no replica" if offline else "holds no replica"
        return Refusal(f"broker {some(sorted(leaving))} {verb}{where}", nothing_to_do=True)
    held = [row for _, row in sorted(rows.items())]
    if offline and (served := _served(snapshot, held, leaving)):
        return served
    return held


def _served(snapshot: Snapshot, held: list[PartitionRow], leaving: frozenset[int]) -> Refusal | None:
    """Of two brokers that are named one may have a partition on a directory that works. Waiting would not end."""
    for broker in (b for b in snapshot.brokers or () if b.live and b.id in leaving):
        there = on_failed_directory(broker)
        if well := [row.tp for row in held if broker.id in (row.replicas or ()) and row.tp not in there]:
            message = f"broker {broker.id} has {some(well)} on a log directory that works: ask for one broker at a time"
            return Refusal(message, permanent=True)
    return None


def _directories_known(broker: Broker | None) -> bool:
    if broker is None or broker.directories is None:
        return False
    return not failed_directories(broker) or broker.offline_replicas is not None


def _moves(plan: Plan) -> ReplicaMoves:
    return plan.part(ReplicaMoves)


def named_brokers(request: PlanRequest, text: str) -> frozenset[int] | Refusal:
    """The brokers that the parameter `brokers` stands for."""
    cause = request.run.spec.cause
    if text == "cause":
        text = cause.finding_id.rpartition("/broker-")[2] if cause else ""
    return _ids(text, "brokers")


def _ids(text: str, parameter: str) -> frozenset[int] | Refusal:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        return Refusal(f"set the parameter {parameter} to broker ids such as 1,3", permanent=True)
    ids = frozenset(map(int, parts))
    if len(ids) > MAX_REPLACED and parameter == "brokers":
        return Refusal(f"one plan is for at most {MAX_REPLACED} brokers, not {len(ids)}", permanent=True)
    return ids


def _unable(snapshot: Snapshot, onto: frozenset[int], leaving: frozenset[int], asked: str) -> Refusal | None:
    """Of the brokers that are named, those that cannot get the replicas, or that are not gone."""
    if asked == REPLACED and (up := sorted(b.id for b in snapshot.brokers or () if b.id in leaving and b.live)):
        # A request that waited would begin when the broker is next restarted.
        message = f"broker {some(up)} is up, so nothing is replaced; evacuate-broker empties a broker that is up"
        return Refusal(message, nothing_to_do=True)
    if both := onto & leaving:
        return Refusal(f"broker {some(sorted(both))} cannot get replicas, since it is to lose its own", permanent=True)
    if away := sorted(onto - {b.id for b in snapshot.brokers or () if b.live}):
        message = f"broker {some(away)} of the parameter onto is not up"
        return Refusal(message, (Reason(Guard.TARGETS_ALIVE, Verdict.WAIT, message),))
    return None


def _crowded(held: list[PartitionRow], takers: set[int], leaving: frozenset[int]) -> frozenset[TopicPartition]:
    """Partitions that are on every broker that could take a replica."""
    lacking = (row for row in held if len(takers - set(row.replicas or ())) < len(leaving & set(row.replicas or ())))
    return frozenset(row.tp for row in lacking)


def _well_enough(
    request: PlanRequest, held: list[PartitionRow], leaving: frozenset[int], *, gone: bool
) -> Refusal | None:
    """The guards on the question itself: brokers that are gone are so by every witness, all others are well, and
    nobody else moves partitions. The receivers are not chosen yet, so each partition stands with the replicas that it
    keeps."""
    kept = [(row, tuple(b for b in row.replicas or () if b not in leaving)) for row in held]
    moves = [(row.topic, row.partition, stays, stays) for row, stays in kept if not gone or _copied_from(row, leaving)]
    judged = judge_reassign(request.snapshot, moves, 1, request.now, replaced=leaving if gone else ())
    # What is kept is not what is there, since replicas of brokers that leave are still listed.
    refusals = tuple(r for r in judged.refusals if r.guard is not Guard.PRECONDITIONS_HOLD)
    if not refusals:
        return None if gone else _behind(held, leaving)
    return Refusal("; ".join(r.message for r in refusals[:3]), refusals)


def _behind(held: list[PartitionRow], leaving: frozenset[int]) -> Refusal | None:
    """A copy ends when every replica of the partition is in sync, those that leave included."""
    out = [row.tp for row in held if not (set(row.replicas or ()) & leaving) <= (known_ids(row.isr) or frozenset())]
    if not out:
        return None
    message = (
        f"the replicas on broker {some(sorted(leaving))} of {some(out, 5)} are not in sync; let them catch up, or stop "
        "the broker and use replace-broker"
    )
    return Refusal(message, (Reason(Guard.PRECONDITIONS_HOLD, Verdict.WAIT, message),))


def _copied_from(row: PartitionRow, leaving: frozenset[int]) -> bool:
    """Whether somebody else has it in sync."""
    isr = known_ids(row.isr)
    return isr is not None and bool(isr - leaving)


def placement_of(
    snapshot: Snapshot,
    expectations: Expectations,
    wanted: Question,
    allowed: Allowed,
    settings: ReassignParameters,
    room: Mapping[int, int],
) -> Placement | Refusal:
    """Which replicas go where, verified. The partitions and the brokers are known. room: bytes that each broker may
    take, where that is known."""
    assert snapshot.partitions is not None
    columns = snapshot.partitions.select(["topic", "partition", "replicas", "leader", "isr", "sizeBytes"])
    brokers = tuple(
        PlanBroker(b.id, b.rack if expectations.rack_aware else None, b.live, room.get(b.id))
        for b in snapshot.brokers or ()
    )
    try:
        question = Relocation(columns, brokers, wanted, allowed)
        placement = plan_relocation(question, wave_limits(settings))
        placement = placement if settings.throttle_bytes_per_second is None else cut(placement)
    except ProblemError as trouble:
        return Refusal(f"no plan: {trouble}")
    if violations := verify_moves(question, placement, wave_limits(settings)):
        first = "; ".join(str(v) for v in list(violations)[:3])
        return Refusal(
            f"the planner's plan failed its own check, so the operator does not propose it: {first}", permanent=True
        )
    return placement


def _left_behind(
    held: list[PartitionRow],
    placement: Placement,
    leaving: frozenset[int],
    crowded: frozenset[TopicPartition],
    *,
    some_closed: bool,
    gone: bool,
) -> list[str]:
    """What a person has to know of the partitions that keep a replica on these brokers."""
    lines = []
    lost = [row for row in held if gone and not _copied_from(row, leaving)]
    if lost:
        ends = [
            f"{row.tp} (log end offset {'unknown' if row.log_end is None else row.log_end})" for row in lost[:SHOWN]
        ]
        more = f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
        lines.append(
            f"left out, because no other broker has them in sync: {', '.join(ends)}{more}; their records come back "
            f"with broker {some(sorted(leaving))}"
        )
    if crowded:
        full = "may get a replica holds one" if some_closed else "is up holds a replica"
        lines.append(f"left out, because every broker that {full} already: {some(sorted(crowded), SHOWN)}")
    for why, count in placement.summary.left_out.items():
        if count and why not in (LeftOut.LOST, LeftOut.EXCLUDED_TOPIC):
            lines.append(f"left out: {many(count, 'partition')} that {why.sentence}")
    return lines
