"""kafka-python: requests whose responses come as bytes.

kafka-python makes a Python object for each partition of a response, which takes seconds for a large cluster. Of these
responses kafka-python reads the header alone, and negotiates the version as usual.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeLogDirsRequest
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer.offsets import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

THROTTLED_FROM = {
    MetadataRequest.API_KEY: 3,
    DescribeLogDirsRequest.API_KEY: 1,
    ListOffsetsRequest.API_KEY: 2,
}
"""The first version whose response begins with the throttle time, by API key. An API that is missing has none."""
_NEVER = 2**15


@dataclass(frozen=True, slots=True)
class ResponseBytes:
    """A response behind its header. `throttle_time_ms`: kafka-python waits so long before it sends more."""

    version: int
    body: bytes
    throttle_time_ms: int


@dataclass(frozen=True, slots=True)
class _Undecoded:
    """Stands where kafka-python expects the class of a response: `KafkaProtocol._process_response` calls these two."""

    decoded: Any
    api_key: int
    version: int

    def parse_header(self, frame: Any) -> Any:
        return self.decoded.parse_header(frame)

    def decode(self, frame: Any) -> ResponseBytes:
        """Of a KafkaBytes, which is a bytearray with a position."""
        body = bytes(memoryview(frame)[frame.tell() :])
        throttled = self.version >= THROTTLED_FROM.get(self.api_key, _NEVER) and len(body) >= 4
        return ResponseBytes(self.version, body, struct.unpack_from(">i", body)[0] if throttled else 0)


class _Header(RequestHeader, init=False):  # type: ignore[call-arg,misc]
    """kafka-python finds a response's class by the header of its request."""

    def get_response_class(self) -> Any:
        return _Undecoded(super().get_response_class(), self.request_api_key, self.request_api_version)


def goes_to_columns(header: Any) -> bool:
    """Whether kafka-python leaves the response to a request with that header as it is."""
    return isinstance(header, _Header)


def undecoded(request_type: Any) -> Any:
    """The same class of requests, with ResponseBytes as their responses."""

    class Undecoded(request_type, init=False):  # type: ignore[call-arg,misc]
        header_class = _Header

    return Undecoded
