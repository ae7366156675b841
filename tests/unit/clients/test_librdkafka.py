"""What librdkafka refuses outright is a failed read with a reason, and no secret is in it."""

from __future__ import annotations

import pytest

from kafka_medic.clients.librdkafka import LibrdkafkaAdmin
from kafka_medic.clients.ports import ConfigChange, Connection, FailureKind, ReadFailed, TlsMaterial, WriteFailed


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


def test_a_client_that_is_closed_tries_its_password_no_more():
    admin = LibrdkafkaAdmin(Connection("127.0.0.1:1"))
    admin.close()
    admin.close()
    with pytest.raises(RuntimeError, match="closed"):
        admin._client.poll(0)
