"""Every guard that stands before an effect, asked together.

A forward effect needs all of them. An effect that only puts back what the run itself changed needs the Lease, the very
cluster that it was changed on, and a status that nobody else could write: leaving a throttle or half a reassignment
behind is never the safer choice, and a journal that anybody could write is no proof of either.
"""

from __future__ import annotations

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard import fit
from kafka_medic.guard.elect import judge_elect
from kafka_medic.guard.freshness import sources_fresh
from kafka_medic.guard.namesakes import alone_on_kafka
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.reassign import judge_reassign
from kafka_medic.guard.reorder import judge_reorder
from kafka_medic.guard.reset_offsets import judge_reset_offsets
from kafka_medic.guard.restart import judge_restart
from kafka_medic.guard.run import judge_run, within_fleet
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.claims import truly_owes
from kafka_medic.playbook.decision import World
from kafka_medic.playbook.effects import (
    ChangeSettings,
    ElectPreferred,
    Intent,
    Reorder,
    RescueRecords,
    RestartPod,
    SetOffsets,
)
from kafka_medic.playbook.leadership.election_step import planned_elections
from kafka_medic.playbook.leadership.reorder_step import planned_orders
from kafka_medic.playbook.offsets import consumers_step, offset_step
from kafka_medic.playbook.parameters import BACK, CONTROLLER, brings_leaders, restart_parameters
from kafka_medic.playbook.planned_topics import same_topics
from kafka_medic.playbook.provenance import own_status
from kafka_medic.playbook.restart import drain_first, resign_step
from kafka_medic.playbook.restart.order import next_broker
from kafka_medic.playbook.restart.restart_step import context
from kafka_medic.playbook.settings import min_isr_step
from kafka_medic.resources.phases import ACTING_PHASES
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.vocabulary import Action, Guard

CLUSTER_ID = "Kafka cluster id"
"""Name of the precondition that holds which Kafka cluster a plan was made for."""


def same_cluster(plan: Plan | None, snapshot: Snapshot) -> Reason:
    """Whether what answers is the cluster that the plan was made for: bootstrap servers can come to name another."""
    guard, present = Guard.PRECONDITIONS_HOLD.value, snapshot.cluster.id
    planned = next((p.value for p in plan.preconditions if p.name == CLUSTER_ID), None) if plan else None
    if planned is None:
        return Reason(guard, Verdict.DENY, "there is no plan that names the Kafka cluster it was made for")
    if present is None:
        return Reason(guard, Verdict.UNKNOWN, f"the id of the Kafka cluster is not known; the plan is for {planned}")
    if present != planned:
        message = f"the plan was made for the Kafka cluster {planned}, and the one that answers now is {present}"
        return Reason(guard, Verdict.DENY, message)
    return Reason(guard, Verdict.ALLOW, f"the Kafka cluster is {planned}, as planned")


def forward_reasons(run: Remediation, world: World, intent: Intent | None = None) -> tuple[Reason, ...]:
    """The answer of every guard, permitting or not. `intent` is what would be done; before a run has begun there is
    none yet, and the guards are asked about what would be its first effect. Whatever gives a broker something asks
    FitToReceive here, so that no effect can leave it out."""
    reasons = _forward(run, world, intent)
    if intent is not None and (receivers := intent.receivers(world.snapshot)):
        reasons = tuple(dict.fromkeys((*reasons, *fit.fit_to_receive(world.snapshot, receivers))))
    return reasons


def _forward(run: Remediation, world: World, intent: Intent | None) -> tuple[Reason, ...]:
    policy = world.cluster.spec.remediation
    started = run.status.phase in ACTING_PHASES
    judged = world.judged(run, started=started)
    back = world.playbook is not None and brings_leaders(world.playbook) == BACK
    rules = judge_run(
        policy,
        world.others,
        world.lease_held,
        world.now,
        starting=not started,
        itself=OtherRun.of(run),
        takes_back=back,
    )
    # What could not be taken back afterwards is not begun.
    own = own_status(run, judged, world.policies)
    reasons = (judged.reason, own, *rules, *(() if started else (within_fleet(world.fleet),)))
    owes = truly_owes(run.status) or any(o.owes for o in world.others or ())
    reasons = (*reasons, alone_on_kafka(world.namesakes, owes))
    plan = run.status.plan
    if plan is None:
        return (*reasons, Reason(Guard.PRECONDITIONS_HOLD.value, Verdict.DENY, "there is no plan"))
    reasons = (*reasons, same_cluster(plan, world.snapshot), *same_topics(plan, world.snapshot))
    if isinstance(intent, RescueRecords):
        # It adds a topic of our own and touches nothing else; what is read has to be read from a fresh look.
        needed = ("kafka", "views")
        return (*reasons, *sources_fresh(world.snapshot, world.now, needed))
    if plan.resignations:
        return (*reasons, *resign_step.reasons(plan, world.snapshot, world.now))
    # A plan that adds replicas has new orders and elections for afterwards: until then it is asked about its replicas.
    if plan.reorders and (isinstance(intent, Reorder) or not (plan.changes or isinstance(intent, ElectPreferred))):
        return (*reasons, *judge_reorder(world.snapshot, planned_orders(plan), world.now).reasons)
    if plan.elections and (isinstance(intent, ElectPreferred) or not plan.changes):
        asked = (
            intent.preferred if isinstance(intent, ElectPreferred) else [tp for tp, _ in planned_elections(plan)[:1]]
        )
        return (*reasons, *judge_elect(world.snapshot, world.now, set(asked)).reasons)
    if plan.offsets:
        return (*reasons, *_offset_reasons(run, plan, world, intent))
    if plan.restarts and not isinstance(intent, ChangeSettings):
        return tuple(dict.fromkeys((*reasons, *_restart_reasons(run, plan, world, intent))))
    if not started and min_isr_step.alone(plan):
        reasons = (*reasons, min_isr_step.may_begin(plan, world.snapshot))
    moves = [(c.topic, c.partition, c.replicas_before, c.replicas) for c in plan.changes]
    factor = plan.replication_factor or 1
    return (
        *reasons,
        *judge_reassign(world.snapshot, moves, factor, world.now).reasons,
    )


def _offset_reasons(run: Remediation, plan: Plan, world: World, intent: Intent | None) -> tuple[Reason, ...]:
    """Of the group that is due, or comes next. What consumes may be stopped while its groups have members: that is what
    it is stopped for. All else that would hold the offsets up holds this up as well, so that nothing is stopped for
    nothing."""
    if plan.workload is not None and not isinstance(intent, SetOffsets):
        found = [
            judge_reset_offsets(
                world.snapshot,
                group,
                {offset_step.partition_of(c): c.after for c in plan.offsets if c.group == group},
                world.now,
            ).reasons
            for group in dict.fromkeys(c.group for c in plan.offsets)
        ]
        others = (r for reasons in found for r in reasons if r.guard != Guard.GROUP_EMPTY.value)
        return (*dict.fromkeys(others), consumers_step.as_planned(plan, world.answers))
    if isinstance(intent, SetOffsets):
        group, targets = intent.group, {tp: after.offset for tp, (_, after) in intent.offsets.items()}
    else:
        journal = {entry.id: entry for entry in run.status.journal}
        group = offset_step.next_group(plan.steps[0].name, plan, journal, world.snapshot) or plan.offsets[0].group
        targets = {offset_step.partition_of(c): c.after for c in plan.offsets if c.group == group}
    return judge_reset_offsets(
        world.snapshot,
        group,
        targets,
        world.now,
        members=world.answers.members.get(group),
        within_log=offset_step.keeps_within_log(plan),
    ).reasons


def _restart_reasons(run: Remediation, plan: Plan, world: World, intent: Intent | None) -> tuple[Reason, ...]:
    """What leads elsewhere because of the restart is asked about as any order and election is. Nothing is moved off a
    broker that may not be restarted at this moment: it would wait without what it leads."""
    if isinstance(intent, ElectPreferred):
        return judge_elect(world.snapshot, world.now, set(intent.preferred)).reasons
    journal = {entry.id: entry for entry in run.status.journal}
    step = next((s.name for s in plan.steps if s.action is Action.RESTART_BROKERS), "")
    reordered: tuple[Reason, ...] = ()
    if isinstance(intent, Reorder):
        reordered = judge_reorder(world.snapshot, drain_first.guarded(plan, intent), world.now).reasons
        away = drain_first.away_from(step, intent.id)
        if away is None:
            return reordered
        broker = away
    elif isinstance(intent, RestartPod):
        broker = intent.broker
    else:
        stale = {r.broker for r in plan.restarts if r.stale}
        next_ = next_broker(world.snapshot, [r.broker for r in plan.restarts], stale)
        broker = plan.restarts[0].broker if next_ is None else next_
    replaces = _replaces_controller(run, world.playbook)
    asked = context(step, plan, journal, broker, world.now, replaces_controller=replaces)
    return (*reordered, *judge_restart(world.snapshot, broker, world.now, context=asked).reasons)


def _replaces_controller(run: Remediation, playbook: Playbook | None) -> bool:
    steps = playbook.spec.steps if playbook else ()
    step = next((s for s in steps if s.action is Action.RESTART_BROKERS), None)
    if playbook is None or step is None:
        return False
    return restart_parameters(playbook, step, run.spec.parameters).brokers == CONTROLLER


def restoring_reasons(run: Remediation, world: World, *, giving_up: bool) -> tuple[Reason, ...]:
    """A pause holds even the restoring of a run that could still go on, but not the clean-up of one that is ending."""
    policy = world.cluster.spec.remediation
    asked = {Guard.LEASE_HELD.value} if giving_up else {Guard.LEASE_HELD.value, Guard.NOT_PAUSED.value}
    rules = judge_run(policy, (), world.lease_held, world.now, starting=False)
    own = own_status(run, world.judged(run, started=True), world.policies)
    return (same_cluster(run.status.plan, world.snapshot), own, *(r for r in rules if r.guard in asked))
