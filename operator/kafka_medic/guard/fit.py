"""Is a broker fit to receive a leadership or a replica? One guard for every effect that gives one.

Kafka itself asks only that a new leader is registered and in the ISR, and that a new replica's broker is registered. So
it elects a broker whose metadata is stale: that broker does not know that it leads, and nobody can write or read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kafka_medic.cluster.agreement import agreement
from kafka_medic.cluster.snapshot import Broker, Pod, Snapshot, TopicPartition
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Guard

FIT_TO_RECEIVE = Guard.FIT_TO_RECEIVE


def fit_to_receive(
    snapshot: Snapshot, receivers: Collection[int], partitions: Collection[TopicPartition] = ()
) -> tuple[Reason, ...]:
    """Each receiver is registered, answers, has reported its own view in this observation, which agrees with what is
    decided, recovers no log, and its Pod is not about to go. More than half of the brokers reported their view, and
    none of `partitions` is undecided."""
    if snapshot.brokers is None or snapshot.partitions is None or snapshot.views is None:
        what = [n for n in ("brokers", "partitions", "views") if getattr(snapshot, n) is None]
        return (Reason(FIT_TO_RECEIVE, Verdict.UNKNOWN, f"not known: {some(what)}"),)
    if not receivers:
        return (Reason(FIT_TO_RECEIVE, Verdict.ALLOW, "no broker receives a replica or leadership"),)
    reasons = [*_witnessed(snapshot), *_decided(snapshot, partitions)]
    for broker_id in sorted(set(receivers)):
        reasons += unfit(snapshot, broker_id)
    if reasons:
        return tuple(reasons)
    return (Reason(FIT_TO_RECEIVE, Verdict.ALLOW, f"broker {some(sorted(set(receivers)))} is fit to receive"),)


def fit_brokers(snapshot: Snapshot) -> frozenset[int] | None:
    """Every broker that could receive something now; None when brokers, views or partitions are not known."""
    if snapshot.brokers is None or snapshot.views is None or snapshot.partitions is None:
        return None
    if any(_witnessed(snapshot)):
        return frozenset()
    return frozenset(b.id for b in snapshot.brokers if not any(unfit(snapshot, b.id)))


def unfit(snapshot: Snapshot, broker_id: int) -> Iterator[Reason]:
    """Why this broker must not receive anything now; nothing when it may."""
    broker = snapshot.broker(broker_id)
    if broker is None:
        yield _deny(f"broker {broker_id} is not part of the cluster")
        return
    yield from _up(broker)
    yield from own_view(snapshot, broker_id, FIT_TO_RECEIVE, "so the broker would not serve what it receives")
    yield from about_to_go(snapshot, broker)


def _witnessed(snapshot: Snapshot) -> Iterator[Reason]:
    found = agreement(snapshot)
    if not found.witnessed:
        yield _unknown(
            f"{found.reporting} of {many(found.voters, 'registered broker')} reported their view (required: a majority)"
        )


def _decided(snapshot: Snapshot, partitions: Collection[TopicPartition]) -> Iterator[Reason]:
    found = agreement(snapshot)
    if open_ := sorted(set(partitions) & set(found.undecided)):
        accounts = "; ".join(found.accounts_of(open_[0]))
        yield _unknown(f"brokers differ on {some(open_, 5)}, and no majority decides: {accounts}")


def _up(broker: Broker) -> Iterator[Reason]:
    if broker.registered is False:
        yield _deny(f"broker {broker.id} is not registered")
    elif broker.reachable is False:
        yield _deny(f"broker {broker.id} does not answer")
    elif broker.registered is None or broker.reachable is None:
        yield _unknown(f"whether broker {broker.id} is registered and answers is not known")
    if broker.recovering:
        yield _wait(f"broker {broker.id} is recovering its log")
    elif broker.recovering is None and broker.registered is not False:
        yield _unknown(f"whether broker {broker.id} is recovering its log is not known")


def own_view(snapshot: Snapshot, broker_id: int, guard: Guard, otherwise: str) -> Iterator[Reason]:
    """Why the broker's own view is not known to agree with what is decided, and what follows when it does not."""
    view = next((v for v in snapshot.views or () if v.broker == broker_id), None)
    if view is None or view.members is None or view.leaders is None:
        yield Reason(guard, Verdict.UNKNOWN, f"broker {broker_id} did not report its own view of the cluster")
        return
    agreed = agreement(snapshot)
    if broker_id in agreed.unidentified:
        message = f"broker {broker_id} reports topics without ids; these topics may be deleted"
        yield Reason(guard, Verdict.UNKNOWN, message)
    if (undecided := agreed.doubted.get(broker_id)) is not None:
        yield Reason(guard, Verdict.UNKNOWN, f"the view of broker {broker_id} may be stale: {undecided}")
    found = agreed.disagreements.get(broker_id)
    if found is not None:
        differences = [f"it lacks broker {some(found.absent)}"] if found.absent else []
        differences += [f"it still lists broker {some(found.ghosts)}"] if found.ghosts else []
        differences += [f"it reports broker {found.controller} as controller"] if found.controller is not None else []
        differences += found.examples(3)
        yield Reason(
            guard, Verdict.DENY, f"the view of broker {broker_id} is stale, {otherwise}: {some(differences, 3)}"
        )


def _pod(broker_id: int, pod: Pod | None) -> Iterator[Reason]:
    if pod is None or pod.deleting is None or pod.cordoned is None or pod.maintenance is None:
        yield _unknown(f"whether the Pod of broker {broker_id} is about to go is not known")
        return
    if pod.deleting:
        yield _wait(f"Pod {pod.name} of broker {broker_id} is being deleted")
    if pod.cordoned:
        yield _wait(f"the node {pod.node or '(name not known)'} of broker {broker_id} is cordoned")
    for sign in pod.maintenance:
        yield _wait(f"{sign}; broker {broker_id} may stop at any time")


def about_to_go(snapshot: Snapshot, broker: Broker) -> Iterator[Reason]:
    """Why its Pod may go at any time, or that this is not known."""
    # Where the Pods were listed and none runs this broker, there is none that could go.
    if not snapshot.without_pod(broker.id):
        yield from _pod(broker.id, broker.pod)


def _deny(message: str) -> Reason:
    return Reason(FIT_TO_RECEIVE, Verdict.DENY, message)


def _unknown(message: str) -> Reason:
    return Reason(FIT_TO_RECEIVE, Verdict.UNKNOWN, message)


def _wait(message: str) -> Reason:
    return Reason(FIT_TO_RECEIVE, Verdict.WAIT, message)
