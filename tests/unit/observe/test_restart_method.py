"""A restart that cannot work is said before it is proposed: a Pod of another owner, a right that was not given."""

from __future__ import annotations

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.clients.own_rights import KEPT, PATH, OwnRights
from kafka_medic.observe.restart_method import hindrance
from kafka_medic.resources.kafkacluster import RestartMethod

EVICT, ANNOTATE = RestartMethod.DELETE_POD, RestartMethod.STRIMZI_ANNOTATION
EVERYTHING = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]


VERSIONS = {
    "StatefulSet": "apps/v1",
    "StrimziPodSet": "core.strimzi.io/v1",
    "KafkaCluster": "kafka.banzaicloud.io/v1beta1",
    "ReplicaSet": "apps/v1",
    "KafkaNode": "kafka.example.com/v1",
}


def pod(owner: str | None = "StatefulSet"):
    owners = [{"apiVersion": VERSIONS[owner], "kind": owner, "name": "kafka", "controller": True}] if owner else []
    return {"metadata": {"name": "kafka-1", "ownerReferences": owners}}


def rule(verb: str, resource: str, *names: str):
    return {"verbs": [verb], "apiGroups": [""], "resources": [resource], "resourceNames": list(names)}


@pytest.mark.parametrize(
    ("owner", "method", "says"),
    [
        ("StatefulSet", EVICT, None),
        ("StrimziPodSet", ANNOTATE, None),
        ("StatefulSet", ANNOTATE, "belongs to StatefulSet kafka, which does not act on Strimzi's annotation"),
        ("StrimziPodSet", EVICT, "set restart to StrimziAnnotation"),
        ("KafkaCluster", EVICT, None),
        ("KafkaCluster", ANNOTATE, "belongs to KafkaCluster kafka, which does not act on Strimzi's annotation"),
        (None, EVICT, "has no owner, so no controller would recreate it"),
        (None, ANNOTATE, "has no owner"),
        (
            "ReplicaSet",
            EVICT,
            "belongs to ReplicaSet kafka of apps/v1. kafka-medic does not support how that owner replaces",
        ),
        (
            "KafkaNode",
            EVICT,
            "KafkaNode kafka of kafka.example.com/v1. kafka-medic does not support how that owner replaces",
        ),
    ],
)
def test_the_owner_has_to_act_on_what_is_done(owner, method, says):
    found = hindrance(pod(owner), method, EVERYTHING)
    assert found is None if says is None else says in (found or "")


@pytest.mark.parametrize(
    ("rules", "method", "says"),
    [
        ([rule("create", "pods/eviction")], EVICT, None),
        ([rule("create", "pods/eviction", "kafka-0", "kafka-1")], EVICT, None),
        ([rule("create", "pods/eviction", "kafka-0")], EVICT, "may not evict Pod kafka-1: name it in the chart's"),
        ([rule("get", "pods/eviction"), rule("create", "pods")], EVICT, "may not evict Pod kafka-1"),
        ([rule("patch", "pods")], ANNOTATE, None),
        ([rule("create", "pods/eviction")], ANNOTATE, "may not annotate Pod kafka-1: set strimzi.enabled in the chart"),
        ([], ANNOTATE, "may not annotate"),
        (None, ANNOTATE, None),
    ],
)
def test_the_right_for_this_very_pod_is_needed(rules, method, says):
    found = hindrance(pod("StrimziPodSet" if method is ANNOTATE else "StatefulSet"), method, rules)
    assert found is None if says is None else says in (found or "")


class Answers:
    """An API server that answers one review after the other."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def create(self, path, body):
        assert (path, body["spec"]) == (PATH, {"namespace": "ns"})
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"status": answer}


def test_rights_are_asked_for_again_after_a_minute():
    now = [0.0]
    before = [rule("create", "pods/eviction")]
    api = Answers({"resourceRules": before, "incomplete": False}, {"resourceRules": EVERYTHING})
    rights = OwnRights(api, "ns", lambda: now[0])
    assert [rights.rules(), rights.rules()] == [before, before]
    now[0] = KEPT
    assert rights.rules() == EVERYTHING


@pytest.mark.parametrize("answer", [ApiFailure(403, "no"), {"resourceRules": [], "incomplete": True}])
def test_rights_that_are_not_told_in_full_are_not_known(answer):
    assert OwnRights(Answers(answer), "ns").rules() is None
