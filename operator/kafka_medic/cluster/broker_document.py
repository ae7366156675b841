"""Brokers, Pods, rollouts and owners of topics in the Snapshot document. Each `_in` raises SnapshotDocumentError."""

from __future__ import annotations

from typing import Any

from kafka_medic.cluster.fields import SnapshotDocumentError, list_of, mapping, number, optional, required, whole
from kafka_medic.cluster.snapshot import (
    Broker,
    ClientSoftware,
    Directory,
    OwnerState,
    Pod,
    Rollout,
    TopicOwner,
    TopicPartition,
)


def broker_out(broker: Broker) -> dict[str, Any]:
    return {
        "id": broker.id,
        "rack": broker.rack,
        "host": broker.host,
        "port": broker.port,
        "registered": broker.registered,
        "reachable": broker.reachable,
        "recovering": broker.recovering,
        "remainingLogsToRecover": broker.remaining_logs,
        "remainingSegmentsToRecover": broker.remaining_segments,
        "bytesInRate": broker.bytes_in_rate,
        "diskFree": broker.disk_free,
        "directories": None
        if broker.directories is None
        else [
            {
                "path": d.path,
                "error": d.error,
                "totalBytes": d.total,
                "usableBytes": d.usable,
                "movingReplicas": d.moving,
            }
            for d in broker.directories
        ],
        "offlineReplicas": None if broker.offline_replicas is None else [list(tp) for tp in broker.offline_replicas],
        "unknownTopics": None if broker.unknown_topics is None else list(broker.unknown_topics),
        "version": broker.version,
        "clients": None
        if broker.clients is None
        else [{"name": c.name, "version": c.version, "connections": c.connections} for c in broker.clients],
        "pod": broker.pod and pod_out(broker.pod),
    }


def pod_out(pod: Pod) -> dict[str, Any]:
    return {
        "name": pod.name,
        "uid": pod.uid,
        "ip": pod.ip,
        "ready": pod.ready,
        "deleting": pod.deleting,
        "node": pod.node,
        "cordoned": pod.cordoned,
        "nodeReady": pod.node_ready,
        "maintenance": None if pod.maintenance is None else list(pod.maintenance),
        "ports": None if pod.ports is None else list(pod.ports),
        "answersAs": pod.answers_as,
        "restartAsked": pod.restart_asked,
        "hindrance": pod.hindrance,
    }


def broker_in(value: Any, path: str) -> Broker:
    item = mapping(value, path)
    pod, clients = item.get("pod"), item.get("clients")
    directories, offline = item.get("directories"), item.get("offlineReplicas")
    unknown = item.get("unknownTopics")
    return Broker(
        id=whole(required(item, "id", path), f"{path}.id"),
        rack=optional(item, "rack", path, str),
        host=optional(item, "host", path, str),
        port=optional(item, "port", path, int),
        registered=optional(item, "registered", path, bool),
        reachable=optional(item, "reachable", path, bool),
        recovering=optional(item, "recovering", path, bool),
        remaining_logs=_count(item, "remainingLogsToRecover", path),
        remaining_segments=_count(item, "remainingSegmentsToRecover", path),
        bytes_in_rate=number(item, "bytesInRate", path),
        disk_free=_count(item, "diskFree", path),
        directories=None if directories is None else _directories_in(directories, f"{path}.directories"),
        offline_replicas=None if offline is None else list_of(offline, f"{path}.offlineReplicas", _partition_in),
        unknown_topics=None if unknown is None else list_of(unknown, f"{path}.unknownTopics", _text),
        version=optional(item, "version", path, str),
        clients=None if clients is None else list_of(clients, f"{path}.clients", _client_in),
        pod=None if pod is None else pod_in(pod, f"{path}.pod"),
    )


def _directories_in(value: Any, path: str) -> tuple[Directory, ...]:
    found = list_of(value, path, _directory_in)
    if len({d.path for d in found}) < len(found):
        raise SnapshotDocumentError(path, "names a directory twice")
    return found


def _directory_in(value: Any, path: str) -> Directory:
    item = mapping(value, path)
    return Directory(
        path=_text(required(item, "path", path), f"{path}.path"),
        error=optional(item, "error", path, str),
        total=_count(item, "totalBytes", path),
        usable=_count(item, "usableBytes", path),
        moving=_count(item, "movingReplicas", path),
    )


def _partition_in(value: Any, path: str) -> TopicPartition:
    pair = list_of(value, path, lambda item, _: item)
    if len(pair) != 2:
        raise SnapshotDocumentError(path, "must be [topic, partition]")
    return TopicPartition(_text(pair[0], path), whole(pair[1], path))


def _client_in(value: Any, path: str) -> ClientSoftware:
    item = mapping(value, path)
    return ClientSoftware(
        name=_text(required(item, "name", path), f"{path}.name"),
        version=_text(required(item, "version", path), f"{path}.version"),
        connections=_count(item, "connections", path),
    )


def pod_in(value: Any, path: str) -> Pod:
    item = mapping(value, path)
    signs, ports = item.get("maintenance"), item.get("ports")
    return Pod(
        name=optional(item, "name", path, str) or "",
        uid=optional(item, "uid", path, str),
        ip=optional(item, "ip", path, str),
        ready=optional(item, "ready", path, bool),
        deleting=optional(item, "deleting", path, bool),
        node=optional(item, "node", path, str),
        cordoned=optional(item, "cordoned", path, bool),
        node_ready=optional(item, "nodeReady", path, bool),
        maintenance=None if signs is None else list_of(signs, f"{path}.maintenance", _text),
        ports=None if ports is None else list_of(ports, f"{path}.ports", whole),
        answers_as=_count(item, "answersAs", path),
        restart_asked=optional(item, "restartAsked", path, bool),
        hindrance=optional(item, "hindrance", path, str),
    )


def rollout_out(rollout: Rollout) -> dict[str, Any]:
    return {"kind": rollout.kind, "name": rollout.name, "reason": rollout.reason}


def rollout_in(value: Any, path: str) -> Rollout:
    item = mapping(value, path)
    kind, name = (_text(required(item, key, path), f"{path}.{key}") for key in ("kind", "name"))
    return Rollout(kind, name, optional(item, "reason", path, str) or "")


def owner_out(owner: TopicOwner) -> dict[str, Any]:
    return {
        "topic": owner.topic,
        "kind": owner.kind,
        "name": owner.name,
        "acts": owner.acts,
        "replicationFactor": owner.factor,
        "minInSyncReplicas": owner.min_isr,
        "minInSyncReplicasText": owner.min_isr_text,
        "keptBy": owner.kept_by,
        "uid": owner.uid,
        "paused": owner.paused,
        "state": None if owner.state is None else owner.state.value,
        "message": owner.message,
        "changing": owner.changing,
        "hindrance": owner.hindrance,
    }


def owner_in(value: Any, path: str) -> TopicOwner:
    item = mapping(value, path)
    topic, kind, name = (_text(required(item, key, path), f"{path}.{key}") for key in ("topic", "kind", "name"))
    acts = required(item, "acts", path)
    if not isinstance(acts, bool):
        raise SnapshotDocumentError(f"{path}.acts", "must be true or false")
    state = optional(item, "state", path, str)
    if state is not None and state not in set(OwnerState):
        raise SnapshotDocumentError(f"{path}.state", f"must be one of {', '.join(OwnerState)}, or null, not {state!r}")
    return TopicOwner(
        topic,
        kind,
        name,
        acts,
        factor=_count(item, "replicationFactor", path),
        min_isr=_count(item, "minInSyncReplicas", path),
        min_isr_text=optional(item, "minInSyncReplicasText", path, str),
        kept_by=optional(item, "keptBy", path, str),
        uid=optional(item, "uid", path, str),
        paused=optional(item, "paused", path, bool) or False,
        state=None if state is None else OwnerState(state),
        message=optional(item, "message", path, str),
        changing=optional(item, "changing", path, bool) or False,
        hindrance=optional(item, "hindrance", path, str),
    )


def _count(item: Any, key: str, path: str) -> int | None:
    value = optional(item, key, path, int)
    if value is not None and value < 0:
        raise SnapshotDocumentError(f"{path}.{key}", f"must be 0 or more, or null, not {value}")
    return value


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise SnapshotDocumentError(path, f"must be str, not {value!r}")
    return value
