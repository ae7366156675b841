"""The operator's own reconcile over a simulated Kafka and API server, with a clock that only moves when told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kafka_medic.cluster.clock import Skew
from kafka_medic.controller.clients import Clients
from kafka_medic.controller.events import recorder
from kafka_medic.controller.lease import ClusterLease
from kafka_medic.controller.metrics import Metrics
from kafka_medic.controller.plan_files import PlanFiles
from kafka_medic.controller.reconciler import Reconciler
from kafka_medic.resources.admission import REQUIRED_POLICIES, ExpectedPolicy
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import TERMINAL_PHASES
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from tests.simulation.api import SimApi
from tests.simulation.brokers import MIN_ISR
from tests.simulation.canary import SimCanary
from tests.simulation.exporters import SimExporters
from tests.simulation.kafka import SimKafka
from tests.simulation.pods import OWNER, SimPods
from tests.simulation.serial import one_after_another
from tests.simulation.store import SimStore
from tests.simulation.topic_operator import SimTopicOperator

BASE = "/apis/kafkamedic.dev/v1alpha1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
PLAYBOOK_FILE = PLAYBOOKS / "raise-replication-factor.yaml"
API_VERSION = "kafkamedic.dev/v1alpha1"


UTC_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
POLICIES = tuple(
    ExpectedPolicy(
        about=about,
        name=f"{about}-0.kafkamedic.dev",
        spec={"failurePolicy": "Fail", "validations": [{"expression": about}]},
        binding={"policyName": f"{about}-0.kafkamedic.dev", "validationActions": ["Deny"]},
    )
    for about in REQUIRED_POLICIES
)
"""Stand for the chart's: nothing here enforces them."""
NO_ELECTIONS = {"playbooks": [{"name": "elect-preferred-leaders", "mode": "Observe"}]}
"""Of `spec.remediation`: a restarted broker leads nothing, which would be proposed a cure of its own."""
BROKERS = {"podSelector": {"matchLabels": {"app": "kafka"}}}


@cache
def shipped_playbooks() -> tuple[dict[str, Any], ...]:
    return tuple(yaml.load(file.read_text(), yaml.CSafeLoader) for file in sorted(PLAYBOOKS.glob("*.yaml")))


class Killed(BaseException):
    """kill -9, as far as Python has one: nothing catches it."""


@dataclass
class World:
    kafka: SimKafka
    api: SimApi = field(default_factory=SimApi)
    now: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)
    reconciler: Reconciler | None = None
    pods: SimPods | None = None
    topic_operator: SimTopicOperator | None = None
    series: Metrics = field(default_factory=Metrics)
    files: Path | None = None
    """The operator's volume for long plans."""
    ensemble: Any = None
    """Of a cluster on ZooKeeper."""
    ahead: float = 0.0
    """Seconds by which the API server's clock is ahead of the operator's."""
    served: Callable[..., Any] = lambda _, __: {}
    """The certificates of brokers, by a connection and their addresses."""
    exporters: SimExporters = field(default_factory=SimExporters)
    wrap_kafka: Callable[[SimKafka], Any] = lambda kafka: kafka
    wrap_api: Callable[[SimApi], Any] = lambda api: api

    def install(self, **spec: Any) -> None:
        """A KafkaCluster of that spec, the shipped playbook and the admission policies."""
        body = {key: value for key, value in {"bootstrapServers": "sim:9092", **spec}.items() if value is not None}
        meta = {"name": "c", "namespace": "ns"}
        self.put("kafkaclusters", {"apiVersion": API_VERSION, "kind": "KafkaCluster", "metadata": meta, "spec": body})
        for playbook in shipped_playbooks():
            self.api.put(f"{BASE}/playbooks", playbook)
        self.install_policies()
        self.api.approvers = {"alice"}

    def install_policies(self, *, before: timedelta = timedelta(minutes=1)) -> None:
        """As the chart does, some time before now."""
        created = {"creationTimestamp": (self.now + timedelta(seconds=self.ahead) - before).strftime(UTC_FORMAT)}
        for policy in POLICIES:
            meta = {"name": policy.name, **created}
            self.api.put(f"{ADMISSION}/validatingadmissionpolicies", {"metadata": meta, "spec": policy.spec})
            self.api.put(f"{ADMISSION}/validatingadmissionpolicybindings", {"metadata": meta, "spec": policy.binding})

    def uninstall_policies(self) -> None:
        for path in [path for path in self.api.objects if path.startswith(ADMISSION)]:
            del self.api.objects[path]

    def with_pods(self, owner: dict[str, Any] | None = OWNER, **how: Any) -> SimPods:
        """The brokers run in Pods, which the KafkaCluster's spec has to select: `BROKERS`."""
        self.pods = SimPods(self.api, self.kafka, **how)
        self.pods.create(owner)
        return self.pods

    def with_topic_operator(self, **how: Any) -> SimTopicOperator:
        """Strimzi's, beside Pods that are Strimzi's."""
        self.api.objects["/apis/kafka.strimzi.io"] = {"metadata": {}, "versions": [{"version": "v1"}]}
        self.topic_operator = SimTopicOperator(self.api, self.kafka, **how)
        return self.topic_operator

    def ask(self, playbook: str, user: str = "carol", **parameters: str) -> None:
        """A person asks for a run of a playbook."""
        digest = Playbook.parse(self.api.get(f"{BASE}/playbooks/{playbook}")).digest()
        spec = {
            "clusterRef": {"name": "c", "uid": self.cluster()["metadata"]["uid"]},
            "playbook": {"name": playbook, "digest": digest},
            "parameters": parameters,
            "requestedBy": user,
        }
        meta = {"name": f"asked-{len(self.runs())}", "namespace": "ns"}
        self.put("remediations", {"apiVersion": API_VERSION, "kind": "Remediation", "metadata": meta, "spec": spec})

    def put(self, plural: str, body: dict[str, Any]) -> dict[str, Any]:
        self.api.created_at = self.timestamp()
        return self.api.put(f"{BASE}/namespaces/ns/{plural}", body)

    def timestamp(self) -> str:
        return (self.now + timedelta(seconds=self.ahead)).strftime(UTC_FORMAT)

    def operator(self, identity: str = "operator") -> Reconciler:
        """A fresh operator process: nothing is carried over but what the API server and Kafka hold."""
        api = self.wrap_api(self.api)
        clients = Clients(
            store=SimStore(api, policies=POLICIES),
            record=recorder(api),
            kafka=lambda _: self.wrap_kafka(self.kafka),
            zookeeper=lambda _: self.ensemble,
            canary=lambda connection, topic, seconds: SimCanary(self.kafka, topic),
            served_chains=self.served,
            metrics=lambda *_: self.exporters,
            series=self.series,
            now=lambda: self.now,
            monotonic=self._monotonic,
            files=PlanFiles(self.files),
        )
        self.reconciler = Reconciler("ns", "c", clients, self._lease_of(api, identity))
        return self.reconciler

    def _lease_of(self, api: Any, identity: str) -> Callable[[KafkaCluster], ClusterLease]:
        return lambda c: ClusterLease(api, "ns", "c", c.uid or "", identity, self._monotonic)

    def _monotonic(self) -> float:
        return self.now.timestamp()

    def step(self, seconds: float = 15.0) -> None:
        """One reconcile, then time passes in Kafka and on the clock."""
        if self.reconciler is None:
            self.operator()
        assert self.reconciler is not None
        self.api.created_at = self.timestamp()
        # As from the dates of its answers, which are in whole seconds.
        self.api.skew = Skew(self.ahead - 0.5, self.ahead + 0.5)
        with one_after_another():
            self.reconciler.reconcile()
        self.kafka.tick()
        self.exporters.pass_time(seconds)
        if self.pods is not None:
            self.pods.tick()
        if self.topic_operator is not None:
            self.topic_operator.tick(self.now.timestamp())
        self.now += timedelta(seconds=seconds)
        self.kafka.elapsed += seconds

    def runs(self) -> list[Remediation]:
        store = SimStore(self.api)
        return [store.parsed(Remediation, o) for o in self.api.list(f"{BASE}/namespaces/ns/remediations")]

    def run(self) -> Remediation:
        """The only one, or the only one that a person asked for."""
        runs = self.runs()
        (only,) = [r for r in runs if r.spec.requested_by is not None] or runs
        return only

    def cluster(self) -> dict[str, Any]:
        return self.api.get(f"{BASE}/namespaces/ns/kafkaclusters/c")

    def condition(self, kind: str) -> dict[str, Any]:
        return next(c for c in self.cluster()["status"]["conditions"] if c["type"] == kind)

    def approve(self, run: Remediation, user: str = "alice", decision: str = "Approve", **other: Any) -> None:
        assert run.status.plan is not None
        spec = {
            "remediationRef": {"name": run.name, "uid": run.uid},
            "planDigest": run.status.plan.digest,
            "decision": decision,
            "approver": user,
        } | other
        meta = {"name": f"{run.name}-{user}-{decision.lower()}", "namespace": "ns"}
        body = {"apiVersion": API_VERSION, "kind": "RemediationApproval", "metadata": meta, "spec": spec}
        self.put("remediationapprovals", body)

    def until(self, happened: Callable[[], bool], reconciles: int = 60, seconds: float = 15.0) -> None:
        for _ in range(reconciles):
            if happened():
                return
            self.step(seconds)
        state = [(r.name, r.status.phase, r.status.message) for r in self.runs()]
        raise AssertionError(f"it did not happen within {reconciles} reconciles; {state}; {self.api.events[-5:]}")

    def until_phase(self, phase: str, reconciles: int = 60, seconds: float = 15.0) -> Remediation:
        self.until(lambda: any(r.status.phase == phase for r in self.runs()), reconciles, seconds)
        return next(r for r in self.runs() if r.status.phase == phase)

    def to_the_end(
        self, reconciles: int = 80, seconds: float = 15.0, meanwhile: Callable[[], object] = lambda: None
    ) -> int:
        """Until every run has ended: a person approves each plan that waits for it, and each operator that is killed
        has a successor, which nobody kills. `meanwhile`: after each reconcile. Answers how many were killed."""
        deaths = 0
        for _ in range(reconciles):
            runs = self.runs()
            for run in runs:
                if run.status.phase == "AwaitingApproval" and not run.status.approvals:
                    self.approve(run)
            if _ended(runs):
                return deaths
            try:
                self.step(seconds)
            except Killed:
                deaths += 1
                self.wrap_kafka, self.wrap_api = (lambda kafka: kafka), (lambda api: api)
                self.operator()
            meanwhile()
        raise AssertionError([(r.name, r.status.phase, r.status.message) for r in self.runs()])

    def finished(self) -> bool:
        return _ended(self.runs())


def _ended(runs: list[Remediation]) -> bool:
    return bool(runs) and all(r.status.phase in TERMINAL_PHASES for r in runs)


def factor_one_cluster() -> SimKafka:
    """The incident: three brokers, everything with one replica, which is enough for acks=all."""
    kafka = SimKafka()
    kafka.topic("orders", [1], size=5_000_000)
    kafka.topic("payments", [0], [1], [2])
    kafka.topic("__consumer_offsets", [0], [1], [2])
    for topic in ("orders", "payments", "__consumer_offsets"):
        kafka.dynamic["TOPIC", topic, MIN_ISR] = "1"
    return kafka


def four_broker_cluster(
    racks: Mapping[int, str | None] | None = None,
    *,
    zookeeper: bool = False,
    controllers: Collection[int] = (),
    size: int = 1000,
) -> SimKafka:
    """Broker 3 is in each kind of place: it leads, follows, and has no replica of one partition."""
    racks = racks or {0: "a", 1: "b", 2: "c", 3: "a"}
    kafka = SimKafka(racks=dict(racks), zookeeper=zookeeper, controllers=set(controllers))
    kafka.topic("orders", [3, 1, 2], [1, 2, 3], [2, 0, 1], size=size)
    kafka.topic("__consumer_offsets", [0, 3, 1])
    for topic in ("orders", "__consumer_offsets"):
        kafka.dynamic["TOPIC", topic, MIN_ISR] = "2"
    return kafka


def shipped_playbook() -> Playbook:
    return Playbook.parse(yaml.safe_load(PLAYBOOK_FILE.read_text()))
