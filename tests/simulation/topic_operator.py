"""Strimzi's Topic Operator over the simulated Kafka and API server, as BatchingTopicController of Strimzi 1.2.0 has it.

It acts on each KafkaTopic that changed, and every two minutes on all of them (STRIMZI_FULL_RECONCILIATION_INTERVAL_MS).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.simulation.api import SimApi
from tests.simulation.kafka import SimKafka

TOPICS = "/apis/kafka.strimzi.io/v1/namespaces/ns/kafkatopics"
PAUSE, MANAGED = "strimzi.io/pause-reconciliation", "strimzi.io/managed"
THROTTLES = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
EVERY = 120.0


@dataclass
class SimTopicOperator:
    """`cruise_control`: it leaves throttles alone, and has the number of replicas changed to what spec says, also to
    fewer. `down`: it does nothing. `acted`: what it did to Kafka, (topic, setting or `replicas`)."""

    api: SimApi
    kafka: SimKafka
    cruise_control: bool = False
    down: bool = False
    acted: list[tuple[str, str]] = field(default_factory=list)
    _seen: dict[str, object] = field(default_factory=dict)
    _last: float | None = None

    def create(self, name: str, *, topic: str | None = None, **meta: Any) -> str:
        """A KafkaTopic with what its topic has now; its path."""
        kafka_name = topic or name
        dynamic = {key[2]: value for key, value in self.kafka.dynamic.items() if key[:2] == ("TOPIC", kafka_name)}
        counts = [len(p.replicas) for tp, p in self.kafka.partitions.items() if tp.topic == kafka_name]
        spec: dict[str, Any] = {"partitions": len(counts), "replicas": counts[0], "config": dynamic}
        if topic is not None:
            spec["topicName"] = topic
        labels = {"strimzi.io/cluster": "kafka", **meta.pop("labels", {})}
        self.api.put(TOPICS, {"metadata": {"name": name, "labels": labels, **meta}, "spec": spec})
        self.look()
        return f"{TOPICS}/{name}"

    def tick(self, now: float) -> None:
        """At each moment, in seconds: whatever changed, and all of them when the time has come."""
        full = self._last is None or now - self._last >= EVERY
        if full:
            self._last = now
        self.look(everything=full)

    def look(self, *, everything: bool = False) -> None:
        if self.down:
            return
        for path in sorted(p for p in self.api.objects if p.startswith(f"{TOPICS}/")):
            found = self.api.objects[path]
            version = [found["metadata"].get("annotations"), found["spec"], found["metadata"]["uid"]]
            if everything or self._seen.get(path) != version:
                self._seen[path] = version
                self._reconcile(path, found)

    def _reconcile(self, path: str, found: dict[str, Any]) -> None:
        notes = found["metadata"].get("annotations") or {}
        if notes.get(MANAGED) == "false":
            return self._say(path, {"type": "Unmanaged", "status": "True"})
        if str(notes.get(PAUSE, "")).lower() == "true":
            return self._say(path, {"type": "ReconciliationPaused", "status": "True"})
        topic = found["spec"].get("topicName") or found["metadata"]["name"]
        self._configs(topic, {k: str(v) for k, v in (found["spec"].get("config") or {}).items()})
        return self._say(path, self._replicas(topic, found["spec"].get("replicas")))

    def _configs(self, topic: str, wanted: dict[str, str]) -> None:
        """`buildAlterConfigOps`, and `filterOutThrottlingConfig`."""
        present = {key[2]: value for key, value in self.kafka.dynamic.items() if key[:2] == ("TOPIC", topic)}
        for name in sorted(present.keys() | wanted.keys()):
            if self.cruise_control and name in THROTTLES and name not in wanted:
                continue
            if present.get(name) == wanted.get(name):
                continue
            if name in wanted:
                self.kafka.dynamic["TOPIC", topic, name] = wanted[name]
            else:
                del self.kafka.dynamic["TOPIC", topic, name]
            self.acted.append((topic, name))

    def _replicas(self, topic: str, wanted: int | None) -> dict[str, Any]:
        """`checkReplicasChanges`: a topic whose partitions differ among themselves is left alone."""
        parts = {tp: p for tp, p in self.kafka.partitions.items() if tp.topic == topic}
        counts = {len(p.replicas) for p in parts.values()}
        moving = any(p.adding or p.removing for p in parts.values())
        if wanted is None or len(counts) != 1 or counts == {wanted}:
            return {"type": "Ready", "status": "True"}
        if self.cruise_control and not moving:
            for part in parts.values():
                part.replicas = part.replicas[:wanted]
                part.isr = [b for b in part.isr if b in part.replicas] or part.replicas[:1]
            self.acted.append((topic, "replicas"))
            return {"type": "Ready", "status": "True"}
        message = "Replication factor change not supported, but required for partitions"
        return {"type": "Ready", "status": "False", "reason": "NotSupported", "message": message}

    def _say(self, path: str, condition: dict[str, Any]) -> None:
        found = self.api.objects[path]
        status = {"conditions": [condition], "observedGeneration": found["metadata"].get("generation")}
        if found.get("status") != status:
            self.api.touch(path)["status"] = status
