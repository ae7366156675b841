"""Certificates near their end, through the operator's reconciles: reported, kept while unread, gone once renewed."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trustme

from kafka_medic.clients.failures import FailureKind, ReadFailed
from tests.simulation.kafka import SimKafka
from tests.simulation.world import NO_ELECTIONS, World
from tests.unit.cluster.worlds import certificate

SECRETS = "/api/v1/namespaces/ns/secrets"
CA = trustme.CA()
FAILED = ReadFailed(FailureKind.UNREACHABLE, "timed out")
FAR, NEAR = datetime(2030, 1, 1, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)
HOUR = 3600.0


class Secured(World):
    """A cluster behind TLS. `until`: when the certificate that each broker serves ends; None: it serves none."""

    def __init__(self) -> None:
        super().__init__(SimKafka())
        self.kafka.topic("orders", [0, 1, 2])
        self.until: dict[int, datetime | None] = dict.fromkeys(range(3), FAR)
        self.asked: list[tuple[int, ...]] = []
        self.served = self._served
        tls = {"caSecretRef": {"name": "ca"}, "certSecretRef": {"name": "cert"}}
        self.install(security={"protocol": "SSL", "tls": tls}, remediation=NO_ELECTIONS)
        self.secret("ca", **{"ca.crt": CA.cert_pem.bytes().decode()})
        self.client_until(FAR)

    def _served(self, _: Any, brokers: Any) -> Any:
        self.asked.append(tuple(brokers))
        found = {b: self.until[b] for b in brokers}
        return {
            b: FAILED if end is None else (certificate(f"CN=kafka-{b}", "CN=x", not_after=end),)
            for b, end in found.items()
        }

    def secret(self, name: str, **held: str) -> None:
        data = {key: base64.b64encode(value.encode()).decode() for key, value in held.items()}
        self.api.put(SECRETS, {"metadata": {"name": name}, "data": data})

    def client_until(self, end: datetime) -> None:
        made = CA.issue_cert("medic@example.com", not_before=end - timedelta(days=365), not_after=end)
        pem, key = made.cert_chain_pems[0].bytes().decode(), made.private_key_pem.bytes().decode()
        self.secret("cert", **{"tls.crt": pem, "tls.key": key})

    def found(self, seconds: float = 15.0) -> dict[str, Any]:
        self.step(seconds)
        findings = self.cluster()["status"]["findings"]
        return {f["id"].partition("/")[2]: f for f in findings if f["type"] == "CertificateExpiring"}


@pytest.fixture
def world() -> Secured:
    return Secured()


def test_a_listener_is_reported_until_the_new_certificate_is_served(world: Secured) -> None:
    assert world.found() == {}
    world.until[1] = NEAR
    assert world.found(HOUR) == {}, "it is read again after an hour"
    found = world.found()["listeners"]
    assert (found["state"], found["severity"], found["affected"]) == ("Firing", "Critical", ["broker-1"])
    assert "broker 1's listener expires at 2026-01-03 00:00:00 UTC" in found["message"]
    assert world.condition("Ready")["status"] == "True", "nothing is wrong yet"
    assert world.runs() == [], "no Playbook treats it"
    world.until[1] = FAR
    world.found(600.0)
    assert world.found() == {}


def test_while_it_cannot_be_read_it_stays_and_no_other_begins(world: Secured) -> None:
    world.until[1] = NEAR
    assert list(world.found()) == ["listeners"]
    world.until = dict.fromkeys(range(3), None)
    world.found(HOUR)
    kept = world.found()["listeners"]
    assert kept["affected"] == ["broker-1"]
    assert kept["evidence"][-1].startswith(
        "last seen before the certificate of broker-1: Unreachable: timed out can no"
    )
    world.operator("another")
    assert list(world.found()) == ["listeners"], "the next operator has never read it"
    world.until = dict.fromkeys(range(3), FAR)
    world.found(60.0)
    assert world.found() == {}


def test_the_operators_own_certificate_is_reported_until_the_secret_has_another(world: Secured) -> None:
    world.client_until(NEAR)
    assert world.found()["client"]["affected"] == ["cert/tls.crt"]
    world.client_until(FAR)
    assert world.found() == {}


def test_a_secret_that_is_gone_ends_no_finding(world: Secured) -> None:
    world.client_until(NEAR)
    world.found()
    del world.api.objects[f"{SECRETS}/cert"]
    assert world.found()["client"]["evidence"][-1] == "last seen before certificates can no longer be read"


def test_brokers_are_asked_once_an_hour(world: Secured) -> None:
    for _ in range(240):
        world.step()
    assert world.asked == [(0, 1, 2)]
    world.step()
    world.step()
    assert len(world.asked) == 2
