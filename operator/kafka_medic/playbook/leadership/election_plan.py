"""The plan of a playbook that gives leadership back: which partitions, to which brokers, in which order."""

from __future__ import annotations

from collections import Counter

import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import PartitionRow, Snapshot
from kafka_medic.diagnose.leaders import rebalanced_by_kafka
from kafka_medic.guard import fit
from kafka_medic.guard.elect import able_to_lead
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.rows import known_ids
from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.leadership.parameters import elect_parameters
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.report.units import many
from kafka_medic.resources.durations import format_duration
from kafka_medic.resources.playbook import Step
from kafka_medic.resources.remediation_plan import MAX_ELECTED, MAX_INLINE_CHANGES, Elections, Plan, PreferredElection


def election_plan(request: PlanRequest, step: Step) -> Plan | Refusal:
    """The whole plan, its digest included, or why not. Planned are partitions whose preferred replica could take over
    now; those that cannot yet are counted in the summary and left for a later run."""
    snapshot = request.snapshot
    if snapshot.partitions is None or snapshot.brokers is None:
        return unread(snapshot)
    settings = elect_parameters(request.playbook, step, request.run.spec.parameters)
    away = _away(snapshot)
    if not away:
        return Refusal("every partition is led by its preferred replica", nothing_to_do=True)
    able = able_to_lead(snapshot)
    if able is None:
        return unread(snapshot)
    ready = [r for r in away if _ready(r, able)]
    if not ready:
        behind = sorted({r.replicas[0] for r in away if r.replicas} - able)
        words = "; ".join(_why_not(snapshot, broker) for broker in behind[:3]) or "they are being reassigned"
        return Refusal(
            f"no election is possible now for {many(len(away), 'partition')} not led by the preferred replica: {words}"
        )
    elections, left_out = _elections(ready)
    planned = sum(len(e.partitions) for e in elections)
    step_words = (
        f"elect the preferred leader of {many(planned, 'partition')}, first {settings.batch_size} at a time, the next "
        f"batch only when the leaders of the last batch serve"
    )
    plan = request.draft(
        Elections(elections=elections),
        words={step.action: step_words},
        summary=_summary(elections, snapshot, planned, len(away) - len(ready), left_out, settings.leaderless_within),
        partitions=planned,
        moves=0,
    )
    return request.sealed(plan)


def _why_not(snapshot: Snapshot, broker: int) -> str:
    """The first reason why this broker cannot lead more now."""
    reasons = (r for r in fit.fit_to_receive(snapshot, {broker}) if r.verdict is not Verdict.ALLOW)
    return next((r.message for r in reasons), f"broker {broker} is still catching up")


def _away(snapshot: Snapshot) -> list[PartitionRow]:
    """Partitions that are known to be led, and not by their first replica; found on columns."""
    table = snapshot.partitions
    assert table is not None  # election_plan saw to it
    listed = table.filter(pc.field("leader") >= 0).filter(pc.list_value_length(pc.field("replicas")) > 0)
    chosen = listed.filter(pc.field("leader") != pc.list_element(pc.field("replicas"), 0))
    return list(Snapshot(snapshot.cluster, snapshot.taken_at, partitions=chosen).rows())


def _ready(row: PartitionRow, able: frozenset[int]) -> bool:
    isr = known_ids(row.isr)
    settled = row.adding is not None and row.removing is not None and not row.adding and not row.removing
    return row.replicas is not None and settled and isr is not None and row.replicas[0] in isr & able


def _elections(ready: list[PartitionRow]) -> tuple[tuple[PreferredElection, ...], int]:
    """By broker and topic, the broker that lacks most first; and how many are more than one plan holds."""
    lacking = Counter(r.replicas[0] for r in ready if r.replicas)
    order = sorted(lacking, key=lambda b: (-lacking[b], b))
    found: list[PreferredElection] = []
    room = MAX_ELECTED
    for broker in order:
        by_topic: dict[str, list[int]] = {}
        for row in ready:
            if row.replicas and row.replicas[0] == broker:
                by_topic.setdefault(row.topic, []).append(row.partition)
        for topic in sorted(by_topic):
            numbers = sorted(by_topic[topic])[:room]
            if numbers and len(found) < MAX_INLINE_CHANGES:
                found.append(PreferredElection(broker=broker, topic=topic, partitions=tuple(numbers)))
                room -= len(numbers)
    return tuple(found), len(ready) - (MAX_ELECTED - room)


def _summary(
    elections: tuple[PreferredElection, ...],
    snapshot: Snapshot,
    planned: int,
    not_ready: int,
    left_out: int,
    bound: float,
) -> str:
    lines = [
        f"return {many(planned, 'leadership')} to the preferred brokers; no data moves",
        "a batch names only brokers that just answered, and the next batch waits until its leaders serve; "
        f"the run stops if a leader of a batch does not serve within {format_duration(bound)}",
    ]
    for broker in dict.fromkeys(e.broker for e in elections):
        mine = [e for e in elections if e.broker == broker]
        count = sum(len(e.partitions) for e in mine)
        lines.append(f"  broker {broker}: {many(count, 'partition')} of {some([e.topic for e in mine], 5)}")
    if not_ready:
        lines.append(f"{not_ready} more have another leader, and their preferred replica cannot take over yet")
    if left_out:
        lines.append(
            f"{left_out} more need a further run with its own approval: one plan "
            f"holds {MAX_ELECTED} partitions, of {MAX_INLINE_CHANGES} brokers and topics"
        )
    if by_kafka := rebalanced_by_kafka(snapshot):
        lines.append(f"{by_kafka}. The run does not repeat what Kafka has already elected")
    return "\n".join(lines)[:8000]
