"""One Pod object for each stub broker, on a real API server. No kubelet runs these Pods.

A StatefulSet makes them, and Kubernetes' own controller each next one. Their nodes are objects too. This process renews
the nodes' Leases, schedules the Pods, and ends an evicted Pod together with its stub broker.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kafka_medic.clients.kubernetes_api import ApiFailure
from tests.integration.operated_cluster import Person
from tests.stub_cluster import StubProcess
from tests.stub_cluster.server import address_of
from tests.testbed import follow, wait_for
from tests.testbed.steps import StepFailedError

LABELS = {"app": "kafka"}
NODES, LEASES = "/api/v1/nodes", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
RENEWED, LASTING = 15.0, 60
"""Seconds between two renewals of a node's Lease, and how long it lasts. Without them Kubernetes gives the node up."""
AT_ONCE = 8
CREATED = 300.0


class Keeper(Person):
    """An administrator who can end a Pod as a kubelet does."""

    def bury(self, path: str) -> None:
        self._call("DELETE", path, query={"gracePeriodSeconds": "0"})


@dataclass
class StubPods:
    """`away`: seconds from an eviction to the next Pod. `evicted`: when each Pod began to go, by uid."""

    admin: Keeper
    stub: StubProcess
    namespace: str
    nodes: int
    away: float
    evicted: dict[str, tuple[float, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    @contextmanager
    def present(self) -> Iterator[StubPods]:
        """Until the end of the block. The namespace, which ends with its Pods, is the caller's."""
        account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        wait_for("the namespace's account", lambda: bool(self.admin.list(account)), 60)
        watched: subprocess.Popen[str] | None = None
        try:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(self._node, range(self.nodes), timeout=CREATED))
                self.admin.create(f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets", self._stateful_set())
                list(pool.map(self._pod, range(self.stub.size.brokers), timeout=CREATED))
                list(pool.map(self._ready, range(self.stub.size.brokers), timeout=CREATED))
            wanted = "jsonpath={.metadata.name} {.metadata.uid} {.metadata.deletionTimestamp}{'\\n'}"
            watched = follow("get", "pods", "-n", self.namespace, "--watch", "-o", wanted)
            for work in (lambda: self._watch(watched), self._renew):
                self._threads.append(threading.Thread(target=work, daemon=True))
                self._threads[-1].start()
            yield self
        finally:
            self._over.set()
            if watched is not None:
                watched.kill()
                watched.wait()
            for thread in self._threads:
                thread.join(30)
            for node in range(self.nodes):
                for path in (f"{NODES}/{_node(node)}", f"{LEASES}/{_node(node)}"):
                    self._unless_gone(path)

    def _node(self, number: int) -> None:
        name = _node(number)
        self._unless_gone(f"{NODES}/{name}")
        self._unless_gone(f"{LEASES}/{name}")
        lease = {"holderIdentity": name, "leaseDurationSeconds": LASTING, "renewTime": _now()}
        self.admin.create(LEASES, {"metadata": {"name": name}, "spec": lease})
        self.admin.create(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
        ready = {"type": "Ready", "status": "True", "reason": "Stub", "lastHeartbeatTime": _now(seconds=True)}
        self.admin.merge(f"{NODES}/{name}/status", {"status": {"conditions": [ready]}})

    def _stateful_set(self) -> dict[str, Any]:
        pod = {
            "schedulerName": "stub",  # nobody's: the Pods wait for `_pod`
            "containers": [{"name": "kafka", "image": "stub"}],
            "tolerations": [{"operator": "Exists"}],
            "automountServiceAccountToken": False,
        }
        spec = {
            "replicas": self.stub.size.brokers,
            "serviceName": "kafka",
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": pod},
        }
        return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "kafka"}, "spec": spec}

    def _pod(self, broker: int) -> None:
        """Schedules the Pod once there is one that has no node."""

        def waits() -> bool:
            try:
                found = self.admin.get(self._path(broker))
            except ApiFailure as problem:
                if problem.not_found:
                    return False
                raise
            return "nodeName" not in found["spec"] and "deletionTimestamp" not in found["metadata"]

        wait_for(f"the next Pod of broker {broker}", waits, CREATED, every=0.5)
        node = {"apiVersion": "v1", "kind": "Node", "name": _node(broker % self.nodes)}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": f"kafka-{broker}"}, "target": node}
        self.admin.create(f"{self._path(broker)}/binding", body)

    def _ready(self, broker: int) -> None:
        address = address_of(broker)
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        self.admin.merge(f"{self._path(broker)}/status", {"status": status})

    def _watch(self, watched: subprocess.Popen[str]) -> None:
        assert watched.stdout is not None
        for line in watched.stdout:
            name, uid, *going = line.split()
            if going and uid not in self.evicted:
                broker = int(name.removeprefix("kafka-"))
                self.evicted[uid] = (time.time(), broker)
                self._threads.append(threading.Thread(target=self._replace, args=(broker,), daemon=True))
                self._threads[-1].start()

    def _replace(self, broker: int) -> None:
        """As kubelet and StatefulSet do it: the broker ends, its Pod goes, and the next Pod starts it again."""
        try:
            self.stub.go(broker)
            self.admin.bury(self._path(broker))
            self._over.wait(self.away)
            self._pod(broker)
            self.stub.come(broker)
            self._ready(broker)
        except (ApiFailure, ValueError, OSError, TimeoutError, StepFailedError) as problem:
            self.problems.append(f"broker {broker}: {problem!r}")

    def _renew(self) -> None:
        while not self._over.wait(RENEWED):
            for node in range(self.nodes):
                try:
                    self.admin.merge(f"{LEASES}/{_node(node)}", {"spec": {"renewTime": _now()}})
                except ApiFailure as problem:
                    self.problems.append(f"{_node(node)}: {problem}")

    def _path(self, broker: int | None = None) -> str:
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        return pods if broker is None else f"{pods}/kafka-{broker}"

    def _unless_gone(self, path: str) -> None:
        try:
            self.admin.delete(path)
        except ApiFailure as problem:
            if not problem.not_found:
                raise


def _node(number: int) -> str:
    return f"stub-{number}"


def _now(*, seconds: bool = False) -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ" if seconds else "%Y-%m-%dT%H:%M:%S.%fZ")
