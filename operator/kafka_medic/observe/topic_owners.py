"""Whose object says what a topic is to be, and whether its operator acts on it (`owner_kinds`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi, Object
from kafka_medic.cluster.min_isr import MIN_ISR, whole
from kafka_medic.cluster.snapshot import TopicOwner
from kafka_medic.observe.owner_kinds import KINDS, STRIMZI, OwnerKind

GIT = {
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "argocd.argoproj.io/instance": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
}
"""Labels and annotations of those who put an object back to what Git has."""
GIT_MANAGERS = {
    "argocd-controller": "Argo CD",
    "argocd-application-controller": "Argo CD",
    "kustomize-controller": "Flux",
    "helm-controller": "Flux",
}
"""And the field managers under which they apply it."""
SHOWN = 64
FORBIDDEN = 403
NOT_GRANTED = "the chart does not let kafka-medic edit KafkaTopics (strimzi.topics: edit)"


def kind_of(labels: Mapping[str, str]) -> tuple[OwnerKind, str] | None:
    """Which objects describe the topics of brokers that are selected by these labels, and the name of their cluster;
    None where the labels are nobody's whose operator is known."""
    return next(((kind, labels[kind.of_cluster]) for kind in KINDS if kind.of_cluster in labels), None)


def topic_owners(
    api: KubernetesApi,
    namespace: str,
    labels: Mapping[str, str],
    may: Callable[[str, str, str], bool | None] = lambda *_: None,
) -> tuple[TopicOwner, ...]:
    """Those in the brokers' namespace. labels: by which the brokers are selected. may: whether the operator
    may do something there, by API group, resource and verb. Raises ReadFailed."""
    known = kind_of(labels)
    if known is None:
        return ()
    kind, cluster = known
    try:
        base = _served(api, namespace, kind)
        found = [] if base is None else api.list(f"{base}/kafkatopics", _query(kind, cluster))
    except ApiFailure as problem:
        failure = FailureKind.AUTHORIZATION if problem.status == FORBIDDEN else FailureKind.UNREACHABLE
        raise ReadFailed(failure, f"KafkaTopics: {problem.message}") from None
    # Confluent's Pods name no cluster: its objects are those of the namespace.
    ours = found if kind.of_cluster == "platform.confluent.io/type" else [f for f in found if kind.belongs(f, cluster)]
    hindrance = _hindrance(kind, may) if ours else None
    return tuple(_owner(each, kind, hindrance) for each in ours)


def _served(api: KubernetesApi, namespace: str, kind: OwnerKind) -> str | None:
    try:
        served = {version["version"] for version in api.get(f"/apis/{kind.group}")["versions"]}
    except ApiFailure as problem:
        if problem.not_found:
            return None
        raise
    version = next((each for each in kind.versions if each in served), kind.versions[-1])
    return f"/apis/{kind.group}/{version}/namespaces/{namespace}"


def _query(kind: OwnerKind, cluster: str) -> Mapping[str, str] | None:
    return {"labelSelector": f"{kind.of_cluster}={cluster}"} if kind is STRIMZI else None


def _hindrance(kind: OwnerKind, may: Callable[[str, str, str], bool | None]) -> str | None:
    """Why kafka-medic edits none of them; None where nothing is known against it."""
    if kind is not STRIMZI:
        return f"kafka-medic does not edit objects of {kind.group}"
    refused = any(may(kind.group, "kafkatopics", verb) is False for verb in ("get", "patch"))
    return NOT_GRANTED if refused else None


def _owner(found: Object, kind: OwnerKind, hindrance: str | None) -> TopicOwner:
    meta, spec = found["metadata"], found.get("spec") or {}
    notes = meta.get("annotations") or {}
    paused, managed = kind.paused(notes), kind.managed(notes)
    state, message = kind.state(found)
    least = (spec.get(kind.settings) or {}).get(MIN_ISR)
    return TopicOwner(
        topic=spec.get(kind.topic) or meta["name"],
        kind=kind.name,
        name=meta["name"],
        acts=managed and not paused,
        factor=_number(spec.get(kind.replicas)) if kind.replicas else None,
        min_isr=_number(least),
        min_isr_text=_other_text(least),
        kept_by=_kept_by(meta),
        uid=meta.get("uid"),
        paused=managed and paused,
        state=state,
        message=message,
        changing=bool((found.get("status") or {}).get("replicasChange")),
        hindrance=hindrance,
    )


def _kept_by(meta: Object) -> str | None:
    named = {*(meta.get("annotations") or {}), *(meta.get("labels") or {})}
    found = next((tool for key, tool in GIT.items() if key in named), None)
    managers = {entry.get("manager") for entry in meta.get("managedFields") or ()}
    return found or next((tool for name, tool in GIT_MANAGERS.items() if name in managers), None)


def _number(value: object) -> int | None:
    """Settings may be numbers or strings. None for what is no number, whoever wrote it."""
    return whole(str(value))


def _other_text(value: object) -> str | None:
    """What is there, where that is another text than its number's, so that a compare-and-set can name it."""
    text = str(value)
    return None if value is None or text == str(whole(text)) else text[:SHOWN]
