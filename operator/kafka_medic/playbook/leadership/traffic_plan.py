"""The plan of a playbook that makes what clients send to each broker more even, by other leaders alone.

Two witnesses say how busy a broker is: what its exporter reports that clients send it, and how fast the logs grow that
it leads. The exporters' number is of seconds, and of a broker as a whole. It is divided among the broker's partitions
by their growth. A step has to help by the word of both. Where the two contradict each other about a broker's share,
nothing is planned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from kafka_medic.cluster.snapshot import PartitionRow, Snapshot, TopicPartition
from kafka_medic.diagnose.columns import Ints, Mask, Partitions, numbers, partitions_of
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.load import Floats
from kafka_medic.diagnose.traffic import WINDOW
from kafka_medic.guard.elect import able_to_lead
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.leaving import leaving_brokers
from kafka_medic.guard.other_runs import OtherRun, standing_drains
from kafka_medic.guard.rows import known_ids
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.leadership.drain_plan import leaving
from kafka_medic.playbook.leadership.parameters import traffic_parameters
from kafka_medic.playbook.plan_file import elections_of
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.report.units import many
from kafka_medic.resources.durations import format_bytes
from kafka_medic.resources.playbook import Step
from kafka_medic.resources.remediation_plan import Elections, PartitionChange, Plan, Reorders
from kafka_medic.resources.vocabulary import ActionName, Guard

LEAST_GAIN = 0.2
"""Share of what brokers have above the mean that a plan has to take off them, unless `maxMoves` ended it."""
ENOUGH = 0.1
"""Share of the mean that a broker may have above it and keep what it leads."""
CONTRADICTED = 2.0
"""By this factor a broker's share of all traffic may differ from its share of all growth."""
NOTABLE = 0.1
"""Shares below that of the mean broker times this contradict nothing."""
LOOKED_AT, BESIDE = 2_000, 100
"""Partitions of a busy broker, the busiest first, among which each step chooses; and of one that may become busy."""


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Bytes per second. reported: float64[N] of each partition, as exporters say; grown: float64[N] as its log says;
    both 0 where nothing is known. by_exporter, by_logs: of each broker that leads. cleaned: bool[N] whether a log got
    offsets and no bytes, so that it is not known how busy it is."""

    reported: Floats
    grown: Floats
    by_exporter: Mapping[int, float]
    by_logs: Mapping[int, float]
    cleaned: Mask


@dataclass(frozen=True, slots=True)
class _Led:
    """A partition that others could lead."""

    row: PartitionRow
    reported: float
    grown: float
    takers: tuple[int, ...]


@dataclass(eq=False)
class _Leading:
    """Who leads what by now. reported, grown: bytes per second of each broker. rows: of each, the busiest first."""

    reported: dict[int, float]
    grown: dict[int, float]
    rows: dict[int, list[_Led]] = field(default_factory=dict)
    moved: list[tuple[PartitionRow, int]] = field(default_factory=list)

    def best(self, giver: int) -> tuple[int, int] | None:
        """(which of the giver's rows, who leads it then), where the busier of the two has least to do afterwards."""
        found, lowest = None, self.reported[giver]
        for place, led in enumerate(self.rows.get(giver, ())):
            for taker in led.takers:
                busier = max(self.reported[giver] - led.reported, self.reported[taker] + led.reported)
                if busier < lowest and self.grown[taker] + led.grown < self.grown[giver]:
                    found, lowest = (place, taker), busier
        return found

    def move(self, giver: int, place: int, taker: int) -> None:
        """A partition moves once: whoever took it keeps it."""
        led = self.rows[giver].pop(place)
        for load, rate in ((self.reported, led.reported), (self.grown, led.grown)):
            load[giver] -= rate
            load[taker] += rate
        self.moved.append((led.row, taker))


def traffic_plan(request: PlanRequest, step: Step) -> Plan | Refusal:
    """The whole plan, its digest included, or why not."""
    snapshot = request.snapshot
    able = able_to_lead(snapshot)
    if snapshot.partitions is None or snapshot.brokers is None or able is None:
        return unread(snapshot)
    if request.others is None:
        return _unknown("the orders that drains have left could not be read")
    rates = traffic_rates(snapshot, request.reads.growth)
    if isinstance(rates, Refusal):
        return rates
    leading = _leading(request, rates, able - _going(request, request.others), request.others)
    before = dict(leading.reported)
    most = traffic_parameters(request.playbook, step, request.run.spec.parameters)
    _even(leading, most)
    least = _excess(before) * LEAST_GAIN if len(leading.moved) < most else 0.0
    if not leading.moved or _excess(before) - _excess(leading.reported) < least:
        return Refusal("no other leader makes what clients send to the brokers more even", nothing_to_do=True)
    return _plan(request, leading, before)


def no_longer_helps(plan: Plan, snapshot: Snapshot, growth: pa.Table | None) -> str | None:
    """That another broker is busy by now, or none is. None: it helps, has begun, or what there is to tell is not
    known."""
    orders = {TopicPartition(c.topic, c.partition): c for c in plan.part(Reorders).reorders}
    rates, p = traffic_rates(snapshot, growth), partitions_of(snapshot)
    if isinstance(rates, Refusal) or p is None or not orders:
        return None
    rate_of = {p.name(r): float(rates.reported[r]) for r in np.flatnonzero(rates.reported > 0).tolist()}
    now = dict(rates.by_exporter)
    then = dict(now)
    for row in snapshot.rows(set(orders)):
        change = orders[row.tp]
        if row.replicas != tuple(change.replicas_before):
            return None
        for broker, sign in ((change.replicas_before[0], -1), (change.replicas[0], 1)):
            then[broker] = then.get(broker, 0.0) + sign * rate_of.get(row.tp, 0.0)
    if _excess(then) < _excess(now):
        return None
    return "what clients send to each broker is no longer as the plan saw it: these leaders would not make it more even"


def not_known(plan: Plan, snapshot: Snapshot, growth: pa.Table | None) -> Iterator[Reason]:
    """PreconditionsHold, for the traffic, as long as nothing has been done: what is not known any more helps nobody."""
    orders = {TopicPartition(c.topic, c.partition): tuple(c.replicas_before) for c in plan.part(Reorders).reorders}
    rates = traffic_rates(snapshot, growth)
    if isinstance(rates, Refusal) and all(row.replicas == orders[row.tp] for row in snapshot.rows(set(orders))):
        yield from rates.reasons


def traffic_rates(snapshot: Snapshot, growth: pa.Table | None) -> Rates | Refusal:
    """How busy each partition makes its leader, or why that is not known."""
    p, table = partitions_of(snapshot), snapshot.partitions
    if p is None or table is None:
        return unread(snapshot)
    if growth is None:
        return _unknown(f"how fast each log grows is not known yet: the operator watches them for {WINDOW:.0f} s")
    known = p.leader.known & (p.leader.values >= 0)
    found = _grown(growth, snapshot)
    if found is None:
        return _unknown("the sizes of the partitions could not be read")
    grown, cleaned = found
    measured = {b.id: b.bytes_in_rate for b in snapshot.brokers or ()}
    leaders = np.unique(p.leader.values[known]).tolist()
    silent = [b for b in leaders if measured.get(b) is None]
    if silent:
        return _unknown(f"broker {some(silent)} reports no bytesInRate")
    by_logs = {b: float(grown[known & (p.leader.values == b)].sum()) for b in leaders}
    by_exporter = {b: float(measured[b] or 0.0) for b in leaders}
    if (wrong := _contradicted(by_exporter, by_logs)) is not None:
        return _unknown(wrong)
    scale = {b: by_exporter[b] / by_logs[b] if by_logs[b] else 0.0 for b in leaders}
    each = np.array([scale.get(b, 0.0) for b in np.where(known, p.leader.values, -1).tolist()])
    return Rates(grown * each, grown, by_exporter, by_logs, cleaned)


def _grown(growth: pa.Table, snapshot: Snapshot) -> tuple[Floats, Mask] | None:
    """(bytes per second that each log gets, which logs were cleaned); None where no size is known. Where the log's size
    does not tell, an offset counts as many bytes as the log's offsets have. Growth of another topic under the same name
    counts for nothing."""
    p, table = partitions_of(snapshot), snapshot.partitions
    assert p is not None
    assert table is not None
    size = numbers(table["sizeBytes"])
    offsets = np.where(p.log_start.known & p.log_end.known, p.log_end.values - p.log_start.values, 0)
    dense = size.known & (offsets > 0)
    if not dense.any():
        return None
    usual = float(size.values[dense].sum() / offsets[dense].sum())
    each = np.where(dense, size.values / np.maximum(offsets, 1), usual)
    row: Ints = p.rows_of(growth["topic"], numbers(growth["partition"]).values)
    there = np.flatnonzero(row >= 0)
    then, now = growth["topicId"].take(there).to_pylist(), table["topicId"].take(row[there]).to_pylist()
    same = np.array([a is None or b is None or a == b for a, b in zip(then, now, strict=True)], dtype=np.bool_)
    at = there[same]
    row = row[at]
    told = growth["bytes"].to_numpy()[at]
    grown, cleaned = np.zeros(len(p)), np.zeros(len(p), dtype=np.bool_)
    grown[row] = np.where(np.isnan(told), growth["offsets"].to_numpy()[at] * each[row], told)
    cleaned[row] = growth["cleaned"].to_numpy()[at]
    return grown, cleaned


def _contradicted(reported: Mapping[int, float], grown: Mapping[int, float]) -> str | None:
    """A message with rounded shares, so that it stays the same from one reconcile to the next."""
    both = sum(reported.values()), sum(grown.values())
    if not all(both):
        return f"no broker reports traffic, or no log has grown that was there for the last {WINDOW:.0f} s"
    shares = {b: (reported[b] / both[0], grown[b] / both[1]) for b in sorted(reported)}
    least = NOTABLE / len(reported)
    apart = [b for b, pair in shares.items() if max(pair) > least and max(pair) > CONTRADICTED * min(pair)]
    if not apart:
        return None
    worst = max(apart, key=lambda b: abs(shares[b][0] - shares[b][1]))
    first, second = (f"about {round(share, 1):.0%}" for share in shares[worst])
    return (
        f"broker {worst} reports {first} of all traffic, and its logs have {second} of all growth: one of the two is "
        "not to be trusted"
    )


def _going(request: PlanRequest, others: Sequence[OtherRun]) -> frozenset[int]:
    """Brokers that are to lead nothing more: about to go, emptied, or drained and not taken back."""
    snapshot, status = request.snapshot, request.cluster.status
    going = {b.id for b in snapshot.brokers or () if b.pod is not None and leaving(b) is not False}
    going |= leaving_brokers(status.strimzi, others, status.departed_brokers).keys()
    drains = standing_drains(others)
    for row in snapshot.rows({TopicPartition(*place) for place in drains}) if drains else ():
        change = drains[row.topic, row.partition]
        if row.replicas == tuple(change.replicas):
            going.add(change.replicas_before[0])
    return frozenset(going)


def _leading(request: PlanRequest, rates: Rates, able: frozenset[int], others: Sequence[OtherRun]) -> _Leading:
    """What drains left in another order stays so, for undrain-broker to take back. So do exempt topics, and logs of
    which it is not known how busy they are."""
    drains = standing_drains(others)
    expectations = Expectations.from_spec(request.cluster.spec.expectations)
    brokers = {b.id: b.bytes_in_rate for b in request.snapshot.brokers or ()}
    loads = {b: rate for b, rate in brokers.items() if rate is not None}
    found = _Leading(loads, {b: rates.by_logs.get(b, 0.0) for b in loads})
    p = partitions_of(request.snapshot)
    place = {} if p is None else {p.name(r): r for r in _busiest(p, rates, _givers(found.reported, found.grown))}
    for row in request.snapshot.rows(set(place)):
        isr = known_ids(row.isr)
        if row.leader is None or not row.replicas or row.replicas[0] != row.leader or isr is None:
            continue  # elect-preferred-leaders comes first
        if row.reassigning is not False or expectations.exempt(row.topic) or row.leader not in loads:
            continue
        drain = drains.get((row.topic, row.partition))
        if drain is not None and tuple(drain.replicas) == row.replicas:
            continue
        takers = tuple(b for b in row.replicas if b != row.leader and b in able and b in isr and b in loads)
        if takers:
            at = place[row.tp]
            led = _Led(row, float(rates.reported[at]), float(rates.grown[at]), takers)
            found.rows.setdefault(row.leader, []).append(led)
    return found


def _givers(reported: Mapping[int, float], grown: Mapping[int, float]) -> set[int]:
    """Brokers that are busy by the word of both."""
    mean, usual = (sum(load.values()) / max(len(load), 1) for load in (reported, grown))
    return {b for b, load in reported.items() if load > mean * (1 + ENOUGH) and grown[b] > usual}


def _busiest(p: Partitions, rates: Rates, givers: set[int]) -> list[int]:
    """Rows of partitions that are looked at."""
    found: list[int] = []
    able = p.leader.known & (rates.reported > 0) & ~rates.cleaned
    for leader in rates.by_exporter:
        led = np.flatnonzero(able & (p.leader.values == leader))
        most = LOOKED_AT if leader in givers else BESIDE
        found += led[np.argsort(-rates.reported[led], kind="stable")][:most].tolist()
    return found


def _even(leading: _Leading, moves: int) -> None:
    """The busiest broker gives a leadership to a less busy one, as long as that helps and `moves` are left. A broker is
    busy by the word of both."""
    ended = set[int]()
    while moves > 0 and (busy := _givers(leading.reported, leading.grown) - ended):
        giver = min(busy, key=lambda b: (-leading.reported[b], b))
        step = leading.best(giver)
        if step is None:
            ended.add(giver)
            continue
        leading.move(giver, *step)
        moves -= 1


def _plan(request: PlanRequest, leading: _Leading, before: Mapping[int, float]) -> Plan:
    reorders = tuple(
        PartitionChange(
            topic=row.topic,
            partition=row.partition,
            replicas_before=row.replicas or (),
            replicas=(first, *(b for b in row.replicas or () if b != first)),
        )
        for row, first in sorted(leading.moved, key=lambda m: m[0].tp)
    )
    gains = Counter(c.replicas[0] for c in reorders)
    gains.subtract(Counter(c.replicas_before[0] for c in reorders))
    after = leading.reported
    now, then = (f"{_rate(min(load.values()))} to {_rate(max(load.values()))}" for load in (before, after))
    lines = [
        f"give {many(len(reorders), 'partition')} another leader, so that clients send {then} to each broker (now "
        f"{now}); no data moves",
        f"the replica order of {many(len(reorders), 'partition')} changes, so that Kafka does not move the leaders "
        "back",
    ]
    lines += [
        f"  broker {b}: {_rate(before[b])} now, {_rate(after[b])} then; leads {gains[b]:+d}"
        for b in sorted(before)
        if gains[b] or before[b] != after[b]
    ]
    words = {
        ActionName.REORDER_REPLICAS: f"change the order of the replicas of {many(len(reorders), 'partition')}",
        ActionName.ELECT_PREFERRED_LEADERS: (
            f"elect the leaders of {many(len(reorders), 'partition')}, in batches, each of which must serve"
        ),
    }
    plan = request.draft(
        Reorders(reorders=reorders, reordered_for_good=True),
        Elections(elections=elections_of(reorders)),
        words=words,
        summary="\n".join(lines)[:8000],
        partitions=len(reorders),
        moves=0,
    )
    return request.sealed(plan)


def _rate(bytes_per_second: float) -> str:
    return f"{format_bytes(int(bytes_per_second))}/s"


def _excess(load: Mapping[int, float]) -> float:
    """What brokers have above the mean, in all."""
    mean = sum(load.values()) / max(len(load), 1)
    return sum(max(rate - mean, 0.0) for rate in load.values())


def _unknown(message: str) -> Refusal:
    return Refusal(message, (Reason(Guard.PRECONDITIONS_HOLD, Verdict.UNKNOWN, message),))
