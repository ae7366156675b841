"""A token is fetched once for most of its lifetime; a broken or hostile endpoint costs one timeout, tells nothing."""

from __future__ import annotations

import socket
import ssl
import threading
import time
import traceback

import pytest
import trustme

from kafka_medic.clients import oauth
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.oauth import MAX_ANSWER, TokenSource
from kafka_medic.clients.ports import OAuthClient
from tests.simulation.token_endpoint import CLIENT_ID, CLIENT_SECRET, TokenEndpoint

CA = trustme.CA()


@pytest.fixture
def endpoint():
    endpoint = TokenEndpoint()
    yield endpoint
    endpoint.close()


@pytest.fixture
def secured():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CA.issue_cert("127.0.0.1").configure_cert(context)
    endpoint = TokenEndpoint(context)
    yield endpoint
    endpoint.close()


def source(url: str, secret: str = CLIENT_SECRET, timeout: float = 5.0, **more) -> TokenSource:
    return TokenSource(OAuthClient(url, CLIENT_ID, secret, **more), timeout)


def refusal(tokens: TokenSource) -> ReadFailed:
    with pytest.raises(ReadFailed) as refused:
        tokens.token()
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))
    return refused.value


def test_a_token_is_kept_until_most_of_its_lifetime_is_over(endpoint, monkeypatch):
    tokens = source(endpoint.url, scope="kafka read")
    now = time.time()
    first = tokens.token()
    assert tokens.token() is first
    assert first.expires == pytest.approx(now + 60, abs=5)
    assert endpoint.asked == [{"grant_type": ["client_credentials"], "scope": ["kafka read"]}]
    assert first.text not in repr(first)
    monkeypatch.setattr(oauth.time, "time", lambda: now + 47)
    assert tokens.token() is first
    monkeypatch.setattr(oauth.time, "time", lambda: now + 50)
    assert tokens.token() is not first
    assert len(endpoint.asked) == 2


@pytest.mark.parametrize("ahead", [-3600, -60, 0, 60, 3600])
def test_without_a_word_of_the_endpoint_the_token_says_when_it_expires_by_the_endpoints_own_clock(endpoint, ahead):
    now, endpoint.ahead = int(time.time()), ahead
    claims = oauth.base64.urlsafe_b64encode(b'{"exp": %d}' % (now + ahead + 900)).decode().rstrip("=")
    endpoint.answer = (200, {}, b'{"access_token": "e30.%s."}' % claims.encode())
    expires = source(endpoint.url).token().expires
    assert now + 895 < expires <= now + 900 + time.time() - now, "by our clock, and rather too early"
    endpoint.answer = (200, {}, b'{"access_token": "opaque"}')
    assert source(endpoint.url).token().expires == pytest.approx(now + 300, abs=5)


def test_an_endpoint_with_a_certificate_of_its_own_authority(secured):
    assert source(secured.url, ca=CA.cert_pem.bytes().decode()).token().text
    other = trustme.CA().cert_pem.bytes().decode()
    assert refusal(source(secured.url, ca=other)).kind is FailureKind.CERTIFICATE_UNTRUSTED
    assert secured.asked == [{"grant_type": ["client_credentials"]}], "nothing is sent to one that is not trusted"


def test_a_wrong_secret_is_a_failed_authentication(endpoint):
    refused = refusal(source(endpoint.url, "hunter2-is-wrong"))
    assert refused.kind is FailureKind.AUTHENTICATION
    assert "token endpoint 127.0.0.1" in refused.message


@pytest.mark.parametrize(
    "url",
    [
        "http://idp.example.com/token",
        "http://10.0.0.1/token",
        "ftp://127.0.0.1/",
        "https:///token",
        "https://hunter2:hunter2@idp.example.com/",
        "https://idp.example.com:x/",
        "http://127.0.0.1/a b\r\nhunter2: x",
        "hunter2",
    ],
)
def test_an_address_that_would_not_do_is_refused_before_anything_is_sent(url):
    with pytest.raises(ReadFailed) as refused:
        source(url)
    assert refused.value.kind is FailureKind.CREDENTIALS
    assert "tokenEndpoint" in refused.value.message
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (500, {}, b"hunter2"),
        (302, {"Location": "http://127.0.0.1:1/"}, b""),
        (200, {}, b"hunter2 is no JSON"),
        (200, {}, b"[" * 5000),
        (200, {}, b"[]"),
        (200, {}, b'{"access_token": 5}'),
        (200, {}, b'{"access_token": "hunter2 has a space"}'),
        (200, {}, b'{"access_token": "hunter2\\u0001auth=x"}'),
        (200, {}, b'{"access_token": "hunter2", "expires_in": "soon"}'),
        (200, {}, b'{"access_token": "hunter2", "expires_in": -5}'),
        (200, {}, b'{"access_token": "hunter2", "expires_in": 1e400}'),
        (200, {}, b"x" * (MAX_ANSWER + 5)),
    ],
)
def test_an_answer_that_is_no_token(endpoint, status, headers, body):
    endpoint.answer = (status, headers, body)
    assert refusal(source(endpoint.url)).kind is FailureKind.OTHER


@pytest.mark.parametrize("drip", [b"H", b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{"])
def test_an_answer_that_trickles_in_costs_one_timeout(drip):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            try:
                link, _ = listener.accept()
                link.recv(4096)
                for piece in [drip, *[b" "] * 200]:
                    link.sendall(piece)
                    if done.wait(0.05):
                        return
            except OSError:
                return

        done = threading.Event()
        threading.Thread(target=serve, daemon=True).start()
        begun = time.monotonic()
        slow = refusal(source(f"http://127.0.0.1:{listener.getsockname()[1]}/", timeout=0.5))
        done.set()
    assert time.monotonic() - begun < 2
    assert slow.kind is FailureKind.UNREACHABLE
