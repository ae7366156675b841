"""Certificates in the Snapshot document. `chain_in` raises SnapshotDocumentError."""

from __future__ import annotations

from typing import Any

from kafka_medic.cluster.certificates import Certificate, CertificateChain, CertificateUse, Peer
from kafka_medic.cluster.fields import (
    SnapshotDocumentError,
    list_of,
    mapping,
    moment,
    optional,
    required,
    timestamp,
)


def chain_out(chain: CertificateChain) -> dict[str, Any]:
    return {
        "use": chain.use.value,
        "broker": chain.broker,
        "secret": chain.secret,
        "key": chain.key,
        "peer": chain.peer.value,
        "readAt": timestamp(chain.read_at) if chain.read_at else None,
        "certificates": [
            {
                "subject": c.subject,
                "issuer": c.issuer,
                "serial": c.serial,
                "notBefore": timestamp(c.not_before),
                "notAfter": timestamp(c.not_after),
                "fingerprint": c.fingerprint,
                "subjectKey": c.subject_key,
                "authorityKey": c.authority_key,
            }
            for c in chain.certificates
        ],
    }


def chain_in(value: Any, path: str) -> CertificateChain:
    item = mapping(value, path)
    use, peer = _text(item, "use", path), optional(item, "peer", path, str) or Peer.KAFKA.value
    if use not in set(CertificateUse):
        raise SnapshotDocumentError(f"{path}.use", f"must be one of {', '.join(CertificateUse)}, not {use!r}")
    if peer not in set(Peer):
        raise SnapshotDocumentError(f"{path}.peer", f"must be one of {', '.join(Peer)}, not {peer!r}")
    broker, read_at = optional(item, "broker", path, int), item.get("readAt")
    if (use == CertificateUse.LISTENER) != (broker is not None):
        raise SnapshotDocumentError(f"{path}.broker", f"a Listener has a broker, and nothing else has; not {broker!r}")
    return CertificateChain(
        use=CertificateUse(use),
        certificates=list_of(required(item, "certificates", path), f"{path}.certificates", _certificate_in),
        broker=broker,
        secret=optional(item, "secret", path, str),
        key=optional(item, "key", path, str),
        peer=Peer(peer),
        read_at=None if read_at is None else moment(read_at, f"{path}.readAt"),
    )


def _certificate_in(value: Any, path: str) -> Certificate:
    item = mapping(value, path)
    return Certificate(
        subject=_text(item, "subject", path),
        issuer=_text(item, "issuer", path),
        serial=_text(item, "serial", path),
        not_before=moment(required(item, "notBefore", path), f"{path}.notBefore"),
        not_after=moment(required(item, "notAfter", path), f"{path}.notAfter"),
        fingerprint=_text(item, "fingerprint", path),
        subject_key=optional(item, "subjectKey", path, str),
        authority_key=optional(item, "authorityKey", path, str),
    )


def _text(item: Any, key: str, path: str) -> str:
    value = required(item, key, path)
    if not isinstance(value, str):
        raise SnapshotDocumentError(f"{path}.{key}", f"must be str, not {value!r}")
    return value
