"""Listeners of every kind on one Kafka cluster, and the certificates and users that go with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import trustme
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.testbed.kafka import KafkaDeployment
from tests.testbed.kafka_settings import CLIENT_PORT, CONTROLLER_PORT

USER = "operator"
PASSWORD = "right"
ENSEMBLE_PORT = 2281
LISTENERS = {
    "SASL": ("SASL_PLAINTEXT", 9094),
    "TLS": ("SSL", 9095),
    "MUTUAL": ("SSL", 9096),
    "SASLTLS": ("SASL_SSL", 9097),
    "EXPIRED": ("SSL", 9098),
    "ALIEN": ("SSL", 9099),
}
"""Name -> protocol, port. MUTUAL wants a client's certificate; EXPIRED shows one of 2020, ALIEN another host's."""


@dataclass(frozen=True)
class Identity:
    """A certificate with its chain, and its key, in PEM form; the key as PKCS #8, which Kafka wants (KIP-651)."""

    certificate: str
    key: str


@dataclass(frozen=True)
class Credentials:
    """`ca` signed all but `stranger`, which `other_ca` signed."""

    ca: str
    other_ca: str
    server: Identity
    expired: Identity
    alien: Identity
    client: Identity
    renewed: Identity
    ending: Identity
    """In three days."""
    stranger: Identity

    @classmethod
    def create(cls, addresses: Sequence[str]) -> Credentials:
        ours, others = trustme.CA(), trustme.CA()
        past = datetime(2020, 1, 1, tzinfo=UTC)
        return cls(
            ca=ours.cert_pem.bytes().decode(),
            other_ca=others.cert_pem.bytes().decode(),
            server=_identity(ours.issue_cert(*addresses, "127.0.0.1")),
            expired=_identity(ours.issue_cert(*addresses, not_before=past, not_after=past + timedelta(days=1))),
            alien=_identity(ours.issue_cert("kafka.elsewhere.example.com")),
            client=_identity(ours.issue_cert(f"{USER}@example.com", common_name=USER)),
            renewed=_identity(ours.issue_cert(f"{USER}@example.com", common_name=USER)),
            ending=_identity(
                ours.issue_cert(
                    f"{USER}@example.com", common_name=USER, not_after=datetime.now(UTC) + timedelta(days=3)
                )
            ),
            stranger=_identity(others.issue_cert(f"{USER}@example.com", common_name=USER)),
        )


def _identity(issued: trustme.LeafCert) -> Identity:
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    return Identity(
        certificate="".join(part.bytes().decode() for part in issued.cert_chain_pems),
        key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
    )


def listeners(credentials: Credentials) -> dict[str, object]:
    """Broker settings that are the same for all brokers."""
    usual = f"PLAINTEXT://:{CLIENT_PORT},CONTROLLER://:{CONTROLLER_PORT}"
    more = ",".join(f"{name}://:{port}" for name, (_, port) in LISTENERS.items())
    protocols = ",".join(f"{name}:{protocol}" for name, (protocol, _) in LISTENERS.items())
    jaas = "org.apache.kafka.common.security"
    settings: dict[str, object] = {
        "listeners": f"{usual},{more}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{protocols}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": _line(credentials.ca),
        "listener.name.mutual.ssl.client.auth": "required",
    }
    for name in ("sasl", "sasltls"):
        prefix = f"listener.name.{name}"
        plain = f'{jaas}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        settings[f"{prefix}.plain.sasl.jaas.config"] = plain
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            settings[f"{prefix}.{mechanism}.sasl.jaas.config"] = f"{jaas}.scram.ScramLoginModule required;"
        # Kafka's own validator of unsecured JSON Web Signatures: what a token says is believed until it expires.
        oauth = f"{jaas}.oauthbearer.OAuthBearerLoginModule required;"
        settings[f"{prefix}.oauthbearer.sasl.jaas.config"] = oauth
    shown = dict.fromkeys(("tls", "mutual", "sasltls"), credentials.server)
    for name, identity in (shown | {"expired": credentials.expired, "alien": credentials.alien}).items():
        prefix = f"listener.name.{name}.ssl.keystore"
        settings[f"{prefix}.type"] = "PEM"
        settings[f"{prefix}.key"] = _line(identity.key)
        settings[f"{prefix}.certificate.chain"] = _line(identity.certificate)
    return settings


def _line(pem: str) -> str:
    """As a Java properties file wants it."""
    return pem.replace("\n", "\\n")


def advertised(address: str) -> dict[str, object]:
    """The settings of one broker."""
    ports = {"PLAINTEXT": CLIENT_PORT, "CONTROLLER": CONTROLLER_PORT} | {n: port for n, (_, port) in LISTENERS.items()}
    return {"advertised.listeners": ",".join(f"{name}://{address}:{port}" for name, port in ports.items())}


def bootstrap(kafka: KafkaDeployment, listener: str) -> str:
    return ",".join(f"{address}:{LISTENERS[listener][1]}" for address in kafka.broker_addresses.values())


def ensemble_connect(kafka: KafkaDeployment) -> str:
    return ",".join(f"{address}:{ENSEMBLE_PORT}" for address in kafka.zookeeper_addresses.values())


ENSEMBLE: dict[str, object] = {
    "secureClientPort": ENSEMBLE_PORT,
    "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
    "ssl.keyStore.location": "/config/server.pem",
    "ssl.keyStore.type": "PEM",
    "ssl.trustStore.location": "/config/ca.pem",
    "ssl.trustStore.type": "PEM",
    "ssl.clientAuth": "need",
}
"""ZooKeeper's settings for a second port with mutual TLS."""


def ensemble_files(credentials: Credentials) -> dict[str, str]:
    return {"server.pem": credentials.server.key + credentials.server.certificate, "ca.pem": credentials.ca}


def create_users(bootstrap_servers: str) -> None:
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        set_password(bootstrap_servers, mechanism, PASSWORD)


def set_password(bootstrap_servers: str, mechanism: ScramMechanism, password: str) -> None:
    """Kafka takes one credential of a user in a request."""
    wanted = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), password.encode())
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for done in admin.alter_user_scram_credentials([wanted]).values():
        done.result(timeout=30)
