"""A request to the API server ends in time, however the server behaves, and how often it is sent is known."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from kubernetes import client, config

from kafka_medic.clients import kubernetes_api
from kafka_medic.clients.kubernetes_api import CREDENTIALS_SECONDS, ApiFailure, KubernetesApi, answered_within


class Silent:
    """Takes connections and requests, and answers none."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.taken: list[socket.socket] = []
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        while True:
            try:
                self.taken.append(self.listener.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        self.listener.close()
        for one in self.taken:
            one.close()


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    server = Silent()
    monkeypatch.setattr(client.Configuration, "_default", None)
    host = f"http://127.0.0.1:{server.listener.getsockname()[1]}"

    def load() -> None:
        client.Configuration.set_default(client.Configuration(host=host))

    monkeypatch.setattr(config, "load_incluster_config", load)
    yield server
    server.close()


def seconds_until_given_up(api: KubernetesApi, verb: str) -> float:
    send, began = {"PUT": api.replace, "POST": api.create}[verb], time.monotonic()
    with pytest.raises(ApiFailure) as told:
        send("/api/v1/x", {})
    assert told.value.status == 0
    return time.monotonic() - began


def test_what_is_sent_once_is_bounded_by_its_timeout(silent: Silent) -> None:
    api = KubernetesApi(5.0, once=True)
    with answered_within(0.3):
        assert 0.2 < seconds_until_given_up(api, "PUT") < 3
    assert len(silent.taken) == 1


def test_another_put_is_sent_four_times(silent: Silent) -> None:
    with answered_within(0.2):
        assert seconds_until_given_up(KubernetesApi(5.0), "PUT") < 4
    assert len(silent.taken) == 4


def test_an_effect_is_sent_once_and_never_after_a_connection_that_took_long(
    silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = KubernetesApi(0.3)
    assert seconds_until_given_up(api, "POST") < 3
    assert len(silent.taken) == 1
    tried: list[object] = []

    def slow(*to: object, **_: object) -> None:
        tried.append(to)
        raise TimeoutError("timed out")

    monkeypatch.setattr("urllib3.util.connection.create_connection", slow)
    seconds_until_given_up(KubernetesApi(0.3), "POST")
    assert len(tried) == 1


def test_no_request_waits_longer_than_its_client_does(silent: Silent) -> None:
    with answered_within(60.0):
        assert seconds_until_given_up(KubernetesApi(0.3, once=True), "PUT") < 5


class Tokens:
    """A client's own refresh: it sets itself as the hook again, as those for a Pod and for a kubeconfig do."""

    def __init__(self) -> None:
        self.read = 0

    def __call__(self, configuration: client.Configuration) -> None:
        self.read += 1
        configuration.api_key["BearerToken"] = f"token {self.read}"
        configuration.refresh_api_key_hook = self


def test_a_token_is_read_again_but_not_for_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, now = Tokens(), 1000.0
    monkeypatch.setattr(kubernetes_api.time, "monotonic", lambda: now)
    configuration = client.Configuration(host="http://127.0.0.1:1")
    configuration.api_key["BearerToken"] = "token 0"
    configuration.refresh_api_key_hook = tokens
    KubernetesApi(connected=client.ApiClient(configuration))

    def sent() -> object:
        return configuration.auth_settings()["BearerToken"]["value"]

    assert [sent(), sent(), sent()] == ["token 1"] * 3
    now += CREDENTIALS_SECONDS
    assert [sent(), sent()] == ["token 2"] * 2
