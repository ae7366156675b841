"""A changed Secret takes effect at the next reconcile of the running operator; an unchanged one changes nothing."""

from __future__ import annotations

import base64
import json
import logging

import pytest

from kafka_medic.clients.failures import FailureKind, ReadFailed
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World

SECRETS = "/api/v1/namespaces/ns/secrets"
RIGHT = "hunter2-right"


class Door:
    """In place of the real clients: lets in who knows the password of the day."""

    def __init__(self, kafka: SimKafka) -> None:
        self.kafka = kafka
        self.password = RIGHT
        self.connections: list = []
        self.closed = 0
        kafka.close = self._close

    def _close(self) -> None:
        self.closed += 1

    def __call__(self, wanted):
        self.connections.append(wanted)
        if wanted.sasl_password != self.password:
            raise ReadFailed(FailureKind.AUTHENTICATION, "Invalid username or password")
        return self.kafka


class Ensemble:
    def __init__(self, wanted, log) -> None:
        self.wanted, self.log = wanted, log
        log.append(("open", wanted))

    def registrations(self):
        raise ReadFailed(FailureKind.UNREACHABLE, "none")

    ensemble = registrations

    def close(self) -> None:
        self.log.append(("close", self.wanted))


@pytest.fixture
def world():
    world = World(SimKafka())
    tls = {"caSecretRef": {"name": "ca"}, "certSecretRef": {"name": "cert"}}
    sasl = {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": "user"}}
    world.install(
        security={"protocol": "SASL_SSL", "sasl": sasl, "tls": {"caSecretRef": {"name": "ca"}}},
        metadata={"zookeeper": {"connect": "zk:2281", "tls": tls}},
    )
    secret(world, "user", username="operator", password=RIGHT)
    secret(world, "ca", **{"ca.crt": "CA"})
    secret(world, "cert", **{"tls.crt": "CRT", "tls.key": "hunter2-key"})
    world.operator()
    world.reconciler.clients.kafka = Door(world.kafka)
    world.log = []
    world.reconciler.clients.zookeeper = lambda wanted: Ensemble(wanted, world.log)
    return world


def secret(world: World, name: str, **held: str) -> None:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in held.items()}
    world.api.put(SECRETS, {"metadata": {"name": name}, "data": data})


def reachable(world: World) -> tuple[str, str]:
    world.step()
    found = world.condition("Reachable")
    return found["status"], found["reason"]


def test_a_password_is_rotated_without_a_restart(world, caplog):
    caplog.set_level(logging.DEBUG)
    door = world.reconciler.clients.kafka
    assert reachable(world)[0] == "True"
    assert reachable(world)[0] == "True"
    assert len(door.connections) == 1, "what has not changed is not opened anew"
    door.password = "hunter2-new"
    secret(world, "user", username="operator", password="hunter2-typo")
    assert reachable(world) == ("False", "AuthenticationFailed")
    assert door.closed == 1, "the connection of the old password is closed"
    secret(world, "user", username="operator", password="hunter2-new")
    assert reachable(world)[0] == "True"
    assert len(door.connections) == 3
    everything = json.dumps([world.cluster(), world.api.events, [str(c) for c in door.connections]]) + caplog.text
    assert "hunter2" not in everything


def test_a_bad_secret_is_reported_and_mended_live(world):
    """A Secret is missing or unusable. A condition names it; once mended, no restart is needed."""
    assert reachable(world)[0] == "True"
    secret(world, "user", username="operator")
    assert reachable(world) == ("False", "CredentialsUnusable")
    assert "Secret user has no key 'password'" in world.condition("Reachable")["message"]
    del world.api.objects[f"{SECRETS}/user"]
    assert reachable(world) == ("False", "CredentialsUnusable")
    world.api.put(SECRETS, {"metadata": {"name": "user"}, "data": {"username": "hunter2!"}})
    assert reachable(world) == ("False", "CredentialsUnusable")
    assert "hunter2" not in json.dumps(world.cluster())
    secret(world, "user", username="operator", password=RIGHT)
    assert reachable(world)[0] == "True"


def test_zookeeper_certificates_are_rotated_separately(world):
    for name, key in (("ca", "ca.crt"), ("cert", "tls.crt"), ("cert", "tls.key")):
        world.step()
        before = len(world.log)
        world.step()
        assert len(world.log) == before, "what has not changed is not opened anew"
        held = {"tls.crt": "CRT", "tls.key": "hunter2-key"} if name == "cert" else {}
        secret(world, name, **(held | {key: f"new {key}"}))
        world.step()
        assert [what for what, _ in world.log[before:]] == ["close", "open"]
    assert "hunter2" not in repr(world.log)


NEW, OLD = "new certificate", "old certificate"


@pytest.fixture
def mutual():
    """A cluster that asks for a client certificate. `taken`: the certificates that every broker takes."""
    world = World(SimKafka())
    tls = {"caSecretRef": {"name": "ca"}, "certSecretRef": {"name": "cert"}}
    world.install(security={"protocol": "SSL", "tls": tls})
    secret(world, "ca", **{"ca.crt": "CA"})
    secret(world, "cert", **{"user.crt": OLD, "user.key": "hunter2-old"})
    world.operator()
    world.shown, world.taken, world.away = [], {OLD}, False

    def connect(wanted):
        world.shown.append(wanted.tls.certificate)
        return world.kafka

    def outcomes(wanted, brokers):
        assert len(brokers) == 3, "every broker that is known is asked"
        if world.away:
            return [ReadFailed(FailureKind.UNREACHABLE, "kafka-1:9093: timed out") for _ in brokers]
        refused = ReadFailed(FailureKind.CLIENT_CERTIFICATE, "kafka-1:9093: the server refused ours (unknown ca)")
        return [None if wanted.tls.certificate in world.taken else refused for _ in brokers]

    world.reconciler.clients.kafka, world.reconciler.clients.ask_by_certificate = connect, outcomes
    assert reachable(world)[0] == "True"
    secret(world, "cert", **{"user.crt": NEW, "user.key": "hunter2-new"})
    return world


def test_until_every_broker_takes_a_new_client_certificate_the_one_before_is_shown(mutual):
    for _ in range(4):
        assert reachable(mutual)[0] == "True"
    assert mutual.shown == [OLD]
    told = [message for reason, message in mutual.api.events if reason == "CertificateNotTrustedYet"]
    assert told == [
        "kafka-1:9093: the server refused ours (unknown ca); the operator uses the previous client "
        "certificate until brokers accept the new one"
    ]
    secret(mutual, "ca", **{"ca.crt": "NEW CA"})
    assert reachable(mutual)[0] == "True"
    assert mutual.shown == [OLD, OLD], "all else of the connection is followed at once"
    mutual.taken = {OLD, NEW}
    mutual.step()
    mutual.step()
    assert mutual.shown == [OLD, OLD, NEW]


def test_a_new_client_certificate_is_shown_where_the_one_before_is_not_taken_either(mutual):
    mutual.taken = set()
    assert reachable(mutual)[0] == "True"
    assert mutual.shown == [OLD, NEW]


def test_a_new_client_certificate_is_not_shown_because_brokers_are_down_when_it_comes(mutual):
    """They refuse it when they are back. The former one still lets the operator in."""
    mutual.away = True
    for _ in range(3):
        mutual.step()
    mutual.away = False
    assert reachable(mutual)[0] == "True"
    assert mutual.shown == [OLD]
