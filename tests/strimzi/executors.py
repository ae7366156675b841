"""Who moves replicas: Cruise Control's Executor by a KafkaRebalance, or a run of ours. Both are started, stopped in the
middle, and killed (SIGKILL) in the same way."""

from __future__ import annotations

import json
from typing import Protocol

from tests.incident import operator
from tests.strimzi.case import ENDED, StrimziCase
from tests.testbed import kubectl, wait_for
from tests.testbed.strimzi import CLUSTER_LABEL

THROTTLE = 10_000_000
"""Bytes a second, for each broker."""
MODEL_SECONDS = 600
"""Cruise Control proposes nothing before one of its windows is over."""


class Executor(Protocol):
    name: str

    def propose(self) -> None:
        """Up to the moment in which a person may approve."""

    def approve(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None:
        """Its process, without notice. Its Deployment makes another one."""

    def said(self) -> str:
        """The state in which it says that its work is."""

    def why(self) -> str: ...
    def is_over(self) -> bool: ...
    def forget(self) -> None: ...


class CruiseControl:
    name = "Cruise Control"

    def __init__(self, case: StrimziCase) -> None:
        self.namespace, self.cluster = case.namespace, case.made_by_strimzi.name

    def propose(self, **spec: object) -> None:
        """Ten moves at a time for each broker."""
        meta = {"name": "full", "namespace": self.namespace, "labels": {CLUSTER_LABEL: self.cluster}}
        usual = {
            "replicationThrottle": THROTTLE,
            "concurrentPartitionMovementsPerBroker": 10,
            "skipHardGoalCheck": True,
            "goals": ["ReplicaDistributionGoal"],
        }
        body = {"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaRebalance", "metadata": meta, "spec": usual | spec}
        operator.apply([body])
        wait_for("a proposal", lambda: self.said() == "ProposalReady", MODEL_SECONDS, every=1)

    def approve(self) -> None:
        self._annotate("approve")

    def stop(self) -> None:
        self._annotate("stop")

    def kill(self) -> None:
        gone(self.namespace, f"strimzi.io/name={self.cluster}-cruise-control")

    def said(self) -> str:
        found = json.loads(kubectl("get", "kafkarebalance", "full", "-n", self.namespace, "-o", "json").stdout)
        return next((c["type"] for c in found.get("status", {}).get("conditions", []) if c["status"] == "True"), "")

    def why(self) -> str:
        return kubectl("get", "kafkarebalance", "full", "-n", self.namespace, "-o", "jsonpath={.status}").stdout

    def is_over(self) -> bool:
        return self.said() in ("Ready", "Stopped", "NotReady")

    def forget(self) -> None:
        kubectl("delete", "kafkarebalance", "full", "-n", self.namespace, "--ignore-not-found")

    def _annotate(self, what: str) -> None:
        note = f"strimzi.io/rebalance={what}"
        kubectl("annotate", "kafkarebalance", "full", "-n", self.namespace, note, "--overwrite")


class Ours:
    name = "kafka-medic"

    def __init__(self, case: StrimziCase) -> None:
        self.case = case

    def propose(self) -> None:
        self.case.ask("rebalance", throttleBytesPerSecond=str(THROTTLE))
        self.case.wait("AwaitingApproval")

    def approve(self) -> None:
        assert operator.approve(self.case.run(), "alice").returncode == 0

    def stop(self) -> None:
        assert operator.approve(self.case.run(), "alice", "Reject").returncode == 0

    def kill(self) -> None:
        gone(operator.NAMESPACE, "app.kubernetes.io/name=kafka-medic")

    def said(self) -> str:
        return operator.phase(self.case.run())

    def why(self) -> str:
        status = self.case.run()["status"]
        return "; ".join([status["message"], *(w["message"] for w in status.get("waitingFor", []))])

    def is_over(self) -> bool:
        return self.said() in ENDED

    def forget(self) -> None:
        pass


def gone(namespace: str, selector: str) -> None:
    pods = kubectl("get", "pods", "-n", namespace, "-l", selector, "-o", "name").stdout.split()
    assert pods, selector
    kubectl("delete", *pods, "-n", namespace, "--grace-period=0", "--force")
