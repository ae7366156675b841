"""The rate of a throttle while replicas are copied: halved while others fall behind or clients wait, and brought back
when neither is so. What clients see is told by the canary, where there is one.

It is never above the plan's, which is what was approved. Each change is an entry of the journal, whose id holds the
rate: so whoever comes next, after a crash too, knows what is in force and which values are ours to take back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow.compute as pc

from kafka_medic.cluster.elements import on_failed_directory
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.guard.evaluate import some
from kafka_medic.playbook.effects import SettingKey, dynamic_value, unknown_settings
from kafka_medic.playbook.reassign.positions import Standing
from kafka_medic.resources.remediation_plan import Plan, ReplicaMoves
from kafka_medic.resources.remediation_status import IntentState, JournalEntry

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LOWEST_PART = 8
"""The rate goes down to an eighth of the plan's, no further: below that, copying would hardly end."""
SETTLE_SECONDS, CALM_SECONDS = 30.0, 120.0
"""How long a lower rate is given to help before it is halved again; how long before it is doubled again."""
MOST_CHANGES = 16
"""Of a step: with its waves they have to fit into the journal."""
SLOW_MS = 1_000
"""From send to acknowledgement (acks=all) of a canary's record: clients wait as long for theirs."""
FAILURES = 2
"""Rounds of the canary in a row, as for CanaryFailing: one lost record may be an election that is over."""
FOR_THE_WAY_BACK = 4
"""Of these, so that a rate is not left low: it takes three from the lowest."""


@dataclass(frozen=True, slots=True)
class RateChange:
    """What to set, under which journal id, and why. lowers: it only takes back some of what was allowed."""

    id: str
    settings: Mapping[SettingKey, str | None]
    message: str
    lowers: bool


def rates_set(step: str, plan: Plan, journal: Iterable[str]) -> frozenset[str]:
    """Every rate that this step may have set, as the setting's text."""
    changed = (text.rpartition("-")[2] for text in journal if text.startswith(f"{step}/rate-"))
    return frozenset({str(plan.part(ReplicaMoves).throttle_bytes_per_second), *changed})


def settled(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> tuple[str, ...]:
    """The last change's id once it is seen in place."""
    last = _last(step, journal)
    return (last.id,) if last is not None and _present(plan, snapshot) == {_rate(last)} else ()


def due(
    step: str,
    plan: Plan,
    journal: Mapping[str, JournalEntry],
    snapshot: Snapshot,
    where: Sequence[Standing],
    now: datetime,
) -> RateChange | None:
    """The change that is due while a wave is copied; None too where a person has set another rate, which is not fought,
    or where a broker does not tell its own."""
    throttle_bytes_per_second = plan.part(ReplicaMoves).throttle_bytes_per_second
    allowed, present, last = throttle_bytes_per_second, _present(plan, snapshot), _last(step, journal)
    if allowed is None or present is None:
        return None
    if last is not None and last.state is IntentState.INTENDED and present != {_rate(last)}:
        # It did not reach every broker, or none.
        if not present <= rates_set(step, plan, journal):
            return None
        rate, why = int(_rate(last)), last.detail.partition(": ")[2]
        return _change(last.id, plan, rate, why, lowers=all(int(p) >= rate for p in present if p is not None))
    rate = int(_rate(last)) if last is not None else allowed
    if present != {str(rate)}:
        return None
    number = sum(text.startswith(f"{step}/rate-") for text in journal)
    since = None if last is None or last.done_at is None else (now - last.done_at).total_seconds()
    why_lower = _why_lower(plan, snapshot, where)
    floor = max(allowed // LOWEST_PART, 1)
    may_lower = number < MOST_CHANGES - FOR_THE_WAY_BACK and (last is None or (since or 0.0) >= SETTLE_SECONDS)
    if why_lower and rate > floor and may_lower:
        lower = max(rate // 2, floor)
        why = f"{why_lower}, so the copy continues at {lower} bytes/s per broker"
        return _change(f"{step}/rate-{number}-{lower}", plan, lower, why, lowers=True)
    calm = not why_lower and since is not None and since >= CALM_SECONDS and not _canary_unknown(snapshot)
    if calm and rate < allowed and number < MOST_CHANGES:
        higher = min(rate * 2, allowed)
        why = (
            f"no replica falls behind and no canary record waits, so the copy continues at {higher} bytes/s per broker"
        )
        return _change(f"{step}/rate-{number}-{higher}", plan, higher, why, lowers=False)
    return None


def _why_lower(plan: Plan, snapshot: Snapshot, where: Sequence[Standing]) -> str:
    """Who suffers; empty if nobody is known to."""
    if behind := left_behind(plan, snapshot, where):
        return f"replicas outside the plan fall behind ({some(behind, 3)})"
    slow = slow_records(plan, snapshot)
    return f"canary records wait ({some(slow, 3)})" if slow else ""


def _canary_unknown(snapshot: Snapshot) -> bool:
    source = snapshot.source("canary")
    return source is not None and not source.known


def slow_records(plan: Plan, snapshot: Snapshot) -> list[str]:
    """How the canary fares through brokers of this plan, where it is slow or fails."""
    if snapshot.canary is None or _canary_unknown(snapshot):
        return []
    brokers = {b for c in plan.part(ReplicaMoves).changes for b in c.replicas}
    found = []
    for row in snapshot.canary.to_pylist():
        name, took, failures = f"{row['topic']}-{row['partition']}", row["produceMs"], row["consecutiveFailures"]
        if row["leader"] not in brokers:
            continue
        if (failures or 0) >= FAILURES:
            found.append(f"{name} failed {failures} times in a row")
        elif took is not None and took >= SLOW_MS:
            found.append(f"{name} took {took} ms")
    return found


def left_behind(plan: Plan, snapshot: Snapshot, where: Sequence[Standing]) -> list[TopicPartition]:
    """Partitions with a replica on a live broker of this plan that is not in the ISR and is not added by us. One on
    a failed log directory cannot catch up and is left out."""
    changes = plan.part(ReplicaMoves).changes
    lost = {b.id: on_failed_directory(b) for b in snapshot.brokers or ()}
    brokers = {b for c in changes for b in c.replicas} & {b.id for b in snapshot.brokers or () if b.live}
    ours = {s.tp: set(s.change.replicas) - set(s.change.replicas_before) for s in where}
    if snapshot.partitions is None:
        return []
    table = snapshot.partitions.select(["topic", "partition", "replicas", "isr", "adding"])
    # Of hundreds of thousands of partitions only those are looked at one by one that lack somebody.
    table = table.filter(pc.less(pc.list_value_length(table["isr"]), pc.list_value_length(table["replicas"])))
    found = []
    for row in table.to_pylist():
        tp = TopicPartition(row["topic"], row["partition"])
        out = set(row["replicas"]) - set(row["isr"]) - set(row["adding"] or ()) - ours.get(tp, set())
        if any(tp not in lost[b] for b in out & brokers):
            found.append(tp)
    return found


def in_force(step: str, plan: Plan, journal: Mapping[str, JournalEntry]) -> str:
    """The rate that brokers were last given."""
    last = _last(step, journal)
    return str(plan.part(ReplicaMoves).throttle_bytes_per_second) if last is None else _rate(last)


def _last(step: str, journal: Mapping[str, JournalEntry]) -> JournalEntry | None:
    """Entries are in the order in which they were written."""
    changes = [entry for entry in journal.values() if entry.id.startswith(f"{step}/rate-")]
    return changes[-1] if changes else None


def _rate(entry: JournalEntry) -> str:
    return entry.id.rpartition("-")[2]


def _keys(plan: Plan) -> list[SettingKey]:
    changes = plan.part(ReplicaMoves).changes
    return [("BROKER", str(b), name) for b in sorted({b for c in changes for b in c.replicas}) for name in RATES]


def _present(plan: Plan, snapshot: Snapshot) -> set[str | None] | None:
    """The rates in force; None unless every broker of the plan tells its own."""
    live = {str(b.id) for b in snapshot.brokers or () if b.live}
    keys = _keys(plan)
    if unknown_settings(snapshot, keys) or not all(broker in live for _, broker, _ in keys):
        return None
    return {dynamic_value(snapshot, key) for key in keys}


def _change(id_: str, plan: Plan, rate: int, message: str, *, lowers: bool) -> RateChange:
    return RateChange(id_, {key: str(rate) for key in _keys(plan)}, message, lowers)
