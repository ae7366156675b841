"""The plan of a playbook that frees a share of a volume that fills: enough bytes move to other brokers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import Broker, PartitionRow, Snapshot
from kafka_medic.diagnose.disks import Volume, full_in, only_volume, room_above, share_of, volumes_of
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.rows import known_ids, troubled_rows
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.plan.allowed import Allowed
from kafka_medic.plan.model import Plan as Placement
from kafka_medic.plan.relocation import Relieve
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.reassign.even_plan import placed_beside_owners
from kafka_medic.playbook.reassign.leave_plan import SHOWN, named_brokers, placement_of
from kafka_medic.playbook.reassign.moves_plan import Purpose, moves_plan, named_topics
from kafka_medic.playbook.reassign.parameters import ReassignParameters, reassign_parameters, relieve_parameters
from kafka_medic.playbook.reassign.spared import spared_unasked
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.report.units import many
from kafka_medic.resources.durations import format_bytes, format_duration
from kafka_medic.resources.playbook import Step
from kafka_medic.resources.remediation_plan import Plan, ReplicaMoves, ReplicaRemovals
from kafka_medic.resources.vocabulary import Guard

_FINDING = "DiskFilling/broker-"
_BY_HAND = (
    "Move replicas off that volume yourself: kafka-reassign-partitions.sh with log_dirs for another volume of the "
    "broker, or with another broker"
)


@dataclass(frozen=True, slots=True)
class _Filled:
    """A broker of which bytes have to leave: its only volume, and how many."""

    broker: int
    volume: Volume
    need: int


def relieve_plan(request: PlanRequest, step: Step) -> Plan | Refusal:
    """The whole plan, its digest included, or why not. Exempt topics stay as they are, and so do topics whose owner the
    plan cannot take, partitions of unknown size, and those that are not in sync everywhere."""
    snapshot = request.snapshot
    if snapshot.partitions is None or snapshot.brokers is None or snapshot.configs is None:
        return unread(snapshot)
    told = relieve_parameters(request.playbook, step, request.run.spec.parameters)
    settings = reassign_parameters(request.playbook, step, request.run.spec.parameters)
    named = named_brokers(request, told.brokers)
    filled = named if isinstance(named, Refusal) else _filled(snapshot, sorted(named), told.share)
    if isinstance(filled, Refusal):
        return filled
    leaving = spared_unasked(request)
    if isinstance(leaving, Refusal):
        return leaving
    room = _Room(request, {f.broker for f in filled}, leaving, told.share)
    if lacking := room.lacking(filled):
        return lacking
    expectations = Expectations.from_spec(request.cluster.spec.expectations)
    names = [str(name) for name in pc.unique(snapshot.partitions["topic"]).to_pylist()]
    stay = tuple(name for name in names if expectations.exempt(name))
    question = Relieve(tuple((f.broker, f.need) for f in filled))
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
        what = f"{many(plan.partitions or 0, 'partition')} of {named_topics(plan.part(ReplicaMoves))}"
        return f"free {told.share} % of the volume {where}: move a replica each of {what}"

    def results(plan: Plan) -> Sequence[str]:
        return [line for each in filled for line in _results(request, plan, each, settings)]

    purpose = Purpose(title, gives_up=True, batch=told.batch, lines=behind, results=results)
    return moves_plan(request, step, placement, settings, owners, purpose)


def _filled(snapshot: Snapshot, named: Sequence[int], share: int) -> list[_Filled] | Refusal:
    """Of the brokers that are named, those with less than the share free."""
    found, enough = [], []
    for number in named:
        broker = snapshot.broker(number)
        volume = None if broker is None else only_volume(broker)
        if broker is None or volume is None:
            return _no_volume(number, broker)
        if (need := share_of(volume.total, share) - volume.free) > 0:
            found.append(_Filled(number, volume, need))
        part = f"{format_bytes(volume.free)} of {format_bytes(volume.total)} free ({_percent(volume.free, volume)})"
        enough.append(f"broker {number} has {part}, and {share} % are wanted")
    return found or Refusal("; ".join(enough), nothing_to_do=True)


def _no_volume(number: int, broker: Broker | None) -> Refusal:
    """Of several volumes nobody here knows which of them a replica would leave."""
    if broker is None:
        return Refusal(f"broker {number} is not part of the cluster", permanent=True)
    volumes = volumes_of(broker.directories or ())
    if len(volumes) > 1:
        message = (
            f"broker {number} has {len(volumes)} volumes ({', '.join(v.where for v in volumes)}), and the operator "
            f"does not read which of them holds which replica. {_BY_HAND}"
        )
        return Refusal(message, permanent=True)
    message = (
        f"the volume of broker {number} is not known: each log directory has to report its total and its free bytes "
        "(Kafka 3.3 or later). Compare DescribeLogDirs with df on the broker"
    )
    return Refusal(message, (Reason(Guard.SOURCES_FRESH, Verdict.UNKNOWN, message),))


class _Room:
    """What other brokers may take without falling below the share themselves. A broker of which that is not known, or
    which fills up itself, takes nothing."""

    def __init__(self, request: PlanRequest, relieved: Collection[int], leaving: Collection[int], share: int) -> None:
        filling = {f.id for f in request.cluster.status.findings}
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
            elif f"{_FINDING}{broker.id}" in filling:
                self.closed[broker.id] = "fills up itself"
            else:
                self.bytes[broker.id] = room

    def lacking(self, filled: Sequence[_Filled]) -> Refusal | None:
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


def _percent(part: int, volume: Volume) -> str:
    return f"{100 * part / max(volume.total, 1):.1f} %"


def _left_behind(snapshot: Snapshot, filled: Sequence[_Filled], stay: Collection[str]) -> Iterator[str]:
    """Partitions on these brokers that the plan may not choose."""
    rows = {row.tp: row for f in filled for row in troubled_rows(snapshot, f.broker) or ()}
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


def _results(request: PlanRequest, plan: Plan, filled: _Filled, settings: ReassignParameters) -> Iterator[str]:
    """What the volume has afterwards, and whether it lasts that long."""
    broker, volume = filled.broker, filled.volume
    sizes = {(c.topic, c.partition): c.size_bytes or 0 for c in plan.part(ReplicaMoves).changes}
    leaves = sum(
        sizes[c.topic, c.partition]
        for c in plan.part(ReplicaRemovals).each()
        if broker in c.replicas_before and broker not in c.replicas
    )
    now, after = (f"{format_bytes(n)} {{}} ({_percent(n, volume)})" for n in (volume.free, volume.free + leaves))
    yield (
        f"volume {volume.where} of broker {broker}: {now.format('free now')}, {after.format('afterwards')} without "
        f"what is written meanwhile; moves {format_bytes(leaves)} off the broker (lower bound "
        f"{format_bytes(filled.need)})"
    )
    finding = next((f for f in request.cluster.status.findings if f.id == f"{_FINDING}{broker}"), None)
    lasts = None if finding is None else full_in(finding.message)
    if lasts is None:
        return
    line = f"the volume is full in about {format_duration(lasts)} at the present pace"
    if plan.estimated_seconds is None:
        yield f"{line}; how long the copy takes is not known"
        return
    takes = format_duration(max(1, plan.estimated_seconds))
    rate = settings.throttle_bytes_per_second
    line = f"{line}, the copy takes about {takes}" + (f" at {format_bytes(rate)}/s" if rate else "")
    if plan.estimated_seconds >= lasts:
        line += ", longer than the volume lasts: raise throttleBytesPerSecond, shorten retention, or enlarge the volume"
    yield line
