"""What the brokers' exporters say, on real parts: read with the operator's own rights, and by its own Pod."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kafka_medic.clients.exporter import scrape
from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.kubernetes_api import KubernetesApi
from kafka_medic.clients.ports import Connection, EnsembleConnection
from kafka_medic.clients.zookeeper import ZooKeeper
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.cluster.software_version import librdkafka_version
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.observe.metrics import WINDOW, MetricsProbe, read_page, wanted
from kafka_medic.observe.pods import BrokerPods
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from kafka_medic.resources.kafkacluster import Brokers
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, Shape, deployed, get, kubectl, wait_for
from tests.testbed.kafka_settings import EXPORTER_PORT

VERSIONS = {"kraft": "4.3.1", "zookeeper": "3.9.1"}
SLOT = 3
TOPIC = "metered"
PODS = Brokers.model_validate({"podSelector": {"matchLabels": {"app.kubernetes.io/name": "kafka"}}})


@pytest.fixture(scope="module", params=["kraft", "zookeeper"])
def metered(request: pytest.FixtureRequest) -> Iterator[KafkaDeployment]:
    """Three brokers with an exporter each, and a topic that each of them leads a partition of."""
    shape: Shape = request.param
    with deployed(f"metrics-{shape}", shape, slot=SLOT, exporter=True) as deployment:
        records.create_topic(deployment.bootstrap, TOPIC, [[0, 1, 2], [1, 2, 0], [2, 0, 1]])
        yield deployment


class Load:
    """A producer that sends to chosen partitions until it is told to stop."""

    def __init__(self, bootstrap: str, partitions: list[int]) -> None:
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self.partitions = partitions
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        while not self.stopping.wait(0.02):
            for partition in self.partitions:
                self.producer.produce(TOPIC, b"x" * 500, partition=partition)
            self.producer.poll(0)
        self.producer.flush(10)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.thread.join()


@pytest.fixture
def look(
    metered: KafkaDeployment, installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Snapshot]]:
    """Snapshots of it, taken as the operator takes them and with no other rights than its own."""
    monkeypatch.setenv("KUBECONFIG", str(operator.kubeconfig(tmp_path / "kubeconfig")))
    api = KubernetesApi()
    monkeypatch.undo()
    kafka = RealKafka(Connection(metered.bootstrap))
    zookeeper = ZooKeeper(EnsembleConnection(metered.zookeeper_connect, None, 5)) if metered.zookeeper_connect else None
    probe = MetricsProbe(EXPORTER_PORT, 10.0)

    def take() -> Snapshot:
        pods = BrokerPods(api, metered.namespace, PODS)
        return observe_cluster("c", ClusterReaders(kafka, zookeeper, pods.pods, pods.rollouts, metrics=probe))

    yield take
    kafka.close()
    if zookeeper is not None:
        zookeeper.close()


def until(look: Callable[[], Snapshot], what: str, so: Callable[[Snapshot], bool], seconds: float = 60) -> Snapshot:
    found: list[Snapshot] = []

    def reached() -> bool:
        found[:] = [look()]
        return so(found[0])

    try:
        wait_for(what, reached, seconds)
    except Exception as problem:
        told = [(s.name, s.error) for s in found[0].sources if s.error] if found else []
        raise AssertionError(f"{what}: {told} {found[0].brokers if found else None}") from problem
    return found[0]


def findings(snapshot: Snapshot) -> dict[str, Any]:
    return {f.id: f for f in diagnose(snapshot)}


def test_versions_clients_recovery_and_rates(metered: KafkaDeployment, look: Callable[[], Snapshot]) -> None:
    # The first page of an exporter that has just been started takes seconds, on a busy machine more than are allowed.
    until(look, "a page of every exporter", lambda s: s.source("metrics").error is None)
    with Load(metered.bootstrap, [0, 1, 2]):
        busy = until(
            look, "a rate of every broker", lambda s: all((b.bytes_in_rate or 0) > 5_000 for b in s.brokers or ()),
        )  # fmt: skip
    for broker in busy.brokers:
        assert broker.version == VERSIONS[metered.shape]
        assert broker.recovering is False
        names = {c.name for c in broker.clients}
        assert any(librdkafka_version(c.name, c.version) for c in broker.clients), broker.clients
        assert "kafka-python" in names, "one of the operator's own"
        # 50 times a second 500 bytes and a little more, and nothing of what followers copy.
        assert 5_000 < broker.bytes_in_rate < 60_000
    assert busy.cluster.version == VERSIONS[metered.shape]
    assert busy.rollouts == ()
    assert all(b.pod.node_ready and b.pod.maintenance == () for b in busy.brokers)
    advised = "VersionAdvisory/kafka-past-support" in findings(busy)
    assert advised is (metered.shape == "zookeeper"), "3.9 is not maintained any more, 4.3 is"
    assert not [i for i in findings(busy) if i.startswith("VersionAdvisory/librdkafka")]


def test_every_name_is_found_on_the_real_page(metered: KafkaDeployment) -> None:
    hosts = {n: (metered.pod(n)["status"]["podIP"], EXPORTER_PORT) for n in range(3)}
    for samples in scrape(hosts, wanted, 10).values():
        assert not isinstance(samples, ReadFailed), samples
        page = read_page(samples)
        assert page.state == 3, "running"
        assert page.bytes_in is not None
        assert page.bytes_in_last_minute is not None
        assert not page.remaining_logs, "the names of KIP-831 are there during recovery alone"


def test_a_broker_that_nobody_sends_anything(metered: KafkaDeployment, look: Callable[[], Snapshot]) -> None:
    name = "BrokerSilent/broker-2"
    idle = until(look, "a rate", lambda s: all(b.bytes_in_rate == 0 for b in s.brokers or ()), WINDOW * 4)
    assert name not in findings(idle), "everybody is idle"
    with Load(metered.bootstrap, [0, 1]):
        silent = until(look, "brokers 0 and 1 busy", lambda s: name in findings(s))
    finding = findings(silent)[name]
    assert "read from metrics at" in finding.evidence[0]
    assert not [i for i in findings(silent) if i.startswith("BrokerSilent/") and i != name]


def test_the_installed_operator_reads_them_too(metered: KafkaDeployment, installed: None) -> None:
    body = operator.kafka_cluster(metered, "metered", probes={"interval": "3s", "metricsPort": EXPORTER_PORT})
    operator.apply([body])
    try:
        supported = metered.shape == "kraft"
        operator.wait_condition(
            metered.namespace, "metered", "VersionsSupported", "True" if supported else "False",
            "AsExpected" if supported else "VersionAdvisory",
        )  # fmt: skip
        found = get("kafkacluster", "metered", namespace=metered.namespace)["status"]
        assert found["version"] == VERSIONS[metered.shape], (
            "the patch release: no request tells it, only the metrics do"
        )
        advised = [f for f in found["findings"] if f["type"] == "VersionAdvisory"]
        assert bool(advised) is not supported, json.dumps(advised)
    finally:
        kubectl("delete", "kafkacluster", "metered", "-n", metered.namespace, "--ignore-not-found")
