"""What a plan of restarts says of `drainFirst`: for each broker what it leads, in which order its replicas stand while
it is restarted, and so who takes over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kafka_medic.cluster.snapshot import PartitionRow, Snapshot
from kafka_medic.guard.elect import able_to_lead
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.rows import led_by
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.playbook.restart.drain_first import LEAST_BATCHES, most_batches
from kafka_medic.playbook.restart.parameters import RestartParameters
from kafka_medic.report.units import many
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import (
    MAX_ELECTED,
    MAX_ELECTED_AT_ONCE,
    MAX_INLINE_CHANGES,
    BrokerRestart,
    Drain,
)
from kafka_medic.resources.vocabulary import FindingType, Guard

Group = tuple[int, str, tuple[int, ...], tuple[int, ...]]
"""A broker, a topic, and an order of replicas before and after, that partitions have in common."""


def drains(
    run: Remediation, settings: RestartParameters, snapshot: Snapshot, restarts: Sequence[BrokerRestart]
) -> tuple[Drain, ...] | Refusal:
    """In the order of the restarts; none where nothing is asked for. All of it or a refusal: never only what fits. Who
    takes over need not be able to yet: nothing is restarted, and nothing moved, before it is."""
    brokers = [r.broker for r in restarts if kept(run, r) is None]
    if not settings.drain_first:
        return ()
    if settings.max_parallel > 1:
        message = (
            "drainFirst restarts one broker at a time, because the leaders return before the next restart; "
            "set maxParallel to 1, or remove drainFirst"
        )
        return Refusal(message, permanent=True)
    if snapshot.partitions is None or snapshot.partitions["leader"].null_count:
        return unread(snapshot)
    rows = list(led_by(snapshot, brokers))
    if moving := [r.tp for r in rows if r.reassigning is not False or not r.replicas]:
        message = f"being reassigned, or not known: {some(moving, 3)}; the plan follows after that"
        return Refusal(message, (Reason(Guard.NOT_REASSIGNING, Verdict.WAIT, message),))
    groups = _groups(snapshot, rows, brokers)
    return _too_many(restarts, groups) or tuple(
        Drain(broker=broker, topic=topic, partitions=tuple(numbers), replicas_before=before, replicas=after)
        for (broker, topic, before, after), numbers in groups.items()
    )


def kept(run: Remediation, restart: BrokerRestart) -> str | None:
    """Why what this broker leads is not moved off it first, though that was asked for."""
    if restart.stale:
        return "it would not learn that it no longer leads, and would keep accepting records that are then lost"
    if run.spec.cause is not None and run.spec.cause.finding_type == FindingType.CONTROLLER_STUCK:
        return "only a working controller can move leaders, and this restart is to get one"
    return None


def meanwhile(run: Remediation, settings: RestartParameters, restart: BrokerRestart, planned: Sequence[Drain]) -> str:
    """For the person who approves: who leads what meanwhile."""
    if not settings.drain_first:
        return ""
    if why := kept(run, restart):
        return f"    not drained first: {why}"
    mine = [d for d in planned if d.broker == restart.broker]
    if not mine:
        return "    leads no partition that must move first"
    takers: Counter[int] = Counter()
    for drain in mine:
        takers[drain.replicas[0]] += len(drain.partitions)
    sentence = ", ".join(f"{count} to broker {broker}" for broker, count in sorted(takers.items()))
    home = sum(len(d.partitions) for d in mine if d.replicas_before[0] == restart.broker)
    text = f"    first {many(takers.total(), 'leadership')} of it: {sentence}; afterwards {home} return"
    elsewhere = takers.total() - home
    return f"{text}, {elsewhere} stay with their preferred broker" if elsewhere else text


def _groups(snapshot: Snapshot, rows: Sequence[PartitionRow], brokers: Sequence[int]) -> dict[Group, list[int]]:
    """Each broker's part by itself, since the one before it leads everything again by then."""
    assert snapshot.partitions is not None  # drains saw to it
    able = able_to_lead(snapshot) or frozenset()
    counted = Counter(b for b in snapshot.partitions["leader"].to_pylist() if b is not None)
    groups: dict[Group, list[int]] = {}
    for broker in brokers:
        load = counted.copy()
        for row in sorted((r for r in rows if r.leader == broker), key=lambda r: r.tp):
            before = row.replicas or ()
            first = _taker(before, broker, able, load)
            load[first] += 1
            after = (first, *(r for r in before if r not in (first, broker)), *((broker,) if broker in before else ()))
            groups.setdefault((broker, row.topic, before, after), []).append(row.partition)
    return groups


def _taker(replicas: tuple[int, ...], broker: int, able: frozenset[int], load: Counter[int]) -> int:
    """The preferred one if that is another and able; else whoever leads least, those before all that are able now."""
    others = [r for r in replicas if r != broker]
    if others[0] == replicas[0] and replicas[0] in able:
        return others[0]
    return min(others, key=lambda r: (r not in able, load[r], r))


def _too_many(restarts: Sequence[BrokerRestart], groups: dict[Group, list[int]]) -> Refusal | None:
    led: Counter[int] = Counter()
    for (broker, *_), numbers in groups.items():
        led[broker] += len(numbers)
    sentence = some([f"broker {broker} leads {count}" for broker, count in led.most_common()], 5)
    out = "name fewer in brokers, or remove drainFirst"
    message = None
    if led and max(led.values()) > MAX_ELECTED_AT_ONCE:
        most = f"drainFirst moves at most {MAX_ELECTED_AT_ONCE} partitions off one broker"
        message = f"{most}: {sentence}; remove drainFirst for brokers with more"
    elif led and most_batches(len(restarts), len(led)) < LEAST_BATCHES:
        message = f"{many(len(led), 'broker')} with leaders is too many for one run with drainFirst; {out}"
    elif len(groups) > MAX_INLINE_CHANGES or led.total() > MAX_ELECTED:
        message = (
            f"with drainFirst a plan holds {MAX_ELECTED} partitions, in {MAX_INLINE_CHANGES} groups that share topic "
            f"and orders; here are {led.total()} in {many(len(groups), 'group')}: {sentence}; {out}"
        )
    return Refusal(message, permanent=True) if message else None
