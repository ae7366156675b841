"""ReassignPartitions: replicas are added, also in place of those on brokers that are gone. RemoveReplicas: those whose
place others have taken go. AlterReplicaLogDirs: replicas move between the log directories of their brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.diagnose.disks import KEPT_FREE, only_volume, room_above, share_of, volumes_of
from kafka_medic.guard import log_dirs, owners, peers
from kafka_medic.guard.disk_room import Kept, disk_has_room
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.leaving import leaving_brokers
from kafka_medic.guard.log_dirs import VolumeRoom
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.reassign import judge_reassign
from kafka_medic.guard.removal import judge_removal
from kafka_medic.guard.verdict import Reason
from kafka_medic.playbook import effects
from kafka_medic.playbook.action import Action, PlanRequest, StepContext
from kafka_medic.playbook.auto import Cost
from kafka_medic.playbook.effects import AlterLogDirs, Intent, SettingKey, setting_text
from kafka_medic.playbook.extra_reads import Questions
from kafka_medic.playbook.holding import GIVE_UP
from kafka_medic.playbook.owners.owned_plan import unplanned_owner
from kafka_medic.playbook.reassign import log_dirs_step, reassign_step, remove_step
from kafka_medic.playbook.reassign.even_plan import even_plan
from kafka_medic.playbook.reassign.leave_plan import leave_plan
from kafka_medic.playbook.reassign.other_racks import other_racks, planned_racks
from kafka_medic.playbook.reassign.parameters import (
    ADDED,
    EVENED,
    MOVED,
    RELIEVED,
    REPLACED,
    RESTORED,
    SPREAD,
    asked_of,
    leave_parameters,
    relieve_parameters,
)
from kafka_medic.playbook.reassign.positions import Position, growth, standings
from kafka_medic.playbook.reassign.raise_plan import raise_plan
from kafka_medic.playbook.reassign.rate import RATES
from kafka_medic.playbook.reassign.relieve_plan import about_own_sizes, relieve_plan
from kafka_medic.playbook.reassign.room import LEAST_FREE, filling_volumes
from kafka_medic.playbook.reassign.throttle_lists import FOLLOWER_LIST, LEADER_LIST
from kafka_medic.playbook.reassign.within_plan import about_volumes, above_share
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.errors import Problem
from kafka_medic.resources.phases import StepPhase
from kafka_medic.resources.playbook import Playbook, Step
from kafka_medic.resources.remediation_plan import LogDirMove, LogDirMoves, Plan, ReplicaMoves, ReplicaRemovals
from kafka_medic.resources.remediation_status import JournalEntry, StepStatus
from kafka_medic.resources.vocabulary import ActionName, Guard, VerifyProbe

_AHEAD = (Position.MOVING, Position.CATCHING_UP, Position.DONE)

GROWTH = 5
"""Percent of a volume that receivers of a relieved one may have written since the plan, so that the run ends all the
same."""


class ReassignPartitions(Action):
    name = ActionName.REASSIGN_PARTITIONS
    parameters = frozenset(
        {
            "throttleBytesPerSecond",
            "bandwidthBytesPerSecond",
            "bandwidthSharePercent",
            "waveBytesPerBroker",
            "wavePartitions",
            "replicas",
            "brokers",
            "onto",
            "batchSize",
            "maxMoves",
            "balance",
            "freeSharePercent",
        }
    )
    demands = (
        Guard.CLUSTER_REACHABLE,
        Guard.ENOUGH_LIVE_BROKERS,
        Guard.TARGETS_ALIVE,
        Guard.NO_FOREIGN_REASSIGNMENT,
        Guard.BROKERS_STABLE,
        Guard.FIT_TO_RECEIVE,
        Guard.OWNERS_PAUSED,
        Guard.REPLACED_BROKERS_DOWN,
        Guard.DISK_HAS_ROOM,
    )
    probe = VerifyProbe.TARGET_REPLICAS_IN_SYNC
    hindered_by = frozenset({Guard.NO_REASSIGNMENT, Guard.NO_OTHER_BROKER_DISTURBED})

    @property
    def probes(self) -> tuple[VerifyProbe, ...]:
        """Not the end of the finding: the step owes its clean-up until it has succeeded, and whoever owes goes before
        every other cure. New topics could keep the finding alive for as long as they are created."""
        return (self.probe,)

    def problems(self, playbook: Playbook, index: int) -> Iterable[Problem]:
        """What is copied to lie better, or for a broker to be empty, is removed where it was by the step after."""
        later = any(step.action is ActionName.REMOVE_REPLICAS for step in playbook.spec.steps)
        fitting = (MOVED, SPREAD, EVENED, RELIEVED) if later else (ADDED, REPLACED, RESTORED)
        if asked_of(playbook.spec.steps[index]) not in fitting:
            path = f"spec.steps[{index}].with.replicas"
            yield Problem(path, "is not supported by this step", f"write {' or '.join(fitting)}")

    def reads(self, request: PlanRequest, others: Callable[[], Sequence[OtherRun] | None]) -> Questions:  # noqa: ARG002
        step = request.step(self.name)
        return Questions() if step is None or asked_of(step) != RELIEVED else about_own_sizes(request, step)

    def plan(self, request: PlanRequest) -> Plan | Refusal:
        step = request.step(self.name)
        assert step is not None  # it leads the sequence
        asked = asked_of(step)
        if asked in (SPREAD, EVENED):
            return even_plan(request, step)
        if asked == RELIEVED:
            return relieve_plan(request, step)
        return raise_plan(request, step) if asked == ADDED else leave_plan(request, step)

    def idle(self, plan: Plan) -> bool:
        own = plan.part(ReplicaMoves)
        return not own.changes and own.artifact is None

    def drift(self, at: StepContext) -> str | None:
        """Also a partition that is where the plan would bring it, though we have done nothing: somebody else did. And a
        broker that is back: a plan that waited for it to be gone again would begin at its next restart."""
        found = standings(at.plan.part(ReplicaMoves).changes, at.snapshot)
        drifted = next((s.reason for s in found if s.position is Position.DRIFTED), None)
        done = next((s.change for s in found if s.position in _AHEAD), None)
        others = f"another client reassigned {done.topic}-{done.partition}" if done else None
        replaced = at.plan.part(ReplicaMoves).replaced
        back = reassign_step.came_back(replaced, at.snapshot, found, directories=_directories(at))
        why = drifted or others or back or other_racks(at)
        return why or _fills(at) or _has_room_again(at) or unplanned_owner(at.plan, at.snapshot)

    def judge(self, at: StepContext, intent: Intent | None) -> Iterable[Reason]:
        own = at.plan.part(ReplicaMoves)
        moves = [(c.topic, c.partition, c.replicas_before, c.replicas) for c in own.changes]
        factor = own.replication_factor or 1
        asked = effects.asked_for(own.changes, at.journal.values())
        yield from judge_reassign(at.snapshot, moves, factor, at.now, replaced=own.replaced, asked=asked).reasons
        yield from planned_racks(at)
        yield owners.owners_paused(at.snapshot, own.topics())
        yield from disk_has_room(at.snapshot, _incoming(at, intent), _kept(at))

    def assess(self, at: StepContext) -> StepReport:
        return reassign_step.assess(at.step, at.plan, at.journal, at.snapshot, at.now, directories=_directories(at))

    def may_find_later(self, step: Step) -> bool:  # noqa: ARG002
        return True

    def needs_its_cause(self, step: Step) -> bool:
        """A factor that was low is worth raising also while its finding pauses. A broker that is back needs nobody in
        its place."""
        return asked_of(step) in (REPLACED, RESTORED)

    def owes(self, step: StepStatus, journal: Sequence[JournalEntry]) -> bool:
        """A throttle may be set, or a reassignment in flight, from the first intent until the step has succeeded. Until
        then its goal can be lost again, whatever was restored before."""
        over = step.phase in (StepPhase.SUCCEEDED, StepPhase.SKIPPED)
        return not over and any(e.step == step.name and e.id != GIVE_UP for e in journal)

    def undo(self, at: StepContext) -> Iterator[StepReport]:
        report = reassign_step.undo(at.step, at.plan, at.journal, at.snapshot)
        yield _without_goal(report, at)
        yield remove_step.give_back(at.step, at.plan, at.journal, at.snapshot)

    def afterwards(self, at: StepContext) -> str:
        """Whether a broker that was to be empty is."""
        return remove_step.what_is_left(at.plan, at.snapshot)

    def undone(self, at: StepContext) -> str | None:
        own, finally_ = at.plan.part(ReplicaMoves), remove_step.removals(at.plan)
        for standing in standings(own.changes, at.snapshot):
            have = None if standing.row is None else standing.row.replicas
            if have is None:
                continue
            wanted = finally_[standing.tp][1] if standing.tp in finally_ else standing.change.replicas
            if set(have) & set(own.replaced):
                return f"{standing.tp} has replicas {list(have)} again (set by the run: {list(wanted)})"
            if len(have) < len(wanted):
                return f"{standing.tp} has {many(len(have), 'replica')} again (set by the run: {len(wanted)})"
        return None

    def may_write(self, plan: Plan) -> Iterator[Hashable]:
        for c in plan.part(ReplicaMoves).changes:
            tp = TopicPartition(c.topic, c.partition)
            yield from (("replicas", tp, target) for target in (None, tuple(c.replicas)))
            if plan.part(ReplicaRemovals).each():
                yield "replicas", tp, tuple(c.replicas_before)
        yield from (("setting", *key) for key in _throttles(plan))

    def restorable(self, plan: Plan) -> Iterator[str]:
        yield from map(setting_text, _throttles(plan))

    def cost(self, plan: Plan, snapshot: Snapshot | None) -> Cost:
        own = plan.part(ReplicaMoves)
        added = [(len(set(c.replicas) - set(c.replicas_before)), c.size_bytes) for c in own.changes]
        unknown = any(count and size is None for count, size in added)
        grown = 0 if snapshot is None else growth(own.changes, snapshot)
        copied = None if unknown or grown is None else grown + sum(count * (size or 0) for count, size in added)
        asks = () if own.artifact is None else ("its changes are not in the Remediation",)
        return Cost(
            partitions=frozenset(TopicPartition(c.topic, c.partition) for c in own.changes),
            moves=sum(count for count, _ in added),
            copied=copied,
            asks=(*asks, *_room_not_known(own, snapshot)),
        )


class RemoveReplicas(Action):
    name = ActionName.REMOVE_REPLICAS
    demands = (
        Guard.CLUSTER_REACHABLE,
        Guard.BROKERS_STABLE,
        Guard.NO_FOREIGN_REASSIGNMENT,
        Guard.REPLACEMENTS_IN_SYNC,
        Guard.FIT_TO_RECEIVE,
        Guard.OWNERS_PAUSED,
    )
    probe = VerifyProbe.REPLICAS_REMOVED
    hindered_by = frozenset({Guard.NO_REASSIGNMENT})

    @property
    def probes(self) -> tuple[VerifyProbe, ...]:
        """Not the end of the finding, as for ReassignPartitions."""
        return (self.probe,)

    def idle(self, plan: Plan) -> bool:
        return not plan.part(ReplicaRemovals).each()

    def judge(self, at: StepContext, intent: Intent | None) -> Iterable[Reason]:
        """Of the effect alone, once there is one: what has not been copied yet is not in sync."""
        planned = remove_step.removals(at.plan)
        asked = intent.targets if isinstance(intent, effects.DropReplicas) else planned
        yield from judge_removal(at.snapshot, {tp: planned[tp] for tp in asked if tp in planned}, at.now).reasons
        yield from planned_racks(at)
        yield owners.owners_paused(at.snapshot, at.plan.part(ReplicaRemovals).topics())

    def assess(self, at: StepContext) -> StepReport:
        return remove_step.assess(at.step, at.plan, at.journal, at.snapshot)

    def owes(self, step: StepStatus, journal: Sequence[JournalEntry]) -> bool:
        """From the first copy until the last removal a partition may have more replicas than it is to keep."""
        over = step.phase in (StepPhase.SUCCEEDED, StepPhase.SKIPPED)
        return not over and any(e.kind == effects.Reassign.__name__ for e in journal)

    def binds(self, step: StepStatus, journal: Sequence[JournalEntry]) -> bool:
        """Replicas that are in sync and too many hinder nobody, so a graver cure does not wait for their removal."""
        return self.owes(step, journal) and any(e.id == GIVE_UP for e in journal)

    def may_write(self, plan: Plan) -> Iterator[Hashable]:
        for c in plan.part(ReplicaRemovals).each():
            yield "replicas", TopicPartition(c.topic, c.partition), tuple(c.replicas)

    def cost(self, plan: Plan, snapshot: Snapshot | None) -> Cost:  # noqa: ARG002
        """A person decides whether replicas go."""
        own = plan.part(ReplicaRemovals).each()
        asks = ("it removes replicas",) if own else ()
        return Cost(frozenset(TopicPartition(c.topic, c.partition) for c in own), asks=asks)


class AlterReplicaLogDirs(Action):
    name = ActionName.ALTER_REPLICA_LOG_DIRS
    parameters = frozenset({"brokers", "batchSize", "freeSharePercent", "throttleBytesPerSecond", "waveBytesPerBroker"})
    demands = (
        Guard.CLUSTER_REACHABLE,
        Guard.ENOUGH_LIVE_BROKERS,
        Guard.TARGETS_ALIVE,
        Guard.NO_FOREIGN_REASSIGNMENT,
        Guard.BROKERS_STABLE,
        Guard.FIT_TO_RECEIVE,
        Guard.NO_FOREIGN_ROLLOUT,
        Guard.LOG_DIRS_ONLINE,
        Guard.DISK_HAS_ROOM,
    )
    probe = VerifyProbe.REPLICAS_IN_LOG_DIRS

    @property
    def probes(self) -> tuple[VerifyProbe, ...]:
        """Not the end of the finding, as for ReassignPartitions."""
        return (self.probe,)

    def problems(self, playbook: Playbook, index: int) -> Iterable[Problem]:
        """Nothing else has a plan for it."""
        later = playbook.spec.steps[index + 1 :]
        if not any(s.action is ActionName.REASSIGN_PARTITIONS and asked_of(s) == RELIEVED for s in later):
            yield Problem(
                f"spec.steps[{index}].action",
                "is not supported without ReassignPartitions of relieved replicas",
                f"write a later step with replicas: {RELIEVED}",
            )

    def reads(self, request: PlanRequest, others: Callable[[], Sequence[OtherRun] | None]) -> Questions:  # noqa: ARG002
        step = request.step(self.name)
        return Questions() if step is None else about_volumes(request, step)

    def watches(self, plan: Plan, snapshot: Snapshot) -> Questions:  # noqa: ARG002
        return Questions(log_dirs=frozenset(plan.part(LogDirMoves).brokers))

    def idle(self, plan: Plan) -> bool:
        return not plan.part(LogDirMoves).each()

    def drift(self, at: StepContext) -> str | None:
        """Also a replica that is where the plan would bring it, though we have done nothing: somebody else moved it."""
        found = log_dirs_step.standings(at.plan.part(LogDirMoves).each(), at.context.reads.log_dirs)
        done = next((s for s in found if s.position is log_dirs_step.Position.DONE), None)
        others = f"another client moved {done.tp} of broker {done.move.broker}" if done else None
        return log_dirs_step.drift(at.step, found, {}) or others

    def judge(self, at: StepContext, intent: Intent | None) -> Iterable[Reason]:
        yield from super().judge(at, intent)
        yield from peers.nothing_rolls_out(at.snapshot)
        own, dirs = at.plan.part(LogDirMoves), at.context.reads.log_dirs
        yield from log_dirs.log_dirs_online({b: dirs.get(b, "not read") for b in own.brokers})
        share = _share_kept(at)
        yield from log_dirs.volumes_have_room(_arriving(at, intent, share), share)

    def assess(self, at: StepContext) -> StepReport:
        return log_dirs_step.assess(at.step, at.plan, at.journal, at.snapshot, at.context.reads.log_dirs)

    def owes(self, step: StepStatus, journal: Sequence[JournalEntry]) -> bool:
        """As ReassignPartitions does: a throttle, and copies in flight."""
        over = step.phase in (StepPhase.SUCCEEDED, StepPhase.SKIPPED)
        return not over and any(e.step == step.name and e.id != GIVE_UP for e in journal)

    def undo(self, at: StepContext) -> Iterator[StepReport]:
        report = log_dirs_step.undo(at.step, at.plan, at.journal, at.snapshot, at.context.reads.log_dirs)
        yield _without_goal(report, at)

    def may_write(self, plan: Plan) -> Iterator[Hashable]:
        own = plan.part(LogDirMoves)
        for m in own.each():
            tp = TopicPartition(m.topic, m.partition)
            yield from (("log dir", m.broker, tp, path) for path in (m.source, m.target))
        yield from (("setting", *key) for key in log_dirs_step.rate_keys(own.brokers))

    def restorable(self, plan: Plan) -> Iterator[str]:
        yield from map(setting_text, log_dirs_step.rate_keys(plan.part(LogDirMoves).brokers))

    def cost(self, plan: Plan, snapshot: Snapshot | None) -> Cost:  # noqa: ARG002
        own = plan.part(LogDirMoves).each()
        return Cost(
            partitions=frozenset(TopicPartition(m.topic, m.partition) for m in own),
            moves=len(own),
            copied=sum(m.size_bytes for m in own),
        )


def _arriving(at: StepContext, intent: Intent | None, share: int) -> dict[int, tuple[VolumeRoom, ...] | None]:
    """By broker, the volumes that get replicas by the effect; before the first one by the first batch. Sizes as they
    are now. What is being copied there already has its room taken."""
    own, dirs = at.plan.part(LogDirMoves), at.context.reads.log_dirs
    asked = intent.moves if isinstance(intent, AlterLogDirs) else None
    found: dict[int, tuple[VolumeRoom, ...] | None] = {}
    for broker in own.brokers:
        told = dirs.get(broker)
        mine = [m for m in own.each() if m.broker == broker]
        due = [m for m in mine if (m.batch == 0 if asked is None else (broker, _tp(m)) in asked)]
        if told is None or isinstance(told, str) or any(d.error is None and d.usable is None for d in told.directories):
            found[broker] = None
            continue
        volumes, coming = volumes_of(told.directories), Counter[str]()
        for m in due:
            now = told.current.get(_tp(m))
            coming[m.target] += m.size_bytes if now is None else now.size
        rooms = zip(volumes, above_share(volumes, told, share), strict=True)
        found[broker] = tuple(
            VolumeRoom(broker, v.where, size, room) for v, room in rooms if (size := sum(coming[p] for p in v.paths))
        )
    return found


def _tp(move: LogDirMove) -> TopicPartition:
    return TopicPartition(move.topic, move.partition)


def _room_not_known(own: ReplicaMoves, snapshot: Snapshot | None) -> Iterator[str]:
    brokers = () if snapshot is None else snapshot.brokers or ()
    added = {b for c in own.changes for b in c.replicas if b not in c.replicas_before}
    if silent := sorted(b.id for b in brokers if b.id in added and b.disk_free is None):
        yield f"the free disk space of broker {some(silent)} is not known"


def _incoming(at: StepContext, intent: Intent | None) -> dict[int, int | None]:
    """Bytes that each broker gets by the effect and by what is on its way; before the first one by the wave that comes
    first. Sizes as they are now, or else as the plan saw them. None where one of them is not known."""
    asked = intent.targets.keys() if isinstance(intent, effects.Reassign) else None
    coming: dict[int, int | None] = {}
    for standing in standings(at.plan.part(ReplicaMoves).changes, at.snapshot):
        change, row = standing.change, standing.row
        due = standing.position is Position.BEFORE and (change.wave == 0 if asked is None else standing.tp in asked)
        if not due and standing.position is not Position.MOVING:
            continue
        size = row.size_bytes if row is not None and row.size_bytes is not None else change.size_bytes
        for broker in set(change.replicas) - set(change.replicas_before):
            before = coming.get(broker, 0)
            coming[broker] = None if size is None or before is None else before + size
    return coming


def _kept(at: StepContext) -> dict[int, Kept]:
    """What each receiver keeps free, as far as that is known: a little less than its plan kept, since others write
    meanwhile."""
    share, filling = _share_kept(at), filling_volumes(at.context.cluster)
    kept = {}
    for b in at.snapshot.brokers or ():
        own = max(share, KEPT_FREE - GROWTH) if b.id in filling else share
        if b.disk_free is not None:
            kept[b.id] = Kept(own, b.disk_free - (room_above(b, own) or 0))
    return kept


def _share_kept(at: StepContext) -> int:
    """Percent of its volume: more where another volume is relieved, or brokers are evened out unasked."""
    playbook, step = at.context.playbook, at.spec
    if playbook is None or step is None:
        return LEAST_FREE
    asked = asked_of(step) if step.action is ActionName.REASSIGN_PARTITIONS else RELIEVED
    if asked == RELIEVED:
        return max(relieve_parameters(playbook, step, at.run.spec.parameters).share - GROWTH, LEAST_FREE)
    return KEPT_FREE - GROWTH if asked == EVENED and at.run.spec.cause is not None else LEAST_FREE


def _fills(at: StepContext) -> str | None:
    """A broker that the proposed plan gives replicas to, though it is to hold none by now."""
    playbook, step, run = at.context.playbook, at.spec, at.run
    if run.spec.cause is None or playbook is None or step is None:
        return None
    if leave_parameters(playbook, step, run.spec.parameters).onto != "any":
        return None  # somebody has named the receivers
    status = at.context.cluster.status
    spared = leaving_brokers(status.strimzi, at.context.others or (), status.departed_brokers)
    added = {b for c in at.plan.part(ReplicaMoves).changes for b in {*c.replicas} - {*c.replicas_before}}
    filled = sorted(added & spared.keys())
    return f"broker {filled[0]} is to hold nothing: {spared[filled[0]]}" if filled else None


def _has_room_again(at: StepContext) -> str | None:
    """Of volumes that the plan relieves: each was enlarged, or retention has deleted enough."""
    playbook, step = at.context.playbook, at.spec
    if playbook is None or step is None or asked_of(step) != RELIEVED:
        return None
    removals = at.plan.part(ReplicaRemovals).each()
    relieved = sorted({b for c in removals for b in {*c.replicas_before} - {*c.replicas}})
    share = relieve_parameters(playbook, step, at.run.spec.parameters).share
    for number in relieved:
        broker = at.snapshot.broker(number)
        volume = None if broker is None else only_volume(broker)
        if volume is None or volume.free < share_of(volume.total, share):
            return None
    return f"the volume of broker {some(relieved)} has {share} % free again" if relieved else None


def _directories(at: StepContext) -> bool:
    """Whether log directories are replaced, and not brokers."""
    return at.spec is not None and asked_of(at.spec) == RESTORED


def _without_goal(report: StepReport, at: StepContext) -> StepReport:
    """Of a clean-up that is through, only what it leaves."""
    if report.state is not StepState.REACHED:
        return report
    return replace(report, message=reassign_step.kept_throttle(at.step, at.journal, at.snapshot))


def _throttles(plan: Plan) -> Iterator[SettingKey]:
    """What throttles the moves."""
    changes = plan.part(ReplicaMoves).changes
    brokers = {b for c in changes for b in (*c.replicas, *c.replicas_before)}
    yield from (("BROKER", str(broker), name) for broker in brokers for name in RATES)
    topics = {c.topic for c in changes}
    yield from (("TOPIC", topic, name) for topic in topics for name in (LEADER_LIST, FOLLOWER_LIST))
