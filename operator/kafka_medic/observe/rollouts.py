"""Whether whoever owns the brokers' Pods is replacing them: a StatefulSet that updates or scales, a Strimzi roll."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi, Object
from kafka_medic.cluster.snapshot import Rollout
from kafka_medic.resources.kafkacluster import STRIMZI_CLUSTER, STRIMZI_ROLL

STRIMZI_GROUP = "core.strimzi.io"
STRIMZI_PAUSE = "strimzi.io/pause-reconciliation"
REBALANCING = frozenset({"Rebalancing", "Stopping"})
"""States of a KafkaRebalance (its conditions' types) in which Cruise Control moves replicas or leaders."""
LOSE_CLAIMS = "strimzi.io/delete-pod-and-pvc"
ROLL_BY_HAND = (STRIMZI_ROLL, LOSE_CLAIMS)
"""Annotations that ask Strimzi to replace a Pod, or all Pods of a set. The first one on a Pod is that Pod's own matter,
`Pod.restart_asked`, since it may be the operator's own."""


def rollouts_of(api: KubernetesApi, namespace: str, pods: Sequence[Object]) -> tuple[Rollout, ...]:
    """Raises ApiFailure, and ReadFailed for an owner of a kind whose rollouts cannot be told."""
    owned: dict[tuple[str, str, str], list[Object]] = {}
    for pod in pods:
        for owner in pod["metadata"].get("ownerReferences") or []:
            if owner.get("controller"):
                owned.setdefault((owner["apiVersion"], owner["kind"], owner["name"]), []).append(pod)
    found: list[Rollout] = []
    for (version, kind, name), its_pods in sorted(owned.items(), key=lambda item: item[0]):
        group = version.partition("/")[0]
        if (group, kind) == ("apps", "StatefulSet"):
            holder = _get(api, f"/apis/{version}/namespaces/{namespace}/statefulsets/{name}")
            reasons = _stateful_set(holder, its_pods) if holder else iter(("it does not exist any more",))
        elif (group, kind) == (STRIMZI_GROUP, "StrimziPodSet"):
            holder = _get(api, f"/apis/{version}/namespaces/{namespace}/strimzipodsets/{name}")
            reasons = _strimzi_pod_set(holder) if holder else iter(("it does not exist any more",))
            found += _strimzi_cluster(api, namespace, name, version.partition("/")[2], holder, found)
        else:
            reason = f"Pod {its_pods[0]['metadata']['name']} belongs to {kind} {name}, whose rollouts cannot be told"
            raise ReadFailed(FailureKind.UNSUPPORTED, reason)
        reason = "; ".join((*reasons, *_by_hand(its_pods, (LOSE_CLAIMS,))))
        if reason:
            found.append(Rollout(kind, name, reason))
    return tuple(found)


def _get(api: KubernetesApi, path: str) -> Object | None:
    try:
        return api.get(path)
    except ApiFailure as problem:
        if problem.not_found:
            return None
        raise


def _stateful_set(holder: Object, pods: Sequence[Object]) -> Iterator[str]:
    """By its Pods' own revisions, since the counts in status leave out a Pod that is going, rollout or not; and with
    the strategy OnDelete `currentRevision` stays behind for ever."""
    spec, status = holder["spec"], holder.get("status") or {}
    yield from _not_seen(holder)
    latest, current = status.get("updateRevision"), status.get("currentRevision")
    labels = [(p["metadata"].get("labels") or {}).get("controller-revision-hash") for p in pods]
    old = sum(label is not None and label != latest for label in labels)
    if latest and old:
        yield f"{len(pods) - old} of {len(pods)} Pods have the revision {latest}"
    elif latest and current != latest and (spec.get("updateStrategy") or {}).get("type") != "OnDelete":
        yield f"the revision {current} is being replaced by {latest}"
    if spec.get("replicas", 1) != status.get("replicas", 0):
        yield f"it is being scaled from {status.get('replicas', 0)} to {spec.get('replicas', 1)} Pods"


def _strimzi_pod_set(holder: Object) -> Iterator[str]:
    status = holder.get("status") or {}
    yield from _not_seen(holder)
    if (current := status.get("currentPods", 0)) < (every := status.get("pods", 0)):
        yield f"{current} of {every} Pods have the latest revision"
    yield from _by_hand([holder])


def _strimzi_cluster(
    api: KubernetesApi, namespace: str, name: str, version: str, holder: Object | None, found: Sequence[Rollout]
) -> Iterator[Rollout]:
    """What the Kafka resource behind a set of Pods says, which is the first to know: a set shows nothing while Strimzi
    rolls brokers for a setting that they read only when they start."""
    if holder is None:
        return
    cluster = (holder["metadata"].get("labels") or {}).get(STRIMZI_CLUSTER)
    if not cluster:
        reason = f"StrimziPodSet {name} has no label {STRIMZI_CLUSTER}, so its Kafka resource cannot be read"
        raise ReadFailed(FailureKind.UNSUPPORTED, reason)
    if any(r.kind in ("Kafka", "KafkaRebalance") for r in found):
        return  # another pool of the same cluster
    kinds = f"/apis/kafka.strimzi.io/{version}/namespaces/{namespace}"
    kafka = _get(api, f"{kinds}/kafkas/{cluster}")
    reasons = list(_kafka(kafka)) if kafka else ["it does not exist any more"]
    if reasons:
        yield Rollout("Kafka", cluster, "; ".join(reasons))
    for item in _rebalances(api, f"{kinds}/kafkarebalances", cluster):
        states = [c["type"] for c in (item.get("status") or {}).get("conditions") or () if c.get("status") == "True"]
        if moving := REBALANCING.intersection(states):
            yield Rollout("KafkaRebalance", item["metadata"]["name"], f"Cruise Control is at it ({min(moving)})")


def _rebalances(api: KubernetesApi, path: str, cluster: str) -> Sequence[Object]:
    try:
        return api.list(path, {"labelSelector": f"{STRIMZI_CLUSTER}={cluster}"})
    except ApiFailure as problem:
        if problem.not_found:  # the type is not installed, so there is none
            return ()
        raise


def _kafka(kafka: Object) -> Iterator[str]:
    yield from _not_seen(kafka)
    if asks_for_roll(kafka, STRIMZI_PAUSE):
        yield f"its reconciliation is paused ({STRIMZI_PAUSE}): Strimzi would not act on what is asked of it"


def _not_seen(holder: Object) -> Iterator[str]:
    if (holder.get("status") or {}).get("observedGeneration", 0) < holder["metadata"].get("generation", 0):
        yield "its latest change has not been acted on yet"


def asks_for_roll(holder: Object, key: str) -> bool:
    """Whether that annotation says so, as Strimzi reads it (`Annotations.booleanAnnotation`)."""
    return str((holder["metadata"].get("annotations") or {}).get(key, "")).lower() == "true"


def _by_hand(holders: Sequence[Object], keys: Sequence[str] = ROLL_BY_HAND) -> Iterator[str]:
    for holder in holders:
        for key in keys:
            if asks_for_roll(holder, key):
                yield f"{holder['metadata']['name']} has the annotation {key}"
