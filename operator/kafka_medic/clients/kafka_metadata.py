"""kafka-python: Metadata requests, and the view of one broker by its responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa
from kafka.protocol.metadata import MetadataRequest

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kafka_configs import refuse
from kafka_medic.clients.metadata_columns import LATEST_VERSION, decode
from kafka_medic.clients.ports import BrokerView
from kafka_medic.clients.undecoded import ResponseBytes, undecoded

_WholeRequest = undecoded(MetadataRequest)
NEVER_CREATES = 4
"""The first version in which a request can say that asking about a topic does not create it (KIP-204)."""


def members_request() -> Any:
    """Without topics. kafka-python decodes the response."""
    return MetadataRequest(topics=[], allow_auto_topic_creation=False)


def slice_request(topics: Sequence[str]) -> Any:
    """With these topics, none of which is made by asking. The response is a ResponseBytes."""
    named = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    return _WholeRequest(
        topics=named, allow_auto_topic_creation=False, min_version=NEVER_CREATES, max_version=LATEST_VERSION
    )


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

    def slice(self, broker: int, answer: ResponseBytes, topics: Sequence[str]) -> BrokerView:
        """The same by the response to `slice_request`."""
        return replace(self.view(broker, answer), covers=frozenset(topics))

    def view(self, broker: int, answer: ResponseBytes) -> BrokerView:
        """Raises ReadFailed for bytes that are no Metadata response, and for a response that is an error (KIP-1102)."""
        found = decode(answer.version, answer.body, self._tables)
        refuse(ReadFailed, found.error_code, "Metadata response")
        members = tuple(sorted(node.id for node in found.cluster.nodes))
        return BrokerView(broker, members, found.cluster.controller, found.states)
