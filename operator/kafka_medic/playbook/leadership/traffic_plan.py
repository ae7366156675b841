"""The plan of a playbook that makes what clients send to each broker more even, by other leaders alone.

Two witnesses say how busy a partition makes its leader: what the leader's exporter reports for the broker as a whole,
and how fast the leader's logs grow. Each broker's traffic is divided among the partitions that it leads by their
growth in bytes. Where the two contradict each other about a broker's share, nothing is planned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from kafka_medic.cluster.snapshot import PartitionRow, Snapshot
from kafka_medic.diagnose.columns import Ints, numbers, partitions_of
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.load import Floats
from kafka_medic.diagnose.traffic import WINDOW
from kafka_medic.guard.elect import able_to_lead
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.other_runs import OtherRun
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

LEAST_GAIN = 0.02
"""Share of the mean that a new leader has to take off the busier of two brokers."""
ENOUGH = 0.1
"""Share of the mean that a broker may have above it and keep what it leads."""
CONTRADICTED = 2.0
"""By this factor a broker's share of all traffic may differ from its share of all growth."""
NOTABLE = 0.1
"""Shares below that of the mean broker times this contradict nothing."""


@dataclass(eq=False)
class _Leading:
    """Who leads what by now. load: bytes per second of each broker. rows: of each broker the partitions that others
    could lead, and their bytes per second."""

    load: dict[int, float]
    rows: dict[int, list[tuple[float, PartitionRow, tuple[int, ...]]]] = field(default_factory=dict)
    moved: list[tuple[PartitionRow, int]] = field(default_factory=list)

    def best(self, giver: int, least: float) -> tuple[int, int] | None:
        """(which of the giver's rows, who leads it then), where the busier of the two has least to do afterwards."""
        found, lowest = None, self.load[giver] - least
        for place, (rate, _, takers) in enumerate(self.rows.get(giver, ())):
            for taker in takers:
                busier = max(self.load[giver] - rate, self.load[taker] + rate)
                if busier < lowest:
                    found, lowest = (place, taker), busier
        return found

    def move(self, giver: int, place: int, taker: int) -> None:
        """A partition moves once: whoever took it keeps it."""
        rate, row, _ = self.rows[giver].pop(place)
        self.load[giver] -= rate
        self.load[taker] += rate
        self.moved.append((row, taker))


def traffic_plan(request: PlanRequest, step: Step) -> Plan | Refusal:
    """The whole plan, its digest included, or why not."""
    snapshot = request.snapshot
    able = able_to_lead(snapshot)
    if snapshot.partitions is None or snapshot.brokers is None or able is None:
        return unread(snapshot)
    if request.others is None:
        return _unknown("the orders that drains have left could not be read")
    rates = _rates(snapshot, request.reads.growth)
    if isinstance(rates, Refusal):
        return rates
    able -= {b.id for b in snapshot.brokers if b.pod is not None and leaving(b) is not False}
    leading = _leading(request, rates, able, request.others)
    before = dict(leading.load)
    _even(leading, traffic_parameters(request.playbook, step, request.run.spec.parameters))
    if not leading.moved:
        return Refusal("no other leader makes what clients send to the brokers more even", nothing_to_do=True)
    return _plan(request, leading, before)


def _rates(snapshot: Snapshot, growth: pa.Table | None) -> Floats | Refusal:
    """Bytes per second of each partition, 0 where nothing is known of it."""
    p, table = partitions_of(snapshot), snapshot.partitions
    if p is None or table is None:
        return unread(snapshot)
    if growth is None:
        return _unknown(f"how fast each log grows is not known yet: the operator watches them for {WINDOW:.0f} s")
    size, known = numbers(table["sizeBytes"]), p.leader.known & (p.leader.values >= 0)
    offsets = np.where(p.log_start.known & p.log_end.known, p.log_end.values - p.log_start.values, 0)
    dense = size.known & (offsets > 0)
    if not dense.any():
        return _unknown("the sizes of the partitions could not be read")
    usual = float(size.values[dense].sum() / offsets[dense].sum())
    each = np.where(dense, size.values / np.maximum(offsets, 1), usual)
    grown = each * _per_second(growth, p.rows_of(growth["topic"], numbers(growth["partition"]).values), table)
    measured = {b.id: b.bytes_in_rate for b in snapshot.brokers or ()}
    leaders = np.unique(p.leader.values[known]).tolist()
    silent = [b for b in leaders if measured.get(b) is None]
    if silent:
        return _unknown(f"broker {some(silent)} reports no bytesInRate")
    derived = {b: float(grown[known & (p.leader.values == b)].sum()) for b in leaders}
    told = {b: float(measured[b] or 0.0) for b in leaders}
    if (wrong := _contradicted(told, derived)) is not None:
        return _unknown(wrong)
    scale = {b: told[b] / derived[b] if derived[b] else 0.0 for b in leaders}
    rates: Floats = grown * np.array([scale.get(b, 0.0) for b in np.where(known, p.leader.values, -1).tolist()])
    return rates


def _per_second(growth: pa.Table, row: Ints, table: pa.Table) -> Floats:
    """Of each partition of the table; growth of another topic under the same name counts for nothing."""
    found = np.zeros(table.num_rows)
    there = np.flatnonzero(row >= 0)
    then, now = growth["topicId"].take(there).to_pylist(), table["topicId"].take(row[there]).to_pylist()
    same = np.array([a is None or b is None or a == b for a, b in zip(then, now, strict=True)], dtype=np.bool_)
    at = there[same] if len(there) else there
    found[row[at]] = growth["perSecond"].to_numpy()[at]
    return found


def _contradicted(told: Mapping[int, float], derived: Mapping[int, float]) -> str | None:
    both = sum(told.values()), sum(derived.values())
    if not all(both):
        return "no broker reports traffic, or no log grows"
    shares = {b: (told[b] / both[0], derived[b] / both[1]) for b in sorted(told)}
    least = NOTABLE / len(told)
    apart = [b for b, pair in shares.items() if max(pair) > least and max(pair) > CONTRADICTED * min(pair)]
    if not apart:
        return None
    worst = max(apart, key=lambda b: abs(shares[b][0] - shares[b][1]))
    reported, grown = shares[worst]
    return (
        f"broker {worst} reports {reported:.0%} of all traffic, and its logs have {grown:.0%} of all growth: one of "
        "the two is not to be trusted"
    )


def _leading(request: PlanRequest, rates: Floats, able: frozenset[int], others: Sequence[OtherRun]) -> _Leading:
    """What drains left in another order stays so, for undrain-broker to take back. So do exempt topics."""
    drained = {(c.topic, c.partition, tuple(c.replicas)) for run in others for c in run.reorders}
    expectations = Expectations.from_spec(request.cluster.spec.expectations)
    found = _Leading({b.id: b.bytes_in_rate for b in request.snapshot.brokers or () if b.bytes_in_rate is not None})
    p = partitions_of(request.snapshot)
    rate_of = {} if p is None else {p.name(r): float(rates[r]) for r in np.flatnonzero(rates > 0).tolist()}
    for row in request.snapshot.rows(set(rate_of)):
        isr = known_ids(row.isr)
        if row.leader is None or not row.replicas or row.replicas[0] != row.leader or isr is None:
            continue  # elect-preferred-leaders comes first
        if row.reassigning is not False or expectations.exempt(row.topic):
            continue
        if (row.topic, row.partition, row.replicas) in drained:
            continue
        takers = tuple(b for b in row.replicas if b != row.leader and b in able and b in isr and b in found.load)
        if takers and row.leader in found.load:
            found.rows.setdefault(row.leader, []).append((rate_of[row.tp], row, takers))
    return found


def _even(leading: _Leading, moves: int) -> None:
    """The busiest broker gives a leadership to a less busy one, as long as that helps and `moves` are left."""
    mean = sum(leading.load.values()) / max(len(leading.load), 1)
    least, ended = max(LEAST_GAIN * mean, 1.0), set[int]()
    while moves > 0:
        busy = {b for b, load in leading.load.items() if load > mean * (1 + ENOUGH)} - ended
        if not busy:
            return
        giver = min(busy, key=lambda b: (-leading.load[b], b))
        step = leading.best(giver, least)
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
    now, then = (f"{_rate(min(load.values()))} to {_rate(max(load.values()))}" for load in (before, leading.load))
    lines = [
        f"give {many(len(reorders), 'partition')} another leader, so that clients send {then} to each broker (now "
        f"{now}); no data moves",
        f"the replica order of {many(len(reorders), 'partition')} changes, so that Kafka does not move the leaders "
        "back",
    ]
    lines += [
        f"  broker {b}: {_rate(before[b])} now, {_rate(leading.load[b])} then; leads {gains[b]:+d}"
        for b in sorted(before)
        if gains[b] or before[b] != leading.load[b]
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


def _unknown(message: str) -> Refusal:
    return Refusal(message, (Reason(Guard.PRECONDITIONS_HOLD, Verdict.UNKNOWN, message),))
