"""Where KafkaClusters may lead the operator: its reconciles with its rights on a real API server, over real sockets."""

from __future__ import annotations

import json
import socket
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.zookeeper import ZooKeeper
from kafka_medic.controller.clients import Clients
from kafka_medic.controller.events import recorder
from kafka_medic.controller.lease import ClusterLease
from kafka_medic.controller.reconciler import Reconciler
from kafka_medic.controller.rules import Rules
from kafka_medic.controller.store import Store
from tests.integration.operated_cluster import Person, chart_rules, persons
from tests.integration.people import Object, created, helm, people, placed
from tests.testbed import kubectl
from tests.unit.clients.test_destinations import listening
from tests.unit.clients.wire_brokers import WireBroker
from tests.unit.resources.sources import CHART

NAMESPACE, LABELLED = "destinations", "kafka-user"
Reachable = Callable[..., Object]


@pytest.fixture(scope="module")
def operator_api(role: str, operator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """dora edits KafkaClusters; the operator may get the Secret, which is labelled."""
    _, _, where, account = operator.split(":")
    with people(NAMESPACE, role, ("edits", f"--clusterrole={role}-editor", "dora")):
        login = ("--from-literal=username=postgres", "--from-literal=password=s3cr3t-of-the-db")
        kubectl("-n", NAMESPACE, "create", "secret", "generic", LABELLED, *login)
        kubectl("-n", NAMESPACE, "label", "secret", LABELLED, "kafkamedic.dev/credentials=true")
        kubectl("-n", NAMESPACE, "create", "role", "secrets", "--verb=get", "--resource=secrets")
        bound = ("--role=secrets", f"--serviceaccount={where}:{account}")
        kubectl("-n", NAMESPACE, "create", "rolebinding", "secrets", *bound)
        yield persons(tmp_path_factory.mktemp("operator"), operator)["operator"]


@pytest.fixture
def reachable(operator_api: Person) -> Iterator[Reachable]:
    """dora's KafkaCluster of that spec, once the operator has looked: its condition Reachable. `allowed`: the chart's
    value destinations; `loopback`: as with the operator's option for tests on one machine."""
    begun: list[Reconciler] = []

    def look(allowed: list[Object] | None = None, *, loopback: bool = False, **spec: Any) -> Object:
        body = placed("KafkaCluster", NAMESPACE, **spec, probes={"timeout": "2s"})
        body["metadata"] = {"name": f"c-{uuid.uuid4().hex[:6]}", "namespace": NAMESPACE}
        name = created(body, "--as=dora")["metadata"]["name"]
        shown = helm("template", "x", str(CHART), "--set-json", f"destinations={json.dumps(allowed or [])}",
                     "-s", "templates/rules.yaml").stdout  # fmt: skip
        rules = Rules.model_validate_json(shown.partition("rules.json: |")[2])
        api_server = operator_api.addresses()
        clients = Clients(
            store=Store(operator_api, [NAMESPACE], chart_rules().policies),
            record=recorder(operator_api),
            kafka=RealKafka,
            zookeeper=ZooKeeper,
            canary=lambda *_: pytest.fail("nothing is written"),
            destinations=lambda namespace: rules.destinations_of(namespace, api_server, loopback=loopback),
            now=lambda: datetime.now(UTC),
            monotonic=time.monotonic,
        )
        lease = lambda c: ClusterLease(operator_api, NAMESPACE, name, c.uid or "", "the-operator")  # noqa: E731
        begun.append(Reconciler(NAMESPACE, name, clients, lease))
        begun[-1].reconcile()
        stored = json.loads(kubectl("get", "kafkacluster", name, "-n", NAMESPACE, "-o", "json").stdout)
        found: Object = next(c for c in stored["status"]["conditions"] if c["type"] == "Reachable")
        return found

    yield look
    for reconciler in begun:
        reconciler.close()


SASL = {
    "security": {
        "protocol": "SASL_PLAINTEXT",
        "allowPlaintextPassword": True,
        "sasl": {"mechanism": "PLAIN", "secretRef": {"name": LABELLED}},
        "labelledSecretsOnly": True,
    }
}


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("kafka.evil.example.com", "kafka.evil.example.com: not a destination for namespace destinations"),
        ("kafka.orders.svc", "kafka.orders.svc: not a destination for namespace destinations"),
        ("169.254.169.254", "169.254.169.254: link-local or multicast, never a destination"),
    ],
)
def test_a_secret_goes_to_no_server_of_the_editors_choice(reachable: Reachable, host: str, why: str) -> None:
    found = reachable(bootstrapServers=f"{host}:9092", **SASL)
    assert (found["status"], found["reason"]) == ("False", "DestinationRefused")
    assert why in found["message"]
    assert "s3cr3t" not in json.dumps(found)


def test_a_server_beside_the_operator_hears_nothing(reachable: Reachable) -> None:
    """The attack as it was shown: a server of the attacker's on the loopback, and everything allowed that can be."""
    anything = [{"namespace": "*", "servers": ["0.0.0.0/0", "::/0"]}]
    with listening() as (port, heard):
        for host in ("127.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0"):
            found = reachable(anything, bootstrapServers=f"{host}:{port}", **SASL)
            assert found["reason"] == "DestinationRefused", found
            assert "the operator's own Pod, never a destination" in found["message"]
        ensemble = {"metadata": {"zookeeper": {"connect": f"127.0.0.1:{port}"}}}
        found = reachable(anything, bootstrapServers="10.255.255.1:9092", **ensemble)
        assert found["reason"] == "DestinationRefused", found
        assert heard == []


def test_the_api_server_is_no_kafka(reachable: Reachable, operator_api: Person) -> None:
    (address, *_) = sorted(operator_api.addresses())
    anything = [{"namespace": "*", "servers": ["0.0.0.0/0", "::/0"]}]
    found = reachable(anything, bootstrapServers=f"{address}:6443")
    assert found["reason"] == "DestinationRefused"
    assert "never a destination" in found["message"]


@pytest.mark.parametrize("host", ["169.254.169.254", "10.3.3.3", "metadata.google.internal"])
def test_a_hostile_broker_sends_the_operator_nowhere(reachable: Reachable, host: str) -> None:
    with closing(WireBroker(1, "127.0.0.21", peers=[(1, host, 443)])) as broker:
        found = reachable(bootstrapServers=f"{broker.ip}:{broker.port}", loopback=True)
    assert found["reason"] == "DestinationRefused", found
    assert host in found["message"]


def test_what_the_administrator_lists_is_connected_to(reachable: Reachable, operator_api: Person) -> None:
    """The honest twin: a broker at an address that is listed for this namespace, and not for another."""
    address = own_address(operator_api.addresses())
    with closing(WireBroker(1, address)) as broker:
        broker.peers = [(1, address, broker.port)]
        there = {"bootstrapServers": f"{address}:{broker.port}"}
        refused = reachable([{"namespace": "another", "servers": [address]}], **there)
        assert refused["reason"] == "DestinationRefused"
        assert f"{address}: not a destination for namespace {NAMESPACE}" in refused["message"]
        assert broker.opened == 0
        reached = reachable([{"namespace": NAMESPACE, "servers": [f"{address}/32"]}], **there)
        assert reached["reason"] != "DestinationRefused", reached
        assert broker.opened > 0


def own_address(besides: Collection[str]) -> str:
    """Of this machine in the testbed's network: a node's, and not the API server's."""
    nodes = json.loads(kubectl("get", "nodes", "-o", "json").stdout)["items"]
    for address in (a["address"] for node in nodes for a in node["status"]["addresses"] if a["type"] == "InternalIP"):
        with suppress(OSError), socket.create_server((address, 0)):
            if address not in besides:
                return str(address)
    pytest.skip("no node of this cluster's is this machine")
