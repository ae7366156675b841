"""The cluster's name server, as Pods and clients beside them use it."""

from __future__ import annotations

import socket

import pytest
from confluent_kafka.admin import AdminClient

from tests.testbed import KafkaDeployment, deployed, external_kubeconfig, get, kubectl, wait_for

pytestmark = pytest.mark.skipif(external_kubeconfig() is not None, reason="a caller's cluster is not entered")
SLOT = 4


def test_a_pod_and_the_test_itself_resolve_the_pod_of_a_headless_service() -> None:
    with deployed("names", "kraft", slot=SLOT) as kafka:
        name = f"{kafka.pod_name(1)}.kafka.{kafka.namespace}.svc.cluster.local"
        address = kafka.pod(1)["status"]["podIP"]

        assert resolved_by_pod(kafka, 2, name) == address
        assert socket.gethostbyname(name) == address
        assert socket.gethostbyname(f"kafka-1.{kafka.namespace}") == kafka.broker_addresses[1]

        host = advertised(kafka, 1)
        assert host == f"{kafka.pod_name(1)}.{kafka.namespace}.svc.cluster.local"
        assert socket.gethostbyname(host) == kafka.broker_addresses[1]

        kafka.restart_broker(1)
        moved = get("pod", kafka.pod_name(1), namespace=kafka.namespace)["status"]["podIP"]
        wait_for("the successor's address", lambda: socket.gethostbyname(name) == moved, 10)


def test_names_of_the_outside_are_refused_and_not_waited_for() -> None:
    with pytest.raises(socket.gaierror):
        socket.gethostbyname("kafka.example.com")


def resolved_by_pod(kafka: KafkaDeployment, broker: int, name: str) -> str:
    pod = kafka.pod_name(broker)
    return kubectl("exec", pod, "-n", kafka.namespace, "--", "getent", "ahostsv4", name).stdout.split()[0]


def advertised(kafka: KafkaDeployment, broker: int) -> str:
    """The host that the cluster's own metadata names."""
    return str(AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=20).brokers[broker].host)
