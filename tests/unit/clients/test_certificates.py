"""What a listener serves is read in a handshake, also where the operator would refuse it; hostile certificates end in a
failure with a reason."""

from __future__ import annotations

import queue
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kafka_medic.clients.certificates import MAX_BYTES, MAX_IN_TEXT, certificates_in, served_chains
from kafka_medic.clients.destinations import Destinations
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import Connection, TlsMaterial
from kafka_medic.cluster.certificates import Nearness

CA = trustme.CA()
BETWEEN = CA.create_child_ca()
CA_PEM = CA.cert_pem.bytes().decode()
MINE = BETWEEN.issue_cert("127.0.0.1")
CLIENT = CA.issue_cert("medic@example.com")
PAST = datetime(2020, 1, 1, tzinfo=UTC)
OLD = CA.issue_cert("127.0.0.1", not_before=PAST, not_after=PAST + timedelta(days=1))
SHOWN = TlsMaterial(CA_PEM, CLIENT.cert_chain_pems[0].bytes().decode(), CLIENT.private_key_pem.bytes().decode())


@pytest.fixture
def server():
    """Starts a server that serves this certificate, and tells how handshakes ended."""
    with ExitStack() as opened:

        def start(certificate, *, asks_for_certificate=False, version=None, silent=False):
            listener = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            certificate.configure_cert(context)
            if version is not None:
                context.maximum_version = version
            if asks_for_certificate:
                CA.configure_trust(context)
                context.verify_mode = ssl.CERT_REQUIRED

            def serve():
                while True:
                    try:
                        link, _ = listener.accept()
                    except OSError:
                        return
                    if silent:
                        start.kept.append(link)
                        continue
                    try:
                        with context.wrap_socket(link, server_side=True) as secured:
                            start.ended.put("good")
                            secured.recv(1)
                    except OSError as problem:
                        start.ended.put(type(problem).__name__)

            threading.Thread(target=serve, daemon=True).start()
            return "127.0.0.1", listener.getsockname()[1]

        start.ended, start.kept = queue.Queue(), []
        yield start


def read(*addresses, tls=SHOWN, **more):
    connection = Connection("127.0.0.1:1", "SSL", tls=tls, **{"timeout_seconds": 3.0, **more})
    return served_chains(connection, dict(enumerate(addresses)))


def test_a_chain_as_it_is_served(server):
    (chain,) = read(server(MINE)).values()
    leaf, between = chain
    assert between.signed(leaf)
    assert not leaf.signed(between)
    (authority,) = certificates_in(CA_PEM)
    assert authority.signed(between)
    assert authority.subject == authority.issuer
    own = x509.load_pem_x509_certificate(MINE.cert_chain_pems[0].bytes())
    assert (leaf.not_before, leaf.not_after) == (own.not_valid_before_utc, own.not_valid_after_utc)
    assert int(leaf.serial, 16) == own.serial_number
    assert leaf.fingerprint == own.fingerprint(hashes.SHA256()).hex()
    assert "trustme" in leaf.subject
    assert server.ended.get(timeout=10) == "good", "the same handshake as those of the operator's clients"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_what_the_operator_refuses_is_read_all_the_same(server, version):
    addresses = [
        server(OLD, version=version),
        server(OLD, version=version, asks_for_certificate=True),
        server(trustme.CA().issue_cert("127.0.0.1"), version=version),
        server(CA.issue_cert("elsewhere.example.com"), version=version),
    ]
    expired, also, strange, elsewhere = read(*addresses).values()
    assert [c.nearness(datetime.now(UTC)) for c in (expired[0], also[0])] == [Nearness.PAST] * 2
    assert strange[0].issuer != expired[0].issuer
    assert elsewhere[0].nearness(datetime.now(UTC)) is Nearness.FAR


def test_a_server_that_wants_a_certificate_gets_it_and_notes_no_failure(server):
    (chain,) = read(server(MINE, asks_for_certificate=True)).values()
    assert len(chain) == 2
    assert server.ended.get(timeout=10) == "good"
    assert server.ended.empty()


def test_who_does_not_serve_one_fails_alone(server):
    in_the_clear = socket.create_server(("127.0.0.1", 0))
    gone = socket.create_server(("127.0.0.1", 0))
    places = [("127.0.0.1", s.getsockname()[1]) for s in (in_the_clear, gone)]
    gone.close()

    def hang_up():
        link, _ = in_the_clear.accept()
        link.recv(1)
        link.sendall(b"\x00" * 64)
        link.close()

    threading.Thread(target=hang_up, daemon=True).start()
    odd = [("127.0.0.1", 99_999), ("", 9093), (".a", 9093), ("a\x00b", 9093), ("x" * 300, 9093)]
    good, clear, away, *others = read(server(MINE), *places, *odd).values()
    assert len(good) == 2
    assert (clear.kind, away.kind) == (FailureKind.TLS, FailureKind.UNREACHABLE)
    assert all(isinstance(other, ReadFailed) for other in others), others
    in_the_clear.close()


def test_a_destination_that_is_not_permitted_is_not_connected_to(server):
    here = server(MINE)
    refused = read(here, destinations=Destinations("ns"))[0]
    assert refused.kind is FailureKind.DESTINATION
    assert server.ended.empty()
    assert len(read(here, destinations=Destinations("ns", loopback=True))[0]) == 2


def test_many_servers_that_say_nothing_take_the_timeout_together(server):
    silent = server(MINE, silent=True)
    began = time.monotonic()
    outcomes = read(*([silent] * 40), timeout_seconds=0.5)
    assert time.monotonic() - began < 2.0
    assert all(isinstance(outcome, ReadFailed) for outcome in outcomes.values())


def test_a_client_certificate_that_cannot_be_used_is_said_of_every_broker(server):
    outcome = read(server(MINE), tls=TlsMaterial(CA_PEM, "none", "none"))[0]
    assert outcome.kind is FailureKind.CREDENTIALS


class Padded:
    """A certificate with so many of strangers after it."""

    def __init__(self, count, extra=0):
        self.count, self.extra = count, extra

    def configure_cert(self, context):
        with trustme.Blob(b"".join(self.parts())).tempfile() as file:
            context.load_cert_chain(file)

    def parts(self):
        yield OLD.private_key_pem.bytes()
        yield OLD.cert_chain_pems[0].bytes()
        yield from (made(str(n), self.extra).encode() for n in range(self.count))


def test_a_chain_of_too_many_or_too_large_is_none(server):
    longest, longer, large, larger = read(
        *(server(Padded(*of)) for of in ((9,), (10,), (1, MAX_BYTES), (2, MAX_BYTES)))
    ).values()
    assert len(longest) == 10
    assert longer.message.endswith("11 certificates in a chain (limit 10)")
    assert large.message.startswith("a certificate cannot be read")
    assert isinstance(larger, ReadFailed), "OpenSSL itself reads no more than 100 KB"


# PEM


def made(name="x", extra=0, **dates):
    """A certificate of a stranger, with so many bytes of no use in it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(2**158)
        .not_valid_before(dates.get("begin", datetime(2020, 1, 1)))
        .not_valid_after(dates.get("end", datetime(2030, 1, 1)))
    )
    if extra:
        oid = x509.ObjectIdentifier("1.3.6.1.4.1.55555.1")
        builder = builder.add_extension(x509.UnrecognizedExtension(oid, b"x" * extra), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def test_a_bundle_with_words_between_and_a_key_beside():
    key = CLIENT.private_key_pem.bytes().decode()
    text = f"# Beh\u00f6rde\n{CA_PEM}\n{key}\n{made('a')}{CA_PEM}"
    found = certificates_in(text)
    assert len(found) == 2, "one of each"
    assert found[1].subject == found[1].issuer == "CN=a"
    assert found[1].serial == f"{2**158:x}"


@pytest.mark.parametrize("end", [datetime(9999, 12, 31, 23, 59, 59), datetime(2049, 12, 31), datetime(2050, 1, 1)])
def test_dates_far_away(end):
    (found,) = certificates_in(made(begin=datetime(1950, 1, 1), end=end))
    assert found.not_after == end.replace(tzinfo=UTC)


def broken(pem, what):
    lines = pem.splitlines()
    return {
        "no end": "\n".join(lines[:-1]),
        "no base64": pem.replace(lines[3], "!" * len(lines[3])),
        "cut": "\n".join([*lines[:3], lines[-1]]),
        "empty": f"{lines[0]}\n{lines[-1]}",
        "other bytes": "\n".join([lines[0], "AAAA" * 16, lines[-1]]),
        "no dates": pem.replace(lines[2], lines[2][::-1]),
    }[what]


@pytest.mark.parametrize("what", ["no end", "no base64", "cut", "empty", "other bytes", "no dates"])
def test_what_is_no_certificate_is_said_and_not_shown(what):
    bad = broken(made("hunter2"), what)
    with pytest.raises(ReadFailed) as refused:
        certificates_in(f"{CA_PEM}\n{bad}\n")
    assert "hunter2" not in str(refused.value)
    assert "certificate" in refused.value.message


def test_only_so_many_and_only_so_large():
    one = made()
    with pytest.raises(ReadFailed, match=rf"holds {MAX_IN_TEXT + 1} certificates \(limit {MAX_IN_TEXT}\)"):
        certificates_in(one * (MAX_IN_TEXT + 1))
    with pytest.raises(ReadFailed, match="certificate 2 of 2 cannot be read"):
        certificates_in(one + made(extra=MAX_BYTES))
    with pytest.raises(ReadFailed, match="not in PEM"):
        certificates_in("")


def test_long_names_are_cut_and_told_apart():
    long = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "u" * 60 + str(n)) for n in range(50)]
    key = ec.generate_private_key(ec.SECP256R1())

    def named(*parts):
        pem = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([*long, *parts]))
            .issuer_name(x509.Name(long))
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(datetime(2020, 1, 1))
            .not_valid_after(datetime(2030, 1, 1))
            .sign(key, hashes.SHA256())
        )
        return certificates_in(pem.public_bytes(Encoding.PEM).decode())[0]

    one, other = named(), named(x509.NameAttribute(NameOID.COMMON_NAME, "a\nb"))
    assert len(one.subject) < 250
    assert one.subject == one.issuer
    assert other.subject != other.issuer


def test_the_library_is_loaded_for_the_first_certificate_and_not_before():
    """The command's start, and operators of clusters without TLS, are not slowed down by it."""
    code = (
        "import sys, kafka_medic.controller.clients, kafka_medic.observe.command; print('cryptography' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
