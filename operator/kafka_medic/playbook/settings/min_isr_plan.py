"""The plan of the playbook that raises min.insync.replicas of topics which have the replicas for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_medic.cluster.min_isr import MIN_ISR, Minimums
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.min_isr import LowMinimums, low_minimums
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.plan.model import Move
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.owners.owned_plan import divided, owner_lines, with_owners
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.playbook.settings.min_isr_step import without_spare
from kafka_medic.playbook.settings.settings_plan import settings_plan
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import ConfigChange, ConfigResourceType, Plan
from kafka_medic.resources.vocabulary import ActionName, Guard

MAX_TOPICS = 256
"""Of one run: its journal entry holds what each was set to before."""


def min_isr_plan(request: PlanRequest) -> Plan | Refusal:
    """The whole plan, its digest included, or why not. Only topics with an in-sync replica to spare in every
    partition; that is asked again before the run begins, and by its step."""
    snapshot = request.snapshot
    found = low_minimums(snapshot, Expectations.from_spec(request.cluster.spec.expectations))
    if found is None or (found.unknown and not found.low):
        return unread(snapshot)
    if not found.low:
        return Refusal(f"no topic with enough replicas has a lower {MIN_ISR} than expected", nothing_to_do=True)
    owners = divided(request, found.low)
    if isinstance(owners, Refusal):
        return owners
    found = LowMinimums({topic: both for topic, both in found.low.items() if topic not in owners.left}, found.unknown)
    thin = without_spare(snapshot, {topic: wanted for topic, (_, wanted) in found.low.items()})
    held = {row.topic for row in thin}
    low = {topic: both for topic, both in found.low.items() if topic not in held}
    if not low:
        message = f"no spare in-sync replica yet in {some([str(row.tp) for row in thin], 5)}"
        return Refusal(message, (Reason(Guard.PRECONDITIONS_HOLD, Verdict.WAIT, message),))
    due = (minimum_change(snapshot, topic, wanted) for topic, (_, wanted) in list(low.items())[:MAX_TOPICS])
    changes = tuple(change for change in due if change is not None)
    lines = [
        f"set {MIN_ISR} on {many(len(changes), 'topic')}: {', '.join(c.resource_name for c in changes[:8])}"
        + (f" and {len(changes) - 8} more" if len(changes) > 8 else ""),
        "every partition has a spare replica; afterwards it refuses acks=all while fewer are in sync, "
        "and with eligible leader replicas (KIP-966) records of acks=0 and 1 are not readable until enough are",
        *(f"  {c.resource_name}: {low[c.resource_name][0]} -> {c.after}" for c in changes[:20]),
    ]
    if len(low) > len(changes):
        lines.append(f"{many(len(low) - len(changes), 'more topic')} in a later plan: one plan holds {MAX_TOPICS}")
    if held:
        lines.append(f"left for a later plan, because a replica is not in sync: {some(sorted(held), 5)}")
    plan = with_owners(request, settings_plan(request, (*lines, *owners.lines()), changes), owners)
    return request.sealed(
        plan.model_copy(
            update={"summary": "\n".join((plan.summary, *owner_lines(plan, request.snapshot.cluster)))[:8000]}
        )
    )


@dataclass(frozen=True, slots=True)
class RaisedMinimums:
    """Changes, and what the step does, in a sentence."""

    changes: tuple[ConfigChange, ...]
    words: Mapping[ActionName, str]


def raised_minimums(request: PlanRequest, expectations: Expectations, moves: Sequence[Move]) -> RaisedMinimums:
    """Of a plan that adds replicas: topics whose min.insync.replicas is below what is expected and will have a replica
    to spare. Only topics that the plan brings to their factor with every partition: a minimum that one partition cannot
    meet would stop its writers."""
    if request.step(ActionName.SET_MIN_INSYNC_REPLICAS) is None:
        return RaisedMinimums((), {})
    planned = {(m.topic, m.partition): len(m.replicas) for m in moves}
    topics, fewest = {m.topic for m in moves}, dict[str, int]()
    for row in request.snapshot.rows():
        if row.topic in topics:
            count = planned.get((row.topic, row.partition), len(row.replicas or ()))
            fewest[row.topic] = min(count, fewest.get(row.topic, count))
    found = (
        minimum_change(request.snapshot, topic, wanted)
        for topic, count in sorted(fewest.items())
        if (wanted := expectations.min_isr_of(topic)) is not None and count > wanted
    )
    changes = tuple(change for change in found if change is not None)
    text = f"no topic needs another {MIN_ISR}"
    if changes:
        text = f"set {MIN_ISR} on {', '.join(f'{c.resource_name}={c.after}' for c in changes[:10])}"
        text += f" and {len(changes) - 10} more" if len(changes) > 10 else ""
    return RaisedMinimums(changes, {ActionName.SET_MIN_INSYNC_REPLICAS: text})


def minimum_change(snapshot: Snapshot, topic: str, wanted: int) -> ConfigChange | None:
    """What brings the topic's min.insync.replicas up to `wanted`; None where it is there already, or not known. A topic
    that falls back on the brokers' is there when every broker has as much, since any of them may come to lead it."""
    minimums = Minimums.of_snapshot(snapshot)
    own = minimums.own.get(topic)
    values = (own,) if own is not None else minimums.brokers.values() if topic in minimums.fall_back else ()
    if all(value >= wanted for value in values):
        return None
    return ConfigChange(
        resource_type=ConfigResourceType.TOPIC,
        resource_name=topic,
        name=MIN_ISR,
        before=None if own is None else str(own),
        after=str(wanted),
    )
