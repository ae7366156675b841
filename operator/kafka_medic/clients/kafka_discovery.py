"""kafka-python: finding a broker that the cluster does not name any more, and being sure that it is that broker.

A broker that lost its registration answers on, at the address that it had. Only an answer by that very broker counts: a
broker describes its own configuration under its own id and no other (Kafka refuses with "Unexpected broker id").
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import MetadataResponse

from kafka_medic.clients.kafka_link import answer_of
from kafka_medic.clients.ports import Address

_LOG = logging.getLogger(__name__)
BROKER_RESOURCE = 4
TRY_SECONDS = 1.0
"""For each address. Whoever takes longer to say who it is counts as not answering."""
AGAIN_SECONDS = 5.0
"""Until addresses that were waited for in vain are tried again. The Pod of a broker that is gone refuses nothing: every
observation would wait for it, and a run makes two observations for each effect."""
WAITED = 0.9
"""Of TRY_SECONDS: what took longer was no refusal."""


@dataclass(slots=True)
class InVain:
    """Where a broker was waited for in vain, and until when that is not repeated. Until then it counts as it did: it
    does not answer. A refusal costs no time and is not remembered, and another address is tried at once."""

    _until: dict[int, tuple[frozenset[Address], float]] = field(default_factory=dict)

    def was(self, broker: int, addresses: Sequence[Address], now: float) -> bool:
        tried, until = self._until.get(broker, (frozenset(), now))
        return now < until and tried >= set(addresses)

    def note(self, broker: int, addresses: Sequence[Address], found: bool, began: float, now: float) -> None:
        self._until.pop(broker, None)
        if not found and now - began >= WAITED * TRY_SECONDS:
            self._until[broker] = frozenset(addresses), now + AGAIN_SECONDS


async def find(client: Any, broker: int, addresses: Sequence[Address]) -> str | None:
    """The name of a connection at whose other end is this broker, or None when nobody says so. All addresses are tried
    at the same time."""
    pending = {}
    for host, port in addresses:
        name = f"unnamed-{host}-{port}"
        # `_coordinator_brokers` is where the client keeps brokers that metadata does not name.
        client._manager.cluster._coordinator_brokers[name] = MetadataResponse.MetadataResponseBroker(
            name, host, port, None
        )
        pending[name] = client._manager.call_soon(answer_of, client, name, identity_request([broker]), TRY_SECONDS)
    found = None
    for name, answer in pending.items():
        try:
            if confirms(await answer) and found is None:
                found = name
        except Exception as problem:  # noqa: BLE001 - whatever it is, nobody said at this address who it is
            _LOG.debug("%s did not say who it is: %s", name, problem)
    return found


def identity_request(ids: Sequence[int]) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    resources = [
        resource(resource_type=BROKER_RESOURCE, resource_name=str(i), configuration_keys=["broker.id"]) for i in ids
    ]
    return DescribeConfigsRequest(resources=resources, include_synonyms=False)


def confirms(answer: Any) -> bool:
    return bool(answer.results) and all(result.error_code == 0 for result in answer.results)
