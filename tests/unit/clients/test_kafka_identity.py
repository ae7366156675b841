"""Which broker answers at a Pod's own address: over the connection there is, else at the address itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trustme

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kafka_admin import KafkaAdmin
from kafka_medic.clients.kafka_identity import _plain
from kafka_medic.clients.ports import Connection, PodAddress, TlsMaterial
from tests.unit.clients.wire_brokers import UNAUTHORIZED, Relay, WireBroker

IDS = (1, 2, 3)


class Cluster:
    """Brokers 1, 2, 3 in Pods of the addresses 127.0.0.11 to 13, or, with `runs`, others there."""

    def __init__(self, runs: dict[int, int] | None = None, hosts: dict[int, str] | None = None, **how: Any) -> None:
        certificates = how.pop("certificates", {})
        runs = runs or {n: n for n in IDS}
        self.pods = {n: WireBroker(runs[n], f"127.0.0.1{n}", certificate=certificates.get(n), **how) for n in IDS}
        self.more: list[Any] = []
        self.announced = {b.id: (b.ip, b.port) for b in self.pods.values()}
        if hosts:
            self.announced = {id_: (hosts[id_], port) for id_, (_, port) in self.announced.items()}
        self.announce()

    def announce(self, **changed: tuple[str, int]) -> None:
        self.announced |= {int(b[1:]): at for b, at in changed.items()}
        for broker in self.pods.values():
            broker.peers = [(id_, *at) for id_, at in sorted(self.announced.items())]

    def address(self, pod: int, *ports: int, hosts: tuple[str, ...] = ()) -> PodAddress:
        return PodAddress(self.pods[pod].ip, ports or (self.pods[pod].port,), hosts)

    def addresses(self, hosts: tuple[str, ...] = ()) -> dict[int, PodAddress]:
        return {n: self.address(n, hosts=hosts) for n in IDS}

    def connection(self, **how: Any) -> Connection:
        return Connection(f"{self.pods[1].ip}:{self.pods[1].port}", timeout_seconds=3.0, **how)

    def close(self) -> None:
        for one in (*self.pods.values(), *self.more):
            one.close()


@pytest.fixture
def made() -> Iterator[list[Any]]:
    opened: list[Any] = []
    yield opened
    for one in reversed(opened):
        one.close()


Make = Callable[..., tuple[KafkaAdmin, Cluster]]


@pytest.fixture
def make(made: list[Any]) -> Make:
    def build(cluster: Cluster, **how: Any) -> tuple[KafkaAdmin, Cluster]:
        admin = KafkaAdmin(cluster.connection(**how))
        made.extend([cluster, admin])
        admin.members()
        return admin, cluster

    return build


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def failure(answer: Any) -> ReadFailed:
    assert isinstance(answer, ReadFailed), answer
    return answer


def test_the_connection_there_is_identifies_a_broker_at_no_further_one(make: Make) -> None:
    admin, cluster = make(Cluster())
    first = {1: 2, 2: 1, 3: 1}  # one more of the bootstrap server
    until(lambda: {n: pod.opened for n, pod in cluster.pods.items()} == first)
    assert admin.identities(cluster.addresses(), IDS) == {1: 1, 2: 2, 3: 3}
    assert {n: pod.opened for n, pod in cluster.pods.items()} == first
    assert [pod.asked for pod in cluster.pods.values()] == [[("1",)], [("2",)], [("3",)]]


def test_behind_a_service_the_pod_is_asked_at_its_own_address_once(make: Make, made: list[Any]) -> None:
    cluster = Cluster()
    service = Relay("127.0.0.20", cluster.pods[2])
    made.append(service)
    cluster.announce(b2=("127.0.0.20", service.port))
    admin, _ = make(cluster)
    until(lambda: cluster.pods[2].opened == 1)
    assert admin.identities(cluster.addresses(), IDS) == {1: 1, 2: 2, 3: 3}
    assert cluster.pods[2].opened == 2
    until(lambda: cluster.pods[2].links[-1].fileno() < 0)


def test_crossed_pods_are_told_each_with_the_broker_that_runs_there(make: Make) -> None:
    admin, cluster = make(Cluster(runs={1: 1, 2: 3, 3: 2}))
    assert admin.identities(cluster.addresses(), IDS) == {1: 1, 2: 3, 3: 2}


def test_pods_of_which_nothing_says_what_they_run_are_asked_at_their_own_address(make: Make) -> None:
    admin, cluster = make(Cluster(runs={1: 1, 2: 3, 3: 2}))
    unclaimed = {-1 - place: address for place, address in enumerate(cluster.addresses().values())}
    assert admin.identities(unclaimed, IDS) == {-1: 1, -2: 3, -3: 2}
    assert all("-" not in name for pod in cluster.pods.values() for asked in pod.asked for name in asked)


def test_a_service_that_leads_to_another_pod_deceives_nobody(make: Make, made: list[Any]) -> None:
    """Broker 2 is reached, and answers as itself; the Pod that is said to be its runs broker 3."""
    cluster = Cluster(runs={1: 1, 2: 3, 3: 2})
    service = Relay("127.0.0.20", cluster.pods[3])
    made.append(service)
    cluster.announce(b2=("127.0.0.20", service.port))
    admin, _ = make(cluster)
    assert admin.identities({2: cluster.address(2)}, IDS) == {2: 3}


def test_the_right_port_is_found_among_several(make: Make) -> None:
    admin, cluster = make(Cluster(runs={1: 1, 2: 3, 3: 2}))
    port = cluster.pods[2].port
    assert admin.identities({2: cluster.address(2, 1, port, 2)}, IDS) == {2: 3}
    (refused,) = admin.identities({2: cluster.address(2, 1, 2)}, IDS).values()
    assert failure(refused).kind is FailureKind.UNREACHABLE


def test_two_brokers_at_one_address_are_told_and_neither_is_taken(make: Make, made: list[Any]) -> None:
    admin, cluster = make(Cluster(runs={1: 1, 2: 3, 3: 2}))
    beside = WireBroker(1, cluster.pods[2].ip)
    made.append(beside)
    (answer,) = admin.identities({2: cluster.address(2, cluster.pods[2].port, beside.port)}, IDS).values()
    assert "brokers [1, 3] all answer at 127.0.0.12" in failure(answer).message


def test_a_pod_that_is_silent_fails_alone_and_costs_a_short_time(make: Make) -> None:
    admin, cluster = make(Cluster())
    cluster.pods[2].mute = True
    for link in cluster.pods[2].links:
        link.close()
    began = time.monotonic()
    answers = admin.identities(cluster.addresses(), IDS)
    assert time.monotonic() - began < 3.0, "not the connection's own time limit"
    assert (answers[1], answers[3]) == (1, 3)
    assert failure(answers[2]).kind is FailureKind.UNREACHABLE


def test_a_broker_of_none_of_these_ids_is_none_of_them(make: Make) -> None:
    admin, cluster = make(Cluster())
    (answer,) = admin.identities({7: cluster.address(2)}, (7, 8)).values()
    assert "none of the brokers 7, 8 answers" in failure(answer).message


def test_a_controller_that_is_no_broker_is_asked_likewise(make: Make, made: list[Any]) -> None:
    admin, _ = make(Cluster())
    controllers = {n: WireBroker(n, f"127.0.0.{n + 20}", controller=True) for n in (10, 11)}
    made.extend(controllers.values())
    asked = {10: PodAddress("127.0.0.31", (controllers[11].port,), ()), 11: PodAddress("127.0.0.30", (), ())}
    answers = admin.identities(asked, (*IDS, 10, 11))
    assert answers[10] == 11
    assert failure(answers[11]).kind is FailureKind.UNREACHABLE


def test_a_broker_of_another_cluster_is_none_of_ours_though_it_has_the_id(make: Make, made: list[Any]) -> None:
    admin, _ = make(Cluster())
    others = [WireBroker(2, "127.0.0.40", cluster="theirs"), WireBroker(10, "127.0.0.41", cluster="t", controller=True)]
    made.extend(others)
    asked = {n.id: PodAddress(n.ip, (n.port,), ()) for n in others}
    answers = admin.identities(asked, (*IDS, 10))
    assert "broker 2 of another Kafka cluster, theirs, answers" in failure(answers[2]).message
    assert "broker 10 of another Kafka cluster, t, answers" in failure(answers[10]).message


def test_who_may_not_describe_configurations_is_told_so(make: Make) -> None:
    admin, cluster = make(Cluster())
    cluster.pods[2].error = UNAUTHORIZED
    answers = admin.identities(cluster.addresses(), IDS)
    assert failure(answers[2]).kind is FailureKind.AUTHORIZATION
    assert answers[1] == 1


CA = trustme.CA()
NAMES = {n: f"kafka-{n}.kafka.svc" for n in IDS}


@pytest.fixture
def secured(make: Make, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[KafkaAdmin, Cluster]]:
    """Certificates are for the Pods' names, and for 127.0.0.11 where the client comes in."""

    def build(runs: dict[int, int]) -> tuple[KafkaAdmin, Cluster]:
        import socket as sockets

        certificates = {n: CA.issue_cert(name, *(["127.0.0.11"] if n == 1 else [])) for n, name in NAMES.items()}
        cluster = Cluster(runs, {runs[n]: name for n, name in NAMES.items()}, certificates=certificates)
        look_up = sockets.getaddrinfo

        def resolve(host: Any, *more: Any) -> Any:
            known = {NAMES[n]: pod.ip for n, pod in cluster.pods.items()}
            return look_up(known.get(host, host), *more)

        monkeypatch.setattr(sockets, "getaddrinfo", resolve)
        return make(cluster, protocol="SSL", tls=TlsMaterial(CA.cert_pem.bytes().decode()))

    return build


def test_a_certificate_has_to_be_for_the_announced_name_and_not_for_the_ip(secured: Any) -> None:
    admin, cluster = secured({1: 1, 2: 2, 3: 3})
    for pod in cluster.pods.values():  # else the connections there are would do
        pod.asked.clear()
    crossed = {2: cluster.address(3, hosts=(NAMES[3],)), 3: cluster.address(3, hosts=("127.0.0.13",))}
    answers = admin.identities(crossed, IDS)
    assert answers[2] == 3
    assert answers[3] == 3, "over the connection that there is"
    answers = admin.identities({2: cluster.address(3, hosts=("elsewhere.example.com",))}, IDS)
    assert failure(answers[2]).kind is FailureKind.TLS
    assert failure(admin.identities({2: cluster.address(3)}, IDS)[2]).kind is FailureKind.TLS


def test_a_pod_that_is_silent_in_the_handshake_leaves_nothing_behind(secured: Any) -> None:
    admin, _ = secured({1: 1, 2: 2, 3: 3})
    waiting = admin._link._client._manager._net._pending_tasks
    before = len(waiting)
    silent = WireBroker(9, "127.0.0.19", mute=True)
    began = time.monotonic()
    answers = admin.identities({9: PodAddress(silent.ip, (silent.port,), (NAMES[2],))}, (*IDS, 9))
    assert time.monotonic() - began < 3.0
    assert failure(answers[9]).kind is FailureKind.UNREACHABLE
    until(lambda: len(waiting) <= before)
    silent.close()


def test_crossed_pods_have_certificates_for_their_own_names(secured: Any) -> None:
    """The first name that is tried is the wrong one: it is announced by the broker that runs elsewhere."""
    admin, cluster = secured({1: 1, 2: 3, 3: 2})
    hosts = (NAMES[3], NAMES[2], NAMES[1])
    assert admin.identities({2: cluster.address(2, hosts=hosts)}, IDS) == {2: 3}


def test_an_ipv4_address_in_ipv6s_clothes_is_the_same() -> None:
    assert _plain("::ffff:10.0.0.1") == _plain("10.0.0.1")
    assert _plain("fd00::1") != _plain("10.0.0.1")
