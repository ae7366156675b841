"""Certificates that brokers serve and that the KafkaCluster's Secrets hold, and how much of their life is left.

The thresholds scale with a certificate's lifetime, so that one for 24 hours is not near its end for its whole life.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum

SOURCE = "certificates"
"""Of a Snapshot."""
SECRET = "SECRET"  # noqa: S105  # nosec B105 - no password
"""Kind of an element that was not read: a key of a Secret. The other kind is a BROKER."""
WARN_BELOW, WARN_SHARE = timedelta(days=21), 4
CRITICAL_BELOW, CRITICAL_SHARE = timedelta(days=7), 10
_NONE = timedelta(0)


class CertificateUse(StrEnum):
    """What a chain of certificates is for."""

    LISTENER = "Listener"
    CLIENT = "Client"
    TRUSTED = "Trusted"


class Peer(StrEnum):
    """Whom the operator reaches with a certificate."""

    KAFKA = "Kafka"
    ZOOKEEPER = "ZooKeeper"
    TOKEN_ENDPOINT = "TokenEndpoint"  # noqa: S105  # nosec B105 - no password


class Nearness(IntEnum):
    """How near the end of a certificate is."""

    FAR = 0
    NEAR = 1
    VERY_NEAR = 2
    PAST = 3


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a certificate says of itself. fingerprint: SHA-256 over all of it. subject_key, authority_key: the key
    identifiers of its own key and of the key that signed it (RFC 5280, section 4.2.1); None where it names none."""

    subject: str
    issuer: str
    serial: str
    not_before: datetime
    not_after: datetime
    fingerprint: str
    subject_key: str | None = None
    authority_key: str | None = None

    def left(self, now: datetime) -> timedelta:
        """Until it expires; negative once it has."""
        return self.not_after - now

    def nearness(self, now: datetime) -> Nearness:
        """`now` is compared with a time of the issuer's clock: nothing that changes a cluster may rest on this."""
        left, lifetime = self.left(now), max(_NONE, self.not_after - self.not_before)
        if left < _NONE:
            return Nearness.PAST
        if left < min(CRITICAL_BELOW, lifetime / CRITICAL_SHARE):
            return Nearness.VERY_NEAR
        return Nearness.NEAR if left < min(WARN_BELOW, lifetime / WARN_SHARE) else Nearness.FAR

    def signed(self, other: Certificate) -> bool:
        """Whether this is the issuer that the other certificate names, as OpenSSL looks for it (X509_check_issued):
        by name and, where both have one, by key identifier. The signature itself is not checked."""
        if self.subject != other.issuer or self.fingerprint == other.fingerprint:
            return False
        return None in (self.subject_key, other.authority_key) or self.subject_key == other.authority_key


@dataclass(frozen=True, slots=True)
class CertificateChain:
    """Certificates that stand together. LISTENER: as broker `broker` serves them, its own first. CLIENT: as the
    operator presents them, its own first. TRUSTED: in any order. secret, key: where they stand, None of a broker's.
    read_at: when the broker served them."""

    use: CertificateUse
    certificates: tuple[Certificate, ...]
    broker: int | None = None
    secret: str | None = None
    key: str | None = None
    peer: Peer = Peer.KAFKA
    read_at: datetime | None = None

    @property
    def holder(self) -> str:
        """As a finding names it."""
        return f"broker-{self.broker}" if self.broker is not None else secret_key(self.secret or "", self.key or "")


def secret_key(secret: str, key: str) -> str:
    """A key of a Secret, as an element and a finding name it."""
    return f"{secret}/{key}"
