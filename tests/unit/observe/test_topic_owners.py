"""What each kind of object says of its topic, and whether its operator acts on it."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.cluster.snapshot import OwnerState, TopicOwner
from kafka_medic.observe.topic_owners import NOT_GRANTED, kind_of, topic_owners
from tests.simulation.api import SimApi

STRIMZI = {"strimzi.io/cluster": "kafka"}


def read(
    found: dict[str, Any], *, group: str = "kafka.strimzi.io", version: str = "v1", labels: Any = None, **how: Any
):
    api = SimApi()
    api.objects[f"/apis/{group}"] = {"metadata": {}, "versions": [{"version": version}]}
    api.put(f"/apis/{group}/{version}/namespaces/ns/kafkatopics", found)
    return topic_owners(api, "ns", labels or STRIMZI, **how)  # type: ignore[arg-type]


def strimzi(*conditions: dict[str, str], observed: int = 1, notes: Any = None, **meta: Any) -> dict[str, Any]:
    meta = {"name": "orders", "uid": "u", "labels": STRIMZI, "annotations": notes or {}, **meta}
    spec = {"replicas": 3, "config": {"min.insync.replicas": "2"}}
    status = {"conditions": list(conditions), "observedGeneration": observed}
    return {"metadata": meta, "spec": spec, "status": status}


READY, PAUSED = {"type": "Ready", "status": "True"}, {"type": "ReconciliationPaused", "status": "True"}
NOT = {"type": "Ready", "status": "False", "reason": "NotSupported", "message": "no"}
PAUSE = {"strimzi.io/pause-reconciliation": "true"}


@pytest.mark.parametrize(
    ("found", "acts", "paused", "state"),
    [
        (strimzi(READY), True, False, OwnerState.READY),
        (strimzi(NOT), True, False, OwnerState.NOT_READY),
        (strimzi(READY, observed=0), True, False, None),  # about what the object was before
        (strimzi(), True, False, None),
        (strimzi(READY, notes=PAUSE), False, True, OwnerState.READY),  # not seen yet
        (strimzi(PAUSED, notes=PAUSE), False, True, OwnerState.PAUSED),
        (strimzi(PAUSED), True, False, OwnerState.PAUSED),  # taken off, and not seen yet
        (strimzi(PAUSED, notes={"strimzi.io/pause-reconciliation": "TRUE"}), False, True, OwnerState.PAUSED),
        (strimzi(READY, notes={"strimzi.io/managed": "false"}), False, False, OwnerState.READY),
        (strimzi(READY, notes={"strimzi.io/managed": "False"}), True, False, OwnerState.READY),  # as Strimzi reads it
    ],
)
def test_a_kafkatopic_of_strimzis(found, acts, paused, state):
    (owner,) = read(found)
    assert (owner.acts, owner.paused, owner.state) == (acts, paused, state)
    assert (owner.factor, owner.min_isr, owner.uid) == (3, 2, "u")


@pytest.mark.parametrize("value", ["²", "9" * 5000, "٣", " 2", "2.5", True, {"a": 1}, [2]])
def test_a_value_that_is_no_number_is_none_and_hides_no_other_object(value):
    found = strimzi(READY)
    found["spec"]["config"]["min.insync.replicas"] = value
    (owner,) = read(found)
    assert (owner.factor, owner.min_isr, owner.min_isr_text) == (3, None, str(value)[:64])


@pytest.mark.parametrize(("value", "text"), [(2, None), ("2", None), ("02", "02")])
def test_a_number_in_other_digits_keeps_its_text(value, text):
    found = strimzi(READY)
    found["spec"]["config"]["min.insync.replicas"] = value
    (owner,) = read(found)
    assert (owner.min_isr, owner.min_isr_text) == (2, text)


def test_why_it_is_not_ready_and_that_its_replicas_change():
    found = strimzi(NOT)
    found["status"]["replicasChange"] = {"state": "ongoing"}
    (owner,) = read(found)
    assert (owner.message, owner.changing) == ("NotSupported: no", True)


@pytest.mark.parametrize(
    ("meta", "keeper"),
    [
        ({"labels": {**STRIMZI, "argocd.argoproj.io/instance": "shop"}}, "Argo CD"),
        ({"annotations": {"helm.toolkit.fluxcd.io/name": "shop"}}, "Flux"),
        ({"managedFields": [{"manager": "kustomize-controller"}]}, "Flux"),
        ({"managedFields": [{"manager": "argocd-controller"}, {"manager": "kubectl"}]}, "Argo CD"),
        ({"managedFields": [{"manager": "kubectl-client-side-apply"}]}, None),
    ],
)
def test_who_keeps_the_object_itself(meta, keeper):
    found = strimzi(READY)
    found["metadata"] |= meta
    assert read(found)[0].kept_by == keeper


@pytest.mark.parametrize(
    ("allowed", "hindrance"),
    [
        ({"get": True, "patch": True}, None),
        ({"get": True, "patch": False}, NOT_GRANTED),
        ({"get": False, "patch": True}, NOT_GRANTED),
        ({"get": None, "patch": None}, None),  # not known: nothing is known against it
    ],
)
def test_whether_the_operator_may_edit_it(allowed, hindrance):
    asked = []

    def may(group: str, resource: str, verb: str) -> bool | None:
        asked.append((group, resource))
        return allowed[verb]

    assert read(strimzi(READY), may=may)[0].hindrance == hindrance
    assert set(asked) == {("kafka.strimzi.io", "kafkatopics")}


def test_a_kafkatopic_of_koperators_has_no_pause_and_another_manager_is_left_alone():
    spec = {
        "name": "Orders",
        "replicationFactor": 1,
        "clusterRef": {"name": "kafka"},
        "config": {"min.insync.replicas": "1"},
    }
    how = {"group": "kafka.banzaicloud.io", "version": "v1alpha1", "labels": {"kafka_cr": "kafka"}}
    found = {"metadata": {"name": "orders", "uid": "u"}, "spec": spec}
    (owner,) = read(found, **how)
    assert owner == TopicOwner(
        "Orders", "KafkaTopic.kafka.banzaicloud.io", "orders", acts=True, min_isr=1, uid="u", state=OwnerState.READY,
        hindrance="kafka-medic does not edit objects of kafka.banzaicloud.io",
    )  # fmt: skip
    found["metadata"]["annotations"] = {"managedBy": "somebody"}
    assert not read(found, **how)[0].acts
    assert read(found, **how | {"labels": {"kafka_cr": "another"}}) == ()


def test_a_kafkatopic_of_confluents_acts_only_where_it_is_told_to_correct():
    how = {"group": "platform.confluent.io", "version": "v1beta1", "labels": {"platform.confluent.io/type": "kafka"}}
    found: dict[str, Any] = {
        "metadata": {"name": "orders", "uid": "u"},
        "spec": {"configs": {"min.insync.replicas": "1"}},
    }
    assert not read(found, **how)[0].acts
    found["metadata"]["annotations"] = {"platform.confluent.io/enable-drift-correction": "true"}
    assert read(found, **how)[0].acts
    found["metadata"]["annotations"]["platform.confluent.io/block-reconcile"] = "true"
    owner = read(found, **how)[0]
    assert (owner.acts, owner.paused, owner.state) == (False, True, OwnerState.PAUSED)


def test_where_nobody_is_known_to_own_topics_nothing_is_read():
    assert kind_of({"app": "kafka"}) is None
    assert topic_owners(SimApi(), "ns", {"app": "kafka"}) == ()  # type: ignore[arg-type]
    assert topic_owners(SimApi(), "ns", STRIMZI) == (), "the type is not installed"  # type: ignore[arg-type]


def test_a_read_that_is_refused_is_none():
    api = SimApi()
    api.objects["/apis/kafka.strimzi.io"] = {"metadata": {}, "versions": [{"version": "v1beta2"}]}

    def refuses(*_: Any) -> Any:
        raise ApiFailure(403, "forbidden")

    api.list = refuses  # type: ignore[method-assign]
    with pytest.raises(ReadFailed, match="KafkaTopics: forbidden"):
        topic_owners(api, "ns", STRIMZI)  # type: ignore[arg-type]
