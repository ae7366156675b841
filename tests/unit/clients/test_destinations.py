"""Where a namespace may lead the operator, whoever names it: a KafkaCluster, a broker, or a resolver."""

from __future__ import annotations

import dataclasses
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from kafka_medic.clients.destinations import Destinations
from kafka_medic.clients.exporter import scrape
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.kafka_admin import KafkaAdmin
from kafka_medic.clients.oauth import TokenSource
from kafka_medic.clients.ports import BrokerView, Connection, EnsembleConnection, OAuthClient
from kafka_medic.clients.zookeeper import ZooKeeper
from tests.unit.clients.wire_brokers import WireBroker

PAYMENTS = Destinations("payments", forbidden=frozenset({"10.96.0.1"}))
LISTED = dataclasses.replace(
    PAYMENTS,
    servers=("*.kafka.example.com", "broker.example.org", "10.20.0.0/16", "0.0.0.0/0", "::/0"),
    token_endpoints=("login.example.com",),
)
LOCAL = dataclasses.replace(PAYMENTS, loopback=True)


def refusal(problem: pytest.ExceptionInfo[ReadFailed]) -> str:
    assert problem.value.kind is FailureKind.DESTINATION
    return problem.value.message


@pytest.mark.parametrize(
    "host", ["kafka.payments.svc", "kafka-0.kafka.payments.svc.cluster.local", "KAFKA.Payments.SVC", "k.payments.svc."]
)
def test_names_of_the_namespaces_own_services_need_nobodys_word(host: str) -> None:
    PAYMENTS.check_servers([host])


@pytest.mark.parametrize(
    "host",
    [
        "kafka.orders.svc",
        "kafka.orders.svc.cluster.local",
        "evil.com",
        "kafka",
        "payments.svc",
        "xpayments.svc",
        # A top-level domain may be called as a namespace is.
        "kafka.payments",
        "kafka.payments.svc.evil.com",
        "10.20.0.1",
        "2130706433",
        "127.1",
    ],
)
def test_whatever_else_is_refused_with_who_may_add_it(host: str) -> None:
    with pytest.raises(ReadFailed) as problem:
        PAYMENTS.check_servers([host])
    told = refusal(problem)
    assert told.startswith(f"{host}: not a destination for namespace payments, which may name *.payments.svc and ")
    assert told.endswith("an administrator adds it to the chart value destinations (servers)")


@pytest.mark.parametrize("host", ["a.kafka.example.com", "a.b.kafka.example.com", "broker.example.org", "10.20.3.4"])
def test_what_the_administrator_lists_may_be_named(host: str) -> None:
    LISTED.check_servers([host])


def test_servers_and_token_endpoints_are_listed_apart() -> None:
    with pytest.raises(ReadFailed):
        LISTED.check_servers(["login.example.com"])
    with pytest.raises(ReadFailed) as problem:
        LISTED.token_endpoint("broker.example.org", 443)
    assert "(tokenEndpoints)" in refusal(problem)


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("127.0.0.1", "the operator's own Pod"),
        ("127.255.1.2", "the operator's own Pod"),
        ("::1", "the operator's own Pod"),
        ("::ffff:127.0.0.1", "the operator's own Pod"),
        ("64:ff9b::7f00:1", "the operator's own Pod"),
        ("0.0.0.0", "the operator's own Pod"),
        ("::", "the operator's own Pod"),
        ("169.254.169.254", "link-local or multicast"),
        ("fe80::1", "link-local or multicast"),
        ("fe80::1%eth0", "link-local or multicast"),
        ("224.0.0.1", "link-local or multicast"),
        ("10.96.0.1", "the API server"),
        ("::ffff:10.96.0.1", "the API server"),
    ],
)
def test_some_addresses_are_never_a_destination_whatever_is_listed(address: str, what: str) -> None:
    for attempt in (lambda: LISTED.check_servers([address]), lambda: LISTED.address(address)):
        with pytest.raises(ReadFailed) as problem:
            attempt()
        assert refusal(problem) == f"{address}: {what}, never a destination; correct the address"


def resolving(monkeypatch: pytest.MonkeyPatch, address: str, alias: str = "") -> None:
    def answer(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, alias or host, (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)


def test_a_permitted_name_that_resolves_to_the_own_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "127.0.0.1")
    with pytest.raises(ReadFailed) as problem:
        PAYMENTS.server("kafka.payments.svc", 9092)
    assert refusal(problem).startswith("kafka.payments.svc, which is 127.0.0.1: the operator's own Pod")


def test_a_permitted_name_that_resolves_elsewhere_is_connected_to_as_it_was_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolving(monkeypatch, "10.1.2.3", "kafka.payments.svc.cluster.local")
    (found,) = PAYMENTS.server("kafka.payments.svc", 9092)
    assert found[4] == ("10.1.2.3", 9092)


def test_a_service_that_is_an_alias_for_a_name_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Type ExternalName: whoever may create Services may create it."""
    resolving(monkeypatch, "203.0.113.9", "evil.com")
    with pytest.raises(ReadFailed) as problem:
        PAYMENTS.server("kafka.payments.svc", 9092)
    assert refusal(problem).startswith("evil.com: not a destination for namespace payments")


@contextmanager
def listening(ip: str = "127.0.0.1") -> Iterator[tuple[int, list[bytes]]]:
    """The port of somebody who takes whatever is sent, and what was sent."""
    heard: list[bytes] = []
    with closing(socket.create_server((ip, 0))) as listener:

        def accept() -> None:
            while True:
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                heard.append(b"")
                with link:
                    link.settimeout(0.5)
                    try:
                        heard.append(link.recv(4096))
                    except OSError:
                        continue

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1], heard


def test_nothing_is_sent_to_a_server_that_is_no_destination() -> None:
    """Neither by kafka-python nor by librdkafka, nor to find out why a handshake fails."""
    with listening() as (port, heard):
        with pytest.raises(ReadFailed) as problem:
            RealKafka(Connection(f"127.0.0.1:{port}", timeout_seconds=1.0, destinations=LISTED))
        assert "the operator's own Pod, never a destination" in refusal(problem)
        zookeeper = ZooKeeper(EnsembleConnection(f"127.0.0.1:{port}", timeout_seconds=1.0, destinations=LISTED))
        with pytest.raises(ReadFailed, match="never a destination"):
            zookeeper.registrations()
        zookeeper.close()
        client = OAuthClient(f"http://127.0.0.1:{port}/t", "id", "secret", destinations=LISTED)
        with pytest.raises(ReadFailed, match="never a destination"):
            TokenSource(client, 1.0).token()
        (answer,) = scrape({1: ("127.0.0.1", port)}, lambda _: True, 2.0, LISTED).values()
        assert isinstance(answer, ReadFailed)
        assert "never a destination" in answer.message
        assert heard == []


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("169.254.169.254", "169.254.169.254: link-local or multicast, never a destination"),
        ("10.96.0.1", "10.96.0.1: the API server, never a destination"),
        ("10.3.3.3", "10.3.3.3: not a destination for namespace payments"),
        ("metadata.google.internal", "metadata.google.internal: not a destination for namespace payments"),
    ],
)
def test_what_a_broker_advertises_is_bounded_too(host: str, why: str) -> None:
    """A hostile broker sends whoever asks it elsewhere."""
    broker = WireBroker(1, "127.0.0.9", peers=[(2, host, 443)])
    kafka = RealKafka(Connection(f"{broker.ip}:{broker.port}", timeout_seconds=1.0, destinations=LOCAL))
    try:
        with pytest.raises(ReadFailed) as problem:
            kafka.describe_cluster()
        assert refusal(problem).startswith(why)
    finally:
        kafka.close()
        broker.close()


def test_kafka_python_connects_to_no_broker_out_of_bounds_by_itself() -> None:
    """As after a refresh of its metadata, between two observations."""
    broker = WireBroker(1, "127.0.0.10", peers=[(2, "10.96.0.1", 443)])
    admin = KafkaAdmin(Connection(f"{broker.ip}:{broker.port}", timeout_seconds=1.0, destinations=LOCAL))
    try:
        answer = admin.memberships([2])[2]
        assert isinstance(answer, ReadFailed)
        assert "10.96.0.1: the API server, never a destination" in answer.message
    finally:
        admin.close()
        broker.close()


def test_a_broker_that_was_away_is_read_at_its_name_then_and_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it last was is a name, which is bounded as every name is."""
    resolve = socket.getaddrinfo

    def resolved(host: str, *args: Any, **kwargs: Any) -> Any:
        return resolve("127.0.0.14" if host == "kafka-2.payments.svc" else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    one, two = WireBroker(1, "127.0.0.13"), WireBroker(2, "127.0.0.14")
    one.peers = [(1, one.ip, one.port)]
    two.peers = [(1, one.ip, one.port), (2, "kafka-2.payments.svc", two.port)]
    admin = KafkaAdmin(Connection(f"{one.ip}:{one.port}", timeout_seconds=2.0, destinations=LOCAL))
    try:
        admin.members()
        away = admin.unnamed_views({2: [("kafka-2.payments.svc", two.port)], 3: [("kafka.orders.svc", two.port)]})
        assert isinstance(away[2], BrokerView), away[2]
        assert isinstance(away[3], ReadFailed)
        one.peers = two.peers
        admin.members()
        back = admin.views([2])[2]
        assert isinstance(back, BrokerView), back
    finally:
        admin.close()
        one.close()
        two.close()


def test_an_honest_broker_is_read_within_bounds() -> None:
    broker = WireBroker(1, "127.0.0.11")
    broker.peers = [(1, "127.0.0.11", broker.port)]
    kafka = RealKafka(Connection(f"{broker.ip}:{broker.port}", timeout_seconds=2.0, destinations=LOCAL))
    try:
        assert [n.host for n in kafka.describe_cluster().nodes] == ["127.0.0.11"]
        assert not isinstance(kafka.memberships([1])[1], ReadFailed)
    finally:
        kafka.close()
        broker.close()


def test_a_broker_that_turns_hostile_between_two_observations() -> None:
    broker = WireBroker(1, "127.0.0.12")
    broker.peers = [(1, broker.ip, broker.port)]
    kafka = RealKafka(Connection(f"{broker.ip}:{broker.port}", timeout_seconds=2.0, destinations=LOCAL))
    try:
        kafka.describe_cluster()
        broker.peers = [(1, broker.ip, broker.port), (2, "kafka.orders.svc", 9092)]
        with pytest.raises(ReadFailed) as problem:
            kafka.describe_cluster()
        assert refusal(problem).startswith("kafka.orders.svc: not a destination for namespace payments")
    finally:
        kafka.close()
        broker.close()
