"""The actions, a line for each, and the sequences of them that can be planned together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.playbook.action import Action
from kafka_medic.playbook.auto import Cost
from kafka_medic.playbook.leadership.action import ElectPreferredLeaders, ReorderReplicas
from kafka_medic.playbook.offsets.action import ResetOffsets, RestoreOffsets, StartConsumers, StopConsumers
from kafka_medic.playbook.owners.action import PauseOwners, ReturnToOwners
from kafka_medic.playbook.reassign.action import AlterReplicaLogDirs, ReassignPartitions, RemoveReplicas
from kafka_medic.playbook.restart.action import RescueRecordsFirst, RestartBrokers
from kafka_medic.playbook.settings.action import RemoveThrottles, SetClusterDefaults, SetMinInsyncReplicas
from kafka_medic.resources.phases import ACTING_PHASES, Phase
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import OffsetChange, Plan
from kafka_medic.resources.vocabulary import ActionName

ACTIONS: Mapping[ActionName, Action] = {
    action.name: action
    for action in (
        ReassignPartitions(),
        RemoveReplicas(),
        AlterReplicaLogDirs(),
        SetMinInsyncReplicas(),
        RestartBrokers(),
        RescueRecordsFirst(),
        ElectPreferredLeaders(),
        ReorderReplicas(),
        ResetOffsets(),
        RestoreOffsets(),
        RemoveThrottles(),
        StopConsumers(),
        StartConsumers(),
        SetClusterDefaults(),
        PauseOwners(),
        ReturnToOwners(),
    )
}

REASSIGN, MINIMUMS = ActionName.REASSIGN_PARTITIONS, ActionName.SET_MIN_INSYNC_REPLICAS
REORDER, ELECT = ActionName.REORDER_REPLICAS, ActionName.ELECT_PREFERRED_LEADERS
RESTART, RESET = ActionName.RESTART_BROKERS, ActionName.RESET_OFFSETS
DEFAULTS = ActionName.SET_CLUSTER_DEFAULTS
PAUSE, RETURN = ActionName.PAUSE_OWNERS, ActionName.RETURN_TO_OWNERS
REMOVE, WITHIN = ActionName.REMOVE_REPLICAS, ActionName.ALTER_REPLICA_LOG_DIRS

SEQUENCES: Mapping[tuple[ActionName, ...], ActionName] = {
    (REASSIGN,): REASSIGN,
    (REASSIGN, MINIMUMS): REASSIGN,
    (REASSIGN, REORDER, ELECT): REASSIGN,
    (REASSIGN, MINIMUMS, REORDER, ELECT): REASSIGN,
    # Owners are kept off while replicas and settings of their topics change. Leaders are no matter of theirs.
    (PAUSE, REASSIGN, RETURN): REASSIGN,
    (PAUSE, REASSIGN, MINIMUMS, RETURN): REASSIGN,
    (PAUSE, REASSIGN, RETURN, REORDER, ELECT): REASSIGN,
    (PAUSE, REASSIGN, MINIMUMS, RETURN, REORDER, ELECT): REASSIGN,
    (REASSIGN, REMOVE): REASSIGN,
    (PAUSE, REASSIGN, REMOVE, RETURN): REASSIGN,
    # What finds room on another volume of its broker need not leave it.
    (WITHIN, REASSIGN, REMOVE): REASSIGN,
    (WITHIN, PAUSE, REASSIGN, REMOVE, RETURN): REASSIGN,
    (MINIMUMS,): MINIMUMS,
    (PAUSE, MINIMUMS, RETURN): MINIMUMS,
    (REORDER, ELECT): REORDER,
    (ELECT,): ELECT,
    (RESTART,): RESTART,
    (ActionName.RESCUE_RECORDS, RESTART): RESTART,
    # A higher min.insync.replicas comes last: with it, topics that brokers still create with too few replicas would
    # take no record with acks=all.
    (RESTART, DEFAULTS): DEFAULTS,
    (RESET,): RESET,
    # Nothing comes between that is no reason to keep consumers stopped.
    (ActionName.STOP_CONSUMERS, RESET, ActionName.START_CONSUMERS): RESET,
    (ActionName.RESTORE_OFFSETS,): ActionName.RESTORE_OFFSETS,
    (ActionName.REMOVE_THROTTLES,): ActionName.REMOVE_THROTTLES,
}
"""Every sequence of steps that one plan can be made for, and the action that makes it."""


def actions_of(plan: Plan) -> Iterator[Action]:
    """Those of the plan's steps."""
    return (ACTIONS[step.action] for step in plan.steps)


def offsets_set_by(run: Remediation) -> tuple[OffsetChange, ...]:
    """Committed offsets that it has set, or may have."""
    plan = run.status.plan
    return () if plan is None else tuple(o for action in actions_of(plan) for o in action.has_set(run))


def sent_away_by(run: Remediation) -> frozenset[int]:
    """Brokers, and controllers that are none, that a run has made stop and that are not back yet. One that is paused
    may have given them up."""
    plan = run.status.plan
    if plan is None or run.status.phase not in ACTING_PHASES - {Phase.PAUSED}:
        return frozenset()
    return frozenset(node for action in actions_of(plan) for node in action.has_sent_away(run))


def cost_of(plan: Plan, snapshot: Snapshot | None = None) -> Cost:
    """What Auto counts of the whole plan; with a snapshot, as it would be now."""
    parts = [action.cost(plan, snapshot) for action in actions_of(plan)]
    copied = [part.copied for part in parts]
    return Cost(
        partitions=frozenset(tp for part in parts for tp in part.partitions),
        moves=sum(part.moves for part in parts),
        restarts=sum(part.restarts for part in parts),
        copied=None if None in copied else sum(count or 0 for count in copied),
        asks=tuple(why for part in parts for why in part.asks),
    )


def leading(playbook: Playbook) -> Action | None:
    """The action that makes the plan; None where the steps cannot be planned together."""
    leader = SEQUENCES.get(tuple(step.action for step in playbook.spec.steps))
    return None if leader is None else ACTIONS[leader]


def may_find_later(playbook: Playbook) -> bool:
    """Whether the action that makes the plan may find something to do later where it finds nothing now."""
    leader = leading(playbook)
    steps = [] if leader is None else [s for s in playbook.spec.steps if s.action is leader.name]
    return leader is not None and any(leader.may_find_later(step) for step in steps)


def needs_its_cause(playbook: Playbook) -> bool:
    """Whether a run of it is right only while the finding lasts that it was proposed for."""
    return any(ACTIONS[step.action].needs_its_cause(step) for step in playbook.spec.steps)


def once_for_a_finding(playbook: Playbook) -> bool:
    """Whether it is done once for a finding, however long that lasts."""
    return any(ACTIONS[step.action].once_for_a_finding(step) for step in playbook.spec.steps)


def takes_back(playbook: Playbook) -> bool:
    """Whether it undoes what such a run has done."""
    return any(ACTIONS[step.action].takes_back(step) for step in playbook.spec.steps)
