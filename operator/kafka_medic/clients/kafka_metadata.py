"""kafka-python: Metadata requests, and what their responses say of one broker's view.

kafka-python makes a Python object for each partition of a response, which takes seconds for a large cluster. Of a
response with partitions it reads only the header here; `metadata_columns` reads the rest.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from kafka_medic.clients.kafka_configs import refuse
from kafka_medic.clients.metadata_columns import LATEST_VERSION, decode
from kafka_medic.clients.ports import BrokerView, ReadFailed


@dataclass(frozen=True, slots=True)
class ResponseBytes:
    """A Metadata response behind its header. `throttle_time_ms`: kafka-python waits so long before it sends more."""

    version: int
    body: bytes
    throttle_time_ms: int


@dataclass(frozen=True, slots=True)
class _Undecoded:
    """Stands where kafka-python expects the class of a response: `KafkaProtocol._process_response` calls these two."""

    version: int

    def parse_header(self, frame: Any) -> Any:
        return MetadataResponse[self.version].parse_header(frame)

    def decode(self, frame: Any) -> ResponseBytes:
        """Of a KafkaBytes, which is a bytearray with a position."""
        body = bytes(memoryview(frame)[frame.tell() :])
        throttled = self.version >= 3 and len(body) >= 4
        return ResponseBytes(self.version, body, struct.unpack_from(">i", body)[0] if throttled else 0)


class _Header(RequestHeader, init=False):  # type: ignore[call-arg,misc]
    """kafka-python finds a response's class by the header of its request."""

    def get_response_class(self) -> Any:
        return _Undecoded(self.request_api_version)


class _WholeRequest(MetadataRequest, init=False):  # type: ignore[call-arg,misc]
    """Its response is a ResponseBytes."""

    header_class = _Header


def members_request() -> Any:
    """Without topics. kafka-python decodes the response."""
    return MetadataRequest(topics=[], allow_auto_topic_creation=False)


def whole_request() -> Any:
    """With all topics. The response is a ResponseBytes."""
    return _WholeRequest(topics=None, allow_auto_topic_creation=False, max_version=LATEST_VERSION)


def membership(broker: int, answer: Any) -> BrokerView:
    """The view of a broker by its response to `members_request`."""
    members = tuple(sorted(node.node_id for node in answer.brokers))
    return BrokerView(broker, members, answer.controller_id if answer.controller_id >= 0 else None)


class WholeViews:
    """The views of brokers by their responses to `whole_request`. Equal responses share one table, as long as anyone
    uses it: this class keeps none alive."""

    def __init__(self) -> None:
        self._tables: WeakValueDictionary[bytes, pa.Table] = WeakValueDictionary()

    def view(self, broker: int, answer: ResponseBytes) -> BrokerView:
        """Raises ReadFailed for bytes that are no Metadata response, and for a response that is an error (KIP-1102)."""
        found = decode(answer.version, answer.body, self._tables)
        refuse(ReadFailed, found.error_code, "Metadata response")
        members = tuple(sorted(node.id for node in found.cluster.nodes))
        return BrokerView(broker, members, found.cluster.controller, found.states)
