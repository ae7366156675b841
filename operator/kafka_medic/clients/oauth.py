"""OAuth access tokens for SASL/OAUTHBEARER (KIP-255), by the client credentials grant (RFC 6749, section 4.4)."""

from __future__ import annotations

import base64
import binascii
import http.client
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from kafka_medic.clients.destinations import Sockaddr
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import OAuthClient, TlsMaterial
from kafka_medic.clients.tls import client_context, why
from kafka_medic.cluster.clock import EXACT, Skew, measured

MAX_ANSWER = 64 * 1024
"""Bytes of an answer that are read at most; tokens are a few thousand."""

_USED = 0.8
"""Share of a token's lifetime after which it is fetched anew, as librdkafka does."""

_UNTOLD_LIFETIME = 300.0


@dataclass(frozen=True, slots=True)
class Token:
    """An access token, and when it expires, in seconds since 1970."""

    text: str = field(repr=False)
    expires: float


class TokenSource:
    """One client's tokens, each used until most of its lifetime is over. Safe to ask from several threads."""

    def __init__(self, client: OAuthClient, timeout_seconds: float, held: Token | None = None) -> None:
        """`held`: a token to begin with."""
        self._client = client
        self._timeout = timeout_seconds
        self._lock = threading.Lock()
        self._held = held
        now = time.time()
        self._renew_at = 0.0 if held is None else now + _USED * (held.expires - now)
        self._host, self._port, self._path, self._context = _endpoint(client)

    def token(self) -> Token:
        """Raises ReadFailed that says what the endpoint answered, and no secret."""
        with self._lock:
            if self._held is None or time.time() >= self._renew_at:
                started = time.time()
                self._held = self._fetch()
                self._renew_at = started + _USED * (self._held.expires - started)
            return self._held

    def _fetch(self) -> Token:
        where = f"token endpoint {self._host}:{self._port}"
        link, late = self._link(), threading.Event()

        def give_up() -> None:
            # An answer that trickles in never runs into the socket's own timeout. Below TLS, whose own shutdown is not
            # for two threads.
            late.set()
            if link.sock is not None:
                with suppress(OSError):
                    socket.socket.shutdown(link.sock, socket.SHUT_RDWR)

        watch = threading.Timer(self._timeout, give_up)
        watch.daemon = True
        watch.start()
        sent = datetime.now(UTC)
        try:
            link.request("POST", self._path, self._form(), self._headers())
            answer = link.getresponse()
            skew = measured(answer.getheader("Date"), sent, datetime.now(UTC))
            status, body = answer.status, answer.read(MAX_ANSWER + 1)
        except ssl.SSLError as problem:
            found = why(problem, self._host, self._port)
            if found is None:
                raise ReadFailed(FailureKind.TLS, f"{where}: the TLS handshake failed") from None
            raise ReadFailed(found.kind, f"token endpoint {found.message}") from None
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as problem:
            reason = f"no answer within {self._timeout:g} s" if late.is_set() else type(problem).__name__
            raise ReadFailed(FailureKind.UNREACHABLE, f"{where}: {reason}") from None
        finally:
            watch.cancel()
            link.close()
        if late.is_set():
            raise ReadFailed(FailureKind.UNREACHABLE, f"{where}: no whole answer within {self._timeout:g} s")
        _refuse(status, where)
        return _read(body, where, skew)

    def _link(self) -> http.client.HTTPConnection:
        link = (
            http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
            if self._context is None
            else http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)
        )
        if self._client.destinations is not None:
            places = self._client.destinations.token_endpoint(self._host, self._port)
            link._create_connection = lambda _, seconds, *__: _connected(places, seconds)  # type: ignore[attr-defined]
        return link

    def _form(self) -> str:
        form = {"grant_type": "client_credentials"}
        if self._client.scope:
            form["scope"] = self._client.scope
        return urlencode(form)

    def _headers(self) -> dict[str, str]:
        # RFC 6749, section 2.3.1: both are form-encoded first, so that a colon in them does no harm.
        pair = f"{quote(self._client.client_id, safe='')}:{quote(self._client.client_secret, safe='')}"
        return {
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }


def _refuse(status: int, where: str) -> None:
    """Raises ReadFailed for an HTTP status other than 200."""
    if status in (400, 401, 403):
        raise ReadFailed(
            FailureKind.AUTHENTICATION, f"{where} refused the client (HTTP {status}); check clientId, clientSecret"
        )
    if status != 200:
        raise ReadFailed(FailureKind.OTHER, f"{where} answered HTTP {status}")


def _connected(places: Sequence[Sockaddr], seconds: float) -> socket.socket:
    """To one of these addresses and to nothing that the name resolves to a moment later."""
    for number, (family, kind, proto, _, address) in enumerate(places, 1):
        link = socket.socket(family, kind, proto)
        link.settimeout(seconds)
        try:
            link.connect(address)
        except OSError:
            link.close()
            if number == len(places):
                raise
            continue
        return link
    raise OSError("no address")


def _endpoint(client: OAuthClient) -> tuple[str, int, str, ssl.SSLContext | None]:
    wrong = ReadFailed(FailureKind.CREDENTIALS, "tokenEndpoint is not an address of the form https://host[:port]/path")
    try:
        url = urlsplit(client.token_endpoint)
        host, port = url.hostname, url.port
    except ValueError:
        raise wrong from None
    whole = client.token_endpoint
    if (
        not host
        or url.scheme not in ("http", "https")
        or url.username
        or not whole.isascii()
        or not whole.isprintable()
    ):
        raise wrong
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    if url.scheme == "https":
        return host, port or 443, path, client_context(TlsMaterial(ca=client.ca))
    if not _is_local(host):
        raise ReadFailed(
            FailureKind.CREDENTIALS, "tokenEndpoint must be https: the client's secret would cross the network readable"
        )
    return host, port or 80, path, None


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read(body: bytes, where: str, skew: Skew | None) -> Token:
    """`skew`: of the endpoint's clock to ours; None where the endpoint did not date its answer."""
    if len(body) > MAX_ANSWER:
        raise ReadFailed(FailureKind.OTHER, f"{where}: the answer is longer than {MAX_ANSWER} bytes")
    try:
        answer = json.loads(body)
        text = answer["access_token"]
        lifetime = answer.get("expires_in")
        expires = time.time() + float(lifetime) if lifetime is not None else _claimed(text, skew or EXACT)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise ReadFailed(FailureKind.OTHER, f"{where}: the answer holds no access_token in JSON") from None
    # RFC 6750, section 2.1: what a bearer token may consist of. It goes into a SASL message as it is.
    if not isinstance(text, str) or not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ReadFailed(FailureKind.OTHER, f"{where}: the access_token is no bearer token")
    if not time.time() < expires < time.time() + 10 * 365 * 86400:
        raise ReadFailed(FailureKind.OTHER, f"{where}: the access_token has expired already, or lasts for ever")
    return Token(text, expires)


def _claimed(text: str, skew: Skew) -> float:
    """When a token expires, by our clock, of which the endpoint does not say so: a JWT's claim `exp` (RFC 7519, section
    4.1.4), which is by the issuer's clock."""
    try:
        claims: Any = json.loads(base64.urlsafe_b64decode(text.split(".")[1] + "=="))
        return float(claims["exp"]) - skew.most
    except (IndexError, ValueError, KeyError, TypeError, RecursionError, OverflowError, binascii.Error):
        return time.time() + _UNTOLD_LIFETIME
