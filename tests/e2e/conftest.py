"""The operator, installed once for all end-to-end tests by its chart, with people who may and may not approve."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.conftest import one_of_each_kind
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, Shape, kubectl
from tests.testbed import get as get_object

T = TypeVar("T")
STEADY_SLOTS: dict[Shape, int] = {"kraft": 5, "zookeeper": 6}
STEADY = {
    "default.replication.factor": 3,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.replication.factor": 3,
    "min.insync.replicas": 2,
}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on deployments of their own come last, when the shared ones have gone; after all others what was asked of
    the API server is looked at."""
    items.sort(key=lambda item: (
        item.path.name == "test_rights.py", item.path.parent == Path(__file__).parent and not _shares(item)
    ))  # fmt: skip


def _shares(item: pytest.Item) -> bool:
    return "kafka_of" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def installed() -> Iterator[None]:
    operator.uninstall()  # what a killed run left
    operator.install()
    tune_playbooks()
    yield
    operator.uninstall()


def tune_playbooks() -> None:
    """After the chart was installed."""
    # As anybody may tune it: proposed after two seconds instead of thirty, which is time that tests need not spend.
    sooner = '{"spec":{"trigger":{"for":"2s"}}}'
    for playbook in ("raise-replication-factor", "rolling-restart"):
        kubectl("patch", "playbook", playbook, "--type=merge", "-p", sooner)
    # Brokers that were away lead nothing for a while, and are kept away by a cordon: that is the business of one test.
    # So are offsets beyond the log end, and defaults of factor 1, which other tests only want to be found.
    for playbook in ("elect-preferred-leaders", "drain-broker", "reset-consumer-offsets", "raise-defaults"):
        kubectl("patch", "playbook", playbook, "--type=merge", "-p", '{"spec":{"trigger":{"for":"1h"}}}')


@pytest.fixture(scope="session")
def steady(request: pytest.FixtureRequest) -> list[KafkaDeployment]:
    """One of each kind in which every partition has a replica to spare."""
    return one_of_each_kind(request, "roll", STEADY, STEADY_SLOTS)


def at_the_same_time(story: Callable[[T], None], places: Sequence[T]) -> None:
    """What takes long, in several places at once; one after the other with AT_ONCE=1, to be timed."""
    with ThreadPoolExecutor(int(os.environ.get("AT_ONCE", len(places)))) as pool:
        stories = [pool.submit(story, place) for place in places]
    failed = [(place, problem) for place, s in zip(places, stories, strict=True) if (problem := s.exception())]
    if failed:
        told = "; ".join(f"on {place}: {problem!r}" for place, problem in failed)
        raise AssertionError(told) from failed[0][1]


@dataclass
class Case:
    """One KafkaCluster of its own on a shared deployment, and the topics that it may see; all else is exempt."""

    kafka: KafkaDeployment
    name: str
    topics: list[str] = field(default_factory=list)
    asked: str | None = None
    """The run that a person asked for last. The operator may propose others meanwhile."""

    @property
    def namespace(self) -> str:
        return self.kafka.namespace

    @property
    def boot(self) -> str:
        return self.kafka.bootstrap

    def topic(self, *assignment: list[int], suffix: str = "orders", config: dict[str, str] | None = None) -> str:
        name = f"{self.name}.{suffix}"
        records.create_topic(self.boot, name, list(assignment), config)
        self.topics.append(name)
        return name

    def watch(self, **spec: Any) -> None:
        """Create the KafkaCluster; only this case's topics are looked at."""
        mine = {"pattern": rf"(?:{self.name}\..*)", "replicationFactor": 3}
        expectations = {"topics": [mine, {"pattern": ".*", "exempt": True}]} | spec.pop("expectations", {})
        body = operator.kafka_cluster(self.kafka, self.name, expectations=expectations, **spec)
        operator.apply([body])

    def ask(self, playbook: str, **parameters: str) -> None:
        """A person asks for a run."""
        cluster = get_object("kafkacluster", self.name, namespace=self.namespace)
        digest = get_object("playbooks", playbook)["status"]["digest"]
        spec = {
            "clusterRef": {"name": self.name, "uid": cluster["metadata"]["uid"]},
            "playbook": {"name": playbook, "digest": digest},
            "parameters": parameters,
            "requestedBy": "admin",
        }
        self.asked = f"{self.name}-{uuid.uuid4().hex[:5]}"
        meta = {"name": self.asked, "namespace": self.namespace}
        operator.apply([{"apiVersion": operator.API_VERSION, "kind": "Remediation", "metadata": meta, "spec": spec}])

    def runs(self) -> list[operator.Object]:
        return [r for r in operator.runs(self.namespace) if r["spec"]["clusterRef"]["name"] == self.name]

    def wait(self, phase: str, seconds: float = 120) -> operator.Object:
        """The run that was asked for, or else the newest one."""
        return operator.wait_for_run(self.namespace, phase, seconds, cluster=self.name, name=self.asked)

    def wait_for_guard(self, guard: str, seconds: float = 60) -> str:
        """The message of a guard that the run waits for."""
        found: list[str] = []

        def waits() -> bool:
            found[:] = [
                w["message"]
                for r in self.runs()
                for w in r.get("status", {}).get("waitingFor", [])
                if w["guard"] == guard
            ]
            return bool(found)

        operator.wait_for(f"{self.name} waiting for {guard}", waits, seconds)
        return found[0]

    def condition(self, kind: str, status: str, reason: str | None = None, seconds: float = 60) -> operator.Object:
        return operator.wait_condition(self.namespace, self.name, kind, status, reason, seconds)

    def events(self) -> list[tuple[str, str]]:
        return operator.events(self.namespace, self.name)

    def factors(self) -> set[int]:
        found = operator.factors(self.boot)
        return {n for t in self.topics for n in found[t]}

    def end(self) -> None:
        kubectl("delete", "kafkacluster", self.name, "-n", self.namespace, "--ignore-not-found")
        for topic in self.topics:
            records.delete_topic(self.boot, topic)


@pytest.fixture
def case(installed: None, kafka: KafkaDeployment) -> Iterator[Case]:
    yield from _case(kafka)


@pytest.fixture
def kraft_case(installed: None, kafka_of: Callable[[str], KafkaDeployment]) -> Iterator[Case]:
    """For what has nothing to do with where metadata is kept."""
    yield from _case(kafka_of("kraft"))


@pytest.fixture
def both_cases(installed: None, kafka_of: Callable[[Shape], KafkaDeployment]) -> Iterator[list[Case]]:
    """One of each kind of cluster, for what takes long and can be done to both at the same time."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.contextmanager(_case)(kafka_of(s))) for s in ("kraft", "zookeeper")]


@pytest.fixture
def cases_on(
    installed: None, kafka_of: Callable[[Shape], KafkaDeployment]
) -> Iterator[Callable[[Shape, int], list[Case]]]:
    """So many on one cluster, each with topics of its own."""
    with contextlib.ExitStack() as stack:

        def make(shape: Shape, count: int) -> list[Case]:
            kafka = kafka_of(shape)
            return [stack.enter_context(contextlib.contextmanager(_case)(kafka)) for _ in range(count)]

        yield make


@pytest.fixture
def zookeeper_case(installed: None, kafka_of: Callable[[str], KafkaDeployment]) -> Iterator[Case]:
    """For what has to do with the ensemble alone."""
    yield from _case(kafka_of("zookeeper"))


def _case(kafka: KafkaDeployment) -> Iterator[Case]:
    operator.people(kafka.namespace)
    case = Case(kafka, f"case-{uuid.uuid4().hex[:6]}")
    yield case
    case.end()


@pytest.fixture(scope="module")
def no_other_operator(installed: None) -> Iterator[None]:
    """The installed one steps aside: the one under test runs outside, where it can be killed to the point."""
    deployment = f"deployment/{operator.RELEASE}"
    kubectl("scale", deployment, "-n", operator.NAMESPACE, "--replicas=0")
    gone = ["-n", operator.NAMESPACE, "-l", "app.kubernetes.io/name=kafka-medic"]
    kubectl("wait", "pods", *gone, "--for=delete", "--timeout=60s")
    with operator.lists_namespaces():
        yield
    kubectl("scale", deployment, "-n", operator.NAMESPACE, "--replicas=1")
    kubectl("rollout", "status", deployment, "-n", operator.NAMESPACE, "--timeout=120s", timeout=130)


def mortal_operator(
    case: Case, folder: Path, number: int, moment: str | None, clock_off: float = 0.0
) -> subprocess.Popen[bytes]:
    """One operator process. Its name stays, as a container's does when the kubelet starts it again in its Pod.
    `clock_off`: the seconds by which its wall clock is ahead."""
    module = "tests.e2e.mortal_operator"
    run = ["tests.e2e.off_clock", str(clock_off), module] if clock_off else [module]
    command = [sys.executable, "-m", *run, str(folder / "effects"), case.namespace]
    environment = os.environ | {
        "KUBECONFIG": str(operator.kubeconfig(folder / "kubeconfig")),
        "POD_NAME": "operator-under-test",
    }
    log = (folder / f"operator-{number}.log").open("wb")
    return subprocess.Popen([*command, *([moment] if moment else [])], env=environment, stdout=log, stderr=log)
