"""Every way to a secured cluster reads it in full through the real port; every wrong thing is refused by its name."""

from __future__ import annotations

import json
import logging
import traceback
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from kafka_medic.clients.certificates import certificates_in, served_chains
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection, EnsembleConnection, OAuthClient, PodAddress, TlsMaterial
from kafka_medic.clients.zookeeper import ZooKeeper
from kafka_medic.cluster.document import to_document
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from tests.incident.records import create_topic, delete_topic, read_group, write
from tests.simulation.token_endpoint import CLIENT_ID, CLIENT_SECRET, TokenEndpoint
from tests.testbed import KafkaDeployment, Shape, faults, secured
from tests.testbed.secured import LISTENERS, PASSWORD, USER, Credentials, Identity

MARK = "hunter2"
"""Part of every secret that is wrong, and found nowhere."""


def material(ca: str, identity: Identity | None = None) -> TlsMaterial:
    return TlsMaterial(ca, identity.certificate, identity.key) if identity else TlsMaterial(ca)


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    endpoint = TokenEndpoint()
    yield endpoint
    endpoint.close()


Way = Callable[[KafkaDeployment, Credentials, TokenEndpoint], Connection]


def to(listener: str, mechanism: str | None = None, password: str = PASSWORD, **changed: Any) -> Way:
    """A connection to a listener as a person who set it up would make it, or with something `changed`."""

    def make(kafka: KafkaDeployment, credentials: Credentials, endpoint: TokenEndpoint) -> Connection:
        protocol = LISTENERS[listener][0]
        settings: dict[str, Any] = {"protocol": protocol, "timeout_seconds": 2.0}
        if protocol.endswith("SSL"):
            settings["tls"] = material(credentials.ca, credentials.client if listener == "MUTUAL" else None)
        if mechanism == "OAUTHBEARER":
            settings |= {"sasl_mechanism": mechanism, "oauth": OAuthClient(endpoint.url, CLIENT_ID, CLIENT_SECRET)}
        elif mechanism is not None:
            settings |= {"sasl_mechanism": mechanism, "sasl_username": USER, "sasl_password": password}
        for name, value in changed.items():
            settings[name] = value(credentials, endpoint) if callable(value) else value
        return Connection(secured.bootstrap(kafka, listener), **settings)

    return make


def in_the_clear(kafka: KafkaDeployment, _: Credentials, __: TokenEndpoint) -> Connection:
    return Connection(secured.bootstrap(kafka, "TLS"), timeout_seconds=2.0)


def tls_to_a_port_without(kafka: KafkaDeployment, credentials: Credentials, _: TokenEndpoint) -> Connection:
    return Connection(kafka.bootstrap, protocol="SSL", tls=material(credentials.ca), timeout_seconds=2.0)


@pytest.fixture
def topic(kafka: KafkaDeployment) -> Iterator[str]:
    """A topic with records, of which a group has read some."""
    name = f"secured-{uuid.uuid4().hex[:8]}"
    create_topic(kafka.bootstrap, name, [[0, 1], [1, 2]])
    write(kafka.bootstrap, name, [str(n) for n in range(10)])
    assert len(read_group(kafka.bootstrap, f"{name}-readers", name, 4)) == 4
    yield name
    delete_topic(kafka.bootstrap, name)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(to("SASL", "PLAIN"), id="SASL_PLAINTEXT-PLAIN"),
        pytest.param(to("TLS"), id="SSL"),
        pytest.param(to("MUTUAL"), id="SSL-mutual"),
        pytest.param(to("SASLTLS", "PLAIN"), id="SASL_SSL-PLAIN"),
        pytest.param(to("SASLTLS", "SCRAM-SHA-256"), id="SASL_SSL-SCRAM-SHA-256"),
        pytest.param(to("SASLTLS", "SCRAM-SHA-512"), id="SASL_SSL-SCRAM-SHA-512"),
        pytest.param(to("SASLTLS", "OAUTHBEARER"), id="SASL_SSL-OAUTHBEARER"),
    ],
)
def test_a_secured_cluster_is_read_in_full(
    kafka: KafkaDeployment, credentials: Credentials, endpoint: TokenEndpoint, topic: str, way: Way
) -> None:
    ensemble = None
    if kafka.shape == "zookeeper":
        tls = material(credentials.ca, credentials.client)
        ensemble = ZooKeeper(EnsembleConnection(secured.ensemble_connect(kafka), tls))
    connected = RealKafka(way(kafka, credentials, endpoint))
    try:
        seen = observe_cluster("secured", ClusterReaders(connected, ensemble))
    finally:
        connected.close()
        if ensemble is not None:
            ensemble.close()
    assert [(s.name, s.error) for s in seen.sources if not s.known] == []
    assert whole(seen, topic) == {
        "brokers": [0, 1, 2],
        "views": [0, 1, 2],
        "voters": 3,
        "log ends": 10,
        "committed": [(f"{topic}-readers", 4)],
        "min.insync.replicas": True,
        "log sizes": True,
    }
    assert len(endpoint.asked) <= 1, "one token serves both clients"


def whole(seen: Snapshot, topic: str) -> dict[str, Any]:
    told = to_document(seen)
    mine = [p for p in told["partitions"] if p["topic"] == topic]
    return {
        "brokers": [b["id"] for b in told["brokers"] if b["registered"] and b["reachable"]],
        "views": [v["broker"] for v in told["views"] if v["leaders"]],
        "voters": len(told["quorum"]["voters"]),
        "log ends": sum(p["logEnd"] for p in mine),
        "committed": [(g["group"], g["committed"]) for g in told["groups"] if g["topic"] == topic],
        "min.insync.replicas": all(p["minIsr"] == 1 for p in mine),
        "log sizes": all(p["sizeBytes"] is not None for p in mine),
    }


@pytest.mark.parametrize(
    ("listener", "mechanism"), [("SASL", "PLAIN"), ("TLS", None), ("MUTUAL", None), ("SASLTLS", "SCRAM-SHA-512")]
)
def test_a_pod_is_asked_which_broker_it_runs_with_the_certificate_of_its_announced_name(
    kafka: KafkaDeployment, credentials: Credentials, endpoint: TokenEndpoint, listener: str, mechanism: str | None
) -> None:
    connected = RealKafka(to(listener, mechanism)(kafka, credentials, endpoint))
    ip = faults.pod_address(kafka.namespace, kafka.pod_name(2))
    pod = PodAddress(ip, (LISTENERS[listener][1],), (kafka.broker_addresses[2],))
    try:
        connected.describe_cluster()
        assert connected.identities({1: pod}, [0, 1, 2]) == {1: 2}
        if LISTENERS[listener][0].endswith("SSL"):
            elsewhere = replace(pod, hosts=("kafka.elsewhere.example.com",))
            refused = connected.identities({1: elsewhere}, [0, 1, 2])[1]
            assert isinstance(refused, ReadFailed)
            assert refused.kind is FailureKind.TLS
    finally:
        connected.close()


@pytest.mark.parametrize(("listener", "shown"), [("TLS", "server"), ("MUTUAL", "server"), ("EXPIRED", "expired")])
def test_the_certificates_that_a_listener_serves_are_read_also_if_they_have_expired(
    kafka: KafkaDeployment, credentials: Credentials, endpoint: TokenEndpoint, listener: str, shown: str
) -> None:
    addresses = {b: (address, LISTENERS[listener][1]) for b, address in kafka.broker_addresses.items()}
    chains = served_chains(to(listener)(kafka, credentials, endpoint), addresses)
    (issued,) = certificates_in(getattr(credentials, shown).certificate)[:1]
    assert set(chains) == {0, 1, 2}
    for chain in chains.values():
        assert not isinstance(chain, ReadFailed)
        assert chain[0] == issued


def wrong_secret(_: Credentials, endpoint: TokenEndpoint) -> OAuthClient:
    return OAuthClient(endpoint.url, CLIENT_ID, f"{MARK}-is-wrong")


WRONG = f"{MARK}-is-wrong"
REFUSED = [
    pytest.param(
        to("TLS", tls=lambda c, _: material(c.other_ca)), FailureKind.CERTIFICATE_UNTRUSTED, "issuer", id="wrong-ca"
    ),
    pytest.param(to("EXPIRED"), FailureKind.CERTIFICATE_EXPIRED, "expired", id="expired"),
    pytest.param(to("ALIEN"), FailureKind.HOST_NAME, "another host name", id="wrong-host-name"),
    pytest.param(
        to("MUTUAL", tls=lambda c, _: material(c.ca)),
        FailureKind.CLIENT_CERTIFICATE,
        "requires a client certificate",
        id="no-client-certificate",
    ),
    pytest.param(
        to("MUTUAL", tls=lambda c, _: material(c.ca, c.stranger)),
        FailureKind.CLIENT_CERTIFICATE,
        "refused it",
        id="unknown-client-certificate",
    ),
    pytest.param(in_the_clear, FailureKind.WRONG_PROTOCOL, "the port uses TLS", id="plaintext-to-tls"),
    pytest.param(tls_to_a_port_without, FailureKind.WRONG_PROTOCOL, "the port does not use TLS", id="tls-to-plaintext"),
    pytest.param(
        to("SASLTLS", "PLAIN", protocol="SASL_PLAINTEXT"),
        FailureKind.WRONG_PROTOCOL,
        "the port uses TLS",
        id="sasl-to-tls",
    ),
    pytest.param(
        to("TLS", "PLAIN", protocol="SASL_SSL"), FailureKind.WRONG_PROTOCOL, "SASL state", id="sasl-to-a-port-without"
    ),
    pytest.param(to("SASLTLS", protocol="SSL"), FailureKind.UNREACHABLE, "wants SASL", id="no-sasl-to-sasl"),
    *(
        pytest.param(to("SASLTLS", m, WRONG), FailureKind.AUTHENTICATION, "SASL authentication", id=f"wrong-{m}")
        for m in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    ),
    pytest.param(
        to("SASLTLS", "OAUTHBEARER", oauth=wrong_secret),
        FailureKind.AUTHENTICATION,
        "token endpoint",
        id="wrong-client-secret",
    ),
]


@pytest.mark.parametrize(("way", "kind", "says"), REFUSED)
def test_what_is_wrong_is_refused_by_its_name_and_no_secret_is_told(
    kafka_of: Callable[[Shape], KafkaDeployment],
    credentials: Credentials,
    endpoint: TokenEndpoint,
    way: Way,
    kind: FailureKind,
    says: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    wanted = way(kafka_of("kraft"), credentials, endpoint)

    def connect() -> None:
        connected = RealKafka(wanted)
        try:
            connected.describe_cluster()
        finally:
            connected.close()

    with pytest.raises(ReadFailed) as refused:
        connect()
    problem = refused.value
    assert (problem.kind, says in problem.message) == (kind, True), str(problem)
    everything = repr(wanted) + "".join(traceback.format_exception(problem)) + caplog.text + "".join(capfd.readouterr())
    assert MARK not in everything
    assert "PRIVATE KEY" not in everything
    assert all(line not in everything for line in credentials.client.key.splitlines()[1:-1])


def test_a_token_that_the_brokers_refuse_is_a_failed_authentication(
    kafka_of: Callable[[Shape], KafkaDeployment], credentials: Credentials, endpoint: TokenEndpoint
) -> None:
    endpoint.lifetime = -3600
    connected = RealKafka(to("SASLTLS", "OAUTHBEARER")(kafka_of("kraft"), credentials, endpoint))
    with pytest.raises(ReadFailed) as refused:
        connected.describe_cluster()
    connected.close()
    assert refused.value.kind is FailureKind.AUTHENTICATION
    assert "invalid_token" in refused.value.message


def test_kafka_python_alone_refused_is_told_as_librdkafka_would(
    kafka_of: Callable[[Shape], KafkaDeployment], credentials: Credentials, endpoint: TokenEndpoint
) -> None:
    """The password is changed while librdkafka is connected: kafka-python has to connect anew and is not let in."""
    deployment = kafka_of("kraft")
    right = RealKafka(to("SASLTLS", "SCRAM-SHA-512")(deployment, credentials, endpoint))
    wrong = RealKafka(to("SASLTLS", "SCRAM-SHA-512", WRONG)(deployment, credentials, endpoint))
    right._librdkafka.members()
    wrong._librdkafka, unused = right._librdkafka, wrong._librdkafka
    with pytest.raises(ReadFailed) as refused:
        wrong.describe_cluster()
    assert refused.value.kind is FailureKind.AUTHENTICATION
    for kafka in (right, wrong):
        kafka.close()
    del unused


def ensemble_of(kafka: KafkaDeployment, tls: TlsMaterial | None, connect: str | None = None) -> ZooKeeper:
    return ZooKeeper(EnsembleConnection(connect or secured.ensemble_connect(kafka), tls, 3.0))


@pytest.mark.parametrize(
    ("tls", "kind"),
    [
        pytest.param(lambda c: material(c.other_ca, c.client), FailureKind.CERTIFICATE_UNTRUSTED, id="wrong-ca"),
        pytest.param(lambda c: material(c.ca), FailureKind.CLIENT_CERTIFICATE, id="no-client-certificate"),
        pytest.param(lambda c: material(c.ca, c.stranger), FailureKind.CLIENT_CERTIFICATE, id="unknown-client"),
        pytest.param(lambda _: None, FailureKind.UNREACHABLE, id="plaintext-to-tls"),
    ],
)
def test_an_ensemble_that_refuses_says_why(
    kafka_of: Callable[[Shape], KafkaDeployment],
    credentials: Credentials,
    tls: Callable[[Credentials], TlsMaterial | None],
    kind: FailureKind,
) -> None:
    ensemble = ensemble_of(kafka_of("zookeeper"), tls(credentials))
    for read in (ensemble.registrations, ensemble.ensemble):
        with pytest.raises(ReadFailed) as refused:
            read()
        assert refused.value.kind is kind, str(refused.value)
        assert refused.value.message.startswith("ZooKeeper")
    ensemble.close()


def test_a_snapshot_of_a_refused_cluster_holds_the_reason(
    kafka_of: Callable[[Shape], KafkaDeployment], credentials: Credentials, endpoint: TokenEndpoint
) -> None:
    connected = RealKafka(to("SASLTLS", "PLAIN", WRONG)(kafka_of("kraft"), credentials, endpoint))
    told = json.dumps(to_document(observe_cluster("secured", ClusterReaders(connected))))
    connected.close()
    assert "AuthenticationFailed" in told
    assert MARK not in told
