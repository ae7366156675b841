"""The operator's own reconciles against the real API server, with its ServiceAccount's rights, over a Kafka in memory.

What is sent to Kafka can be counted, and the clock can be moved.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from kafka_medic.clients.kubernetes_api import WRITER, KubernetesApi, custom_path
from kafka_medic.controller.clients import Clients
from kafka_medic.controller.events import recorder
from kafka_medic.controller.lease import ClusterLease
from kafka_medic.controller.reconciler import Reconciler
from kafka_medic.controller.rules import Rules
from kafka_medic.controller.store import Store
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from tests.incident.operator import kubeconfig
from tests.integration.people import Object, placed
from tests.simulation.canary import SimCanary
from tests.simulation.serial import one_after_another
from tests.simulation.world import factor_one_cluster
from tests.testbed import external_kubeconfig, kubectl, own_state

PLAYBOOK = "raise-replication-factor"


class Person(KubernetesApi):
    """Somebody with a kubeconfig of their own. The operator deletes nothing, so its client cannot."""

    @classmethod
    def named(cls, kubeconfig: Path) -> Person:
        person = cast("Person", cls.of_person(str(kubeconfig))[0])
        person._client.user_agent = f"{kubeconfig.stem}/1"
        return person

    def delete(self, path: str) -> None:
        self._call("DELETE", path)

    def apply(self, path: str, body: Object, manager: str, *, force: bool) -> Object:
        """Server-side apply, as that field manager."""
        query = {"fieldManager": manager, "force": str(force).lower()}
        # JSON is YAML, and text is sent as it is.
        text = cast("Object", json.dumps(body))
        return self._call("PATCH", path, query=query, body=text, content="application/apply-patch+yaml")


def persons(folder: Path, operator: str, *names: str) -> dict[str, Person]:
    """People of the testbed's, and the operator's own ServiceAccount, of that user name, as `operator`."""
    if external_kubeconfig() is not None:
        pytest.skip("a caller's cluster has no kubeconfigs of the testbed's people")
    _, _, where, account = operator.split(":")
    files = {name: own_state().kubeconfig(name) for name in names}
    files["operator"] = kubeconfig(folder / "kubeconfig", account, where)
    found = {name: Person.named(file) for name, file in files.items()}
    found["operator"]._client.user_agent = WRITER
    return found


@dataclass
class Place:
    """A KafkaCluster of that name, and what people do about it. `admin` may do everything."""

    admin: Person
    namespace: str
    name: str
    kafka_at: str = "127.0.0.1:1"
    policy: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        spec = {"bootstrapServers": self.kafka_at, "probes": {"interval": "2s"}, "remediation": dict(self.policy)}
        body = placed("KafkaCluster", self.namespace, **spec)
        body["metadata"] = {"name": self.name, "namespace": self.namespace}
        self.uid = str(self.admin.create(self.path("kafkaclusters"), body)["metadata"]["uid"])

    def path(self, plural: str, name: str | None = None, sub: str | None = None) -> str:
        return custom_path(plural, self.namespace, name, sub)

    def ask(self, user: KubernetesApi, playbook: str = PLAYBOOK, **spec: Any) -> str:
        """A person asks for a run; its name."""
        digest = Playbook.parse(self.admin.get(custom_path("playbooks", None, playbook))).digest()
        body = placed(
            "Remediation",
            self.namespace,
            **{
                "clusterRef": {"name": self.name, "uid": self.uid},
                "playbook": {"name": playbook, "digest": digest},
                "requestedBy": "bob",
            }
            | spec,
        )
        return str(user.create(self.path("remediations"), body)["metadata"]["name"])

    def run(self, name: str) -> Remediation:
        return Remediation.parse(self.admin.get(self.path("remediations", name)))

    def word(self, name: str, **spec: Any) -> Object:
        """An approval of that run's present plan."""
        run = self.run(name)
        assert run.status.plan is not None
        ref = {"name": run.name, "uid": run.uid}
        plain = {"remediationRef": ref, "planDigest": run.status.plan.digest, "approver": "alice"}
        return placed("RemediationApproval", self.namespace, **plain | spec)

    def say(self, user: KubernetesApi, name: str, **spec: Any) -> Object:
        return user.create(self.path("remediationapprovals"), self.word(name, **spec))

    def unsay(self) -> None:
        """As an administrator: every approval goes."""
        for one in self.admin.list(self.path("remediationapprovals")):
            self.admin.delete(self.path("remediationapprovals", one["metadata"]["name"]))

    def rule(self, **remediation: Any) -> None:
        """Change the KafkaCluster's spec.remediation, as its editor may. None takes a field away."""
        self.admin.merge(self.path("kafkaclusters", self.name), {"spec": {"remediation": remediation}})

    def why(self, name: str) -> str:
        """Everything that the run tells about why nothing is done, for a person to read."""
        status = self.run(name).status
        return "\n".join([status.message or "", *(w.message for w in status.waiting_for), *(
            f"{a.approver}: {a.reason}" for a in status.approvals if not a.counted)])  # fmt: skip

    def leave(self) -> None:
        """It goes, and its runs with it, whatever they still owe: nobody is there any more to take that back."""
        runs = [r for r in self.admin.list(self.path("remediations")) if r["spec"]["clusterRef"]["name"] == self.name]
        for path in (*(self.path("remediations", r["metadata"]["name"]) for r in runs),
                     self.path("kafkaclusters", self.name)):  # fmt: skip
            self.admin.merge(path, {"metadata": {"finalizers": None}})
        self.admin.delete(self.path("kafkaclusters", self.name))


def chart_rules() -> Rules:
    """What the installed chart rendered for the operator, whatever its release's name."""
    labels = ("-l", "app.kubernetes.io/part-of=kafka-medic")
    found = json.loads(kubectl("get", "configmap", "-A", *labels, "-o", "json").stdout)["items"]
    (held,) = (one for one in found if one["metadata"]["name"].endswith("-rules"))
    return Rules.model_validate_json(held["data"]["rules.json"])


class OperatedCluster(Place):
    """With the operator that reconciles it, one reconcile at a time. `ahead`: by how many seconds the operator's clock
    is ahead of the API server's."""

    def __init__(self, operator: KubernetesApi, admin: Person, namespace: str, name: str, **policy: Any) -> None:
        super().__init__(admin, namespace, name, policy=policy)
        self.kafka = factor_one_cluster()
        self.kafka.cluster_id = f"{namespace}/{name}"
        self.ahead = 0.0
        self.starts(operator)

    def starts(self, operator: KubernetesApi) -> None:
        """A new process of the operator's, of the chart as it is installed now."""
        store = Store(operator, [self.namespace], chart_rules().policies)
        clients = Clients(
            store=store,
            record=recorder(operator),
            kafka=lambda _: self.kafka,
            zookeeper=None,  # type: ignore[arg-type]
            canary=lambda connection, topic, seconds: SimCanary(self.kafka, topic),
            now=lambda: datetime.now(UTC) + timedelta(seconds=self.ahead),
            monotonic=lambda: time.monotonic() + self.ahead,
        )
        lease = lambda c: ClusterLease(operator, self.namespace, self.name, c.uid or "", "the-operator")  # noqa: E731
        self.reconciler = Reconciler(self.namespace, self.name, clients, lease)

    def reconcile(self, count: int = 2) -> None:
        """So many, and in between time for Kafka to do what it was asked."""
        for _ in range(count):
            with one_after_another():
                self.reconciler.reconcile()
            self.kafka.tick()
            self.ahead += 5.0

    def until(self, name: str, phase: Phase, reconciles: int = 20) -> Remediation:
        for _ in range(reconciles):
            found = self.run(name)
            if found.status.phase is phase:
                return found
            self.reconcile(1)
        raise AssertionError(f"{name} did not become {phase}: {self.run(name).status}")

    @contextmanager
    def approved_but_paused(self, approver: KubernetesApi, name: str) -> Iterator[None]:
        """A person has approved and a pause alone holds the run; the pause ends with the block."""
        self.rule(paused=True)
        self.say(approver, name)
        self.until(name, Phase.APPROVED)
        yield
        self.rule(paused=None)

    def close(self) -> None:
        self.reconciler.close()


def nothing_is_done(cluster: OperatedCluster, run: str, *why: str) -> None:
    """And who asks why can read it in the run."""
    cluster.reconcile(3)
    assert cluster.kafka.writes == []
    told = cluster.why(run)
    for words in why:
        assert words in told, told
