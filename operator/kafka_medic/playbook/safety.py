"""Every guard that stands before an effect, asked together.

A forward effect needs all of them. An effect that only puts back what the run itself changed needs the Lease and
nothing else: leaving a throttle or half a reassignment behind is never the safer choice.
"""

from __future__ import annotations

from kafka_medic.guard.reassign import judge_reassign
from kafka_medic.guard.run import judge_run
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.approval import judge_approvals
from kafka_medic.playbook.run import World
from kafka_medic.resources.phases import ACTING_PHASES
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.vocabulary import Guard


def forward_reasons(run: Remediation, world: World) -> tuple[Reason, ...]:
    """The answer of every guard, permitting or not."""
    policy = world.cluster.spec.remediation
    started = run.status.phase in ACTING_PHASES
    judged = judge_approvals(run, policy, world.approvals, world.policies_installed, world.now, started=started)
    reasons = (
        judged.reason,
        *judge_run(policy, world.others, world.lease_held, world.now, starting=not started),
    )
    plan = run.status.plan
    if plan is None:
        return (*reasons, Reason(Guard.PRECONDITIONS_HOLD.value, Verdict.DENY, "there is no plan"))
    moves = [(c.topic, c.partition, c.replicas_before, c.replicas) for c in plan.changes]
    factor = plan.replication_factor or 1
    return (*reasons, *judge_reassign(world.snapshot, moves, factor, world.now).reasons)


def restoring_reasons(world: World, *, giving_up: bool) -> tuple[Reason, ...]:
    """A pause holds even the restoring of a run that could still go on, but not the clean-up of one that is ending."""
    policy = world.cluster.spec.remediation
    asked = {Guard.LEASE_HELD.value} if giving_up else {Guard.LEASE_HELD.value, Guard.NOT_PAUSED.value}
    return tuple(r for r in judge_run(policy, (), world.lease_held, world.now, starting=False) if r.guard in asked)
