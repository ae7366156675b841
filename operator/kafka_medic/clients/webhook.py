"""urllib3: one signed POST to whoever wants to be told. Neither the address nor the key is ever in an error's text."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from pathlib import Path

import urllib3

TIMEOUT_SECONDS = 5.0
SIGNATURE, DELIVERY = "X-Kafka-Medic-Signature", "X-Kafka-Medic-Delivery"
_MAX_FILE = 8192
_AGAIN = frozenset({408, 425, 429})


class NotDelivered(Exception):
    """What became of it, without address and key. `again`: it may be worth another try."""

    def __init__(self, message: str, *, again: bool) -> None:
        super().__init__(message)
        self.again = again


@dataclass(frozen=True, slots=True)
class Target:
    """Where to, and what signs it."""

    url: str = field(repr=False)
    key: bytes = field(repr=False)
    ca: str | None = None

    @classmethod
    def read(cls, folder: Path) -> Target:
        """From the files `url`, `key` and, for a certificate authority of one's own, `ca.crt`, as a Secret that is
        mounted has them. Read for each delivery, so that a changed Secret counts. Raises NotDelivered."""
        url, key = _text(folder / "url"), _text(folder / "key")
        if not url.startswith(("https://", "http://")):
            raise NotDelivered("the file url does not begin with https:// or http://", again=False)
        ca = folder / "ca.crt"
        return cls(url, key.encode(), str(ca) if ca.is_file() else None)


def signature(key: bytes, at: int, body: bytes) -> str:
    """`t=SECONDS,v1=HEX`: HMAC-SHA256 (RFC 2104) over the Unix time, a dot, and the body. The time is signed so that a
    receiver can refuse what somebody recorded and sends again."""
    return f"t={at},v1={hmac.new(key, f'{at}.'.encode() + body, hashlib.sha256).hexdigest()}"


def deliver(target: Target, body: bytes, delivery: str, at: int) -> None:
    """One try. Follows no redirect and reads nothing of the answer but its status. Raises NotDelivered."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "kafka-medic",
        SIGNATURE: signature(target.key, at, body),
        DELIVERY: delivery,
    }
    timeout = urllib3.Timeout(connect=TIMEOUT_SECONDS, read=TIMEOUT_SECONDS)
    try:
        with urllib3.PoolManager(ca_certs=target.ca, timeout=timeout, retries=False) as pool:
            answer = pool.request("POST", target.url, body=body, headers=headers, redirect=False, preload_content=False)
            status = answer.status
            answer.close()
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as problem:
        # The text of these errors has the address in it, and in the address of a chat tool is a secret.
        raise NotDelivered(type(problem).__name__, again=True) from None
    if not 200 <= status < 300:
        raise NotDelivered(f"answered {status}", again=status >= 500 or status in _AGAIN)


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            text = opened.read(_MAX_FILE).decode().strip()
    except (OSError, ValueError) as problem:
        raise NotDelivered(f"the file {file.name} cannot be read: {type(problem).__name__}", again=False) from None
    if not text:
        raise NotDelivered(f"the file {file.name} is empty", again=False)
    return text
