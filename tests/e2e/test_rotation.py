"""A changed Secret takes effect at the next reconcile; the condition Reachable says what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import ScramMechanism

from tests.e2e.conftest import Case
from tests.incident import operator
from tests.testbed import get, kubectl, secured, wait_for
from tests.testbed.secured import PASSWORD, USER, Credentials, Identity

MARK = "hunter2"


def secret(case: Case, name: str, **held: str) -> dict[str, str]:
    """Creates or changes a Secret of the case; answers a reference to it."""
    meta = {"name": f"{case.name}-{name}", "namespace": case.namespace}
    operator.apply([{"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": held}])
    return {"name": meta["name"]}


def show(case: Case, identity: Identity) -> dict[str, str]:
    return secret(case, "cert", **{"tls.crt": identity.certificate, "tls.key": identity.key})


def trust(case: Case, ca: str) -> dict[str, str]:
    return secret(case, "ca", **{"ca.crt": ca})


def password(case: Case, text: str) -> dict[str, str]:
    return secret(case, "user", username=USER, password=text)


def told(case: Case) -> str:
    """Everything that the operator lets out."""
    kept = get("kafkacluster", case.name, namespace=case.namespace)
    return json.dumps([kept, case.events()]) + operator.logs(2000)


@pytest.fixture
def restarts() -> Iterator[None]:
    before = operator.restarts()
    yield
    assert operator.restarts() == before


def ending(case: Case) -> str:
    """What the finding says of certificates near their end."""
    status = get("kafkacluster", case.name, namespace=case.namespace).get("status", {})
    return json.dumps([f for f in status.get("findings", []) if f["type"] == "CertificateExpiring"] or "").strip('"')


def end(case: Case) -> None:
    kubectl(
        "delete", "secret", "-n", case.namespace, *(f"{case.name}-{n}" for n in ("user", "ca", "cert")), check=False
    )


def test_a_password_and_an_authority(kraft_case: Case, credentials: Credentials, restarts: None) -> None:
    case = kraft_case
    operator.may_read_secrets(case.namespace)
    sasl = {"mechanism": "SCRAM-SHA-512", "secretRef": password(case, PASSWORD)}
    tls = {"caSecretRef": trust(case, credentials.ca)}
    case.watch(
        bootstrapServers=secured.bootstrap(case.kafka, "SASLTLS"),
        security={"protocol": "SASL_SSL", "sasl": sasl, "tls": tls},
    )
    case.condition("Reachable", "True")
    try:
        secured.set_password(case.boot, ScramMechanism.SCRAM_SHA_512, f"{MARK}-of-today")
        password(case, f"{MARK}-with-a-slip")
        case.condition("Reachable", "False", "AuthenticationFailed")
        password(case, f"{MARK}-of-today")
        case.condition("Reachable", "True")
        trust(case, credentials.other_ca)
        case.condition("Reachable", "False", "CertificateUntrusted")
        trust(case, f"{MARK} is no certificate")
        case.condition("Reachable", "False", "CredentialsUnusable")
        trust(case, credentials.ca)
        case.condition("Reachable", "True")
        assert MARK not in told(case)
    finally:
        secured.set_password(case.boot, ScramMechanism.SCRAM_SHA_512, PASSWORD)
        end(case)


def test_a_client_certificate_for_brokers_and_ensemble(
    zookeeper_case: Case, credentials: Credentials, restarts: None
) -> None:
    case = zookeeper_case
    operator.may_read_secrets(case.namespace)
    tls = {"caSecretRef": trust(case, credentials.ca), "certSecretRef": show(case, credentials.stranger)}
    case.watch(
        bootstrapServers=secured.bootstrap(case.kafka, "MUTUAL"),
        security={"protocol": "SSL", "tls": tls},
        metadata={"zookeeper": {"connect": secured.ensemble_connect(case.kafka), "tls": tls}},
    )

    def registered() -> int | None:
        status = get("kafkacluster", case.name, namespace=case.namespace).get("status", {})
        found: int | None = status.get("brokers", {}).get("registered")
        return found

    def refused() -> bool:
        return "CertificateNotTrustedYet" in {reason for reason, _ in case.events()}

    try:
        case.condition("Reachable", "False", "ClientCertificateRefused")
        show(case, credentials.client)
        case.condition("Reachable", "True")
        wait_for("the ensemble's word on three brokers", lambda: registered() == 3, 30)
        show(case, credentials.stranger)
        wait_for("the brokers' refusal", refused, 60)
        wait_for("nothing known of the ensemble", lambda: registered() is None, 30)
        case.condition("Reachable", "True")  # the certificate before is shown
        show(case, credentials.renewed)
        case.condition("Reachable", "True")
        wait_for("the ensemble's word on three brokers", lambda: registered() == 3, 30)
        show(case, credentials.ending)
        wait_for("the end of the certificate", lambda: f"{case.name}-cert" in ending(case), 60)
        show(case, credentials.renewed)
        wait_for("nothing near its end", lambda: not ending(case), 60)
        everything = told(case)
        assert "PRIVATE KEY" not in everything
        assert all(line not in everything for line in credentials.renewed.key.splitlines()[1:-1])
    finally:
        end(case)
