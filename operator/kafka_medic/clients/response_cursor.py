"""The fields of a response, read one after the other from its bytes.

The encodings are those of Kafka's protocol guide (https://kafka.apache.org/protocol#protocol_types). Flexible versions
have compact lengths and tagged fields (KIP-482).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kafka_medic.clients.failures import FailureKind, ReadFailed

MAX_TOPIC_NAME = 249
"""Bytes; org.apache.kafka.common.internals.Topic."""
MAX_STRING = 2**15 - 1
"""Bytes of any other string, also with a compact length, as Kafka's own reader has it."""
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")


class MalformedResponse(ReadFailed):
    """The bytes are no response of that API and version."""

    def __init__(self, api: str, version: int, at: int, what: str) -> None:
        super().__init__(FailureKind.OTHER, f"malformed {api} response (version {version}) at byte {at}: {what}")


@dataclass(slots=True)
class Cursor:
    """A position in `body`, which begins behind the response header. `flexible_from`: the first flexible version of the
    API. Beyond the end of `body` a read raises IndexError or struct.error; `whole_response` names these."""

    body: bytes
    api: str
    version: int
    flexible_from: int
    at: int = 0
    flexible: bool = field(init=False)

    def __post_init__(self) -> None:
        self.flexible = self.version >= self.flexible_from

    def malformed(self, what: str) -> MalformedResponse:
        return MalformedResponse(self.api, self.version, min(self.at, len(self.body)), what)

    @contextmanager
    def whole_response(self, earliest: int, latest: int) -> Iterator[None]:
        """The body has to be read to its end within. Raises MalformedResponse, also for a version that is not in
        `earliest` to `latest`."""
        if not earliest <= self.version <= latest:
            raise self.malformed(f"version {self.version} is not supported ({earliest} to {latest} are)")
        try:
            yield
        except (IndexError, struct.error):
            raise self.malformed(f"the {len(self.body)} bytes end early") from None
        except UnicodeDecodeError as problem:
            raise self.malformed(f"text that is not UTF-8 ({problem.reason})") from None

    def end(self) -> None:
        """Raises MalformedResponse where bytes are left."""
        if self.at > len(self.body):
            raise IndexError
        if self.at != len(self.body):
            raise self.malformed(f"{len(self.body) - self.at} bytes follow the response")

    def int64(self) -> int:
        found: int = _INT64.unpack_from(self.body, self.at)[0]
        self.at += 8
        return found

    def int32(self) -> int:
        found: int = _INT32.unpack_from(self.body, self.at)[0]
        self.at += 4
        return found

    def int16(self) -> int:
        found: int = _INT16.unpack_from(self.body, self.at)[0]
        self.at += 2
        return found

    def varint(self) -> int:
        """An unsigned varint (KIP-482), which has five bytes at most."""
        found = self.body[self.at]
        if found < 0x80:
            self.at += 1
            return found
        found = 0
        for shift in (0, 7, 14, 21, 28):
            byte = self.body[self.at]
            self.at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
        raise self.malformed("a variable-length number of more than five bytes")

    def length(self, what: str, least: int) -> int:
        """Of an array whose entries have `least` bytes or more."""
        found = self.varint() - 1 if self.flexible else self.int32()
        if not 0 <= found <= (len(self.body) - self.at) // least:
            raise self.malformed(f"{found} {what} in {len(self.body) - self.at} bytes")
        return found

    def skip_text(self, what: str, *, nullable: bool = False, limit: int = MAX_STRING) -> int:
        """How many bytes it has, which end at the cursor then; -1 for null."""
        size = self.varint() - 1 if self.flexible else self.int16()
        if size == -1 and nullable:
            return size
        if not 0 <= size <= limit:
            raise self.malformed(f"{what} of {size} bytes (limit {limit})")
        self.at += size
        if self.at > len(self.body):
            raise IndexError
        return size

    def text(self, what: str, *, nullable: bool = False, limit: int = MAX_STRING) -> str | None:
        size = self.skip_text(what, nullable=nullable, limit=limit)
        return None if size < 0 else self.body[self.at - size : self.at].decode()

    def tags(self) -> None:
        """Skips tagged fields: no version of these APIs has one that the operator reads."""
        if not self.flexible:
            return
        if not self.body[self.at]:
            self.at += 1
            return
        for _ in range(self.varint()):
            self.varint()
            size = self.varint()
            self.at += size
            if self.at > len(self.body):
                raise IndexError


def at_each_byte(body: bytes, kind: str) -> npt.NDArray[Any]:
    """The number of that numpy type (">i4") that begins at each position of `body`. Most overlap and few are looked
    up."""
    return np.ndarray((max(0, len(body) - np.dtype(kind).itemsize + 1),), kind, body, strides=(1,))
