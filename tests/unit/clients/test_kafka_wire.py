"""A certificate that cannot be used is a failed read, and nothing of it is told."""

from __future__ import annotations

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
