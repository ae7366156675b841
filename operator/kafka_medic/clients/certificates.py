"""Certificates: those that brokers serve in a TLS handshake, and those of a PEM text. All of them come from strangers.

The library that reads them takes a third of a second to load, so it is loaded where the first certificate is read.
"""

from __future__ import annotations

import hashlib
import re
import socket
import ssl
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import Address, Connection
from kafka_medic.clients.tls import client_context, why
from kafka_medic.cluster.certificates import Certificate

MAX_BYTES = 65_536
"""Of one certificate. OpenSSL takes 100 KB for a whole chain (SSL_CTX_set_max_cert_list)."""
MAX_SERVED = 10
MAX_IN_TEXT = 200
"""The bundle that browsers trust has about 150."""
_THREADS = 8
_SECONDS = 2.0
"""For one handshake at most."""
_LONGEST = 200
"""Characters of a name. What is longer is cut, and told apart by a digest."""
_LONGEST_SERIAL = 40
"""Hexadecimal digits: 20 bytes (RFC 5280, section 4.1.2.2)."""
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----([^-]*)-----END CERTIFICATE-----")
_BEGIN = "-----BEGIN CERTIFICATE-----"

Served = tuple[Certificate, ...] | ReadFailed
"""A broker's own certificate first, or why it is not known."""


def served_chains(connection: Connection, brokers: Mapping[int, Address]) -> Mapping[int, Served]:
    """The chain that each broker's listener serves now. Takes the connection's timeout at most; a broker for which no
    time was left fails."""
    try:
        checking = client_context(connection.tls)
    except ReadFailed as problem:
        return dict.fromkeys(brokers, problem)
    parsed: dict[bytes, Certificate] = {}
    end = time.monotonic() + connection.timeout_seconds

    def chain(address: Address) -> Served:
        left = min(_SECONDS, end - time.monotonic())
        if left <= 0:
            return ReadFailed(FailureKind.UNREACHABLE, f"{address[0]}:{address[1]}: no time was left to read it")
        try:
            return tuple(_interned(der, parsed) for der in _served(connection, checking, *address, left))
        except ReadFailed as problem:
            return problem

    if len(brokers) <= 1:
        return {broker: chain(address) for broker, address in brokers.items()}
    with ThreadPoolExecutor(min(_THREADS, len(brokers)), "certificates") as pool:
        return dict(zip(brokers, pool.map(chain, brokers.values()), strict=True))


def certificates_in(pem: str) -> tuple[Certificate, ...]:
    """Raises ReadFailed for what cannot be read, and never shows it."""
    found = _PEM.findall(pem)
    if not found or len(found) != pem.count(_BEGIN):
        raise ReadFailed(FailureKind.CREDENTIALS, "a certificate is not in PEM form")
    if len(found) > MAX_IN_TEXT:
        raise ReadFailed(FailureKind.CREDENTIALS, f"holds {len(found)} certificates (limit {MAX_IN_TEXT})")
    parsed = []
    for number, text in enumerate(found, 1):
        try:
            parsed.append(_certificate(ssl.PEM_cert_to_DER_cert(f"{_BEGIN}{text}-----END CERTIFICATE-----")))
        except ValueError:
            which = f"certificate {number} of {len(found)}"
            raise ReadFailed(FailureKind.CREDENTIALS, f"{which} cannot be read") from None
    return tuple(dict.fromkeys(parsed))


def _served(connection: Connection, checking: ssl.SSLContext, host: str, port: int, seconds: float) -> list[bytes]:
    """In DER form. The first handshake is like each of the operator's own. What it refuses (a certificate that has
    expired, say) is read in a second one, in which the operator shows no certificate and believes nothing."""
    try:
        return _handshake(connection, checking, host, port, seconds)
    except ssl.SSLCertVerificationError:
        pass
    except ssl.SSLError as problem:
        raise why(problem, host, port) or ReadFailed(FailureKind.TLS, f"{host}:{port}: no handshake") from None
    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    try:
        return _handshake(connection, unchecked, host, port, seconds)
    except ssl.SSLError as problem:
        raise why(problem, host, port) or ReadFailed(FailureKind.TLS, f"{host}:{port}: no handshake") from None


def _handshake(connection: Connection, context: ssl.SSLContext, host: str, port: int, seconds: float) -> list[bytes]:
    """Raises SSLError, and ReadFailed for anything else."""
    try:
        with (
            _connected(connection, host, port, seconds) as link,
            context.wrap_socket(link, server_hostname=host, do_handshake_on_connect=False) as secured,
        ):
            try:
                secured.do_handshake()
            except ssl.SSLCertVerificationError:
                raise
            except ssl.SSLError:
                # Up to TLS 1.2 a server that misses the client's certificate ends a handshake after its own chain.
                if not (chain := _chain(secured)):
                    raise
                return _bounded(chain, host, port)
            return _bounded(_chain(secured), host, port)
    except ssl.SSLError:
        raise
    except (OSError, OverflowError, ValueError) as problem:  # also for a host or a port that is none
        raise ReadFailed(FailureKind.UNREACHABLE, f"{host}:{port}: {problem}") from None


def _connected(connection: Connection, host: str, port: int, seconds: float) -> socket.socket:
    """To an address as `destinations` resolved it, so that no second answer of the resolver leads elsewhere."""
    if connection.destinations is None:
        return socket.create_connection((host, port), timeout=seconds)
    refused: OSError | None = None
    for *_, address in connection.destinations.server(host, port):
        try:
            return socket.create_connection(address, timeout=seconds)
        except OSError as problem:
            refused = problem
    raise refused or OSError("no address")


def _chain(secured: ssl.SSLSocket) -> list[bytes]:
    public = getattr(secured, "get_unverified_chain", None)  # Python 3.13
    if public is not None:
        return list(public() or ())
    inner: Any = secured._sslobj  # type: ignore[attr-defined]
    # _ssl.ENCODING_DER; without it the text would be PEM.
    return [certificate.public_bytes(2) for certificate in inner.get_unverified_chain() or ()]


def _bounded(chain: list[bytes], host: str, port: int) -> list[bytes]:
    if not chain:
        raise ReadFailed(FailureKind.TLS, f"{host}:{port}: no certificate was served")
    if len(chain) > MAX_SERVED:
        raise ReadFailed(FailureKind.TLS, f"{host}:{port}: {len(chain)} certificates in a chain (limit {MAX_SERVED})")
    return chain


def _interned(der: bytes, parsed: dict[bytes, Certificate]) -> Certificate:
    """All brokers serve the same few authorities."""
    found = parsed.get(der)
    if found is None:
        try:
            found = parsed[der] = _certificate(der)
        except ValueError as problem:
            raise ReadFailed(FailureKind.TLS, f"a certificate cannot be read: {problem}") from None
    return found


def _certificate(der: bytes) -> Certificate:
    """Raises ValueError, without what was in it."""
    from cryptography import x509  # noqa: PLC0415 - see above

    if len(der) > MAX_BYTES:
        raise ValueError(f"{len(der)} bytes (limit {MAX_BYTES})")
    try:
        read = x509.load_der_x509_certificate(der)
        return Certificate(
            subject=_name(read.subject),
            issuer=_name(read.issuer),
            serial=f"{read.serial_number:x}"[:_LONGEST_SERIAL],
            not_before=read.not_valid_before_utc,
            not_after=read.not_valid_after_utc,
            fingerprint=hashlib.sha256(der).hexdigest(),
            **_keys(read),
        )
    except Exception as problem:  # noqa: BLE001 - whatever bytes of a stranger do to the library
        raise ValueError(type(problem).__name__) from None


def _name(name: Any) -> str:
    text = str(name.rfc4514_string())
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}... ({hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]})"


def _keys(read: Any) -> dict[str, str | None]:
    """None for an extension that is missing or damaged: then the names alone decide who signed what."""
    from cryptography import x509  # noqa: PLC0415 - see above

    found: dict[str, str | None] = {"subject_key": None, "authority_key": None}
    try:
        extensions = read.extensions
    except Exception:  # noqa: BLE001 - whatever bytes of a stranger do to the library
        return found
    for extension in extensions:
        if isinstance(extension.value, x509.SubjectKeyIdentifier):
            found["subject_key"] = extension.value.digest.hex()[:_LONGEST]
        elif isinstance(extension.value, x509.AuthorityKeyIdentifier) and extension.value.key_identifier:
            found["authority_key"] = extension.value.key_identifier.hex()[:_LONGEST]
    return found
