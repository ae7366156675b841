"""An API server in memory: objects by path, compare-and-set, the status subresource, access reviews."""

from __future__ import annotations

import functools
import itertools
import marshal
import re
from collections.abc import Callable
from typing import Any

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.cluster.clock import EXACT, Skew

Object = dict[str, Any]


UNCHANGING = re.compile(r"/apis/admissionregistration\.k8s\.io/|/apis/kafkamedic\.dev/v1alpha1/playbooks/")
"""What nobody changes."""
SHARED = re.compile(f"/api/v1/nodes/|{UNCHANGING.pattern}")
"""What an operator only reads, and again in every look: handed out as it is."""


def _copy(value: Any) -> Any:
    """What copy.deepcopy answers for plain data, several times faster."""
    return marshal.loads(marshal.dumps(value))


def _label(found: Object, key: str) -> str | None:
    """None as well where a test gives its objects no labels, since it has but one kind."""
    return (found["metadata"].get("labels") or {}).get(key)


def _merged(value: Object, patch: Object) -> Object:
    """JSON merge patch (RFC 7386)."""
    merged = {**value}
    for key, new in patch.items():
        if new is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key) or {}, new) if isinstance(new, dict) else new
    return merged


def _allows(rule: Object, asked: Object) -> bool:
    keys = {"verbs": "verb", "apiGroups": "group", "resources": "resource"}
    return all(not {asked[key], "*"}.isdisjoint(rule[many]) for many, key in keys.items())


@functools.lru_cache(10_000)
def _collection(path: str) -> tuple[str, str]:
    """Group and plural of an object, in whatever namespace it is."""
    group, _, plural = path.rpartition("/")[0].rpartition("/")
    before, namespaces, inside = group.rpartition("/namespaces/")
    return (before if namespaces and "/" not in inside else group), plural


class SimApi:
    """The part of `KubernetesApi` that the controller uses. `approvers`: users, or `group:NAME`, with the verb
    `approve`; `created_at`: the creationTimestamp of what is created next; `skew`: what its answers tell of its
    clock."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.approvers: set[str] = set()
        self.rules: list[Object] = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        self.created_at = "2026-01-01T00:00:00Z"
        self.events: list[tuple[str, str]] = []
        self.status_writes = 0
        self.skew: Skew | None = EXACT
        self.evicted: Callable[[str], None] | None = None
        self._numbers = itertools.count(1)

    def put(self, collection: str, body: Object) -> Object:
        """As an administrator: create or replace without any check."""
        stored = _copy(body)
        meta = stored["metadata"]
        meta.setdefault("uid", f"uid-{next(self._numbers)}")
        meta.setdefault("creationTimestamp", self.created_at)
        meta.setdefault("generation", 1)
        meta["resourceVersion"] = str(next(self._numbers))
        self.objects[f"{collection}/{meta['name']}"] = stored
        return _copy(stored)

    def touch(self, path: str) -> Object:
        """As an administrator: the object itself, to be changed, under a new version."""
        self.objects[path]["metadata"]["resourceVersion"] = str(next(self._numbers))
        return self.objects[path]

    def get(self, path: str, query: Any = None) -> Object:
        if not SHARED.match(path):
            return self._taken(path)
        if path not in self.objects:
            raise ApiFailure(404, path)
        return self.objects[path]

    def _taken(self, path: str) -> Object:
        """A copy, to be written."""
        if path not in self.objects:
            raise ApiFailure(404, path)
        return _copy(self.objects[path])

    def list(self, path: str, query: Any = None) -> list[Object]:
        """Of a namespace, or, as the path of such a collection does not name one, of all."""
        group, _, plural = path.rpartition("/")
        selector = (query or {}).get("labelSelector", "")
        wanted = [part.split("=") for part in selector.split(",") if part.count("=") == 1]
        of_that_kind = f"/{plural}/"
        found = {
            p: o
            for p, o in self.objects.items()
            if of_that_kind in p
            and (_collection(p) == (group, plural) or p.rpartition("/")[0] == path)
            and all(_label(o, key) in (value, None) for key, value in wanted)
        }
        return [found[p] if SHARED.match(p) else _copy(found[p]) for p in sorted(found)]

    def create(self, path: str, body: Object) -> Object:
        if path.endswith("/subjectaccessreviews"):
            asked = {body["spec"]["user"], *(f"group:{g}" for g in body["spec"].get("groups", ()))}
            return {"status": {"allowed": bool(asked & self.approvers)}}
        if path.endswith("/selfsubjectaccessreviews"):
            asked = body["spec"]["resourceAttributes"]
            return {"status": {"allowed": any(_allows(rule, asked) for rule in self.rules)}}
        if path.endswith("/selfsubjectrulesreviews"):
            return {"status": {"resourceRules": self.rules, "incomplete": False}}
        if path.endswith("/events"):
            self.events.append((body["reason"], body["message"]))
            return body
        if path.endswith("/eviction"):
            pod = self.get(path.removesuffix("/eviction"))
            if pod["metadata"]["uid"] != body["deleteOptions"]["preconditions"]["uid"]:
                raise ApiFailure(409, "the UID in the precondition does not match")
            assert self.evicted is not None, "nobody plays the Pods' part: World.with_pods"
            self.evicted(pod["metadata"]["name"])
            return body
        if f"{path}/{body['metadata']['name']}" in self.objects:
            raise ApiFailure(409, "already exists")
        return self.put(path, body)

    def merge(self, path: str, body: Object) -> Object:
        """Of metadata and spec; what is being deleted takes no new finalizer, and goes with its last one. A uid that is
        not the object's cannot be merged into it (`ValidateObjectMetaUpdate`)."""
        stored, wanted = self._taken(path), body["metadata"]
        meta = stored["metadata"]
        if wanted.get("uid", meta["uid"]) != meta["uid"]:
            raise ApiFailure(422, "metadata.uid: Invalid value: field is immutable")
        if wanted.get("resourceVersion", meta["resourceVersion"]) != meta["resourceVersion"]:
            raise ApiFailure(409, "the object has been modified")
        if "spec" in body:
            spec = _merged(stored.get("spec") or {}, body["spec"])
            meta["generation"] = meta.get("generation", 1) + (spec != stored.get("spec"))
            stored["spec"] = spec
        if "annotations" in wanted or "spec" in body:
            merged = {**meta.get("annotations", {}), **wanted.get("annotations", {})}
            meta["annotations"] = {key: value for key, value in merged.items() if value is not None}
            meta["resourceVersion"] = str(next(self._numbers))
            self.objects[path] = stored
            return _copy(stored)
        if "deletionTimestamp" in meta and set(wanted["finalizers"]) - set(meta.get("finalizers", ())):
            raise ApiFailure(422, "metadata.finalizers: Forbidden: no new finalizers can be added")
        meta |= {"finalizers": wanted["finalizers"], "resourceVersion": str(next(self._numbers))}
        self.objects[path] = stored
        if "deletionTimestamp" in meta and not meta["finalizers"]:
            self._remove(path)
        return _copy(stored)

    def delete(self, path: str) -> None:
        """As a person: at once, or, where a finalizer holds it, once that is gone."""
        meta = self.objects[path]["metadata"]
        if not meta.get("finalizers"):
            return self._remove(path)
        meta |= {"deletionTimestamp": self.created_at, "generation": meta["generation"] + 1}
        meta["resourceVersion"] = str(next(self._numbers))
        return None

    def _remove(self, path: str) -> None:
        """And, as the garbage collector does, what it owned is deleted too."""
        uid = self.objects.pop(path)["metadata"]["uid"]
        for other in [
            p for p, o in self.objects.items() if any(r["uid"] == uid for r in o["metadata"].get("ownerReferences", ()))
        ]:
            self.delete(other)

    def replace(self, path: str, body: Object) -> Object:
        target = path.removesuffix("/status")
        if target not in self.objects:
            raise ApiFailure(404, target)
        stored = {**self.objects[target], "metadata": {**self.objects[target]["metadata"]}}
        if body["metadata"].get("resourceVersion") not in (None, stored["metadata"]["resourceVersion"]):
            raise ApiFailure(409, "the object has been modified")
        if target != path:
            self.status_writes += 1
            stored["status"] = _copy(body["status"])
        else:
            stored["spec"] = _copy(body["spec"])
        stored["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.objects[target] = stored
        return _copy(stored)
