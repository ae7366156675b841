"""Certificates are read seldom, a failure is Unknown, and what did not change costs nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
import trustme

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import ClusterDescription, Connection, Node
from kafka_medic.cluster.certificates import CertificateUse, Peer
from kafka_medic.cluster.snapshot import ClusterInfo, Element, SourceState
from kafka_medic.observe.certificates import AT_ONCE, NOT_YET, CertificateReader, seconds_until_read
from kafka_medic.observe.connect import HeldText, held_certificates, secured
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster, unread_cluster
from kafka_medic.resources.kafkacluster import KafkaCluster
from tests.unit.cluster import worlds
from tests.unit.cluster.worlds import NOW, certificate

TLS = Connection("kafka:9093", "SSL")
BROKERS = {n: (f"kafka-{n}", 9093) for n in (1, 2, 3)}
PEM = trustme.CA().cert_pem.bytes().decode()
FAILED = ReadFailed(FailureKind.UNREACHABLE, "timed out")


class Brokers:
    """Serve what they are told to, while a clock goes on."""

    def __init__(self, at_once=AT_ONCE):
        self.seconds = 0.0
        self.serving = {}
        self.asked = []
        self.reader = CertificateReader(
            self.served, lambda: NOW + timedelta(seconds=self.seconds), lambda: self.seconds, at_once
        )

    def served(self, connection, brokers):
        self.asked.append(tuple(brokers))
        return {b: self.serving.get(b, (certificate(f"CN=kafka-{b}"),)) for b in brokers}

    def read(self, after=0.0, brokers=BROKERS, held=(), connection=TLS):
        self.seconds += after
        return self.reader.read(connection, held, brokers)

    def asked_by(self, *args, **kwargs):
        self.asked.clear()
        self.read(*args, **kwargs)
        return sorted(b for asked in self.asked for b in asked)


def known(found):
    return {c.broker: c.certificates[0].subject for c in found.chains if c.use is CertificateUse.LISTENER}


def why(found):
    return {e.name: reason for e, reason in found.unread.items()}


def test_each_is_read_at_once_and_then_once_an_hour():
    brokers = Brokers()
    first = brokers.read()
    assert known(first) == {n: f"CN=kafka-{n}" for n in BROKERS}
    assert first.unread == {}
    for _ in range(239):
        assert brokers.read(15) is first, "the very same: nothing is put together again"
    assert len(brokers.asked) == 1
    assert brokers.asked_by(15) == [1, 2, 3]


def test_a_failed_read_is_unknown_and_is_tried_again_after_a_minute():
    brokers = Brokers()
    brokers.serving[2] = FAILED
    assert why(brokers.read()) == {"2": str(FAILED)}
    assert brokers.asked_by(45) == []
    assert brokers.asked_by(15) == [2]
    del brokers.serving[2]
    assert known(brokers.read(60)).keys() == {1, 2, 3}
    brokers.serving[1] = FAILED
    after = brokers.read(3600)
    assert known(after).keys() == {2, 3}, "what was known an hour ago is not known now"
    assert why(after) == {"1": str(FAILED)}


def test_a_new_broker_and_one_that_moved_or_came_back_are_read_at_once():
    brokers = Brokers()
    brokers.read()
    assert brokers.asked_by(15, {**BROKERS, 4: ("kafka-4", 9093)}) == [4]
    assert brokers.asked_by(15, {**BROKERS, 3: ("other", 9093)}) == [3]
    assert known(brokers.read(15, {1: BROKERS[1]})).keys() == {1}
    assert brokers.asked_by(15) == [2, 3]


def test_while_nobody_reports_where_brokers_are_they_are_where_they_were():
    brokers = Brokers()
    brokers.read()
    assert known(brokers.read(15, None)).keys() == {1, 2, 3}
    assert brokers.asked_by(3600, None) == [1, 2, 3]
    assert Brokers().read(0, None).chains == ()


def test_another_listener_is_read_anew_and_another_password_is_not():
    brokers = Brokers()
    brokers.read()
    assert brokers.asked_by(15, connection=replace(TLS, sasl_password="other", tls=TLS.tls)) == []
    assert brokers.asked_by(15, connection=replace(TLS, protocol="SASL_SSL")) == [1, 2, 3]
    plain = brokers.read(15, connection=replace(TLS, protocol="PLAINTEXT"))
    assert (plain.chains, plain.unread) == ((), {})


def test_of_many_brokers_some_are_read_by_each_observation():
    brokers, many = Brokers(), {n: (f"kafka-{n}", 9093) for n in range(100)}
    first = brokers.read(brokers=many)
    assert len(known(first)) == AT_ONCE
    assert set(why(first).values()) == {NOT_YET}
    assert len(why(first)) == 60
    assert len(known(brokers.read(15, many))) == 80
    assert len(known(brokers.read(15, many))) == 100
    assert brokers.asked_by(3540, many) == [], "the first are due after an hour, not all of them at once"
    assert len(brokers.asked_by(30, many)) == 40
    everyone = Brokers(at_once=None)
    assert len(known(everyone.read(brokers=many))) == 100


def test_brokers_share_their_authorities():
    brokers = Brokers()
    for n in BROKERS:
        brokers.serving[n] = (certificate(f"CN=kafka-{n}"), replace(worlds.AUTHORITY))
    chains = brokers.read().chains
    assert len({id(c.certificates[1]) for c in chains}) == 1
    again = brokers.read(3600).chains
    assert again[0].certificates[1] is chains[0].certificates[1]


@pytest.mark.parametrize(
    ("days", "lifetime", "seconds"),
    [
        (300, 365, 3600),
        (20, 365, 600),  # somebody is about to replace it
        (-1, 365, 600),
        (0.8, 1, 3600),
        (1 / 30, 1 / 24, 150),
        (1 / 2000, 1 / 288, 30),
        (5, -3, 3600),
        (5, 0, 3600),
    ],
)
def test_when_a_listener_is_read_again(days, lifetime, seconds):
    assert seconds_until_read((certificate(days=days, lifetime=lifetime),), NOW) == pytest.approx(seconds)
    assert seconds_until_read((), NOW) == 3600


# Secrets


def held(text, key="ca.crt", use=CertificateUse.TRUSTED):
    return HeldText(use, Peer.KAFKA, "kafka-ca", key, text)


def test_a_text_is_taken_apart_once(monkeypatch):
    brokers = Brokers()
    found = brokers.read(held=(held(PEM), held("none", "bad.crt")))
    (chain,) = (c for c in found.chains if c.use is CertificateUse.TRUSTED)
    assert (chain.holder, len(chain.certificates)) == ("kafka-ca/ca.crt", 1)
    assert found.unread == {Element("certificates", "SECRET", "kafka-ca/bad.crt"): "a certificate is not in PEM form"}
    assert found.gaps == "secret kafka-ca/bad.crt: a certificate is not in PEM form"
    monkeypatch.setattr("kafka_medic.observe.certificates.certificates_in", lambda _: pytest.fail("again"))
    assert brokers.read(15, held=(held(PEM + ""), held("none", "bad.crt"))) is found
    less = brokers.read(15, held=(held(PEM),))
    assert less.unread == {}


def test_what_stands_beside_a_certificate_is_not_shown():
    assert "hunter2" not in repr(held("hunter2"))


def cluster(**spec):
    meta = {"name": "c", "namespace": "ns"}
    body = {"bootstrapServers": "kafka:9093", **spec}
    return KafkaCluster.parse(
        {"apiVersion": "kafkamedic.dev/v1alpha1", "kind": "KafkaCluster", "metadata": meta, "spec": body}
    )


MUTUAL = {"caSecretRef": {"name": "ca"}, "certSecretRef": {"name": "user"}}


def test_every_key_that_certificates_are_taken_from():
    former = "ca-2026-11-25T08-00-00Z.crt"
    secrets = {
        "ca": {"ca.crt": b"CA\n", former: b"OLD", "other.crt": b"X"},
        "user": {"user.crt": b"CRT", "user.key": b"KEY", "ca.crt": b"CLIENTS"},
        "oauth": {"ca.crt": b"IDP"},
    }
    sasl = {"mechanism": "OAUTHBEARER", "secretRef": {"name": "oauth"}}
    whole = cluster(
        security={"protocol": "SASL_SSL", "tls": MUTUAL, "sasl": sasl},
        metadata={"zookeeper": {"connect": "zk:2281", "tls": MUTUAL}},
    )
    found = [(h.use, h.peer, h.secret, h.key, h.text) for h in held_certificates(whole, secrets.__getitem__)]
    trusted, client = CertificateUse.TRUSTED, CertificateUse.CLIENT
    of_both = [("ca", "ca.crt", "CA"), ("ca", former, "OLD")]
    assert found == [
        *((trusted, Peer.KAFKA, *each) for each in of_both),
        (client, Peer.KAFKA, "user", "user.crt", "CRT"),
        *((trusted, Peer.ZOOKEEPER, *each) for each in of_both),
        (client, Peer.ZOOKEEPER, "user", "user.crt", "CRT"),
        (trusted, Peer.TOKEN_ENDPOINT, "oauth", "ca.crt", "IDP"),
    ]
    assert secured(whole)
    assert held_certificates(cluster(), secrets.__getitem__) == ()
    assert not secured(cluster())
    assert secured(cluster(security={"protocol": "SSL"}))


# In a snapshot


class Silent:
    """Describes the cluster, and answers nothing else."""

    def __init__(self, *nodes):
        self.nodes = nodes

    def __getattr__(self, name):
        def read(*_):
            if name == "describe_cluster" and self.nodes:
                return ClusterDescription("id", tuple(Node(n, *BROKERS[n], None) for n in self.nodes), None)
            raise ReadFailed(FailureKind.UNREACHABLE, "no answer")

        return read


def test_a_snapshot_has_what_was_read_and_what_was_not():
    brokers = Brokers()
    brokers.serving[2] = FAILED
    snapshot = observe_cluster("c", ClusterReaders(Silent(1, 2), certificates=lambda b: brokers.read(brokers=b)))
    assert [c.holder for c in snapshot.certificates] == ["broker-1"]
    assert snapshot.unread == {Element("certificates", "BROKER", "2"): str(FAILED)}
    source = snapshot.source("certificates")
    assert (source.state, source.error) == (SourceState.KNOWN, f"broker 2: {FAILED}")
    away = observe_cluster("c", ClusterReaders(Silent(), certificates=lambda b: brokers.read(brokers=b)))
    assert [c.holder for c in away.certificates] == ["broker-1"]


def test_no_certificates_and_certificates_that_were_not_read_are_two_things():
    without = observe_cluster("c", ClusterReaders(Silent(1)))
    assert without.certificates is without.source("certificates") is None

    def fails(_):
        raise ReadFailed(FailureKind.CREDENTIALS, "the client key is damaged")

    snapshot = observe_cluster("c", ClusterReaders(Silent(1), certificates=fails))
    assert snapshot.certificates is None
    assert snapshot.source("certificates").state is SourceState.UNKNOWN
    assert unread_cluster(ClusterInfo("c"), "Secret gone", NOW).source("certificates") is None
    unread = unread_cluster(ClusterInfo("c"), "Secret gone", NOW, secured=True)
    assert not unread.source("certificates").known
