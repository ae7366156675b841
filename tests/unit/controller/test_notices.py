"""The webhook: signed, tried again with a limit, never in anybody's way, and silent about its address and key."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import threading
from collections import deque
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from kafka_medic.controller import notices as module
from kafka_medic.controller.events import Unparsed
from kafka_medic.controller.notices import PAUSES, WAITING, Notices, notice

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ABOUT = Unparsed("Remediation", "run", "kafka", "u-1")
SECRETS = ("path-secret", "key-secret", "another-key")


class Receiver:
    """`answers`: what it answers, one after the other, then 200; 0: it hangs up. `got`: (headers, body)."""

    def __init__(self):
        self.answers: deque[int] = deque()
        self.got: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((dict(self.headers), body))
                status = receiver.answers.popleft() if receiver.answers else 200
                if status == 0:
                    return self.connection.close()
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                return self.end_headers()

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def reasons(self):
        return [json.loads(body)["reason"] for _, body in self.got]


@pytest.fixture(scope="module")
def listening():
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def receiver(listening, tmp_path, caplog):
    caplog.set_level(logging.DEBUG, logger="kafka_medic")
    listening.answers, listening.got = deque(), []
    (tmp_path / "url").write_text(f"http://127.0.0.1:{listening.server.server_port}/path-secret\n")
    (tmp_path / "key").write_text("key-secret\n")
    yield listening
    for secret in SECRETS:
        assert secret not in caplog.text


@pytest.fixture
def paused():
    return []


@pytest.fixture
def notices(tmp_path, paused):
    return Notices(tmp_path, pause=paused.append)


def told(reason="Running", message="starting"):
    return notice(ABOUT, ("Normal", reason, message), NOW)


def test_what_is_recorded_goes_out_signed(receiver, notices):
    recorded = []
    record = notices.recording(lambda *what: recorded.append(what))
    record(ABOUT, ("Warning", "Blocked", "waits for broker 2"))
    notices.deliver_waiting()
    assert recorded == [(ABOUT, ("Warning", "Blocked", "waits for broker 2"))]
    ((headers, body),) = receiver.got
    at, _, mac = headers["X-Kafka-Medic-Signature"].removeprefix("t=").partition(",v1=")
    assert hmac.new(b"key-secret", at.encode() + b"." + body, hashlib.sha256).hexdigest() == mac
    sent = json.loads(body)
    assert headers["X-Kafka-Medic-Delivery"] == sent["id"]
    assert sent["about"] == {"kind": "Remediation", "namespace": "kafka", "name": "run", "uid": "u-1"}
    assert (sent["type"], sent["reason"]) == ("Warning", "Blocked")
    assert sent["text"] == "Blocked: Remediation kafka/run: waits for broker 2"


@pytest.mark.parametrize("failure", [500, 503, 429, 0])
def test_what_may_pass_is_tried_again_under_the_same_id(receiver, notices, paused, failure):
    receiver.answers += [failure, failure]
    notices.send(told())
    notices.deliver_waiting()
    assert len(receiver.got) == 3
    assert len({headers["X-Kafka-Medic-Delivery"] for headers, _ in receiver.got}) == 1
    assert paused == list(PAUSES[:2])


def test_it_is_given_up_and_the_next_one_goes_out(receiver, notices, paused, caplog):
    receiver.answers += [500] * (len(PAUSES) + 1)
    notices.send(told("Lost"))
    notices.send(told("Next"))
    notices.deliver_waiting()
    assert receiver.reasons() == ["Lost"] * (len(PAUSES) + 1) + ["Next"]
    assert paused == list(PAUSES)
    assert "Lost was not delivered: answered 500" in caplog.text


@pytest.mark.parametrize("status", [302, 307, 400, 401, 404, 410])
def test_what_will_not_pass_is_not_tried_again_and_no_redirect_is_followed(receiver, notices, paused, status, caplog):
    receiver.answers.append(status)
    notices.send(told())
    notices.deliver_waiting()
    assert len(receiver.got) == 1
    assert paused == []
    assert f"answered {status}" in caplog.text


def test_a_key_that_is_changed_counts_from_the_next_one_on(receiver, notices, tmp_path):
    for key in ("key-secret", "another-key"):
        (tmp_path / "key").write_text(key)
        notices.send(told())
        notices.deliver_waiting()
        headers, body = receiver.got[-1]
        at, _, mac = headers["X-Kafka-Medic-Signature"].removeprefix("t=").partition(",v1=")
        assert hmac.new(key.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest() == mac


@pytest.mark.parametrize(
    ("file", "content", "told_of"),
    [
        ("url", None, "the file url cannot be read"),
        ("key", None, "the file key cannot be read"),
        ("key", b"", "the file key is empty"),
        ("key", b"\xff\xfe", "the file key cannot be read"),
        ("url", b"file:///etc/path-secret", "does not begin with https://"),
        ("url", b"http://", "was not delivered"),
        ("url", b"http://127.0.0.1:1/path-secret", "was not delivered"),
    ],
)
def test_what_cannot_be_used_is_named_and_nothing_of_it_shown(
    receiver, notices, tmp_path, caplog, file, content, told_of
):
    (tmp_path / file).unlink()
    if content is not None:
        (tmp_path / file).write_bytes(content)
    notices.send(told())
    notices.deliver_waiting()
    assert receiver.got == []
    assert told_of in caplog.text


def test_nobody_waits_for_a_receiver_that_is_away_and_what_was_dropped_is_told(receiver, notices, caplog, monkeypatch):
    """Nothing takes them off: as while the receiver hangs."""
    sent = []
    monkeypatch.setattr(module, "deliver", lambda _, body, *__: sent.append(json.loads(body)["reason"]))
    for number in range(WAITING + 5):
        notices.send(told(f"N{number}"))
    notices.deliver_waiting()
    assert sent == [f"N{number}" for number in range(5, WAITING + 5)]
    assert "5 notices were dropped" in caplog.text


def test_its_own_thread_delivers_as_soon_as_something_is_told(receiver, notices):
    arrived = threading.Event()
    receiver.got = _Watched(arrived)
    notices.start()
    notices.send(told())
    assert arrived.wait(10)


class _Watched(list):
    def __init__(self, event):
        super().__init__()
        self._event = event

    def append(self, item):
        super().append(item)
        self._event.set()


def test_names_that_others_chose_are_text_and_not_markup():
    sent = told("ClientStalled", "group <!channel> & <http://evil|click> \x1b[2J" + "x" * 5000)
    assert "<" not in sent["text"]
    assert "&lt;!channel&gt; &amp;" in sent["text"]
    assert "\x1b" not in json.dumps(sent, ensure_ascii=False)
    assert len(json.dumps(sent)) < 8000
