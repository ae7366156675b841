"""KafkaTopics of Strimzi: the pause that Strimzi knows, and two values of spec. Each write is a compare-and-set."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafka_medic.clients.failures import FailureKind, WriteFailed
from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi, Object
from kafka_medic.clients.strimzi_types import strimzi_types
from kafka_medic.cluster.owner_commands import REPLICAS, STRIMZI_PAUSE, patch_of
from kafka_medic.cluster.owners import OwnerObject

KIND = "KafkaTopic"
PAUSE, PAUSED = STRIMZI_PAUSE
Change = Callable[[Object], Object | None]
"""From the object as it is to a merge patch; None: nothing to do."""


class KafkaTopics:
    """Those of one namespace."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self._api, self._namespace = api, namespace

    def pause(self, owner: OwnerObject) -> None:
        self._write(owner, lambda found: None if _paused(found) else _annotated(PAUSED))

    def resume(self, owner: OwnerObject) -> None:
        self._write(owner, lambda found: _annotated(None) if _paused(found) else None)

    def edit(self, owner: OwnerObject, values: Mapping[str, tuple[str | None, str]]) -> None:
        def change(found: Object) -> Object | None:
            due: dict[str, str] = {}
            for name, (before, after) in values.items():
                present = _value(found, name)
                if present not in (before, after):
                    message = f"not sent: {owner} has {name} {present or 'unset'} (planned from: {before or 'unset'})"
                    raise WriteFailed(FailureKind.REFUSED, message)
                if present != after:
                    due[name] = after
            return patch_of(owner.kind, due) if due else None

        self._write(owner, change)

    def _write(self, owner: OwnerObject, change: Change) -> None:
        if owner.kind != KIND:
            raise WriteFailed(FailureKind.UNSUPPORTED, f"not sent: {owner} is not an object that is edited")
        try:
            kinds = strimzi_types(self._api, self._namespace)
            if kinds is None:
                return  # as an object that is gone
            path = f"{kinds}/kafkatopics/{owner.name}"
            found = self._api.get(path)
            meta = found["metadata"]
            patch = None if meta["uid"] != owner.uid else change(found)
            if patch is not None:
                held = {"uid": owner.uid, "resourceVersion": meta["resourceVersion"]}
                self._api.merge(path, {**patch, "metadata": {**patch.get("metadata", {}), **held}})
        except ApiFailure as problem:
            if problem.not_found:
                return  # the next observation tells
            known = {401: FailureKind.AUTHORIZATION, 403: FailureKind.AUTHORIZATION, 409: FailureKind.REFUSED}
            kind = known.get(problem.status, FailureKind.UNREACHABLE)
            raise WriteFailed(kind, f"Kubernetes: {owner}: {problem}") from None


def _annotated(value: str | None) -> Object:
    return {"metadata": {"annotations": {PAUSE: value}}}


def _paused(found: Object) -> bool:
    return str((found["metadata"].get("annotations") or {}).get(PAUSE, "")).lower() == PAUSED


def _value(found: Object, name: str) -> str | None:
    spec = found.get("spec") or {}
    value = spec.get(REPLICAS) if name == REPLICAS else (spec.get("config") or {}).get(name)
    return None if value is None else str(value)
