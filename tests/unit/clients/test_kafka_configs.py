"""Settings as Kafka's messages have them, and who of both libraries is given what to change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_medic.clients import kafka_admin
from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.kafka_configs import BROKER, TOPIC, alter_request, altered, configs
from kafka_medic.clients.ports import ConfigChange, Connection
from kafka_medic.cluster.snapshot import ConfigValue

NAME = "min.insync.replicas"


def answer(kind: int, resource: str, *sources: int, code: int = 0) -> Any:
    entries = [SimpleNamespace(name=f"n{s}", value=str(s), config_source=s) for s in sources]
    told = SimpleNamespace(
        resource_type=kind, resource_name=resource, configs=entries, error_code=code, error_message="why"
    )
    return SimpleNamespace(results=[told])


@pytest.mark.parametrize(("kind", "resource", "own"), [(TOPIC, "orders", 1), (BROKER, "1", 2), (BROKER, "", 3)])
def test_dynamic_is_what_was_set_on_that_very_resource(kind, resource, own):
    """1 topic, 2 this broker, 3 all brokers, 4 its file, 5 Kafka's own: of a topic a broker's value shows through."""
    found = configs(answer(kind, resource, 1, 2, 3, 4, 5))[resource]
    assert {name for name, value in found.items() if value.dynamic} == {f"n{own}"}
    assert found["n4"] == ConfigValue("4", False)


def test_an_error_is_no_empty_answer():
    found = configs(answer(BROKER, "", code=31))[""]
    assert isinstance(found, ReadFailed)
    assert found.message.startswith("settings of all")


def test_a_topic_that_is_gone_is_not_known_and_the_others_are():
    """It was deleted after the views were read, or only a stale view names it."""
    there, gone = answer(TOPIC, "orders", 1), answer(TOPIC, "tmp-123", code=3)
    found = configs(SimpleNamespace(results=[*there.results, *gone.results]))
    assert found["orders"] == {"n1": ConfigValue("1", True)}
    assert isinstance(found["tmp-123"], ReadFailed)
    assert "UnknownTopicOrPartition" in found["tmp-123"].message


class Link:
    """Whoever is asked about topics; after so many requests nobody answers."""

    def __init__(self, requests: int) -> None:
        self.left = requests

    def ask_anyone(self, request: Any, _: str, **__: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise ReadFailed(FailureKind.UNREACHABLE, "no answer")
        names = [r.resource_name for r in request().resources]
        return 1, SimpleNamespace(results=[r for n in names if n != "t7" for r in answer(TOPIC, n, 1).results])


def test_topics_that_nobody_answered_for_are_not_known_and_those_before_are(monkeypatch):
    monkeypatch.setattr(kafka_admin, "TOPICS_AT_ONCE", 4)
    admin: Any = kafka_admin.KafkaAdmin(Connection("127.0.0.1:1"))
    topics = [f"t{n}" for n in range(10)]
    admin._link = Link(2)
    found = admin.topic_configs(topics)
    assert [t for t in topics if not isinstance(found[t], ReadFailed)] == [f"t{n}" for n in range(7)]
    assert "not in the answer" in found["t7"].message
    assert "no answer" in found["t9"].message
    admin._link = Link(0)
    with pytest.raises(ReadFailed):
        admin.topic_configs(topics)


def test_a_value_is_set_and_none_takes_it_away():
    (resource,) = alter_request(
        [ConfigChange("BROKER", "", NAME, "2"), ConfigChange("BROKER", "", "n", None)]
    ).resources
    assert (resource.resource_type, resource.resource_name) == (BROKER, "")
    assert [(c.name, c.config_operation, c.value) for c in resource.configs] == [(NAME, 0, "2"), ("n", 1, None)]
    with pytest.raises(WriteFailed, match="settings of all brokers"):
        altered(SimpleNamespace(responses=[SimpleNamespace(error_code=40, error_message="read-only")]))


def test_what_is_for_all_brokers_goes_the_other_way_and_is_asked_for_like_any_request(monkeypatch):
    kafka: Any = RealKafka(Connection("127.0.0.1:1"))
    named, shared = [], []
    monkeypatch.setattr(kafka._librdkafka, "alter_configs", lambda changes, _: named.extend(changes))
    monkeypatch.setattr(kafka._admin, "alter_cluster_configs", shared.extend)
    one, all_ = ConfigChange("BROKER", "1", "n", "1"), ConfigChange("BROKER", "", NAME, "2")
    try:
        kafka.alter_configs([one, all_])
        assert (named, shared) == ([one], [all_])
        with pytest.raises(WriteFailed, match="stopped before"):
            kafka.alter_configs([all_], lambda: False)
        assert shared == [all_]
    finally:
        kafka.close()
