"""Brokers' Pods on the real API server, on a node without a kubelet, whose part is played here: it says what a Pod's
containers do, and ends a Pod that is told to go. Kafka is in memory: a Pod that goes takes its broker with it.

The Pods belong to StatefulSets, which Kubernetes' own controller looks after, or to an owner that a test plays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from kafka_medic.resources.phases import TERMINAL_PHASES, Phase
from kafka_medic.resources.remediation import Remediation
from tests.integration.operated_cluster import OperatedCluster, Person
from tests.integration.people import Object
from tests.simulation.kafka import SimKafka
from tests.simulation.world import NO_ELECTIONS
from tests.testbed import kubectl, wait_for

NODE = "node-without-kubelet"
CONTAINERS = [{"name": "kafka", "image": "none"}]
NodeOf = Callable[[Object], int | None]
"""Which broker or controller a Pod runs; None for a Pod of something else."""


@contextmanager
def node_without_kubelet() -> Iterator[None]:
    kubectl("delete", "node", NODE, "--ignore-not-found")
    taint = {"key": "kafka-medic.test/no-kubelet", "effect": "NoSchedule"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": {"taints": [taint]}}
    kubectl("create", "-f", "-", input=json.dumps(node))
    try:
        yield
    finally:
        kubectl("delete", "node", NODE)


class Kubelet:
    """`restarted`: nodes of Kafka whose Pods went, in that order; `most_away`: of Kafka's nodes at one time."""

    def __init__(self, admin: Person, namespace: str, kafka: SimKafka, node_of: NodeOf) -> None:
        self.admin, self.namespace, self.kafka, self.node_of = admin, namespace, kafka, node_of
        self.expected = 0
        self.restarted: list[int] = []
        self.most_away = 0
        self._addresses = 0
        self._away: set[int] = set()
        self._seen: set[str] = set()

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def pods(self) -> list[Object]:
        return [pod for pod in self.admin.list(self.path) if self.node_of(pod) is not None]

    def ready(self) -> list[Object]:
        return [pod for pod in self.pods() if (pod.get("status") or {}).get("podIP")]

    def tend(self, owner: Callable[[], None] = lambda: None) -> None:
        """Once: what is told to go goes, its owner makes the next one, and that becomes Ready the next time."""
        ready = {
            "type": "Ready",
            "status": "True",
            "lastHeartbeatTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        self.admin.merge(f"/api/v1/nodes/{NODE}/status", {"status": {"conditions": [ready]}})
        for pod in self.pods():
            if "deletionTimestamp" in pod["metadata"]:
                self._ends(pod)
        self.most_away = max(self.most_away, len(self._away))
        owner()
        wait_for("the successors of Pods that went", lambda: len(self.pods()) >= self.expected, seconds=30, every=0.05)
        for pod in self.pods():
            meta = pod["metadata"]
            if "deletionTimestamp" in meta or (pod.get("status") or {}).get("podIP"):
                continue
            if meta["uid"] in self._seen:
                self._starts(pod)
            self._seen.add(meta["uid"])

    def _ends(self, pod: Object) -> None:
        node = self.node_of(pod)
        assert node is not None
        self.restarted.append(node)
        self._away.add(node)
        self.kafka.stop(node)
        self.admin.delete(f"{self.path}/{pod['metadata']['name']}?gracePeriodSeconds=0")

    def _starts(self, pod: Object) -> None:
        node = self.node_of(pod)
        assert node is not None
        self._addresses += 1
        address = f"10.9.{self._addresses // 250}.{self._addresses % 250 + 1}"
        condition = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [condition]}
        self.admin.merge(f"{self.path}/{pod['metadata']['name']}/status", {"status": status})
        self.kafka.housed = {ip: n for ip, n in self.kafka.housed.items() if n != node} | {address: node}
        if node in self._away:
            self._away.discard(node)
            self.kafka.start(node)


class OwnedCluster(OperatedCluster):
    """A KafkaCluster over Pods that `kubelet` tends; `owner` does what the Pods' owner does beside Kubernetes."""

    def __init__(
        self, known: Mapping[str, Person], namespace: str, name: str, kafka: SimKafka, node_of: NodeOf, **spec: Any
    ) -> None:
        super().__init__(
            known["operator"], known["admin"], namespace, name, limits={"cooldown": "0s", "perDay": 100}, **NO_ELECTIONS
        )
        self.known = known
        kafka.cluster_id, kafka.housed = self.kafka.cluster_id, {}
        self.kafka = kafka
        self.kubelet = Kubelet(self.admin, namespace, kafka, node_of)
        self.owner: Callable[[], None] = lambda: None
        self.admin.merge(self.path("kafkaclusters", name), {"spec": spec})

    def expect(self, pods: int) -> None:
        """Waits for so many Pods, and has them become Ready."""
        self.kubelet.expected = pods
        for _ in range(2):
            self.kubelet.tend(self.owner)

    def reconcile(self, count: int = 2) -> None:
        for _ in range(count):
            super().reconcile(1)
            self.kubelet.tend(self.owner)

    def conditions(self) -> dict[str, tuple[str, str]]:
        """Status and message, by type."""
        stored = self.admin.get(self.path("kafkaclusters", self.name))
        return {c["type"]: (c["status"], c.get("message", "")) for c in stored["status"]["conditions"]}

    def approved(self, playbook: str = "rolling-restart", **parameters: str) -> str:
        name = self.ask(self.known["bob"], playbook, parameters=parameters)
        self.until(name, Phase.AWAITING_APPROVAL)
        self.say(self.known["alice"], name)
        return name

    def ends(self, name: str, reconciles: int = 150) -> Remediation:
        for _ in range(reconciles):
            if self.run(name).status.phase in TERMINAL_PHASES:
                break
            self.reconcile(1)
        return self.run(name)
