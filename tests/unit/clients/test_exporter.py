"""Whatever answers on the exporter's port: a page within bounds is read, and all else ends in time with its reason."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kafka_medic.clients import exporter
from kafka_medic.clients.exporter import scrape
from kafka_medic.clients.failures import ReadFailed

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@contextmanager
def server(speak: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server on loopback that lets `speak` answer each connection; nothing it meets then is a fault."""
    listening = socket.create_server(("127.0.0.1", 0))

    def one(connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(65536)
                speak(connection)
            except OSError:
                pass  # the client hung up, as it should

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def page(body: bytes, head: bytes = OK) -> Callable[[socket.socket], None]:
    return lambda c: c.sendall(head + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def drip(piece: bytes, before: bytes = b"") -> Callable[[socket.socket], None]:
    def speak(connection: socket.socket) -> None:
        connection.sendall(before)
        while True:
            connection.sendall(piece)
            time.sleep(0.02)

    return speak


def flood(piece: bytes, before: bytes = OK + b"\r\n") -> Callable[[socket.socket], None]:
    def speak(connection: socket.socket) -> None:
        connection.sendall(before)
        while True:
            connection.sendall(piece)

    return speak


def ask(port: int, seconds: float = 5.0):
    return scrape({1: ("127.0.0.1", port)}, lambda line: line.startswith(b"kafka"), seconds)[1]


def failure(speak: Callable[[socket.socket], None], seconds: float = 5.0) -> str:
    with server(speak) as port:
        begun = time.monotonic()
        answer = ask(port, seconds)
        assert time.monotonic() - begun < seconds + 1
    assert isinstance(answer, ReadFailed)
    return str(answer)


def test_the_wanted_lines_of_a_page():
    body = b'# TYPE a counter\nkafka_A{Name="x\\"y",} 7\nother 1\n\nkafka_B NaN\nkafka_c{a="b"} 1e3 1700000000'
    with server(page(body)) as port:
        samples = ask(port)
    assert [(s.name, dict(s.labels)) for s in samples] == [
        ("kafka_a", {"name": 'x"y'}), ("kafka_b", {}), ("kafka_c", {"a": "b"}),
    ]  # fmt: skip
    assert samples[0].value == 7
    assert samples[2].value == 1000


def test_a_page_that_never_ends(monkeypatch):
    monkeypatch.setattr(exporter, "MAX_BYTES", 1_000_000)
    assert "longer than 1000000 bytes" in failure(flood(b"other_metric 1\n" * 1000))


def test_a_line_that_never_ends():
    assert "a line is longer than 65536 bytes" in failure(flood(b"k" * 10_000))


def test_more_samples_than_any_broker_has(monkeypatch):
    monkeypatch.setattr(exporter, "MAX_SAMPLES", 100)
    assert "more than 100 of the wanted" in failure(flood(b"kafka_x 1\n" * 50))


@pytest.mark.parametrize("where", [b"HTTP/1.1 200 OK\r\nX: ", OK + b"\r\nkafka_x 1\n"])
def test_a_slow_drip_ends_at_the_deadline(where):
    assert "no whole page within 0.5 s" in failure(drip(b"a", where), 0.5)


def test_nobody_answers_and_nobody_is_there():
    assert "no whole page within 0.3 s" in failure(lambda c: time.sleep(1), 0.3)
    with server(page(b"")) as port:
        pass
    assert "Unreachable" in str(ask(port))


@pytest.mark.parametrize(
    ("speak", "words"),
    [
        (page(b"", b"HTTP/1.1 404 Not Found\r\n"), "answered 404"),
        (page(b"", b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n"), "answered 302"),
        (page(b"kafka_x seven\n"), "not in Prometheus' text format"),
        (page(b"kafka_x{a=1\n"), "not in Prometheus' text format"),
        (page(b"kafka_\xff\xfe 1\n"), "not in Prometheus' text format"),
        (lambda c: c.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), "Bad"),
        (lambda c: c.sendall(OK + b"Content-Length: 100\r\n\r\nkafka_x 1\n"), "Payload"),
    ],
)  # fmt: skip
def test_what_is_no_page(speak, words):
    assert words in failure(speak)


def test_one_broker_that_hangs_costs_the_others_nothing():
    with server(page(b"kafka_x 1\n")) as good, server(lambda c: time.sleep(2)) as bad:
        answers = scrape({1: ("127.0.0.1", good), 2: ("127.0.0.1", bad)}, lambda line: True, 0.5)
    assert not isinstance(answers[1], ReadFailed)
    assert isinstance(answers[2], ReadFailed)
