"""Does the Pod that would go run the broker that was judged? Its name and its label are not evidence of that.

Only what answered at the Pod's own address counts (`Pod.answers_as`). A person can restart by hand what this guard does
not permit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kafka_medic.cluster.snapshot import Mode, Pod, Snapshot
from kafka_medic.guard.context import RestartQuestion
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.freshness import OWN_NAMES
from kafka_medic.guard.quorum import quorum_keeps_majority
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.resources.vocabulary import Guard

POD_IS_THAT_BROKER = Guard.POD_IS_THAT_BROKER
SOURCE = "pod-identity"


def pod_is_that_broker(snapshot: Snapshot, question: RestartQuestion) -> Reason:
    """The target's own Pod has answered as the target, and no other Pod has."""
    guard, broker = POD_IS_THAT_BROKER, question.broker
    if question.context.outside_kubernetes:
        message = "the brokers run outside Kubernetes (as declared), so no Pod can be mistaken for another"
        return Reason(guard, Verdict.ALLOW, message)
    pod = snapshot.pod_of(broker)
    if pod is None:
        return Reason(guard, Verdict.UNKNOWN, f"the Pod of broker {broker} is not known")
    if pod.answers_as is not None and pod.answers_as != broker:
        message = (
            f"Pod {pod.name} is broker {broker} by its name or label, but broker {pod.answers_as} answers at its own "
            f"address {pod.ip}. A restart would stop broker {pod.answers_as}; see PodIdentityMismatch"
        )
        return Reason(guard, Verdict.DENY, message)
    if others := [p.name for p in pods(snapshot) if p.answers_as == broker and p.uid != pod.uid]:
        message = (
            f"Pod {some(others)} has answered as broker {broker}, but by name or label broker {broker} runs in Pod "
            f"{pod.name}"
        )
        return Reason(guard, Verdict.DENY, message)
    if pod.answers_as == broker:
        return Reason(guard, Verdict.ALLOW, f"broker {broker} has answered at the own address of Pod {pod.name}")
    if snapshot.source(SOURCE) is None and not {s.name for s in snapshot.sources} & OWN_NAMES:
        # Observers of this project always name the source; the document's format does not ask others to.
        message = "the snapshot has no source pod-identity; its writer must check which broker each Pod runs"
        return Reason(guard, Verdict.ALLOW, message)
    return _by_elimination(snapshot, question, pod) or Reason(
        guard, Verdict.UNKNOWN, _unanswered(snapshot, pod, broker)
    )


def pods(snapshot: Snapshot) -> Iterator[Pod]:
    """Of the brokers, and of the controllers that are none."""
    yield from (b.pod for b in snapshot.brokers or () if b.pod is not None)
    yield from (v.pod for v in snapshot.controllers_apart() if v.pod is not None)


def _unanswered(snapshot: Snapshot, pod: Pod, broker: int) -> str:
    source = snapshot.source(SOURCE)
    why = f" ({source.error})" if source is not None and source.error else ""
    return (
        f"Pod {pod.name} is broker {broker} by its name or label alone: no broker {broker} has answered at "
        f"its own address {pod.ip or '(not known)'}{why}. Open that address, or restart it by hand: kubectl delete "
        f"pod {pod.name} -n {snapshot.cluster.in_commands}"
    )


def _by_elimination(snapshot: Snapshot, question: RestartQuestion, pod: Pod) -> Reason | None:
    """A controller's listener may not let the operator in. Where every broker has answered in another Pod, this Pod can
    only run one of the controllers that have not: it may go if the quorum spares each of these. None otherwise."""
    apart = snapshot.controllers_apart()
    if snapshot.cluster.mode is not Mode.KRAFT or question.broker not in {v.id for v in apart}:
        return None
    if any(b.pod is None or b.pod.answers_as != b.id for b in snapshot.brokers or ()):
        return None
    candidates = sorted(v.id for v in apart if v.pod is None or v.pod.answers_as is None)
    for candidate in candidates:
        reasons = quorum_keeps_majority(snapshot, replace(question, broker=candidate))
        if any(r.verdict is not Verdict.ALLOW for r in reasons):
            return None
    message = (
        f"what Pod {pod.name} runs is not known. Every broker has answered in another Pod, and the quorum keeps its "
        f"majority without any single one of controllers {some(candidates)}"
    )
    return Reason(POD_IS_THAT_BROKER, Verdict.ALLOW, message)
