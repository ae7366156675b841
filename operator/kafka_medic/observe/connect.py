"""From a KafkaCluster and its Secrets to the connections that they describe."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kafka_medic.clients.destinations import Destinations
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import Connection, EnsembleConnection, OAuthClient, TlsMaterial
from kafka_medic.clients.tls import split_address
from kafka_medic.cluster.certificates import CertificateUse, Peer
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.kafkacluster import (
    CaSecretRef,
    CertSecretRef,
    KafkaCluster,
    Sasl,
    SaslMechanism,
    Security,
    Tls,
)

Secret = Callable[[str], Mapping[str, bytes]]
"""Name of a Secret -> all that is in it, so that a certificate and its key are of one version; raises ReadFailed that
names it and never shows what is in it."""
PRESENT_CA = "ca.crt"
_FORMER_CA = re.compile(r"ca-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ\.crt")
"""The key of a certificate that Strimzi replaced, in the Secret of its successor (`Ca.OLD_CA_CERT_PATTERN` of Strimzi
1.2.0). Strimzi removes it once no broker has a certificate that it signed."""


MANY_PASSWORDS = "client-passwords"
"""Bitnami's chart keeps the passwords of all its users in this key, with commas in between."""


@dataclass(frozen=True, slots=True)
class HeldText:
    """Certificates in one key of a Secret, as PEM text, in which a key may stand beside them."""

    use: CertificateUse
    peer: Peer
    secret: str
    key: str
    text: str = field(repr=False)


def held_certificates(cluster: KafkaCluster, secret: Secret) -> tuple[HeldText, ...]:
    """All that the KafkaCluster's Secrets give the operator, for those who have made its connections of them. Raises
    ReadFailed for what is missing."""
    security, ensemble = cluster.spec.security or Security(), cluster.spec.metadata.zookeeper
    found = list(_held(security.tls, Peer.KAFKA, secret))
    if ensemble is not None:
        found += _held(ensemble.tls, Peer.ZOOKEEPER, secret)
    if security.sasl is not None and security.sasl.mechanism is SaslMechanism.OAUTHBEARER:
        name = security.sasl.secret_ref.name
        if PRESENT_CA in (held := secret(name)):
            text = _text(held, name, PRESENT_CA)
            found.append(HeldText(CertificateUse.TRUSTED, Peer.TOKEN_ENDPOINT, name, PRESENT_CA, text))
    return tuple(found)


def secured(cluster: KafkaCluster) -> bool:
    """Whether a connection of the cluster uses certificates."""
    security, ensemble = cluster.spec.security or Security(), cluster.spec.metadata.zookeeper
    return security.protocol.value.endswith("SSL") or bool(security.tls) or bool(ensemble and ensemble.tls)


def _held(tls: Tls | None, peer: Peer, secret: Secret) -> Iterator[HeldText]:
    if tls is not None and (ca := tls.ca_secret_ref) is not None:
        held = secret(ca.name)
        for key in _trusted_keys(held, ca):
            yield HeldText(CertificateUse.TRUSTED, peer, ca.name, key, _text(held, ca.name, key))
    if tls is not None and (own := tls.cert_secret_ref) is not None:
        held = secret(own.name)
        key = _shown_keys(held, own)[0]
        yield HeldText(CertificateUse.CLIENT, peer, own.name, key, _text(held, own.name, key))


def connection(cluster: KafkaCluster, secret: Secret, destinations: Destinations | None = None) -> Connection:
    """Raises ReadFailed for servers that are no permitted destination, and for what is missing."""
    security, servers = cluster.spec.security or Security(), cluster.spec.bootstrap_servers
    if servers is None:
        # The operator fills it in (`completed`); a command that reads a file has no Strimzi to ask.
        raise ReadFailed(FailureKind.OTHER, "spec.strimzi is for the operator alone: set spec.bootstrapServers")
    if destinations is not None:
        destinations.check_servers(host for host, _ in map(split_address, servers.split(",")))
    username = password = oauth = None
    if security.sasl is not None:
        name = security.sasl.secret_ref.name
        held = secret(name)
        if security.sasl.mechanism is SaslMechanism.OAUTHBEARER:
            oauth = OAuthClient(
                token_endpoint=_text(held, name, "tokenEndpoint"),
                client_id=_text(held, name, "clientId"),
                client_secret=_text(held, name, "clientSecret"),
                scope=_text(held, name, "scope") if "scope" in held else None,
                ca=_text(held, name, "ca.crt") if "ca.crt" in held else None,
                destinations=destinations,
            )
        else:
            username, password = _username(security.sasl, held), _password(security.sasl, held)
    return Connection(
        bootstrap_servers=servers,
        protocol=security.protocol.value,
        sasl_mechanism=security.sasl.mechanism.value if security.sasl else None,
        sasl_username=username,
        sasl_password=password,
        oauth=oauth,
        tls=_material(security.tls, secret) if security.tls else TlsMaterial(),
        timeout_seconds=parse_duration(cluster.spec.probes.timeout),
        destinations=destinations,
    )


def ensemble_connection(
    cluster: KafkaCluster, secret: Secret, destinations: Destinations | None = None
) -> EnsembleConnection | None:
    """None for KRaft. Raises ReadFailed for what is missing, and for servers that are no permitted destination."""
    ensemble = cluster.spec.metadata.zookeeper
    if ensemble is None:
        return None
    if destinations is not None:
        servers = ensemble.connect.partition("/")[0].split(",")
        destinations.check_servers(host for host, _ in map(split_address, servers))
    tls = _material(ensemble.tls, secret) if ensemble.tls is not None else None
    return EnsembleConnection(ensemble.connect, tls, parse_duration(cluster.spec.probes.timeout), destinations)


def _username(sasl: Sasl, held: Mapping[str, bytes]) -> str:
    if sasl.username is not None:
        return sasl.username
    name, key = sasl.secret_ref.name, sasl.secret_ref.username_key
    if key not in held:
        reason = f"Secret {name} has no key {key!r}: set security.sasl.username, or secretRef.usernameKey"
        raise ReadFailed(FailureKind.CREDENTIALS, reason)
    return _text(held, name, key)


def _password(sasl: Sasl, held: Mapping[str, bytes]) -> str:
    name, key = sasl.secret_ref.name, sasl.secret_ref.password_key
    if key not in held and MANY_PASSWORDS in held:
        reason = (
            f"Secret {name} has no key {key!r}: set secretRef.passwordKey, in a Secret of Bitnami's chart to "
            "system-user-password, which is that of the first user in sasl.client.users"
        )
        raise ReadFailed(FailureKind.CREDENTIALS, reason)
    password = _text(held, name, key)
    if key == MANY_PASSWORDS and "," in password:
        reason = f"Secret {name}, key {key!r}: holds the passwords of {password.count(',') + 1} users; "
        raise ReadFailed(FailureKind.CREDENTIALS, reason + "set secretRef.passwordKey to a key that holds one")
    return password


def _material(tls: Tls, secret: Secret) -> TlsMaterial:
    ca = certificate = key = None
    if tls.ca_secret_ref is not None:
        ca = _trusted(secret(tls.ca_secret_ref.name), tls.ca_secret_ref)
    if tls.cert_secret_ref is not None:
        name = tls.cert_secret_ref.name
        held = secret(name)
        certificate, key = (_text(held, name, of) for of in _shown_keys(held, tls.cert_secret_ref))
    return TlsMaterial(ca, certificate, key)


def _shown_keys(held: Mapping[str, bytes], ref: CertSecretRef) -> tuple[str, str]:
    """Of the certificate and its key. Both of one kind: a certificate beside a key of another user's fits no
    connection."""
    strimzi = "tls.crt" not in held and "user.crt" in held
    return ref.certificate or ("user.crt" if strimzi else "tls.crt"), ref.key or ("user.key" if strimzi else "tls.key")


def _trusted(held: Mapping[str, bytes], ref: CaSecretRef) -> str:
    return "\n".join(_text(held, ref.name, key) for key in _trusted_keys(held, ref))


def _trusted_keys(held: Mapping[str, bytes], ref: CaSecretRef) -> tuple[str, ...]:
    """While Strimzi replaces its CA, some brokers still show a certificate of the former one."""
    former = sorted(filter(_FORMER_CA.fullmatch, held)) if ref.key == PRESENT_CA else []
    return (ref.key, *former)


def _text(held: Mapping[str, bytes], name: str, key: str) -> str:
    """Without the line break that an editor or `echo` leaves at the end."""
    if key not in held:
        raise ReadFailed(FailureKind.CREDENTIALS, f"Secret {name} has no key {key!r}")
    try:
        text = held[key].decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ReadFailed(FailureKind.CREDENTIALS, f"Secret {name}, key {key!r}: not text") from None
    if not text:
        raise ReadFailed(FailureKind.CREDENTIALS, f"Secret {name}, key {key!r}: empty")
    return text
