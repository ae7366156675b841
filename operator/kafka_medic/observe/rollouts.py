"""Whether whoever owns the brokers' Pods is replacing them: a StatefulSet that updates or scales, a roll of Strimzi's,
Confluent for Kubernetes' or Koperator's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi, Object
from kafka_medic.cluster.snapshot import Rollout
from kafka_medic.observe.pod_owners import (
    CONFLUENT_GROUP,
    KOPERATOR,
    STATEFUL_SET,
    STRIMZI_POD_SET,
    Owner,
    owner_of,
)
from kafka_medic.report.units import many
from kafka_medic.resources.kafkacluster import STRIMZI_CLUSTER, STRIMZI_ROLL

CONFLUENT_PLURALS = {"Kafka": "kafkas", "KRaftController": "kraftcontrollers"}
CONFLUENT_BLOCK = "platform.confluent.io/block-reconcile"
KOPERATOR_ROLLS = "ClusterRollingUpgrading"
KOPERATOR_STALE = "ConfigOutOfSync"
KOPERATOR_MOVES = re.compile(r"Graceful\w+(Required|Running|Scheduled)")
"""States of `GracefulActionState` in which Cruise Control moves replicas for Koperator, or is about to."""
STRIMZI_PAUSE = "strimzi.io/pause-reconciliation"
REBALANCING = frozenset({"Rebalancing", "Stopping"})
"""States of a KafkaRebalance (its conditions' types) in which Cruise Control moves replicas or leaders."""
LOSE_CLAIMS = "strimzi.io/delete-pod-and-pvc"
STOPPED_ROLL = frozenset({"ForceableProblem", "UnforceableProblem", "FatalProblem"})
"""Reasons of a Kafka resource's condition NotReady where Strimzi gave up a roll half-way; it begins again within two
minutes (`KafkaRoller` of Strimzi 1.2.0)."""
STRIMZI_DOMAIN = "strimzi.io/"
ROLL_BY_HAND = (STRIMZI_ROLL, LOSE_CLAIMS)
"""Annotations that ask Strimzi to replace a Pod, or all Pods of a set. The first one on a Pod is that Pod's own matter,
`Pod.restart_asked`, since it may be the operator's own."""


def rollouts_of(api: KubernetesApi, namespace: str, pods: Sequence[Object]) -> tuple[Rollout, ...]:
    """Raises ApiFailure, and ReadFailed for an owner of a kind whose rollouts cannot be told."""
    owned: dict[tuple[str, str, str], list[Object]] = {}
    for pod in pods:
        if (owner := owner_of(pod)) is not None:
            owned.setdefault((owner.version, owner.kind, owner.name), []).append(pod)
    found: list[Rollout] = []
    for (version, kind, name), its_pods in sorted(owned.items(), key=lambda item: item[0]):
        owner = Owner(version, kind, name)
        if owner.known_as == STATEFUL_SET:
            holder = _get(api, f"/apis/{version}/namespaces/{namespace}/statefulsets/{name}")
            reasons = _stateful_set(holder, its_pods) if holder else iter(("it no longer exists",))
            found += _confluent(api, namespace, owner_of(holder) if holder else None)
        elif owner.known_as == STRIMZI_POD_SET:
            holder = _get(api, f"/apis/{version}/namespaces/{namespace}/strimzipodsets/{name}")
            reasons = _strimzi_pod_set(holder, its_pods) if holder else iter(("it no longer exists",))
            found += _strimzi_cluster(api, namespace, name, version.partition("/")[2], holder, found)
        elif owner.known_as == KOPERATOR:
            holder = _get(api, f"/apis/{version}/namespaces/{namespace}/kafkaclusters/{name}")
            reasons = _koperator(holder) if holder else iter(("it no longer exists",))
        else:
            reason = f"Pod {its_pods[0]['metadata']['name']} belongs to {kind} {name}, whose rollouts are not known"
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
    the strategy OnDelete, or a partition, `currentRevision` stays behind for ever."""
    spec, status = holder["spec"], holder.get("status") or {}
    yield from _not_seen(holder)
    latest, current = status.get("updateRevision"), status.get("currentRevision")
    strategy = spec.get("updateStrategy") or {}
    partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
    concerned = [pod for pod in pods if _place(pod, spec) >= partition]
    labels = [(p["metadata"].get("labels") or {}).get("controller-revision-hash") for p in concerned]
    old = sum(label is not None and label != latest for label in labels)
    if latest and old:
        yield f"{len(concerned) - old} of {many(len(concerned), 'Pod')} at revision {latest}"
    elif latest and current != latest and not partition and strategy.get("type") != "OnDelete":
        yield f"the revision {current} is being replaced by {latest}"
    if spec.get("replicas", 1) != status.get("replicas", 0):
        yield f"it is being scaled from {status.get('replicas', 0)} to {spec.get('replicas', 1)} Pods"


def _confluent(api: KubernetesApi, namespace: str, owner: Owner | None) -> Iterator[Rollout]:
    """What the resource of Confluent's behind a StatefulSet says, which is the first to know. Its condition
    cluster-ready is False also where a broker is ill, so that nothing would ever cure one."""
    if owner is None or owner.known_as[0] != CONFLUENT_GROUP or owner.kind not in CONFLUENT_PLURALS:
        return
    plural = CONFLUENT_PLURALS[owner.kind]
    holder = _get(api, f"/apis/{owner.version}/namespaces/{namespace}/{plural}/{owner.name}")
    reasons = list(_confluent_says(holder)) if holder else ["it no longer exists"]
    if reasons:
        yield Rollout(owner.kind, owner.name, "; ".join(reasons))


def _confluent_says(holder: Object) -> Iterator[str]:
    if "observedGeneration" in (holder.get("status") or {}):  # releases without it say nothing by that
        yield from _not_seen(holder)
    if asks_for_roll(holder, CONFLUENT_BLOCK):
        yield f"its reconciliation is blocked ({CONFLUENT_BLOCK}), and its Pods are replaced once that is taken off"


def _koperator(holder: Object) -> Iterator[str]:
    """Its status has no generation that was observed. It is marked as rolling before the first Pod goes
    (`Reconciler.handleRollingUpgrade`), and brokers as out of sync before that."""
    status = holder.get("status") or {}
    if status.get("state") == KOPERATOR_ROLLS:
        yield f"its state is {KOPERATOR_ROLLS}"
    nodes: dict[str, Object] = status.get("brokersState") or {}
    if stale := [node for node, state in nodes.items() if state.get("configurationState") == KOPERATOR_STALE]:
        yield f"it is about to restart broker {', '.join(sorted(stale, key=_by_number))} ({KOPERATOR_STALE})"
    moves = {
        node: word
        for node, state in nodes.items()
        for word in _cruise_control(state.get("gracefulActionState") or {})
        if KOPERATOR_MOVES.fullmatch(word)
    }
    for node in sorted(moves, key=_by_number)[:1]:
        more = f", and for {len(moves) - 1} more" if len(moves) > 1 else ""
        yield f"Cruise Control moves replicas for broker {node} ({moves[node]}){more}"


def _cruise_control(action: Object) -> Iterator[str]:
    yield str(action.get("cruiseControlState", ""))
    yield from (str(v.get("cruiseControlVolumeState", "")) for v in (action.get("volumeStates") or {}).values())


def _by_number(text: str) -> tuple[int, str]:
    return len(text), text


def _place(pod: Object, spec: Object) -> int:
    """Among the set's Pods, counted from 0: those before `partition` keep their revision, also when they are made
    anew."""
    number = pod["metadata"]["name"].rpartition("-")[2]
    return int(number) - int((spec.get("ordinals") or {}).get("start") or 0) if number.isdigit() else 0


def _strimzi_pod_set(holder: Object, pods: Sequence[Object]) -> Iterator[str]:
    status = holder.get("status") or {}
    yield from _not_seen(holder)
    if (current := status.get("currentPods", 0)) < (every := status.get("pods", 0)):
        yield f"{current} of {many(every, 'Pod')} at the latest revision"
    elif old := _outdated(holder, pods):
        yield f"{old} of {many(len(pods), 'Pod')} without the new certificate or configuration"
    yield from _by_hand([holder])


def _outdated(holder: Object, pods: Sequence[Object]) -> int:
    """How many Pods lack an annotation of Strimzi's that the set has for them. A new key of the cluster CA changes no
    revision, and Strimzi rolls for it first (`CaReconciler`)."""
    wanted = {pod["metadata"]["name"]: _of_strimzi(pod) for pod in (holder.get("spec") or {}).get("pods") or ()}
    return sum(bool(wanted.get(pod["metadata"]["name"], set()) - _of_strimzi(pod)) for pod in pods)


def _of_strimzi(pod: Object) -> set[tuple[str, str]]:
    notes = pod["metadata"].get("annotations") or {}
    return {(key, value) for key, value in notes.items() if key.startswith(STRIMZI_DOMAIN)}


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
    reasons = list(_kafka(kafka)) if kafka else ["it no longer exists"]
    pools = _of_cluster(api, f"{kinds}/kafkanodepools", cluster)
    if changed := sorted(pool["metadata"]["name"] for pool in pools if any(_not_seen(pool))):
        reasons.append(f"the latest change of KafkaNodePool {', '.join(changed)} has not been acted on yet")
    if reasons:
        yield Rollout("Kafka", cluster, "; ".join(reasons))
    for item in _of_cluster(api, f"{kinds}/kafkarebalances", cluster):
        states = [c["type"] for c in (item.get("status") or {}).get("conditions") or () if c.get("status") == "True"]
        if moving := REBALANCING.intersection(states):
            reason = f"Cruise Control is moving replicas ({min(moving)})"
            yield Rollout("KafkaRebalance", item["metadata"]["name"], reason)


def _of_cluster(api: KubernetesApi, path: str, cluster: str) -> Sequence[Object]:
    try:
        return api.list(path, {"labelSelector": f"{STRIMZI_CLUSTER}={cluster}"})
    except ApiFailure as problem:
        if problem.not_found:  # the type is not installed, so there is none
            return ()
        raise


def _kafka(kafka: Object) -> Iterator[str]:
    yield from _not_seen(kafka)
    if asks_for_roll(kafka, STRIMZI_PAUSE):
        yield f"its reconciliation is paused ({STRIMZI_PAUSE}): Strimzi would ignore the restart annotation"
    wanted, status = (kafka["spec"].get("kafka") or {}).get("version"), kafka.get("status") or {}
    if wanted and (runs := status.get("kafkaVersion")) and wanted != runs:
        yield f"Kafka is to become {wanted}, and is {runs}"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "NotReady" and condition.get("reason") in STOPPED_ROLL:
            why = condition.get("message") or condition["reason"]
            yield f"a roll of Strimzi's has stopped half-way, and Strimzi begins it again: {why}"


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
