"""Only the very Pod that was named is replaced, and a refusal says whose it is."""

from __future__ import annotations

import pytest

from kafka_medic.clients.broker_pods import ASKED_FOR, EvictedPods, StrimziPods
from kafka_medic.clients.failures import FailureKind, WriteFailed
from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.resources.kafkacluster import STRIMZI_ROLL


class Api:
    def __init__(self, status: int | None = None, message: str = "said the API server") -> None:
        self.status, self.message, self.sent = status, message, []

    def create(self, path, body):
        return self._take(path, body)

    def merge(self, path, body):
        return self._take(path, body)

    def _take(self, path, body):
        self.sent.append((path, body))
        if self.status is not None:
            raise ApiFailure(self.status, self.message)
        return {"metadata": {}}


def test_an_eviction_names_the_pods_uid_as_its_precondition():
    api = Api()
    EvictedPods(api, "ns").replace_pod("kafka-1", "u1")
    ((path, body),) = api.sent
    assert path == "/api/v1/namespaces/ns/pods/kafka-1/eviction"
    assert body["deleteOptions"] == {"preconditions": {"uid": "u1"}}


@pytest.mark.parametrize(("method", "value"), [("replace_pod", "true"), ("keep_pod", None)])
def test_strimzi_is_asked_and_no_longer_asked_on_exactly_that_pod(method, value):
    api = Api()
    getattr(StrimziPods(api, "ns"), method)("kafka-1", "u1")
    ((path, body),) = api.sent
    assert path == "/api/v1/namespaces/ns/pods/kafka-1"
    assert body == {"metadata": {"uid": "u1", "annotations": {STRIMZI_ROLL: value}}}


@pytest.mark.parametrize("status", [None, 403, 404])
def test_strimzi_looks_at_once_where_that_may_be_asked(status):
    class Strimzi(Api):
        def _take(self, path, body):
            if "/kafkas/" in path:
                return super()._take(path, body)
            owner = {"apiVersion": "core.strimzi.io/v1", "kind": "StrimziPodSet", "controller": True}
            return {"metadata": {"labels": {"strimzi.io/cluster": "a"}, "ownerReferences": [owner]}}

    api = Strimzi(status)
    StrimziPods(api, "ns").replace_pod("kafka-1", "u1")
    assert {path for path, _ in api.sent} == {"/apis/kafka.strimzi.io/v1/namespaces/ns/kafkas/a"}
    notes = [body["metadata"]["annotations"] for _, body in api.sent]
    assert notes == [{ASKED_FOR: "u1"}, {ASKED_FOR: None}][: 1 if status else 2], "and nothing stays behind"


@pytest.mark.parametrize("status", [404, 409])
def test_a_pod_that_is_gone_or_another_one_by_now_is_left_alone(status):
    EvictedPods(Api(status), "ns").replace_pod("kafka-1", "u1")
    StrimziPods(Api(status), "ns").replace_pod("kafka-1", "u1")
    StrimziPods(Api(status), "ns").keep_pod("kafka-1", "u1")


def test_the_api_server_refuses_a_uid_that_is_another_pods_by_its_field():
    """422 Invalid for another reason is no such answer."""
    refused = "Pod kafka-1 is invalid: metadata.uid: Invalid value: field is immutable"
    StrimziPods(Api(422, refused), "ns").keep_pod("kafka-1", "u1")
    with pytest.raises(WriteFailed):
        StrimziPods(Api(422, "metadata.annotations: Too long"), "ns").keep_pod("kafka-1", "u1")


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (429, FailureKind.REFUSED, "PodDisruptionBudget"),
        (403, FailureKind.AUTHORIZATION, "kafka-1"),
        (500, FailureKind.UNREACHABLE, "kafka-1"),
        (0, FailureKind.UNREACHABLE, "no answer"),
    ],
)
def test_a_refusal_says_whose_it_is(status, kind, words):
    with pytest.raises(WriteFailed, match=words) as refusal:
        EvictedPods(Api(status), "ns").replace_pod("kafka-1", "u1")
    assert refusal.value.kind is kind
