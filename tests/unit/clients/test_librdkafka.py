"""What librdkafka refuses outright is a failed read with a reason, and no secret is in it."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_medic.clients import librdkafka
from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.librdkafka import LibrdkafkaAdmin
from kafka_medic.clients.ports import ConfigChange, Connection, TlsMaterial
from kafka_medic.cluster.snapshot import TopicPartition
from tests.unit.clients.wire_brokers import WireBroker


def test_a_certificate_that_is_not_pem():
    with pytest.raises(ReadFailed) as refused:
        LibrdkafkaAdmin(Connection("127.0.0.1:1", protocol="SSL", tls=TlsMaterial("hunter2 is no certificate")))
    assert refused.value.kind is FailureKind.CREDENTIALS
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "security",
    [
        {"sasl_mechanism": "NOPE", "sasl_username": "hunter2", "sasl_password": "hunter2"},
        {"sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "hunter2\ud800"},
    ],
)
def test_any_other_setting_that_is_refused(security):
    with pytest.raises(ReadFailed) as refused:
        LibrdkafkaAdmin(Connection("127.0.0.1:1", protocol="SASL_PLAINTEXT", **security))
    assert refused.value.kind is FailureKind.CREDENTIALS
    assert "hunter2" not in str(refused.value)


def test_each_request_of_a_change_is_asked_for(monkeypatch):
    admin, sent = LibrdkafkaAdmin(Connection("127.0.0.1:1")), []
    monkeypatch.setattr(admin, "_alter", lambda resources: sent.append([r.name for r in resources]))
    changes = [
        ConfigChange(*where, "n", "1") for where in (("BROKER", "0"), ("BROKER", "1"), ("TOPIC", "a"), ("TOPIC", "b"))
    ]
    answers = iter([True, True, False])
    with pytest.raises(WriteFailed, match="stopped after 2 of 3 requests"):
        admin.alter_configs(changes, lambda: next(answers))
    assert sent == [["a", "b"], ["0"]]
    admin.alter_configs([], lambda: False)


def test_a_broker_that_has_just_started_is_asked_again_until_it_knows_the_brokers():
    """A ZooKeeper broker answers Metadata without brokers until the controller has told it of them."""
    with closing(WireBroker(1, "127.0.0.1", unaware=1)) as broker:
        broker.peers = [(1, broker.ip, broker.port)]
        with closing(LibrdkafkaAdmin(Connection(f"{broker.ip}:{broker.port}"))) as admin:
            assert [node.id for node in admin.members().nodes] == [1]


def test_a_client_that_is_closed_tries_its_password_no_more():
    admin = LibrdkafkaAdmin(Connection("127.0.0.1:1"))
    admin.close()
    admin.close()
    with pytest.raises(RuntimeError, match="closed"):
        admin._client.poll(0)


@pytest.mark.parametrize("broken", [{1}, {0, 1, 2}])
def test_the_time_of_one_partition_that_is_not_told_leaves_the_others(monkeypatch, broken):
    monkeypatch.setattr(librdkafka, "OFFSETS_AT_ONCE", 2)
    asked = []

    class Client:
        def poll(self, _):
            return 0

        def list_offsets(self, wanted, **_):
            asked.append(len(wanted))
            futures = {}
            for tp in wanted:
                futures[tp] = future = Future()
                if tp.partition in broken:
                    future.set_exception(KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)))
                else:
                    future.set_result(SimpleNamespace(offset=-1 if tp.partition else 7))
            return futures

    admin: Any = LibrdkafkaAdmin(Connection("127.0.0.1:1"))
    admin._client = Client()
    orders = [TopicPartition("orders", n) for n in range(3)]
    if len(broken) == 3:
        with pytest.raises(ReadFailed, match="offsets of orders-0"):
            admin.offsets_at(orders, 0)
    else:
        assert admin.offsets_at(orders, 0) == {orders[0]: 7}, "None would say that nothing was written since"
    assert asked == [2], "each further part might wait for the same broker"
