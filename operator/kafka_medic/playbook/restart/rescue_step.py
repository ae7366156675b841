"""RescueRecords: what only a stale broker holds is saved before anything restarts it.

The rescue topic has two partitions: the records, and a manifest that is written when every one of them is acknowledged.
So a look at the topic's log ends says whether it is done, after any crash.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.fit import fit_brokers
from kafka_medic.playbook.effects import RescuePart, RescueRecords
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import Plan, Rescues, Restarts
from kafka_medic.resources.remediation_status import JournalEntry, Progress
from kafka_medic.resources.vocabulary import ActionName

MAX_REPLICAS = 3


def unsaved(plan: Plan, snapshot: Snapshot, brokers: Collection[int]) -> str | None:
    """Records that only one of these brokers holds and that the plan does not save: its clients write to one more
    partition since. None where there are none, or where the playbook saves none at all and the plan says so. How many
    follow in a partition that is saved does not matter, since the plan says that too."""
    planned = {(r.broker, r.topic, r.partition, r.epoch) for r in plan.part(Rescues).rescues}
    for view in snapshot.views or () if _saves(plan) else ():
        left = [
            f"{log.tp} (epoch {log.epoch})"
            for log in view.diverged or ()
            if view.broker in brokers
            and log.records
            and (view.broker, log.topic, log.partition, log.epoch) not in planned
        ]
        if left:
            return f"only broker {view.broker} holds records of {some(left, 3)}, which the plan does not save"
    return None


def unmeasured(plan: Plan, snapshot: Snapshot, broker: int) -> str | None:
    """What cannot be told of the records that only this broker holds."""
    view = next((v for v in snapshot.views or () if v.broker == broker), None)
    if view is None or view.leaders is None or not _saves(plan):
        return None  # what it does not answer is for the guards
    unknown = None if view.diverged is None else [log.tp for log in view.diverged if log.records is None]
    if unknown is None or unknown:
        which = f" of {some(unknown, 3)}" if unknown else ""
        return f"which records{which} only broker {broker} holds could not be measured"
    return None


def _saves(plan: Plan) -> bool:
    return any(step.action is ActionName.RESCUE_RECORDS for step in plan.steps)


def assess(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """Where the step stands."""
    own = plan.part(Rescues)
    if not own.rescues:
        return StepReport(StepState.REACHED, "no broker holds records that the others lack")
    assert own.rescue_topic is not None
    intent_id = f"{step}/rescue"
    total = Progress(done=0, total=len(own.rescues), unit="partitions")
    if snapshot.partitions is None or snapshot.brokers is None:
        return StepReport(StepState.UNKNOWN, "the partitions could not be read", progress=total)
    manifest = next(snapshot.rows({TopicPartition(own.rescue_topic, 1)}), None)
    # Its size on disk is asked of each broker itself; its log end by way of metadata, which a stale broker may give.
    if manifest is not None and ((manifest.log_end or 0) > 0 or (manifest.size_bytes or 0) > 0):
        done = total.model_copy(update={"done": total.total})
        seen = (intent_id,) if intent_id in journal else ()
        words = f"the records of {many(total.total, 'partition')} are saved in topic {own.rescue_topic}"
        return StepReport(StepState.REACHED, words, observed=seen, progress=done)
    stale = {r.broker for r in own.rescues}
    fit = sorted((fit_brokers(snapshot) or frozenset()) - stale)[:MAX_REPLICAS]
    if not fit:
        return StepReport(StepState.UNKNOWN, "no broker is known to be fit to hold the copies", progress=total)
    stale |= {r.broker for r in plan.part(Restarts).restarts if r.stale}  # which only this run makes fit, later
    if len(fit) == 1 and len({b.id for b in snapshot.brokers} - stale) > 1:
        # A topic with one replica would stand against every restart of its broker.
        words = f"only broker {fit[0]} is fit to hold the copies (required: 2 brokers)"
        return StepReport(StepState.WAIT, words, progress=total)
    parts = tuple(
        RescuePart(r.broker, TopicPartition(r.topic, r.partition), r.epoch, r.from_offset) for r in own.rescues
    )
    return StepReport(
        StepState.ACT,
        f"saving the records of {many(total.total, 'partition')} into topic {own.rescue_topic}",
        intent=RescueRecords(intent_id, own.rescue_topic, tuple(fit), parts),
        target=own.rescue_topic,
        progress=total,
    )
