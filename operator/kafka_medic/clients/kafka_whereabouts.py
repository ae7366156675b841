"""kafka-python: finding a broker that the cluster does not name any more, and being sure that it is that broker.

A broker that lost its registration answers on, at the address that it had. Addresses are tried one after the other, and
only an answer by that very broker counts: a broker describes its own configuration under its own id and no other (Kafka
refuses with "Unexpected broker id").
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import MetadataResponse

from kafka_medic.clients.ports import Address

_LOG = logging.getLogger(__name__)
BROKER_RESOURCE = 4
TRY_MS = 1000
"""For each address. Whoever takes longer to say who it is counts as not answering."""


async def find(client: Any, broker: int, addresses: Sequence[Address]) -> str | None:
    """The name of a connection at whose other end is this broker, or None when nobody says so."""
    for host, port in addresses:
        name = f"unnamed-{host}-{port}"
        # `_coordinator_brokers` is where the client keeps brokers that metadata does not name.
        client._manager.cluster._coordinator_brokers[name] = MetadataResponse.MetadataResponseBroker(
            name, host, port, None
        )
        try:
            answer = await client._manager.send(who_are_you(broker), name, TRY_MS)
        except Exception as problem:  # noqa: BLE001 - whatever it is, nobody said at this address who it is
            _LOG.debug("%s:%s did not say who it is: %s", host, port, problem)
        else:
            if is_it(answer):
                return name
    return None


def who_are_you(broker: int) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    asked = resource(resource_type=BROKER_RESOURCE, resource_name=str(broker), configuration_keys=["broker.id"])
    return DescribeConfigsRequest(resources=[asked], include_synonyms=False)


def is_it(answer: Any) -> bool:
    return bool(answer.results) and all(result.error_code == 0 for result in answer.results)
