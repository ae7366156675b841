"""The plan of a playbook that frees a share of a volume that fills: enough bytes move to other volumes of the broker,
and what finds no room there to other brokers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow.compute as pc

from kafka_medic.cluster.log_dirs import ReplicaDirs
from kafka_medic.cluster.snapshot import Broker, PartitionRow, Snapshot
from kafka_medic.diagnose.disks import Volume, full_in, only_volume, room_above, share_of, volumes_of
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.log_dirs import log_dirs_online
from kafka_medic.guard.reassign import judge_reassign
from kafka_medic.guard.rows import known_ids, troubled_rows
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.plan.allowed import Allowed
from kafka_medic.plan.model import Plan as Placement
from kafka_medic.plan.relocation import Relieve
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.extra_reads import Questions
from kafka_medic.playbook.reassign.even_plan import placed_beside_owners
from kafka_medic.playbook.reassign.leave_plan import SHOWN, named_brokers, placement_of
from kafka_medic.playbook.reassign.log_dirs_step import unsaved_rates
from kafka_medic.playbook.reassign.moves_plan import MAX_SUMMARY, Purpose, moves_plan, named_topics
from kafka_medic.playbook.reassign.parameters import ReassignParameters, reassign_parameters, relieve_parameters
from kafka_medic.playbook.reassign.room import FILLING, filling_volumes
from kafka_medic.playbook.reassign.spared import spared_unasked
from kafka_medic.playbook.reassign.within_plan import Short, Within, has_several, percent, results, within_brokers
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.report.units import many
from kafka_medic.resources.durations import format_bytes, format_duration, parse_duration
from kafka_medic.resources.playbook import Step
from kafka_medic.resources.remediation_plan import Plan, ReplicaMoves, ReplicaRemovals
from kafka_medic.resources.vocabulary import ActionName, Guard


@dataclass(frozen=True, slots=True)
class _Relief:
    """What is to be done about the volumes of the brokers that are named. `filled`: volumes of which bytes have to
    leave the broker, one of each. `postponed`: volumes of the same brokers that are short as well. `volumes`: those of
    brokers with several."""

    share: int
    filled: tuple[Short, ...]
    postponed: tuple[Short, ...]
    within: Within
    volumes: Mapping[int, Sequence[Volume]]

    def lines(self) -> Iterator[str]:
        yield from results(self.within, self.volumes)
        yield from self.within.lines()
        for each in self.postponed:
            stays = f"volume {each.volume.where} of broker {each.broker} ({percent(each.volume)} free) stays as it is"
            yield f"{stays}: bytes leave one volume of a broker at a time"


Sizes = Mapping[tuple[str, int], int]
"""Bytes of a broker's own replicas, by topic and partition."""


def about_own_sizes(request: PlanRequest, step: Step) -> Questions:
    """What each replica takes on the brokers that are named: a follower that has cleaned a compacted log, or not yet,
    is smaller or larger than its leader."""
    named = named_brokers(request, relieve_parameters(request.playbook, step, request.run.spec.parameters).brokers)
    known = {b.id for b in request.snapshot.brokers or ()}
    return Questions() if isinstance(named, Refusal) else Questions(log_dirs=named & known)


def relieve_plan(request: PlanRequest, step: Step) -> Plan | Refusal:
    """The whole plan, its digest included, or why not. Exempt topics stay as they are, and so do topics whose owner the
    plan cannot take, partitions of unknown size, and those that are not in sync everywhere. A broker with several
    volumes first moves replicas between them. Only what that does not free leaves the broker."""
    snapshot = request.snapshot
    if snapshot.partitions is None or snapshot.brokers is None or snapshot.configs is None:
        return unread(snapshot)
    told = relieve_parameters(request.playbook, step, request.run.spec.parameters)
    expectations = Expectations.from_spec(request.cluster.spec.expectations)
    names = [str(name) for name in pc.unique(snapshot.partitions["topic"]).to_pylist()]
    stay = tuple(name for name in names if expectations.exempt(name))
    named = named_brokers(request, told.brokers)
    relief = named if isinstance(named, Refusal) else _relief(request, sorted(named), told.share, stay)
    if isinstance(relief, Refusal):
        return relief
    if not relief.filled:
        return _within_alone(request, relief, ())
    found = _onto_others(request, step, relief, stay)
    if isinstance(found, Refusal) and relief.within.moves:
        # Some room is better than none.
        return _within_alone(request, relief, (f"not enough: {found.message}",))
    return found


def _onto_others(request: PlanRequest, step: Step, relief: _Relief, stay: Sequence[str]) -> Plan | Refusal:
    """The plan in which bytes leave brokers."""
    snapshot, filled = request.snapshot, relief.filled
    told = relieve_parameters(request.playbook, step, request.run.spec.parameters)
    settings = reassign_parameters(request.playbook, step, request.run.spec.parameters)
    expectations = Expectations.from_spec(request.cluster.spec.expectations)
    leaving = spared_unasked(request)
    if isinstance(leaving, Refusal):
        return leaving
    question = _question(request, filled)
    if isinstance(question, Refusal):
        return question
    sizes = dict(question.sizes)
    room = _Room(request, {f.broker for f in filled} | relief.volumes.keys(), leaving, told.share)
    if lacking := room.lacking(filled):
        return lacking
    behind = tuple(_left_behind(snapshot, filled, stay))

    def place(left: Collection[str]) -> Placement | Refusal:
        allowed = Allowed(only_give=frozenset(room.closed), exclude_topics=(*stay, *left))
        found = placement_of(snapshot, expectations, question, allowed, settings, room.bytes)
        if isinstance(found, Placement) or found.permanent:
            return found
        return room.refusal("; ".join((found.message, *behind)))

    found = placed_beside_owners(request, place)
    if isinstance(found, Refusal):
        return found
    placement, owners = found

    def title(plan: Plan) -> str:
        where = " and ".join(f"{f.volume.where} of broker {f.broker}" for f in filled)
        changes = plan.part(ReplicaMoves)
        what = f"{many(len(changes.changes), 'partition')} of {named_topics(changes)}"
        inside = len(relief.within.moves)
        within = f" and {many(inside, 'replica')} within {'its' if inside == 1 else 'their'} broker" if inside else ""
        return f"relieve the volume {where}: move a replica each of {what}{within}"

    def results_of(plan: Plan) -> Sequence[str]:
        volumes = (_results(request, plan, each, settings, sizes[each.broker]) for each in filled)
        return [line for line in chain(relief.lines(), *volumes) if line]

    purpose = Purpose(
        title,
        gives_up=True,
        batch=told.batch,
        lines=behind,
        results=results_of,
        within=relief.within.part,
        within_words=relief.within.sentence,
    )
    return moves_plan(request, step, placement, settings, owners, purpose)


def _within_alone(request: PlanRequest, relief: _Relief, lines: Sequence[str]) -> Plan | Refusal:
    """The plan that moves replicas between the volumes of their brokers and changes nothing else."""
    step = request.step(ActionName.ALTER_REPLICA_LOG_DIRS)
    within = relief.within
    assert step is not None  # nothing moves without it
    if refusals := judge_reassign(request.snapshot, (), 1, request.now).refusals:
        return Refusal("; ".join(r.message for r in refusals[:3]), refusals)
    if why := unsaved_rates(within.part, request.snapshot):
        return Refusal(why, (Reason(Guard.SOURCES_FRESH, Verdict.UNKNOWN, why),))
    seconds, limit = within.seconds, parse_duration(step.verify.within)
    if seconds is not None and seconds > limit:
        return Refusal(
            f"the copies take about {format_duration(seconds)}, but step {step.name} has {step.verify.within}; raise "
            "throttleBytesPerSecond, or the step's verify.within"
        )
    sources = dict.fromkeys(
        f"{volume.where} of broker {m.broker}"
        for m in within.moves
        for volume in relief.volumes[m.broker]
        if m.source in volume.paths
    )
    summary = (
        f"relieve the volume {' and '.join(sources)}: move {many(len(within.moves), 'replica')} to "
        "other log directories of their broker",
        *relief.lines(),
        *lines,
        *(_lasting(request, seconds, broker, within.throttle) for broker in within.part.brokers),
        f"{step.name}: {within.sentence}",
    )
    plan = request.draft(
        within.part,
        words={ActionName.ALTER_REPLICA_LOG_DIRS: within.sentence},
        summary="\n".join(filter(None, summary))[:MAX_SUMMARY],
        partitions=len({(m.topic, m.partition) for m in within.moves}),
        moves=len(within.moves),
        estimated_seconds=seconds,
    )
    only = tuple(s for s in plan.steps if s.action is ActionName.ALTER_REPLICA_LOG_DIRS)
    return request.sealed(plan.model_copy(update={"steps": only}))


def _relief(request: PlanRequest, named: Sequence[int], share: int, stay: Sequence[str]) -> _Relief | Refusal:
    """Of the brokers that are named, the volumes with less than the share free."""
    filled: list[Short] = []
    enough: list[str] = []
    dirs: dict[int, ReplicaDirs] = {}
    for number in named:
        broker = request.snapshot.broker(number)
        if broker is not None and has_several(broker):
            told = _directories(request, number)
            if isinstance(told, Refusal):
                return told
            dirs[number] = told
            enough += [_free(number, v, share, named_too=True) for v in volumes_of(told.directories)]
            continue
        volume = None if broker is None else only_volume(broker)
        if broker is None or volume is None:
            return _no_volume(number, broker)
        if (need := share_of(volume.total, share) - volume.free) > 0:
            filled.append(Short(number, volume, need))
        enough.append(_free(number, volume, share))
    within = within_brokers(request, request.step(ActionName.ALTER_REPLICA_LOG_DIRS), dirs, share, stay)
    first, postponed = _one_of_each_broker(request, (*filled, *within.left))
    if not first and not within.moves:
        return Refusal("; ".join(enough), nothing_to_do=True)
    volumes = {b: volumes_of(d.directories) for b, d in dirs.items()}
    return _Relief(share, first, postponed, within, volumes)


def _one_of_each_broker(request: PlanRequest, short: Iterable[Short]) -> tuple[tuple[Short, ...], tuple[Short, ...]]:
    """(one volume of each broker, the others): the planner's question is about brokers. Of those that hold enough, one
    that fills up by the last diagnosis, else the one with the smallest share free."""
    fill_up = {(f.id, path) for f in request.cluster.status.findings for path in f.affected}

    def urgency(each: Short) -> tuple[int, bool, bool, float]:
        fills = any((f"{FILLING}{each.broker}", path) in fill_up for path in each.volume.paths)
        return each.broker, not _holds_enough(request, each), not fills, each.volume.free / max(each.volume.total, 1)

    first: list[Short] = []
    postponed: list[Short] = []
    for each in sorted(short, key=urgency):
        (postponed if first and first[-1].broker == each.broker else first).append(each)
    return tuple(first), tuple(postponed)


def _free(number: int, volume: Volume, share: int, *, named_too: bool = False) -> str:
    part = f"{format_bytes(volume.free)} of {format_bytes(volume.total)} free ({percent(volume)})"
    where = f" on {volume.where}" if named_too else ""
    return f"broker {number} has {part}{where}, and {share} % are wanted"


def _holds_enough(request: PlanRequest, short: Short) -> bool:
    """Unless its replicas are known to be smaller than what is missing."""
    own = _own_sizes(request, short.broker)
    if short.only is None or isinstance(own, Refusal):
        return True
    return sum(own.get((*tp,), 0) for tp in short.only) >= short.need


def _directories(request: PlanRequest, number: int) -> ReplicaDirs | Refusal:
    """Of a broker with several volumes. While one of its log directories has failed, Kafka moves nothing into any
    (LogManager.getOrCreateLog)."""
    if request.step(ActionName.ALTER_REPLICA_LOG_DIRS) is None:
        message = (
            f"broker {number} has several volumes, and the playbook has no step {ActionName.ALTER_REPLICA_LOG_DIRS}: "
            "write it before ReassignPartitions"
        )
        return Refusal(message, permanent=True)
    told = request.reads.log_dirs.get(number, "not read")
    if isinstance(told, str):
        message = f"which replica of broker {number} is in which log directory is not known: {told}"
        return Refusal(message, (Reason(Guard.LOG_DIRS_ONLINE, Verdict.UNKNOWN, message),))
    online = log_dirs_online({number: told})
    if refused := tuple(r for r in online if r.verdict is not Verdict.ALLOW):
        return Refusal("; ".join(r.message for r in refused), refused)
    if any(d.total is None or d.usable is None for d in told.directories):
        return _no_volume(number, request.snapshot.broker(number))
    return told


def _question(request: PlanRequest, filled: Sequence[Short]) -> Relieve | Refusal:
    sizes: list[tuple[int, Sizes]] = []
    for each in filled:
        own = _own_sizes(request, each.broker)
        if isinstance(own, Refusal):
            return own
        sizes.append((each.broker, own))
    only = tuple((f.broker, frozenset((*tp,) for tp in f.only)) for f in filled if f.only is not None)
    return Relieve(tuple((f.broker, f.need) for f in filled), only, tuple(sizes))


def _own_sizes(request: PlanRequest, number: int) -> Sizes | Refusal:
    told = request.reads.log_dirs.get(number, "not read")
    if isinstance(told, str):
        message = f"how large the replicas of broker {number} are is not known: {told}"
        return Refusal(message, (Reason(Guard.DISK_HAS_ROOM, Verdict.UNKNOWN, message),))
    return {(*tp,): at.size for tp, at in told.current.items()}


def _no_volume(number: int, broker: Broker | None) -> Refusal:
    if broker is None:
        return Refusal(f"broker {number} is not part of the cluster", permanent=True)
    message = (
        f"the volume of broker {number} is not known: each log directory has to report its total and its free bytes "
        "(Kafka 3.3 or later). Compare DescribeLogDirs with df on the broker"
    )
    return Refusal(message, (Reason(Guard.SOURCES_FRESH, Verdict.UNKNOWN, message),))


class _Room:
    """What other brokers may take without falling below the share themselves. A broker of which that is not known, or
    which fills up itself, takes nothing."""

    def __init__(self, request: PlanRequest, relieved: Collection[int], leaving: Collection[int], share: int) -> None:
        filling = filling_volumes(request.cluster)
        self.share = share
        self.bytes: dict[int, int] = {}
        self.closed: dict[int, str] = {}
        for broker in request.snapshot.brokers or ():
            if broker.id in relieved:
                continue
            room = room_above(broker, share)
            if room is None:
                self.closed[broker.id] = "not known"
            elif broker.id in leaving:
                self.closed[broker.id] = "to hold nothing"
            elif broker.id in filling:
                self.closed[broker.id] = "fills up itself"
            else:
                self.bytes[broker.id] = room

    def lacking(self, filled: Sequence[Short]) -> Refusal | None:
        """Where all of it together does not suffice."""
        need, room = sum(f.need for f in filled), sum(self.bytes.values())
        if room >= need:
            return None
        return self.refusal(
            f"{format_bytes(need)} have to leave broker {some([f.broker for f in filled])}, and other brokers have "
            f"room for {format_bytes(room)} above their own {self.share} %: {format_bytes(need - room)} are lacking"
        )

    def refusal(self, why: str) -> Refusal:
        """With what each broker could take, and what a person can do."""
        words: Mapping[int, str] = {b: format_bytes(n) for b, n in self.bytes.items()} | self.closed
        each = some([f"broker {b}: {words[b]}" for b in sorted(words)])
        message = f"{why} (room: {each}). Shorten retention, enlarge volumes, add brokers, or lower freeSharePercent"
        return Refusal(message, (Reason(Guard.DISK_HAS_ROOM, Verdict.WAIT, message),))


def _left_behind(snapshot: Snapshot, filled: Sequence[Short], stay: Collection[str]) -> Iterator[str]:
    """Partitions on these brokers that the plan may not choose."""
    rows = {
        row.tp: row
        for f in filled
        for row in troubled_rows(snapshot, f.broker) or ()
        if f.only is None or row.tp in f.only
    }
    brokers = {f.broker for f in filled}
    held = [row for _, row in sorted(rows.items()) if set(row.replicas or ()) & brokers and row.topic not in stay]
    unknown = [row.tp for row in held if row.size_bytes is None]
    if unknown:
        yield f"left out, because the size is not known: {some(unknown, SHOWN)}"
    behind = [row.tp for row in held if row.size_bytes is not None and not _in_sync(row)]
    if behind:
        yield f"left out, because not every replica is in sync: {some(behind, SHOWN)}"


def _in_sync(row: PartitionRow) -> bool:
    isr = known_ids(row.isr)
    return isr is not None and set(row.replicas or ()) <= isr


def _results(
    request: PlanRequest, plan: Plan, filled: Short, settings: ReassignParameters, sizes: Sizes
) -> Iterator[str]:
    """What the volume has afterwards, and whether it lasts that long."""
    broker, volume = filled.broker, filled.volume
    leaves = sum(
        sizes[c.topic, c.partition]
        for c in plan.part(ReplicaRemovals).each()
        if broker in c.replicas_before and broker not in c.replicas
    )
    now, after = (
        f"{format_bytes(n)} {{}} ({percent(replace(volume, free=n))})" for n in (volume.free, volume.free + leaves)
    )
    yield (
        f"volume {volume.where} of broker {broker}: {now.format('free now')}, {after.format('afterwards')} without "
        f"what is written meanwhile; moves {format_bytes(leaves)} off the broker (lower bound "
        f"{format_bytes(filled.need)})"
    )
    yield _lasting(request, plan.estimated_seconds, broker, settings.throttle_bytes_per_second)


def _lasting(request: PlanRequest, seconds: int | None, broker: int, rate: int | None) -> str:
    """Whether the volume lasts as long as the copy; empty where its finding says nothing of that."""
    finding = next((f for f in request.cluster.status.findings if f.id == f"{FILLING}{broker}"), None)
    lasts = None if finding is None else full_in(finding.message)
    if lasts is None:
        return ""
    line = f"the volume is full in about {format_duration(lasts)} at the present pace"
    if seconds is None:
        return f"{line}; how long the copy takes is not known"
    takes = format_duration(max(1, seconds))
    line = f"{line}, the copy takes about {takes}" + (f" at {format_bytes(rate)}/s" if rate else "")
    if seconds >= lasts:
        line += ", longer than the volume lasts: raise throttleBytesPerSecond, shorten retention, or enlarge the volume"
    return line
