"""A certificate that cannot be used is a failed read, and nothing of it is told; a broker that came back is known at
once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from kafka_medic.clients.kafka_wire import WireAdmin
from kafka_medic.clients.ports import Connection, FailureKind, ReadFailed


@pytest.mark.parametrize(
    "security",
    [
        {"ca_pem": "hunter2"},
        {"ca_pem": "hunter2 \u00e9"},
        {"certificate_pem": "hunter2", "key_pem": "hunter2"},
    ],
)
def test_a_certificate_that_is_not_pem(security):
    with pytest.raises(ReadFailed) as refused:
        WireAdmin(Connection("127.0.0.1:1", protocol="SSL", timeout_seconds=0.5, **security)).racks()
    assert refused.value.kind is FailureKind.TLS
    assert "hunter2" not in str(refused.value)


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
