"""However large a response is, a connection holds on to a piece of it: 500 of them would hold more than there is. A
request that fits into the socket is sent without waiting for it."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections import deque
from collections.abc import Generator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import trustme
from kafka import errors
from kafka.net import manager, selector

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kafka_link import KafkaLink, _settings
from kafka_medic.clients.kafka_transport import PIECE
from kafka_medic.clients.ports import Connection

DATA = bytes(range(256)) * 8000
SECONDS = 20.0


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Client and server, connected; the client does not wait."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        with client, server:
            yield client, server


def transport(kind: str, sock: Any) -> Any:
    """Of the class that kafka-python makes connections with, once there is a link."""
    with pytest.raises(ReadFailed):
        KafkaLink(Connection("127.0.0.1:1", timeout_seconds=0.1)).call(lambda c: c, ReadFailed, "nobody")
    found = object.__new__(getattr(manager, kind))
    found._sock = sock
    return found


def received(reader: Any, sock: socket.socket) -> list[bytes]:
    """Each time that there is something to read; to the end."""
    found: list[bytes] = []
    while sum(map(len, found)) < len(DATA):
        assert select.select([sock], [], [], SECONDS)[0], f"{sum(map(len, found))} of {len(DATA)} bytes"
        data, error = reader._sock_recv()
        assert error is None
        found.append(data)
    return found


def test_a_response_comes_in_pieces(pair):
    client, server = pair
    client.setblocking(False)
    sending = threading.Thread(target=server.sendall, args=(DATA,))
    sending.start()
    found = received(transport("KafkaTCPTransport", client), client)
    sending.join(SECONDS)
    assert b"".join(found) == DATA
    assert max(map(len, found)) <= PIECE


def test_of_a_secured_one_nothing_waits_behind_what_was_decrypted(pair):
    authority = trustme.CA()
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(ours)
    client, server = pair

    def serve() -> None:
        with theirs.wrap_socket(server, server_side=True) as secured:
            secured.sendall(DATA)
            secured.recv(1)  # stay until the client goes

    serving = threading.Thread(target=serve)
    serving.start()
    with ours.wrap_socket(client, server_hostname="127.0.0.1") as secured:
        secured.setblocking(False)
        found = received(transport("KafkaSSLTransport", secured), secured)
    serving.join(SECONDS)
    assert b"".join(found) == DATA
    assert max(map(len, found)) <= PIECE


def test_the_end_of_a_connection_is_told(pair):
    client, server = pair
    client.setblocking(False)
    reader = transport("KafkaTCPTransport", client)
    assert reader._sock_recv() == (b"", None), "nothing yet"
    server.close()
    assert select.select([client], [], [], SECONDS)[0]
    data, error = reader._sock_recv()
    assert data == b""
    assert isinstance(error, errors.KafkaConnectionError)


class Waiting:
    """What a transport awaits until its socket is writable."""

    def __await__(self) -> Generator[str, None, None]:
        yield "writable?"


def writer(sock: socket.socket, data: bytes) -> tuple[Any, Any]:
    """A transport with a request to send, and the task that sends it."""
    found = transport("KafkaTCPTransport", sock)
    found._net = SimpleNamespace(wait_write=lambda _: Waiting())
    found._write_buffer, found._writing, found._write, found._closed, found._protocol = (
        deque([data]),
        True,
        True,
        0,
        None,
    )
    found.aborted = []
    found.abort = found.aborted.append
    return found, found._write_to_sock()


def test_a_request_that_fits_is_sent_at_once(pair):
    client, server = pair
    client.setblocking(False)
    found, task = writer(client, b"a request")
    with pytest.raises(StopIteration):  # it waited for nothing
        task.send(None)
    assert server.recv(100) == b"a request"
    assert not found._writing, "the next request begins a task of its own"
    assert not found.aborted


def test_what_does_not_fit_waits_and_follows_in_order(pair):
    client, server = pair
    client.setblocking(False)
    data = DATA * 5
    _, task = writer(client, data)
    got, waits = bytearray(), 0
    while True:
        try:
            assert task.send(None) == "writable?"
        except StopIteration:
            break
        waits += 1
        while not select.select([], [client], [], 0)[1]:
            got += server.recv(1 << 20)
    while len(got) < len(data):
        got += server.recv(1 << 20)
    assert waits
    assert bytes(got) == data


def test_a_request_on_a_lost_connection_ends_it(pair):
    client, _ = pair
    client.setblocking(False)
    client.shutdown(socket.SHUT_WR)
    found, task = writer(client, b"a request")
    with pytest.raises(StopIteration):
        task.send(None)
    assert isinstance(found.aborted[0], errors.KafkaConnectionError)
    assert not found._writing


def test_no_connection_is_metered():
    made = _settings(Connection("127.0.0.1:1"), None, None)["kafka_client"](
        metrics=object(), bootstrap_servers="127.0.0.1:1"
    )
    try:
        assert made._manager.config["metrics"] is None
        assert made._manager.config["bootstrap_servers"] == "127.0.0.1:1"
    finally:
        made._net.close()


def test_the_loop_does_not_log_each_of_its_steps(pair):
    """The loop still looks the function up, so that this replaces it."""
    transport("KafkaTCPTransport", pair[0])
    assert "log_trace" in selector.NetworkSelector._poll_once.__code__.co_names
    assert selector.log_trace("a step") is None
    assert selector.log_trace.__module__ == "kafka_medic.clients.kafka_transport"
