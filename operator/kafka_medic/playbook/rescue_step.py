"""RescueRecords: what only a stale broker holds is saved before anything restarts it.

The rescue topic has two partitions: the records, and a manifest that is written when every one of them is acknowledged.
So a look at the topic's log ends says whether it is done, after any crash.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.playbook.intents import RescuePart, RescueRecords
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.remediation_status import JournalEntry, Progress

MAX_REPLICAS = 3


def assess(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """Where the step stands."""
    if not plan.rescues:
        return StepReport(StepState.REACHED, "no broker holds records that the others lack")
    assert plan.rescue_topic is not None
    intent_id = f"{step}/rescue"
    total = Progress(done=0, total=len(plan.rescues), unit="partitions")
    if snapshot.partitions is None or snapshot.brokers is None:
        return StepReport(StepState.UNKNOWN, "the partitions could not be read", progress=total)
    manifest = next(snapshot.rows({TopicPartition(plan.rescue_topic, 1)}), None)
    # Its size on disk is asked of each broker itself; its log end by way of metadata, which a stale broker may give.
    if manifest is not None and ((manifest.log_end or 0) > 0 or (manifest.size_bytes or 0) > 0):
        done = total.model_copy(update={"done": total.total})
        seen = (intent_id,) if intent_id in journal else ()
        words = f"the records of {total.total} partitions are saved in topic {plan.rescue_topic}"
        return StepReport(StepState.REACHED, words, observed=seen, progress=done)
    stale = {r.broker for r in plan.rescues}
    sound = tuple(b.id for b in snapshot.brokers if b.live and b.id not in stale)[:MAX_REPLICAS]
    if not sound:
        return StepReport(StepState.UNKNOWN, "no sound broker is known that could hold them", progress=total)
    parts = tuple(
        RescuePart(r.broker, TopicPartition(r.topic, r.partition), r.epoch, r.from_offset) for r in plan.rescues
    )
    return StepReport(
        StepState.ACT,
        f"saving the records of {total.total} partitions into topic {plan.rescue_topic}",
        intent=RescueRecords(intent_id, plan.rescue_topic, sound, parts),
        target=plan.rescue_topic,
        progress=total,
    )
