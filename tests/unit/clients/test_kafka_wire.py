"""A broker that came back is known at once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from kafka_medic.clients.kafka_wire import WireAdmin
from kafka_medic.clients.ports import Connection


def test_a_broker_that_came_back_can_be_asked_before_the_client_reads_metadata_anew():
    back = SimpleNamespace(node_id=2, host="10.0.0.2", port=9092, rack="zone-3")

    async def send(_):
        return SimpleNamespace(brokers=[back])

    admin = WireAdmin(Connection("127.0.0.1:1"))
    cluster = SimpleNamespace(_coordinator_brokers={})
    manager = SimpleNamespace(send=send, cluster=cluster, run=lambda ask, client: asyncio.run(ask(client)))
    admin._client = SimpleNamespace(_manager=manager, close=lambda: None)
    assert admin.racks() == {2: "zone-3"}
    assert cluster._coordinator_brokers == {2: back}
