"""Every guard that stands before an effect, asked together.

A forward effect needs all of them. An effect that only puts back what the run itself changed needs the Lease, the very
cluster that it was changed on, and a status that nobody else could write: leaving a throttle or half a reassignment
behind is never the safer choice, and a journal that anybody could write is no proof of either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import dropwhile

from kafka_medic.guard import fit
from kafka_medic.guard.cluster_wide import judge_cluster
from kafka_medic.guard.namesakes import alone_on_kafka
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.run import judge_run, within_fleet
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.action import Action, StepContext
from kafka_medic.playbook.approval import ApprovalJudgement, judge_approvals
from kafka_medic.playbook.claims import truly_owes
from kafka_medic.playbook.decision import DecisionContext
from kafka_medic.playbook.effects import Intent
from kafka_medic.playbook.preconditions import same_cluster, same_topics
from kafka_medic.playbook.provenance import own_status
from kafka_medic.playbook.registry import ACTIONS, cost_of, takes_back
from kafka_medic.resources.phases import ACTING_PHASES, StepPhase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.vocabulary import Guard, RemediationMode


def judged(run: Remediation, context: DecisionContext, *, started: bool) -> ApprovalJudgement:
    """What people, or Auto, have said about that run, by the rules as they are."""
    plan, policy = run.status.plan, context.cluster.spec.remediation
    automatic = policy.mode_for(run.spec.playbook.name) is RemediationMode.AUTO
    return judge_approvals(
        run,
        policy,
        context.approvals,
        context.policies,
        context.now,
        started=started,
        risk=context.risk,
        cost=cost_of(plan, None if started else context.snapshot) if automatic and plan is not None else None,
        skew=context.skew,
    )


def forward_reasons(run: Remediation, context: DecisionContext, intent: Intent | None = None) -> tuple[Reason, ...]:
    """The answer of every guard, permitting or not. `intent` is what would be done; before a run has begun there is
    none yet, and the guards are asked about what would be its first effect. Whatever gives a broker something asks
    FitToReceive here, so that no effect can leave it out."""
    reasons = _forward(run, context, intent)
    if intent is not None and (receivers := intent.receivers(context.snapshot)):
        reasons = (*reasons, *fit.fit_to_receive(context.snapshot, receivers))
    return tuple(dict.fromkeys(reasons))


def _forward(run: Remediation, context: DecisionContext, intent: Intent | None) -> tuple[Reason, ...]:
    plan = run.status.plan_left
    reasons = _of_the_run(run, context)
    if plan is None:
        return (*reasons, Reason(Guard.PRECONDITIONS_HOLD, Verdict.DENY, "there is no plan"))
    at = StepContext(run, plan, context, _due(run, plan))
    action = next(ACTIONS[s.action] for s in plan.steps if s.name == at.step)
    return (
        *reasons,
        same_cluster(plan, context.snapshot),
        *same_topics(plan, context.snapshot),
        *action.judge(at, intent),
        *_prepared(at, action),
        *_added(at, action),
    )


def _prepared(at: StepContext, action: Action) -> Iterator[Reason]:
    """What the guards say of the step that this one is for."""
    if not action.prepares:
        return
    later = list(dropwhile(lambda s: s.name != at.step, at.plan.steps))[1:]
    step = next((s for s in later if not ACTIONS[s.action].idle(at.plan)), None)
    if step is not None:
        reasons = ACTIONS[step.action].judge(replace(at, step=step.name), None)
        yield from (reason for reason in reasons if reason.guard not in action.prepares)


def _added(at: StepContext, action: Action) -> tuple[Reason, ...]:
    """What the playbook's own guards say: those that the action does not ask anyhow. One that cannot be added never
    comes here, since the playbook is refused (`acceptance`). Before the run begins, and before what a later step takes
    back, those of the later steps are asked as well: nothing is stopped for nothing."""
    steps = at.context.playbook.spec.steps if at.context.playbook is not None else ()
    rest = list(dropwhile(lambda s: s.name != at.step, steps))
    ahead = at.run.status.phase not in ACTING_PHASES or any(ACTIONS[s.action].gives_back for s in rest[1:])
    asked = [(s, ACTIONS[s.action]) for s in (rest if ahead else rest[:1]) if not ACTIONS[s.action].idle(at.plan)]
    asked = asked or [(s, action) for s in rest[:1]]
    named = dict.fromkeys(guard for s, of in asked for guard in s.guards if guard in of.addable)
    return judge_cluster(at.snapshot, list(named), at.now).reasons


def _of_the_run(run: Remediation, context: DecisionContext) -> tuple[Reason, ...]:
    """What is asked of every run, whatever it does."""
    started = run.status.phase in ACTING_PHASES
    words = judged(run, context, started=started)
    rules = judge_run(
        context.cluster.spec.remediation,
        context.others,
        context.lease_held,
        context.now,
        starting=not started,
        itself=OtherRun.of(run),
        takes_back=context.playbook is not None and takes_back(context.playbook),
    )
    # What could not be taken back afterwards is not begun.
    own = own_status(run, words, context.policies)
    fleet = () if started else (within_fleet(context.fleet),)
    owes = truly_owes(run.status) or any(o.owes for o in context.others or ())
    return (words.reason, own, *rules, *fleet, alone_on_kafka(context.namesakes, owes))


def _due(run: Remediation, plan: Plan) -> str:
    """The step that is under way; before the run has begun, the first one that has something to do."""
    if run.status.phase in ACTING_PHASES:
        left = (s.name for s in run.status.steps if s.phase is not StepPhase.SUCCEEDED)
    else:
        left = (s.name for s in plan.steps if not ACTIONS[s.action].idle(plan))
    return next(left, plan.steps[0].name)


def restoring_reasons(run: Remediation, context: DecisionContext, *, giving_up: bool) -> tuple[Reason, ...]:
    """A pause holds even the restoring of a run that could still go on, but not the clean-up of one that is ending."""
    policy = context.cluster.spec.remediation
    asked = {Guard.LEASE_HELD} if giving_up else {Guard.LEASE_HELD, Guard.NOT_PAUSED}
    rules = judge_run(policy, (), context.lease_held, context.now, starting=False)
    own = own_status(run, judged(run, context, started=True), context.policies)
    return (same_cluster(run.status.plan, context.snapshot), own, *(r for r in rules if r.guard in asked))
