"""What a run that sets offsets has to know besides the snapshot: who holds a group, and what offset is of what time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kafka_medic.cluster.groups import EMPTY
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.playbook.offset_plan import MAX_HELD, changes, chosen, held, request
from kafka_medic.playbook.offset_step import states
from kafka_medic.playbook.parameters import reset_parameters, sets_offsets
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import TERMINAL_PHASES
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.vocabulary import Action


@dataclass(frozen=True, slots=True)
class Questions:
    """Whose members to read, and from which time (milliseconds since 1970) the first offset of which partitions."""

    groups: tuple[str, ...] = ()
    ms: int | None = None
    partitions: tuple[TopicPartition, ...] = ()


def questions(
    run: Remediation, cluster: KafkaCluster, playbook: Playbook | None, snapshot: Snapshot, now: datetime
) -> Questions:
    """Nothing for a run of any other playbook, or while the groups are not known."""
    step = sets_offsets(playbook) if playbook is not None else None
    known = snapshot.groups is not None and snapshot.partitions is not None
    if playbook is None or step is None or not known or run.status.phase in TERMINAL_PHASES:
        return Questions()
    plan = run.status.plan
    if plan is not None:
        standing = states(snapshot, {c.group for c in plan.offsets})
        return Questions(tuple(sorted(g for g, state in standing.items() if state != EMPTY))[:MAX_HELD])
    if step.action is Action.RESTORE_OFFSETS:
        return Questions()
    settings = reset_parameters(playbook, step, run.spec.parameters)
    aim = request(settings)
    if isinstance(aim, Refusal):
        return Questions()
    spots = chosen(snapshot, settings, aim, cluster.status.log_end_regressions).spots
    ms = aim.since(now)
    if ms is not None:
        live = {s.group: s.state for s in spots if s.state != EMPTY}
        return Questions(tuple(live)[:MAX_HELD], ms, tuple(sorted({s.tp for s in spots})))
    return Questions(tuple(held(spots, changes(spots, aim, {})))[:MAX_HELD])
