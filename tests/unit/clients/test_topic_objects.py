"""KafkaTopics: each write is a compare-and-set on the very object."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_medic.clients.failures import FailureKind, WriteFailed
from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.clients.topic_objects import KafkaTopics
from kafka_medic.cluster.owners import OwnerObject
from tests.simulation.api import SimApi
from tests.simulation.topic_operator import PAUSE, TOPICS

PATH = f"{TOPICS}/orders"
VALUES = {"replicas": ("1", "3"), "min.insync.replicas": (None, "2")}


@pytest.fixture
def api() -> SimApi:
    api = SimApi()
    api.objects["/apis/kafka.strimzi.io"] = {"metadata": {}, "versions": [{"version": "v1"}]}
    spec = {"partitions": 1, "replicas": 1, "config": {"retention.ms": 5}}
    api.put(TOPICS, {"metadata": {"name": "orders", "uid": "u", "annotations": {"a": "b"}}, "spec": spec})
    return api


def topics(api: Any) -> KafkaTopics:
    return KafkaTopics(api, "ns")


OWNER = OwnerObject("KafkaTopic", "orders", "u")


def test_what_is_done_already_is_not_sent_again(api):
    for _ in range(2):
        topics(api).pause(OWNER)
        version = api.objects[PATH]["metadata"]["resourceVersion"]
    topics(api).pause(OWNER)
    assert api.objects[PATH]["metadata"]["resourceVersion"] == version
    for _ in range(2):
        topics(api).edit(OWNER, VALUES)
    assert api.objects[PATH]["spec"] == {
        "partitions": 1, "replicas": 3, "config": {"retention.ms": 5, "min.insync.replicas": 2}
    }  # fmt: skip
    assert api.objects[PATH]["metadata"]["annotations"] == {"a": "b", PAUSE: "true"}
    topics(api).resume(OWNER)
    assert api.objects[PATH]["metadata"]["annotations"] == {"a": "b"}


def test_another_object_and_one_that_is_gone_are_left_alone(api):
    topics(api).pause(OwnerObject("KafkaTopic", "orders", "another"))
    topics(api).pause(OwnerObject("KafkaTopic", "gone", "u"))
    assert api.objects[PATH]["metadata"]["annotations"] == {"a": "b"}


def test_a_value_that_is_somebody_elses_by_now_is_not_overwritten(api):
    api.touch(PATH)["spec"]["replicas"] = 2
    with pytest.raises(WriteFailed, match=r"has replicas 2 \(planned from: 1\)") as failed:
        topics(api).edit(OWNER, VALUES)
    assert failed.value.kind is FailureKind.REFUSED
    assert "min.insync.replicas" not in api.objects[PATH]["spec"]["config"]


def test_a_change_between_the_read_and_the_write_is_refused(api):
    read = api.get

    def and_changed(path: str, query: Any = None) -> Any:
        found = read(path, query)
        if path == PATH:
            api.touch(PATH)["spec"]["replicas"] = 7
        return found

    api.get = and_changed
    with pytest.raises(WriteFailed) as failed:
        topics(api).edit(OWNER, VALUES)
    assert failed.value.kind is FailureKind.REFUSED
    assert api.objects[PATH]["spec"]["replicas"] == 7


def test_where_the_type_is_not_served_any_more_nothing_is_asked_of_another_address(api):
    del api.objects["/apis/kafka.strimzi.io"]
    asked, read = [], api.get

    def noted(path: str, query: Any = None) -> Any:
        asked.append(path)
        return read(path, query)

    api.get = noted
    topics(api).pause(OWNER)
    assert asked == ["/apis/kafka.strimzi.io"]


@pytest.mark.parametrize(("status", "kind"), [(403, FailureKind.AUTHORIZATION), (0, FailureKind.UNREACHABLE)])
def test_what_the_api_server_does_not_do_is_told_with_its_kind(api, status, kind):
    def refuses(*_: Any) -> Any:
        raise ApiFailure(status, "no")

    api.merge = refuses
    with pytest.raises(WriteFailed) as failed:
        topics(api).pause(OWNER)
    assert failed.value.kind is kind


def test_objects_of_other_operators_are_not_written(api):
    with pytest.raises(WriteFailed, match="is not an object that is edited"):
        topics(api).pause(OwnerObject("KafkaTopic.kafka.banzaicloud.io", "orders", "u"))
