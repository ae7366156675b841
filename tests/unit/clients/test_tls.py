"""What is wrong with a certificate, a key or a port is said by its name, and nothing of them is told."""

from __future__ import annotations

import socket
import ssl
import threading
import traceback
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from kafka_medic.clients.destinations import Destinations
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection, TlsMaterial
from kafka_medic.clients.tls import certificate_outcomes, client_context, explained

CA = trustme.CA()
MINE = CA.issue_cert("127.0.0.1")
OTHERS = CA.issue_cert("elsewhere.example.com")
PAST = datetime(2020, 1, 1, tzinfo=UTC)
OLD = CA.issue_cert("127.0.0.1", not_before=PAST, not_after=PAST + timedelta(days=1))
CA_PEM = CA.cert_pem.bytes().decode()
CERTIFICATE = MINE.cert_chain_pems[0].bytes().decode()
KEY = MINE.private_key_pem.bytes().decode()
DAMAGED = KEY.replace(KEY.splitlines()[2], "")
ENCRYPTED = (
    load_pem_private_key(KEY.encode(), None)
    .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"hunter2"))
    .decode()
)
NOTHING = ReadFailed(FailureKind.UNREACHABLE, "timed out")


@pytest.mark.parametrize(
    ("material", "says"),
    [
        (TlsMaterial(ca="hunter2"), "certificates to trust"),
        (TlsMaterial(ca="hunter2 \u00e9"), "certificates to trust"),
        (TlsMaterial(ca=""), "certificates to trust"),
        (TlsMaterial(CA_PEM, "hunter2", KEY), "certificate is not in PEM"),
        (TlsMaterial(CA_PEM, CERTIFICATE, "hunter2"), "key is not in PEM"),
        (TlsMaterial(CA_PEM, CERTIFICATE, None), "key is not in PEM"),
        (TlsMaterial(CA_PEM, CERTIFICATE, OTHERS.private_key_pem.bytes().decode()), "another certificate"),
        (TlsMaterial(CA_PEM, CERTIFICATE, DAMAGED), "damaged"),
        (TlsMaterial(CA_PEM, CERTIFICATE, ENCRYPTED), "encrypted"),
    ],
)
def test_what_cannot_be_used_is_named_and_not_shown(material, says):
    for use in (lambda: client_context(material), lambda: RealKafka(Connection("127.0.0.1:1", "SSL", tls=material))):
        with pytest.raises(ReadFailed) as refused:
            use()
        assert refused.value.kind is FailureKind.CREDENTIALS
        assert says in refused.value.message
        told = "".join(traceback.format_exception(refused.value)) + repr(material)
        assert "hunter2" not in told
        assert KEY.splitlines()[1] not in told


def test_a_comment_that_is_not_ascii_does_no_harm_and_no_ca_means_the_systems():
    client_context(TlsMaterial(f"# Beh\u00f6rde\n{CA_PEM}", CERTIFICATE, KEY))
    context = client_context(TlsMaterial())
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


@pytest.fixture
def server():
    """Starts a server that does TLS with this certificate, or without one answers `reply` to whatever comes."""
    opened = []

    def start(certificate: trustme.LeafCert | None, trusts: trustme.CA | None = None, reply: bytes = b"") -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        opened.append(listener)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if certificate is not None:
            certificate.configure_cert(context)
        if trusts is not None:
            trusts.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED

        def serve():
            while True:
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                try:
                    if certificate is not None:
                        link = context.wrap_socket(link, server_side=True)
                    link.recv(64)
                    link.sendall(reply)
                except OSError:
                    pass
                finally:
                    link.close()
                    start.closed.set()

        threading.Thread(target=serve, daemon=True).start()
        return listener.getsockname()[1]

    start.closed = threading.Event()
    yield start
    for listener in opened:
        listener.close()


def reason(port: int, protocol: str = "SSL", tls: TlsMaterial | None = None, nodes=()) -> ReadFailed:
    return explained(
        Connection(f"127.0.0.1:{port}", protocol, tls=tls or TlsMaterial(CA_PEM), timeout_seconds=3.0), nodes, NOTHING
    )


def test_each_failure_of_a_handshake_has_its_own_name(server):
    strange = TlsMaterial(trustme.CA().cert_pem.bytes().decode())
    assert reason(server(MINE), tls=strange).kind is FailureKind.CERTIFICATE_UNTRUSTED
    assert reason(server(OLD)).kind is FailureKind.CERTIFICATE_EXPIRED
    assert reason(server(OTHERS)).kind is FailureKind.HOST_NAME
    assert reason(server(MINE, trusts=CA)).kind is FailureKind.CLIENT_CERTIFICATE
    assert reason(server(MINE), protocol="SASL_PLAINTEXT").kind is FailureKind.WRONG_PROTOCOL
    assert reason(server(MINE, trusts=CA), protocol="PLAINTEXT").kind is FailureKind.WRONG_PROTOCOL
    api_versions = b"\x00\x00\x00\x06\x00\x00\x00\x01\x00\x23"
    assert reason(server(None, reply=api_versions)).kind is FailureKind.WRONG_PROTOCOL


def test_which_broker_does_not_take_a_client_certificate(server):
    takes, strange = server(MINE, trusts=CA, reply=b"x"), server(MINE, trusts=trustme.CA(), reply=b"x")
    silent, gone = server(MINE, trusts=CA), socket.create_server(("127.0.0.1", 0))
    nodes = [("127.0.0.1", port) for port in (takes, strange, silent, gone.getsockname()[1])]
    gone.close()
    shown = Connection("127.0.0.1:1", "SSL", tls=TlsMaterial(CA_PEM, CERTIFICATE, KEY), timeout_seconds=3.0)
    outcomes = certificate_outcomes(shown, nodes)
    kinds = [None if outcome is None else outcome.kind for outcome in outcomes]
    assert kinds == [None, FailureKind.CLIENT_CERTIFICATE, FailureKind.TLS, FailureKind.UNREACHABLE]
    assert f"127.0.0.1:{strange}" in str(outcomes[1])
    unusable = replace(shown, tls=TlsMaterial(CA_PEM, "no certificate", KEY))
    (told,) = certificate_outcomes(unusable, nodes[:1])
    assert told is not None
    assert told.kind is FailureKind.CREDENTIALS
    (elsewhere,) = certificate_outcomes(replace(shown, destinations=Destinations("ns")), nodes[:1])
    assert elsewhere is not None
    assert elsewhere.kind is FailureKind.DESTINATION


def test_a_refusal_is_read_though_the_server_has_closed_before_the_request_is_sent(server, monkeypatch):
    """With TLS 1.3 the client's handshake ends before the server judges its certificate."""
    port = server(MINE, trusts=trustme.CA())

    class Late(ssl.SSLObject):
        def write(self, data):
            assert server.closed.wait(5)
            return super().write(data)

    monkeypatch.setattr(ssl.SSLContext, "sslobject_class", Late)
    shown = Connection("127.0.0.1:1", "SSL", tls=TlsMaterial(CA_PEM, CERTIFICATE, KEY), timeout_seconds=3.0)
    (told,) = certificate_outcomes(shown, [("127.0.0.1", port)])
    assert told is not None
    assert told.kind is FailureKind.CLIENT_CERTIFICATE


def test_where_a_handshake_shows_nothing_the_first_failure_stands(server):
    assert reason(server(MINE)) is NOTHING
    assert reason(server(MINE, trusts=CA), tls=TlsMaterial(CA_PEM, CERTIFICATE, KEY)) is NOTHING
    assert reason(server(None, reply=b"SSH-2.0-x")) is NOTHING
    assert reason(server(None), protocol="PLAINTEXT") is NOTHING
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert reason(port) is NOTHING
    refused = ReadFailed(FailureKind.AUTHENTICATION, "no")
    assert explained(Connection(f"127.0.0.1:{server(OLD)}", "SSL"), [], refused) is refused


def test_a_broker_that_is_fine_to_start_from_and_another_that_is_not(server):
    assert reason(server(MINE), nodes=[("127.0.0.1", server(OLD))]).kind is FailureKind.CERTIFICATE_EXPIRED
