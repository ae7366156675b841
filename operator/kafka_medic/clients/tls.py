"""TLS for the clients that take an `ssl.SSLContext`, and the reason why a secured connection does not come about.

librdkafka and kafka-python fail with a time-out or a text that does not tell an expired certificate from an unknown
issuer. A handshake of our own does, by OpenSSL's verify codes, so that one sentence stands for both clients.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import Connection, TlsMaterial

_ENDS = ("-----BEGIN", "PRIVATE KEY-----")
# openssl-verification-options(1); X509_V_ERR_* in x509_vfy.h
_EXPIRED = {10}
_OTHER_HOST = {62, 64}
_UNTRUSTED = {2, 7, 18, 19, 20, 21}
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""A request that any listener answers before anybody is authenticated by SASL (KIP-35)."""
_NODES = 64
"""So many are asked at most whether they take a certificate."""
_ADDRESSES = 6
"""So many servers are asked why at most; they share the connection's timeout."""


def client_context(material: TlsMaterial) -> ssl.SSLContext:
    """Host names and certificates are always checked. Raises ReadFailed that names the part that cannot be used, and
    shows nothing of it."""
    try:
        # The standard library takes ASCII only; what is not may stand in a comment between certificates.
        ca = None if material.ca is None else material.ca.encode("ascii", "replace").decode()
        context = ssl.create_default_context(cadata=ca) if ca is None or ca.strip() else None
    except (ssl.SSLError, ValueError):
        context = None
    if context is None:
        raise ReadFailed(FailureKind.CREDENTIALS, "the certificates to trust hold no certificate in PEM form")
    # Newer versions of Python refuse CA certificates that librdkafka takes; an intermediate may be the anchor.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if material.certificate is not None or material.key is not None:
        _show(context, material.certificate or "", material.key or "")
    return context


def names_another_host(problem: ssl.SSLCertVerificationError) -> bool:
    """The certificate is good, and for somebody else."""
    return problem.verify_code in _OTHER_HOST


def _show(context: ssl.SSLContext, certificate: str, key: str) -> None:
    if "-----BEGIN CERTIFICATE-----" not in certificate:
        raise ReadFailed(FailureKind.CREDENTIALS, "the client certificate is not in PEM form")
    if not all(part in key for part in _ENDS):
        raise ReadFailed(FailureKind.CREDENTIALS, "the client key is not in PEM form")

    def no_password() -> str:
        # Without this OpenSSL asks on the terminal.
        raise ValueError

    try:
        with _file(f"{key}\n{certificate}\n") as pem:
            context.load_cert_chain(pem, password=no_password)
    except ssl.SSLError as problem:
        unlike = problem.reason == "KEY_VALUES_MISMATCH"
        what = "the client key belongs to another certificate" if unlike else "the client certificate or key is damaged"
        raise ReadFailed(FailureKind.CREDENTIALS, what) from None
    except ValueError:
        raise ReadFailed(FailureKind.CREDENTIALS, "the client key is encrypted: give it without a password") from None


@contextmanager
def _file(text: str) -> Iterator[Path]:
    """The standard library loads keys from files only: one in memory, else a private one that lives for this call."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("client.pem"), "w") as memory:
            memory.write(text)
            memory.flush()
            yield Path(f"/proc/self/fd/{memory.fileno()}")
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as private:
        private.write(text)
        private.flush()
        yield Path(private.name)


def split_address(text: str) -> tuple[str, int]:
    """host:port, where an IPv6 host stands in brackets."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def explained(connection: Connection, nodes: Sequence[tuple[str, int]], failure: ReadFailed) -> ReadFailed:
    """`failure`, or what a handshake with the bootstrap servers and `nodes` shows to be behind it. Takes the
    connection's timeout at most."""
    if failure.kind not in (FailureKind.UNREACHABLE, FailureKind.TLS, FailureKind.OTHER):
        return failure
    found = dict.fromkeys([*map(split_address, connection.bootstrap_servers.split(",")), *nodes])
    context = client_context(connection.tls) if connection.uses_tls else None
    end = time.monotonic() + connection.timeout_seconds
    for host, port in [place for place in found if _permitted(connection, *place)][:_ADDRESSES]:
        left = min(2.0, end - time.monotonic())
        if left <= 0:
            break
        if context is not None:
            reason = handshake_failure(context, host, port, left) or _clear_text(host, port, left)
        else:
            reason = _asks_for_tls(host, port, left)
        if reason is not None:
            return reason
    return failure


def _permitted(connection: Connection, host: str, port: int) -> bool:
    if connection.destinations is None:
        return True
    try:
        connection.destinations.server(host, port)
    except ReadFailed:
        return False
    return True


def handshake_failure(context: ssl.SSLContext, host: str, port: int, seconds: float) -> ReadFailed | None:
    """Why a handshake with this server fails; None when it succeeds, or when the server is not there at all."""
    try:
        with (
            socket.create_connection((host, port), timeout=seconds) as link,
            context.wrap_socket(link, server_hostname=host) as secured,
        ):
            # With TLS 1.3 a server refuses a client's certificate only after the handshake (RFC 8446, section 4.4.2.4).
            secured.settimeout(min(0.5, seconds))
            secured.recv(1)
    except ssl.SSLError as problem:
        return why(problem, host, port)
    except OSError:
        return None
    return None


def certificate_outcomes(connection: Connection, nodes: Sequence[tuple[str, int]]) -> Sequence[ReadFailed | None]:
    """Of each of the nodes, why it does not answer a request over the connection's certificate; None: it does. Takes
    the connection's timeout for each eight nodes at most."""
    asked, seconds = nodes[:_NODES], min(2.0, connection.timeout_seconds)
    try:
        context = client_context(connection.tls)
    except ReadFailed as problem:
        return [problem] * len(asked)

    def outcome(place: tuple[str, int]) -> ReadFailed | None:
        if not _permitted(connection, *place):
            return ReadFailed(FailureKind.DESTINATION, f"{place[0]}:{place[1]}: not a permitted destination")
        return _outcome(context, place[0], place[1], seconds)

    with ThreadPoolExecutor(8, "handshakes") as pool:
        return list(pool.map(outcome, asked))


def _outcome(context: ssl.SSLContext, host: str, port: int, seconds: float) -> ReadFailed | None:
    """A handshake alone proves nothing: with TLS 1.3 a server judges the client's certificate after it."""
    where = f"{host}:{port}"
    try:
        link = socket.create_connection((host, port), timeout=seconds)
    except OSError as problem:
        return ReadFailed(FailureKind.UNREACHABLE, f"{where}: {problem}")
    try:
        with link:
            if _asked(context, link, host):
                return None
    except ssl.SSLError as problem:
        return why(problem, host, port) or ReadFailed(FailureKind.TLS, f"{where}: the handshake was broken off")
    except OSError as problem:
        return ReadFailed(FailureKind.TLS, f"{where}: {problem}")
    return ReadFailed(FailureKind.TLS, f"{where}: the server closed the connection")


def _asked(context: ssl.SSLContext, link: socket.socket, host: str) -> bytes:
    """The first byte of the answer to a request. A server that refuses a certificate says so and closes at once, so
    what cannot be sent any more is no reason not to read what it said."""
    heard, told = ssl.MemoryBIO(), ssl.MemoryBIO()
    secured = context.wrap_bio(heard, told, server_hostname=host)

    def carried(step: Callable[[], object]) -> None:
        while True:
            try:
                step()
                return
            except ssl.SSLWantReadError:
                pass
            finally:
                with suppress(OSError):
                    link.sendall(told.read())
            if received := link.recv(16_384):
                heard.write(received)
            else:
                heard.write_eof()

    answer: list[bytes] = []
    carried(secured.do_handshake)
    carried(lambda: secured.write(_API_VERSIONS))
    carried(lambda: answer.append(secured.read(1)))
    return answer[0]


def why(problem: ssl.SSLError, host: str, port: int) -> ReadFailed | None:
    """A failed handshake in words; None for one that was broken off without any."""
    where = f"{host}:{port}"
    if isinstance(problem, ssl.SSLCertVerificationError):
        code, detail = problem.verify_code, problem.verify_message
        if code in _EXPIRED:
            return ReadFailed(FailureKind.CERTIFICATE_EXPIRED, f"{where}: the server's certificate has expired")
        if code in _OTHER_HOST:
            return ReadFailed(
                FailureKind.HOST_NAME, f"{where}: the server's certificate is for another host name: {detail}"
            )
        if code in _UNTRUSTED:
            return ReadFailed(
                FailureKind.CERTIFICATE_UNTRUSTED,
                f"{where}: the server's certificate is not signed by a trusted authority ({detail}); "
                "the CA may be wrong",
            )
        return ReadFailed(FailureKind.TLS, f"{where}: the server's certificate: {detail}")
    reason = problem.reason or ""
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        detail = reason.split("ALERT_", 1)[1].replace("_", " ").lower()
        return ReadFailed(
            FailureKind.CLIENT_CERTIFICATE,
            f"{where}: the server requires a client certificate that it trusts; it got none or refused it ({detail})",
        )
    if "ALERT" in reason:
        return ReadFailed(FailureKind.TLS, f"{where}: the server refused the handshake ({reason})")
    return None


def _clear_text(host: str, port: int, seconds: float) -> ReadFailed | None:
    """Whether a port that does not do TLS answers a request in the clear."""
    try:
        with socket.create_connection((host, port), timeout=seconds) as link:
            link.sendall(_API_VERSIONS)
            answer = link.recv(8, socket.MSG_WAITALL)
    except OSError:
        return None
    if len(answer) == 8 and answer[4:] == struct.pack(">i", 1):
        return ReadFailed(
            FailureKind.WRONG_PROTOCOL,
            f"{host}:{port}: the port does not use TLS; check the port and spec.security.protocol",
        )
    return None


def _asks_for_tls(host: str, port: int, seconds: float) -> ReadFailed | None:
    """Whether a port that was spoken to in the clear speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent, and nothing that is read is believed
    try:
        with (
            socket.create_connection((host, port), timeout=seconds) as link,
            context.wrap_socket(link, server_hostname=host),
        ):
            pass
    except ssl.SSLError as problem:
        if "ALERT" not in (problem.reason or ""):
            return None
    except OSError:
        return None
    return ReadFailed(
        FailureKind.WRONG_PROTOCOL,
        f"{host}:{port}: the port uses TLS; check the port and spec.security.protocol",
    )
