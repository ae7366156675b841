"""The API server's clock, by the dates of its answers: no request of its own, and the newest truth counts."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from kubernetes import client

from kafka_medic.clients import kubernetes_api
from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi


class Server:
    """Answers everything with 404, and dates it by a clock that is `ahead`; None: it dates nothing."""

    def __init__(self) -> None:
        self.ahead: float | None = 0.0
        self.slow = 0.0
        self.asked_by: str | None = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked_by = self.headers["User-Agent"]
                time.sleep(server.slow)
                body = json.dumps({"message": "no such object"}).encode()
                self.send_response_only(404)
                if server.ahead is not None:
                    self.send_header("Date", self.date_time_string(int(time.time() + server.ahead)))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()
        address = f"http://127.0.0.1:{self.http.server_port}"
        self.api = KubernetesApi(5.0, client.ApiClient(client.Configuration(host=address)))

    def ask(self) -> None:
        with pytest.raises(ApiFailure):
            self.api.get("/api/v1/nothing")


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


@pytest.mark.parametrize("ahead", [-60.0, 0.0, 60.0])
def test_every_answer_tells_it_refusals_too(server, ahead):
    assert server.api.skew is None, "nothing was asked yet"
    server.ahead = ahead
    server.ask()
    skew = server.api.skew
    assert skew.least <= ahead <= skew.most
    assert skew.width < 3


def test_a_slow_answer_does_not_blur_it_and_one_that_contradicts_it_counts(server):
    server.ask()
    before = server.api.skew
    server.slow = 0.5
    server.ask()
    assert server.api.skew == before
    server.ahead = 60.0
    server.ask()
    assert server.api.skew.least > 50, "somebody has set a clock"


def test_what_was_measured_long_ago_is_not_known_any_more(server, monkeypatch):
    server.ask()
    server.ahead = None
    server.ask()
    assert server.api.skew is not None
    monkeypatch.setattr(kubernetes_api, "REMEMBERED", -1.0)
    assert server.api.skew is None


def test_the_api_server_is_told_who_writes(server):
    """It names the owner of a field after that (metadata.managedFields)."""
    server.ask()
    assert server.asked_by == kubernetes_api.WRITER == "kafka-medic/1"
