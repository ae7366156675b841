"""The brokers' Pods on the simulated API server: evicted, stopping, and made anew by whoever owns them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kafka_medic.clients.kubernetes_api import ApiFailure
from tests.simulation.api import SimApi
from tests.simulation.kafka import SimKafka

PODS, NODES = "/api/v1/namespaces/ns/pods", "/api/v1/nodes"
SETS = "/apis/apps/v1/namespaces/ns/statefulsets"
SETS_PATH = f"{SETS}/kafka"
POD_SETS = "/apis/core.strimzi.io/v1/namespaces/ns/strimzipodsets"
KAFKAS = "/apis/kafka.strimzi.io/v1/namespaces/ns/kafkas"
KAFKA_PATH = f"{KAFKAS}/kafka"
ROLLED_BY = (SETS_PATH, KAFKA_PATH)
"""Whose generation is ahead of what was observed while Pods are replaced. A StrimziPodSet hardly shows a roll."""
ROLL = "strimzi.io/manual-rolling-update"
OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "kafka", "uid": "uid-of-set", "controller": True}
STRIMZI = OWNER | {"apiVersion": "core.strimzi.io/v1", "kind": "StrimziPodSet"}


@dataclass
class SimPods:
    """One Pod a broker. An evicted one stops its broker, is gone one tick later, and its successor is Ready
    `start_ticks` after that; `never_back` names brokers whose successor never becomes Ready, `crashing` those that come
    up, register, and are down again by the next tick. `crossed`: brokers that run in the Pod of another number. All
    numbers here are those of the broker that runs in a Pod."""

    api: SimApi
    kafka: SimKafka
    start_ticks: int = 1
    never_back: set[int] = field(default_factory=set)
    crashing: set[int] = field(default_factory=set)
    crossed: dict[int, int] = field(default_factory=dict)
    most_down: int = 0
    restarts: list[int] = field(default_factory=list)
    evicted: list[tuple[int, str]] = field(default_factory=list)
    """(broker, uid) of each eviction that was granted."""
    stopped: Callable[[int], None] | None = None
    """Told of each Pod that begins to stop; without it `tick` is what makes the successors."""
    strimzi_ticks: int | None = None
    """After which Strimzi restarts a Pod that it has read the annotation of, whatever has become of that since. None:
    there is no Strimzi."""
    min_available: int | None = None
    """Of a PodDisruptionBudget over the Pods; None: there is none."""
    apart_owner: dict[str, Any] | None = None
    """Of the Pods of controllers that are no brokers. None: the same as of the brokers' Pods."""
    _owner: dict[str, Any] | None = None
    _starting: dict[int, int] = field(default_factory=dict)
    _asked: dict[str, int] = field(default_factory=dict)
    _generation: int = 0

    def create(self, owner: dict[str, Any] | None = None) -> None:
        """owner: OWNER or STRIMZI, whose rollouts can be told; None: the Pods belong to nobody."""
        self.api.evicted = self.evict
        self._owner, brokers = owner, len(self.kafka.racks)
        owners = (owner, self.apart_owner)
        if OWNER in owners:
            status = {"replicas": brokers, "currentRevision": "r1", "updateRevision": "r1", "observedGeneration": 1}
            self.api.put(SETS, {"metadata": {"name": "kafka"}, "spec": {"replicas": brokers}, "status": status})
        if STRIMZI in owners:
            labels = {"strimzi.io/cluster": "kafka"}
            status = {"pods": brokers, "currentPods": brokers, "readyPods": brokers, "observedGeneration": 1}
            self.api.put(POD_SETS, {"metadata": {"name": "kafka", "labels": labels}, "spec": {}, "status": status})
            self.api.put(KAFKAS, {"metadata": {"name": "kafka"}, "spec": {}, "status": {"observedGeneration": 1}})
        for broker in self._nodes():
            self.api.put(NODES, {"metadata": {"name": self._node(broker)}, "spec": {}, "status": {}})
            self._put(broker, ready=True)

    def _nodes(self) -> list[int]:
        return sorted({*self.kafka.racks, *self.kafka.apart})

    def evict(self, name: str) -> None:
        pod = self.api.objects[f"{PODS}/{name}"]
        broker = self.kafka.housed[pod["status"]["podIP"]]
        if "deletionTimestamp" in pod["metadata"]:
            return
        if self.min_available is not None and self.available() <= self.min_available:
            raise ApiFailure(429, "Cannot evict pod as it would violate the pod's disruption budget.")
        self.restarts.append(broker)
        self.evicted.append((broker, pod["metadata"]["uid"]))
        self.stop(broker)
        self.most_down = max(self.most_down, len(self.down()))

    def stop(self, broker: int) -> None:
        """The Pod is told to go, by whomever."""
        self.api.touch(f"{PODS}/{self._name(broker)}")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if broker in self.kafka.hanging:
            self.kafka.kill(broker)
        else:
            self.kafka.stop(broker)
        if self.stopped is not None:
            self.stopped(broker)

    def gone(self, broker: int) -> None:
        """Its owner makes the next one, which is not Ready yet."""
        self._put(broker, ready=False)

    def ready(self, broker: int) -> None:
        self._put(broker, ready=True, keep=True)

    def uid(self, broker: int) -> str:
        return str(self.api.objects[f"{PODS}/{self._name(broker)}"]["metadata"]["uid"])

    def available(self) -> int:
        """How many Pods are Ready and stay."""
        pods = (self.api.objects[f"{PODS}/kafka-{b}"] for b in self.kafka.racks)
        return sum("deletionTimestamp" not in p["metadata"] and _ready(p) for p in pods)

    def replace(self, broker: int) -> None:
        """Somebody else has the Pod replaced, all in one moment."""
        self._put(broker, ready=True)

    def down(self) -> set[int]:
        return set(self.kafka.racks) - self.kafka.up

    def annotated(self) -> dict[int, str]:
        """Brokers whose Pods carry Strimzi's annotation, with the Pods' uids."""
        found = {b: self.api.objects.get(f"{PODS}/{self._name(b)}", {}).get("metadata", {}) for b in self._nodes()}
        return {b: str(m["uid"]) for b, m in found.items() if ROLL in m.get("annotations", {})}

    def roll(self, broker: int, uid: str) -> bool:
        """Strimzi deletes the Pod that it found annotated (`KafkaRoller`), if that one is still there and stays."""
        meta = self.api.objects[f"{PODS}/{self._name(broker)}"]["metadata"]
        if meta["uid"] != uid or "deletionTimestamp" in meta:
            return False
        self.restarts.append(broker)
        self.stop(broker)
        self.most_down = max(self.most_down, len(self.down()))
        return True

    def _strimzi(self) -> None:
        for uid in self.annotated().values() if self.strimzi_ticks is not None else ():
            self._asked.setdefault(uid, self.strimzi_ticks or 0)
        for broker in self._nodes():
            uid = self.uid(broker)
            if uid in self._asked:
                self._asked[uid] -= 1
                if self._asked[uid] < 0:
                    self._asked.pop(uid)
                    self.roll(broker, uid)

    def tick(self) -> None:
        self._strimzi()
        for broker, left in list(self._starting.items()):
            if left > 0:
                self._starting[broker] = left - 1
            elif broker not in self.never_back:
                if broker in self.crashing:
                    self._flap(broker)
                    continue
                del self._starting[broker]
                self.kafka.start(broker)
                self._put(broker, ready=True, keep=True)
        for broker in self._nodes():
            pod = self.api.objects.get(f"{PODS}/{self._name(broker)}")
            if pod is not None and "deletionTimestamp" in pod["metadata"]:
                self._put(broker, ready=False)
                self._starting[broker] = self.start_ticks

    def _flap(self, broker: int) -> None:
        """The same Pod all the while: the kubelet starts the container again and again."""
        if broker in self.kafka.up:
            self.kafka.stop(broker)
        else:
            self.kafka.start(broker)
        self._put(broker, ready=broker in self.kafka.up, keep=True)

    def _put(self, broker: int, *, ready: bool, keep: bool = False) -> None:
        name = self._name(broker)
        if not keep:
            self._generation += 1
        before = self.api.objects.get(f"{PODS}/{name}") if keep else None
        ip = before["status"]["podIP"] if before else f"10.0.{self._generation // 250}.{self._generation % 250}"
        self.kafka.housed = {at: b for at, b in self.kafka.housed.items() if b != broker} | {ip: broker}
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        status: dict[str, Any] = {"conditions": conditions, "podIP": ip}
        old = before["metadata"]["uid"] if before else None
        meta: dict[str, Any] = {"name": name, "namespace": "ns", "uid": old or f"pod-{broker}-{self._generation}"}
        meta["labels"] = {"app": name.partition("-")[0]}
        owner = self._owner if name.startswith("kafka-") else self.apart_owner or self._owner
        if owner is not None:
            meta["ownerReferences"] = [owner]
        if owner == STRIMZI:
            meta["labels"]["strimzi.io/cluster"] = "kafka"
        if owner == OWNER and SETS_PATH in self.api.objects:
            meta["labels"]["controller-revision-hash"] = self.api.objects[SETS_PATH]["status"]["updateRevision"]
        self.api.put(PODS, {"metadata": meta, "spec": {"nodeName": self._node(broker)}, "status": status})

    def _name(self, node: int) -> str:
        number = self.crossed.get(node, node)
        return f"kafka-{number}" if number in self.kafka.racks else f"controller-{number}"

    def _node(self, broker: int) -> str:
        return f"node-{self.crossed.get(broker, broker)}"


def _ready(pod: dict[str, Any]) -> bool:
    return any(c == {"type": "Ready", "status": "True"} for c in pod["status"]["conditions"])
