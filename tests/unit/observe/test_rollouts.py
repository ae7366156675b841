"""What is being rolled out over the brokers' Pods by somebody else, and what only looks like it."""

from __future__ import annotations

import pytest

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.observe.pods import BrokerPods
from kafka_medic.resources.kafkacluster import Brokers
from tests.simulation.api import SimApi

BROKERS = Brokers.model_validate({"podSelector": {"matchLabels": {"app": "kafka"}}})
SETS = "/apis/apps/v1/namespaces/ns/statefulsets"
STRIMZI = "/apis/core.strimzi.io/v1beta2/namespaces/ns/strimzipodsets"


@pytest.fixture
def api():
    api = SimApi()
    api.put("/api/v1/nodes", {"metadata": {"name": "n1"}, "spec": {}})
    return api


def pods(api, *revisions, owner=("apps/v1", "StatefulSet"), annotations=None):
    for number, revision in enumerate(revisions):
        references = [{"apiVersion": owner[0], "kind": owner[1], "name": "kafka", "controller": True}] if owner else []
        meta = {
            "name": f"kafka-{number}", "ownerReferences": references, "annotations": annotations or {},
            "labels": ({"controller-revision-hash": revision} if revision else {}) | {"brokerId": str(number)},
        }  # fmt: skip
        api.put("/api/v1/namespaces/ns/pods", {"metadata": meta, "spec": {"nodeName": "n1"}, "status": {}})


def stateful_set(api, status, generation=3, replicas=3, strategy="RollingUpdate"):
    body = {
        "metadata": {"name": "kafka", "generation": generation},
        "spec": {"replicas": replicas, "updateStrategy": {"type": strategy}},
        "status": {"observedGeneration": 3, "replicas": 3, "currentRevision": "a", "updateRevision": "a"} | status,
    }
    api.put(SETS, body)


def found(api, brokers=BROKERS):
    seen = BrokerPods(api, "ns", brokers)
    seen.pods()
    return seen.rollouts()


def reason(api, brokers=BROKERS):
    (rollout,) = found(api, brokers)
    assert rollout.name == "kafka"
    return rollout.reason


def test_at_rest_there_is_none(api):
    pods(api, "a", "a", "a")
    stateful_set(api, {"updatedReplicas": 3})
    assert found(api) == ()


def test_a_pod_that_is_only_going_or_missing_is_no_rollout(api):
    # Kubernetes leaves a Pod that is going out of updatedReplicas.
    pods(api, "a", "a")
    stateful_set(api, {"updatedReplicas": 2, "readyReplicas": 1})
    assert found(api) == ()


def test_pods_of_two_revisions(api):
    pods(api, "a", "b", "a")
    stateful_set(api, {"updateRevision": "b"})
    assert reason(api) == "1 of 3 Pods at revision b"


def test_a_revision_that_no_pod_shows_yet_or_any_more(api):
    pods(api, "b", "b")
    stateful_set(api, {"updateRevision": "b"})
    assert reason(api) == "the revision a is being replaced by b"


def test_with_on_delete_the_current_revision_stays_behind_for_ever(api):
    pods(api, "b", "b", "b")
    stateful_set(api, {"updateRevision": "b"}, strategy="OnDelete")
    assert found(api) == ()
    pods(api, "b", "b", "a")
    assert reason(api) == "2 of 3 Pods at revision b"


def test_pods_before_the_partition_keep_their_revision(api):
    """A rollout that somebody has stopped half-way for good moves no Pod by itself."""
    pods(api, "a", "a", "b")
    stateful_set(api, {"updateRevision": "b"})
    held = api.objects[f"{SETS}/kafka"]["spec"]
    held["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    assert found(api) == ()
    held["updateStrategy"]["rollingUpdate"]["partition"] = 1
    assert reason(api) == "1 of 2 Pods at revision b"
    held["ordinals"] = {"start": 1}
    assert found(api) == ()


def test_a_change_that_its_controller_has_not_seen(api):
    pods(api, "a", "a", "a")
    stateful_set(api, {}, generation=4)
    assert reason(api) == "its latest change has not been acted on yet"


def test_scaling(api):
    pods(api, "a", "a", "a")
    stateful_set(api, {}, replicas=5)
    assert reason(api) == "it is being scaled from 3 to 5 Pods"


def test_an_owner_that_is_gone(api):
    pods(api, "a")
    assert reason(api) == "it no longer exists"


OWNER = ("core.strimzi.io/v1beta2", "StrimziPodSet")
OF_A = {"strimzi.io/cluster": "a"}
AT_REST = {"observedGeneration": 1, "pods": 2, "currentPods": 2}


def strimzi(api, status, **meta):
    api.put(STRIMZI, {"metadata": {"name": "kafka", "generation": 1, "labels": OF_A, **meta}, "status": status})


def kafka(api, observed=1, version=None, status=None, **meta):
    body = {
        "metadata": {"name": "a", "generation": 1, **meta},
        "spec": {"kafka": {"version": version}},
        "status": {"observedGeneration": observed, **(status or {})},
    }
    api.put("/apis/kafka.strimzi.io/v1beta2/namespaces/ns/kafkas", body)


def test_strimzi_rolls(api):
    owner = OWNER
    kafka(api)
    pods(api, None, None, owner=owner)
    strimzi(api, {"observedGeneration": 1, "pods": 2, "currentPods": 2})
    assert found(api) == ()
    strimzi(api, {"observedGeneration": 1, "pods": 2, "currentPods": 1})
    assert reason(api) == "1 of 2 Pods at the latest revision"
    asked = {"strimzi.io/manual-rolling-update": "true"}
    strimzi(api, {"observedGeneration": 1, "pods": 2, "currentPods": 2}, annotations=asked)
    assert reason(api) == "kafka has the annotation strimzi.io/manual-rolling-update"
    strimzi(api, AT_REST)
    pods(api, None, owner=owner, annotations={"strimzi.io/delete-pod-and-pvc": "true"})
    assert reason(api) == "kafka-0 has the annotation strimzi.io/delete-pod-and-pvc"


def test_that_strimzi_was_asked_for_one_pod_is_told_by_the_pod_since_the_operator_itself_may_have_asked(api):
    kafka(api)
    strimzi(api, AT_REST)
    pods(api, None, owner=OWNER, annotations={"strimzi.io/manual-rolling-update": "true"})
    assert found(api) == ()
    assert BrokerPods(api, "ns", BROKERS).pods()[0].restart_asked


def test_a_change_of_the_kafka_resource_that_its_set_of_pods_never_shows(api):
    strimzi(api, AT_REST)
    pods(api, None, None, owner=OWNER)
    kafka(api, generation=2, observed=1)
    (rollout,) = found(api)
    assert (rollout.kind, rollout.name) == ("Kafka", "a")
    assert rollout.reason == "its latest change has not been acted on yet"
    kafka(api, annotations={"strimzi.io/pause-reconciliation": "true"})
    (rollout,) = found(api)
    assert "its reconciliation is paused" in rollout.reason


def test_a_new_key_of_the_cluster_ca_which_changes_no_revision(api):
    """Strimzi notes the key's generation in its set of Pods and rolls for it, before anything else of its reconcile."""
    key, kafka_ = "strimzi.io/cluster-ca-key-generation", kafka
    kafka_(api)
    strimzi(api, AT_REST)
    pods(api, None, None, owner=OWNER, annotations={key: "0", "mine": "1"})
    wanted = [{"metadata": {"name": f"kafka-{n}", "annotations": {key: "0", "mine": "2"}}} for n in (0, 1)]
    api.touch(f"{STRIMZI}/kafka")["spec"] = {"pods": wanted}
    assert found(api) == (), "what users let Strimzi note on Pods is theirs"
    wanted[1]["metadata"]["annotations"][key] = "1"
    assert reason(api) == "1 of 2 Pods without the new certificate or configuration"


def test_a_change_of_a_node_pool_which_the_kafka_resource_never_shows(api):
    kafka(api)
    strimzi(api, AT_REST)
    pods(api, None, owner=OWNER)
    path = "/apis/kafka.strimzi.io/v1beta2/namespaces/ns/kafkanodepools"
    for observed, rolls in ((1, True), (2, False)):
        meta = {"name": "dual", "generation": 2, "labels": OF_A}
        api.put(path, {"metadata": meta, "status": {"observedGeneration": observed}})
        assert [r.reason for r in found(api)] == [
            "the latest change of KafkaNodePool dual has not been acted on yet"
        ] * rolls


def test_a_roll_of_strimzis_that_stopped_half_way(api):
    strimzi(api, AT_REST)
    pods(api, None, owner=OWNER)

    def told(why):
        condition = {"type": "NotReady", "status": "True", "reason": why, "message": "Pod kafka-0 is not Ready"}
        kafka(api, status={"conditions": [condition]})
        return [(r.kind, r.reason) for r in found(api)]

    stopped = "a roll of Strimzi's has stopped half-way, and Strimzi begins it again: Pod kafka-0 is not Ready"
    assert told("FatalProblem") == told("UnforceableProblem") == [("Kafka", stopped)]
    assert told("InvalidResourceException") == []


def test_an_upgrade_of_kafka_by_strimzi(api):
    strimzi(api, AT_REST)
    pods(api, None, owner=OWNER)
    kafka(api, version="4.3.1", status={"kafkaVersion": "4.3.1"})
    assert found(api) == ()
    kafka(api, version="4.3.1", status={"kafkaVersion": "4.2.0"})
    assert [r.reason for r in found(api)] == ["Kafka is to become 4.3.1, and is 4.2.0"]


def test_cruise_control_at_a_rebalance(api):
    strimzi(api, AT_REST)
    pods(api, None, None, owner=OWNER)
    kafka(api)
    for state, rolls in (("ProposalReady", False), ("Rebalancing", True), ("Ready", False)):
        body = {
            "metadata": {"name": "r", "labels": OF_A},
            "status": {"conditions": [{"type": state, "status": "True"}]},
        }
        api.put("/apis/kafka.strimzi.io/v1beta2/namespaces/ns/kafkarebalances", body)
        assert [r.kind for r in found(api)] == ["KafkaRebalance"] * rolls


def test_a_kafka_resource_that_may_not_be_read_is_not_at_rest(api):
    strimzi(api, AT_REST)
    pods(api, None, None, owner=OWNER)
    kafka(api)
    there = api.get

    def refuse(path, query=None):
        if "/kafkas/" in path:
            raise ApiFailure(403, "kafkas.kafka.strimzi.io is forbidden")
        return there(path, query)

    api.get = refuse
    with pytest.raises(ReadFailed, match=r"kafkas\.kafka\.strimzi\.io"):
        found(api)


def test_a_set_of_pods_without_a_cluster_is_not_at_rest(api):
    strimzi(api, AT_REST, labels={})
    pods(api, None, owner=OWNER)
    with pytest.raises(ReadFailed, match=r"no label strimzi\.io/cluster"):
        found(api)


CONFLUENT = "/apis/platform.confluent.io/v1beta1/namespaces/ns"


def confluent(api, kind="Kafka", **resource):
    """At rest but for what the resource of Confluent's says; None: it is gone."""
    pods(api, "a", "a", "a")
    stateful_set(api, {})
    owner = {"apiVersion": "platform.confluent.io/v1beta1", "kind": kind, "name": "kafka", "controller": True}
    api.objects[f"{SETS}/kafka"]["metadata"]["ownerReferences"] = [owner]
    if resource:
        plural = {"Kafka": "kafkas", "KRaftController": "kraftcontrollers"}[kind]
        meta = {"name": "kafka", "generation": 2, **resource.pop("metadata", {})}
        api.put(f"{CONFLUENT}/{plural}", {"metadata": meta, **resource})


@pytest.mark.parametrize("kind", ["Kafka", "KRaftController"])
def test_a_change_that_confluent_for_kubernetes_has_not_handed_on_yet(api, kind):
    confluent(api, kind, status={"observedGeneration": 1})
    (rollout,) = found(api)
    assert (rollout.kind, rollout.name) == (kind, "kafka")
    assert rollout.reason == "its latest change has not been acted on yet"


@pytest.mark.parametrize(
    "status",
    [
        {"observedGeneration": 2},
        {"phase": "RUNNING"},
        {"observedGeneration": 2, "conditions": [{"type": "platform.confluent.io/cluster-ready", "status": "False"}]},
    ],
)
def test_a_kafka_of_confluents_at_rest_or_with_a_broker_that_is_ill(api, status):
    """An ill broker may be the very one that is to be restarted."""
    confluent(api, status=status)
    assert found(api) == ()


def test_a_kafka_of_confluents_that_somebody_has_blocked(api):
    confluent(
        api,
        metadata={"annotations": {"platform.confluent.io/block-reconcile": "true"}},
        status={"observedGeneration": 2},
    )
    (rollout,) = found(api)
    assert "is blocked (platform.confluent.io/block-reconcile)" in rollout.reason


def test_a_kafka_of_confluents_that_is_gone(api):
    confluent(api)
    (rollout,) = found(api)
    assert (rollout.kind, rollout.reason) == ("Kafka", "it no longer exists")


LABELLED = Brokers.model_validate(BROKERS.model_dump() | {"id_from": "Label", "id_key": "brokerId"})
OF_KOPERATOR = ("kafka.banzaicloud.io/v1beta1", "KafkaCluster")
IN_SYNC = {
    "configurationState": "ConfigInSync",
    "gracefulActionState": {"cruiseControlState": "GracefulUpscaleSucceeded"},
}


def koperator(api, state="ClusterRunning", **nodes):
    pods(api, None, None, owner=OF_KOPERATOR)
    every = {"0": IN_SYNC, "1": IN_SYNC} | {node[1:]: IN_SYNC | status for node, status in nodes.items()}
    body = {"metadata": {"name": "kafka"}, "status": {"state": state, "brokersState": every}}
    api.put("/apis/kafka.banzaicloud.io/v1beta1/namespaces/ns/kafkaclusters", body)


@pytest.mark.parametrize("state", ["ClusterRunning", "ClusterReconciling"])
def test_koperator_at_rest(api, state):
    """It reconciles every few minutes, and as long as a broker is not Ready."""
    koperator(api, state)
    assert found(api, LABELLED) == ()


def test_koperator_rolls(api):
    koperator(api, "ClusterRollingUpgrading")
    assert reason(api, LABELLED) == "its state is ClusterRollingUpgrading"
    koperator(api, n1={"configurationState": "ConfigOutOfSync"}, n10={"configurationState": "ConfigOutOfSync"})
    assert reason(api, LABELLED) == "it is about to restart broker 1, 10 (ConfigOutOfSync)"


@pytest.mark.parametrize(
    ("action", "says"),
    [
        ({"cruiseControlState": "GracefulDownscaleRunning"}, "for broker 1 (GracefulDownscaleRunning)"),
        ({"cruiseControlState": "GracefulUpscaleRequired"}, "for broker 1 (GracefulUpscaleRequired)"),
        ({"volumeStates": {"/d": {"cruiseControlVolumeState": "GracefulDiskRemovalScheduled"}}}, "GracefulDiskRemoval"),
        ({"cruiseControlState": "GracefulDownscalePaused"}, None),
        ({"volumeStates": {"/d": {"cruiseControlVolumeState": "GracefulDiskRebalanceSucceeded"}}}, None),
    ],
)
def test_cruise_control_moves_replicas_for_koperator(api, action, says):
    koperator(api, n1={"gracefulActionState": action})
    if says is None:
        assert found(api, LABELLED) == ()
    else:
        assert says in reason(api, LABELLED)


def test_pods_that_nobody_owns_are_rolled_by_nobody(api):
    pods(api, None, None, owner=None)
    assert found(api) == ()


def test_an_owner_of_another_kind_is_not_taken_for_one_at_rest(api):
    pods(api, None, owner=("kafka.example.com/v1", "KafkaNode"))
    with pytest.raises(ReadFailed, match="belongs to KafkaNode kafka, whose rollouts are not known"):
        found(api)


def test_what_may_not_be_read_is_a_failed_read_and_not_a_rest(api):
    seen = BrokerPods(api, "ns", BROKERS)
    with pytest.raises(ReadFailed, match="not tried"):
        seen.rollouts()
    pods(api, "a")
    seen.pods()

    def refuse(path, query=None):
        raise ApiFailure(403, "statefulsets is forbidden")

    api.get = refuse
    with pytest.raises(ReadFailed, match="403"):
        seen.rollouts()
