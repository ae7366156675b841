"""The brokers' Pods on the simulated API server: evicted, stopping, and made anew by their StatefulSet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.simulation.api import SimApi
from tests.simulation.kafka import SimKafka

PODS, NODES = "/api/v1/namespaces/ns/pods", "/api/v1/nodes"


@dataclass
class SimPods:
    """One Pod a broker. An evicted one stops its broker, is gone one tick later, and its successor is Ready
    `start_ticks` after that; `never_back` names brokers whose successor never becomes Ready, `crashing` those that come
    up, register, and are down again by the next tick."""

    api: SimApi
    kafka: SimKafka
    start_ticks: int = 1
    never_back: set[int] = field(default_factory=set)
    crashing: set[int] = field(default_factory=set)
    most_down: int = 0
    restarts: list[int] = field(default_factory=list)
    _starting: dict[int, int] = field(default_factory=dict)
    _generation: int = 0

    def create(self) -> None:
        self.api.evicted = self.evict
        for broker in self.kafka.racks:
            self.api.put(NODES, {"metadata": {"name": f"node-{broker}"}, "spec": {}, "status": {}})
            self._put(broker, ready=True)

    def evict(self, name: str) -> None:
        broker = int(name.rpartition("-")[2])
        pod = self.api.objects[f"{PODS}/{name}"]
        if "deletionTimestamp" in pod["metadata"]:
            return
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.kafka.stop(broker)
        self.restarts.append(broker)
        self.most_down = max(self.most_down, len(self.down()))

    def replace(self, broker: int) -> None:
        """Somebody else has the Pod replaced, all in one moment."""
        self._put(broker, ready=True)

    def down(self) -> set[int]:
        return set(self.kafka.racks) - self.kafka.up

    def tick(self) -> None:
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
        for broker in self.kafka.racks:
            pod = self.api.objects.get(f"{PODS}/kafka-{broker}")
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
        name = f"kafka-{broker}"
        if not keep:
            self._generation += 1
        old = self.api.objects.get(f"{PODS}/{name}", {}).get("metadata", {}).get("uid") if keep else None
        status: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
        meta = {"name": name, "namespace": "ns", "uid": old or f"pod-{broker}-{self._generation}"}
        self.api.put(PODS, {"metadata": meta, "spec": {"nodeName": f"node-{broker}"}, "status": status})
