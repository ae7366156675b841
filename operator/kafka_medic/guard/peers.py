"""The brokers themselves: the target may be touched, nobody else is disturbed, and their Pods and nodes are
well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kafka_medic.cluster.elements import failed_directories, log_dirs_unread, on_failed_directory
from kafka_medic.cluster.snapshot import Broker, PartitionRow, Pod, Snapshot, TopicPartition
from kafka_medic.guard.context import RestartQuestion
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.rows import known_ids, target_of, troubled_rows
from kafka_medic.guard.stuck import undeclared
from kafka_medic.guard.unserved import NONE, cannot_catch_up, not_served
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.report.units import many
from kafka_medic.resources.kafkacluster import STRIMZI_ROLL
from kafka_medic.resources.vocabulary import Guard

TARGET_MAY_BE_TOUCHED = Guard.TARGET_MAY_BE_TOUCHED
NO_OTHER_BROKER_DISTURBED = Guard.NO_OTHER_BROKER_DISTURBED
PODS_READY_NODE_SCHEDULABLE = Guard.PODS_READY_NODE_SCHEDULABLE
NO_FOREIGN_ROLLOUT = Guard.NO_FOREIGN_ROLLOUT


def target_may_be_touched(snapshot: Snapshot, question: RestartQuestion) -> Reason:
    """The target is a broker of this cluster and not recovering its log, which a kill would start over. It has a log
    directory to start with."""
    guard, broker_id = TARGET_MAY_BE_TOUCHED, question.broker
    if snapshot.brokers is None:
        return Reason(guard, Verdict.UNKNOWN, "the brokers are not known")
    broker = snapshot.broker(broker_id)
    if broker is None and any(v.id == broker_id for v in snapshot.controllers_apart()):
        return Reason(
            guard, Verdict.ALLOW, f"{broker_id} is a controller without a broker, so it has no log to recover"
        )
    if broker is None:
        ids = some(sorted(b.id for b in snapshot.brokers))
        return Reason(guard, Verdict.DENY, f"broker {broker_id} does not exist; the brokers are {ids}")
    if sum(b.id == broker_id for b in snapshot.brokers) > 1:
        return Reason(guard, Verdict.UNKNOWN, f"the snapshot lists broker {broker_id} more than once")
    if broker.recovering:
        message = f"broker {broker_id} is recovering its log; a restart would begin the recovery again"
        return Reason(guard, Verdict.WAIT, message)
    if broker.registered is None or (broker.reachable is None and broker.registered):
        return Reason(guard, Verdict.UNKNOWN, f"whether broker {broker_id} is registered and answers is not known")
    if broker.registered and broker.reachable is False:
        # Its view was not told, nor how far its log has parted from the others'.
        message = f"broker {broker_id} is registered but does not answer, so which records only it holds is not known"
        return Reason(guard, Verdict.UNKNOWN, message)
    if broker.recovering is None:
        # A broker answers requests only once its log is recovered. One that answers and is not registered (a
        # zombie)
        # has nobody else who could tell, and its restart is the cure.
        if broker.reachable is True and broker.registered is False:
            return Reason(guard, Verdict.ALLOW, f"broker {broker_id} answers, so its log is recovered")
        return Reason(guard, Verdict.UNKNOWN, f"whether broker {broker_id} is recovering its log is not known")
    return _directories(snapshot, broker)


def _directories(snapshot: Snapshot, broker: Broker) -> Reason:
    """Kafka starts without the log directories that have failed, and not at all when none is left (KIP-112,
    LogManager.createAndValidateLogDirs)."""
    guard = TARGET_MAY_BE_TOUCHED
    if broker.reachable is True and (why := log_dirs_unread(snapshot, broker.id)):
        return Reason(
            guard, Verdict.UNKNOWN, f"broker {broker.id} answers, but its log directories are not known: {why}"
        )
    text, failed = f"broker {broker.id} is not recovering its log", failed_directories(broker)
    if not failed:
        return Reason(guard, Verdict.ALLOW, text)
    if len(failed) == len(broker.directories or ()):
        message = f"every log directory of broker {broker.id} has failed, and Kafka does not start without one"
        return Reason(guard, Verdict.DENY, message)
    names = some([d.path for d in failed], 3)
    return Reason(guard, Verdict.ALLOW, f"{text}; its log directory {names} has failed; Kafka starts with the others")


def no_other_broker_disturbed(snapshot: Snapshot, question: RestartQuestion) -> tuple[Reason, ...]:
    """No other broker is down, recovering, or out of any ISR: none but those that the run itself has away. A replica on
    a failed log directory stays out of the ISR until a person replaces the disk, so that nobody waits for it;
    IsrStaysAboveMin counts it as gone. Nor does anybody wait for followers of a leader that serves nobody, which catch
    up only once the target has gone, nor for a stale broker that only its own restart, later in the run, lets catch
    up."""
    guard = NO_OTHER_BROKER_DISTURBED
    if snapshot.brokers is None or question.rows is None:
        what = "brokers" if snapshot.brokers is None else "partitions"
        return (Reason(guard, Verdict.UNKNOWN, f"the {what} are not known"),)
    excused = _excused(snapshot, question)
    others = [b for b in snapshot.brokers if b.id not in excused]
    waiting, later = not_served(snapshot, question), cannot_catch_up(snapshot, question)
    rows = [row for row in question.rows if row.tp not in waiting]
    reasons = [*_states(others), *_out_of_isr(snapshot, rows, excused, later)]
    if reasons:
        return tuple(reasons)
    lost = [
        f"{many(len(gone), 'replica')} on a failed log directory of broker {b.id}" for b in others if (gone := _lost(b))
    ]
    but = f", except {some(lost)}" if lost else ""
    return (Reason(guard, Verdict.ALLOW, f"every other broker is up and in every ISR{but}"),)


def nobody_disturbed(snapshot: Snapshot) -> tuple[Reason, ...]:
    """The same of every broker, none excused: each is up, recovers nothing and is in every ISR."""
    guard, rows = NO_OTHER_BROKER_DISTURBED, troubled_rows(snapshot)
    if snapshot.brokers is None or rows is None:
        what = "brokers" if snapshot.brokers is None else "partitions"
        return (Reason(guard, Verdict.UNKNOWN, f"the {what} are not known"),)
    if not snapshot.brokers:
        return (Reason(guard, Verdict.UNKNOWN, "the snapshot lists no broker"),)
    reasons = [*_states(list(snapshot.brokers), ""), *_out_of_isr(snapshot, rows, frozenset(), {})]
    return tuple(reasons) or (Reason(guard, Verdict.ALLOW, "every broker is up and in every ISR"),)


def _lost(broker: Broker) -> frozenset[TopicPartition]:
    """What a broker that is up has on its failed log directories."""
    return on_failed_directory(broker) if broker.live else frozenset()


def _excused(snapshot: Snapshot, question: RestartQuestion) -> frozenset[int]:
    """The target, those that the run has away, and those that only a new controller can declare gone."""
    return question.context.together | {question.broker} | undeclared(snapshot, question)


def _states(others: list[Broker], limit: str = " (limit: one at a time)") -> Iterator[Reason]:
    guard = NO_OTHER_BROKER_DISTURBED
    down = [b.id for b in others if b.registered is False or b.reachable is False]
    recovering = [b.id for b in others if b.recovering is True]
    if down:
        yield Reason(guard, Verdict.DENY, f"already down: broker {some(down)}{limit}")
    if recovering:
        yield Reason(guard, Verdict.WAIT, f"recovering its log: broker {some(recovering)}")
    unknown = [b.id for b in others if b.id not in down and None in (b.registered, b.reachable, b.recovering)]
    if unknown:
        message = f"whether it is registered, answering and recovered is not known: broker {some(unknown)}"
        yield Reason(guard, Verdict.UNKNOWN, message)


def _out_of_isr(
    snapshot: Snapshot,
    rows: Sequence[PartitionRow],
    excused: frozenset[int],
    later: Mapping[int, frozenset[TopicPartition]],
) -> Iterator[Reason]:
    guard = NO_OTHER_BROKER_DISTURBED
    brokers = {b.id: b for b in snapshot.brokers or ()}
    lost = {b.id: _lost(b) | later.get(b.id, NONE) for b in brokers.values()}
    behind: dict[int, int] = {}
    unlisted: set[int] = set()
    unknown = []
    for row in rows:
        replicas, isr = target_of(row), known_ids(row.isr)
        if replicas is None or isr is None:
            unknown.append(row.tp)
            continue
        for broker in replicas - isr - excused:
            if row.tp not in lost.get(broker, ()):
                behind[broker] = behind.get(broker, 0) + 1
        unlisted |= (replicas | isr) - brokers.keys() - excused
    if unlisted:
        message = f"holds replicas but is not part of the cluster: broker {some(sorted(unlisted))}"
        yield Reason(guard, Verdict.DENY, message)
    if behind:
        unsaid = "; which replicas are on its failed log directory is not known"
        text = [
            f"broker {b} ({many(n, 'partition')}{unsaid if _unsaid(brokers.get(b)) else ''})"
            for b, n in sorted(behind.items())
        ]
        yield Reason(guard, Verdict.WAIT, f"out of the ISR: {some(text)}")
    if unknown:
        yield Reason(guard, Verdict.UNKNOWN, f"replicas or ISR not known: {some(unknown)}")


def _unsaid(broker: Broker | None) -> bool:
    return broker is not None and bool(failed_directories(broker)) and broker.offline_replicas is None


def pods_ready_node_schedulable(snapshot: Snapshot, question: RestartQuestion) -> tuple[Reason, ...]:
    """The other brokers' Pods are Ready, no node under any of them is cordoned (a drain would take a second
    broker), and neither is the target's (its Pod could not come back)."""
    guard = PODS_READY_NODE_SCHEDULABLE
    if snapshot.brokers is None:
        return (Reason(guard, Verdict.UNKNOWN, "the brokers are not known"),)
    with_pods = [b.id for b in snapshot.brokers if b.pod is not None]
    if question.context.outside_kubernetes:
        if with_pods or snapshot.source("kubernetes") is not None:
            message = "the brokers run outside Kubernetes (as declared), but the snapshot has Pods"
            return (Reason(guard, Verdict.DENY, message),)
        return (
            Reason(
                guard, Verdict.ALLOW, "the brokers run outside Kubernetes (as declared), so there are no Pods to check"
            ),
        )
    if not with_pods:
        message = "no broker's Pod is known; if the brokers run outside Kubernetes, use --outside-kubernetes"
        return (Reason(guard, Verdict.UNKNOWN, message),)
    excused = undeclared(snapshot, question)
    reasons = [r for b in snapshot.brokers if b.id not in excused for r in _pod(b.id, b.pod, question)]
    for voter in snapshot.controllers_apart():
        # Of controllers whose Pods nobody names, the quorum's own word has to do, unless it is the target.
        if voter.pod is not None or voter.id == question.broker:
            reasons += _pod(voter.id, voter.pod, question)
    return tuple(reasons) or (Reason(guard, Verdict.ALLOW, "every other Pod is Ready, no node is cordoned"),)


def _pod(broker: int, pod: Pod | None, question: RestartQuestion) -> Iterator[Reason]:
    guard = PODS_READY_NODE_SCHEDULABLE
    if pod is None:
        yield Reason(guard, Verdict.UNKNOWN, f"the Pod of broker {broker} is not known")
        return
    if broker == question.broker:
        if pod.uid is None:
            message = f"the uid of Pod {pod.name} is not known, so a restart could delete another Pod"
            yield Reason(guard, Verdict.UNKNOWN, message)
    elif broker not in question.context.together:  # of those its node counts, which has to take it back
        yield from _readiness(broker, pod)
    at_target = broker == question.broker
    if not (at_target and question.context.cordon_is_cause):
        yield from _cordon(broker, pod, at_target)
        yield from _maintenance(broker, pod, at_target)


def _cordon(broker: int, pod: Pod, at_target: bool) -> Iterator[Reason]:
    guard, node = PODS_READY_NODE_SCHEDULABLE, pod.node or "(name not known)"
    if pod.cordoned is None:
        message = f"whether the node {node} of broker {broker} is cordoned is not known"
        yield Reason(guard, Verdict.UNKNOWN, message)
    elif pod.cordoned and at_target:
        message = f"the node {node} of broker {broker} is cordoned, so its Pod could not start there again"
        yield Reason(guard, Verdict.DENY, message)
    elif pod.cordoned:
        message = f"the node {node} of broker {broker} is cordoned, so a drain may stop that broker at any time"
        yield Reason(guard, Verdict.WAIT, message)


def _maintenance(broker: int, pod: Pod, at_target: bool) -> Iterator[Reason]:
    for sign in pod.maintenance or ():
        if at_target:
            message = f"{sign}; the Pod of broker {broker} may not start there again"
            yield Reason(PODS_READY_NODE_SCHEDULABLE, Verdict.DENY, message)
        else:
            yield Reason(PODS_READY_NODE_SCHEDULABLE, Verdict.WAIT, f"{sign}; broker {broker} may stop at any time")


def _readiness(broker: int, pod: Pod) -> Iterator[Reason]:
    guard = PODS_READY_NODE_SCHEDULABLE
    if pod.ready is None:
        yield Reason(guard, Verdict.UNKNOWN, f"whether Pod {pod.name} of broker {broker} is Ready is not known")
    elif not pod.ready:
        yield Reason(guard, Verdict.WAIT, f"Pod {pod.name} of broker {broker} is not Ready")


def no_foreign_rollout(snapshot: Snapshot, question: RestartQuestion) -> tuple[Reason, ...]:
    """Nobody else is replacing the brokers' Pods: of two that each take one broker at a time, both take two."""
    guard = NO_FOREIGN_ROLLOUT
    if question.context.outside_kubernetes:
        message = "the brokers run outside Kubernetes (as declared), so no rollout replaces them"
        return (Reason(guard, Verdict.ALLOW, message),)
    return nothing_rolls_out(snapshot, question.context.asked_for)


def nothing_rolls_out(snapshot: Snapshot, asked_for: frozenset[str] = frozenset()) -> tuple[Reason, ...]:
    """No StatefulSet or Strimzi replaces the brokers' Pods. One of them may take any broker away at any moment.
    asked_for: uids of Pods that carry Strimzi's annotation because the run put it there."""
    guard = NO_FOREIGN_ROLLOUT
    if snapshot.rollouts is None:
        if snapshot.source("rollouts") is None:
            # Observers of this project always name the source; the document's format does not ask others to.
            message = "the snapshot has no source rollouts; its writer must check for rollouts"
            return (Reason(guard, Verdict.ALLOW, message),)
        return (Reason(guard, Verdict.UNKNOWN, "whether a rollout of the brokers is in progress is not known"),)
    reasons = [f"{r}: {r.reason}" for r in snapshot.rollouts]
    reasons += [
        f"Pod {pod.name} has the annotation {STRIMZI_ROLL}, so Strimzi will restart it; wait, or remove the annotation"
        for pod in snapshot.every_pod()
        if pod.restart_asked and pod.uid not in asked_for
    ]
    if not reasons:
        return (Reason(guard, Verdict.ALLOW, "no rollout of the brokers is in progress"),)
    return tuple(Reason(guard, Verdict.WAIT, reason) for reason in reasons)
