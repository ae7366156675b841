"""From a playbook and a Snapshot to a plan that a person can read and a digest that they approve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.acceptance import check
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.extra_reads import Questions
from kafka_medic.playbook.plan_file import MAX_PLAN_BYTES, plan_size
from kafka_medic.playbook.preconditions import identified
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.playbook.registry import ACTIONS, actions_of, leading
from kafka_medic.playbook.values import check_values
from kafka_medic.resources.durations import format_bytes
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import TERMINAL_PHASES
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.vocabulary import Guard


def propose(request: PlanRequest) -> Plan | Refusal:
    """The whole plan, or why there is none."""
    try:
        check(request.playbook)
        check_values(request.playbook, request.run.spec.parameters)
    except ResourceError as problem:
        return Refusal(str(problem), permanent=True)
    if not request.snapshot.cluster.id:
        message = "the cluster id is not known, and a plan must name its cluster"
        return Refusal(message, (Reason(Guard.PRECONDITIONS_HOLD, Verdict.UNKNOWN, message),))
    leader = leading(request.playbook)
    assert leader is not None  # check saw to it
    found = leader.plan(request)
    if isinstance(found, Refusal):
        return found
    plan = identified(request.run, found, request.snapshot)
    taken = plan_size(plan)
    if taken > MAX_PLAN_BYTES:
        message = (
            f"the plan takes {format_bytes(taken)} in its Remediation, (limit {format_bytes(MAX_PLAN_BYTES)}); ask for "
            "fewer topics, groups or brokers in one run"
        )
        return Refusal(message, permanent=True)
    return plan


def questions(
    run: Remediation,
    cluster: KafkaCluster,
    playbook: Playbook | None,
    snapshot: Snapshot,
    others: Callable[[], Sequence[OtherRun] | None],
    now: datetime,
) -> Questions:
    """What a decision about the run needs besides the snapshot. `others`: other runs of this KafkaCluster, read if that
    is asked for."""
    plan = run.status.plan
    if run.status.phase in TERMINAL_PHASES:
        return Questions()
    if plan is not None:
        return _together(action.watches(plan, snapshot) for action in actions_of(plan))
    if playbook is None:
        return Questions()
    request = PlanRequest(run, cluster, playbook, snapshot, now)
    return _together(ACTIONS[step.action].reads(request, others) for step in playbook.spec.steps)


def _together(asked: Iterable[Questions]) -> Questions:
    """As one request; of two that ask for a time or a workload, the first counts."""
    parts = list(asked)
    return Questions(
        groups=tuple(dict.fromkeys(group for part in parts for group in part.groups)),
        ms=next((part.ms for part in parts if part.ms is not None), None),
        partitions=tuple(dict.fromkeys(tp for part in parts for tp in part.partitions)),
        epochs=frozenset(epoch for part in parts for epoch in part.epochs),
        workload=next((part.workload for part in parts if part.workload is not None), None),
        log_dirs=frozenset(broker for part in parts for broker in part.log_dirs),
    )
