"""From a KafkaCluster and its secrets to a Connection."""

from __future__ import annotations

from collections.abc import Callable

from kafka_medic.clients.ports import Connection, FailureKind, ReadFailed
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.kafkacluster import KafkaCluster, SaslMechanism

SecretText = Callable[[str, str], str]
"""(name of a Secret, key) -> its text; raises ReadFailed that names both and never shows what is in it."""


def connection(cluster: KafkaCluster, secret: SecretText) -> Connection:
    """Raises ReadFailed for what is missing or not supported."""
    sasl, tls = cluster.spec.security.sasl, cluster.spec.security.tls
    if sasl is not None and sasl.mechanism is SaslMechanism.OAUTHBEARER:
        raise ReadFailed(
            FailureKind.UNSUPPORTED,
            "spec.security.sasl.mechanism OAUTHBEARER is not supported yet; use SCRAM or PLAIN",
        )
    ca = tls.ca_secret_ref if tls else None
    certificate = tls.cert_secret_ref if tls else None
    return Connection(
        bootstrap_servers=cluster.spec.bootstrap_servers,
        protocol=cluster.spec.security.protocol.value,
        sasl_mechanism=sasl.mechanism.value if sasl else None,
        sasl_username=secret(sasl.secret_ref.name, "username") if sasl else None,
        sasl_password=secret(sasl.secret_ref.name, "password") if sasl else None,
        ca_pem=secret(ca.name, ca.key) if ca else None,
        certificate_pem=secret(certificate.name, "tls.crt") if certificate else None,
        key_pem=secret(certificate.name, "tls.key") if certificate else None,
        timeout_seconds=parse_duration(cluster.spec.probes.timeout),
    )
