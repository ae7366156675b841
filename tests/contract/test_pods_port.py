"""One suite for the simulated Pods and those of a real Kubernetes: what a restart rests on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kafka_medic.clients.broker_pods import EvictedPods, StrimziPods
from kafka_medic.clients.failures import WriteFailed
from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi
from kafka_medic.cluster.snapshot import Pod
from kafka_medic.observe.pods import BrokerPods
from kafka_medic.resources.kafkacluster import Brokers
from tests.simulation.api import SimApi
from tests.simulation.kafka import SimKafka
from tests.simulation.pods import OWNER, SETS_PATH, SimPods
from tests.testbed import apply, kubectl
from tests.testbed.build import PAUSE_IMAGE
from tests.testbed.steps import granted

NAMESPACE = "contract-pods"
LABELS = {"app": "kafka"}


@dataclass
class Subject:
    """Three Pods, kafka-0 to kafka-2, of one StatefulSet. `budget`: as many have to stay available, None: no budget."""

    api: Any
    namespace: str
    pass_time: Callable[[], None]
    budget: Callable[[int | None], None]
    begin_rollout: Callable[[], None]
    end_rollout: Callable[[], None]

    def look(self) -> BrokerPods:
        return BrokerPods(self.api, self.namespace, Brokers.model_validate({"podSelector": {"matchLabels": LABELS}}))

    def pod(self, broker: int) -> Pod | None:
        return self.look().pods().get(broker)

    def uid(self, broker: int) -> str:
        pod = self.pod(broker)
        assert pod is not None
        assert pod.uid is not None
        return pod.uid

    def ready(self) -> bool:
        return [b for b, p in sorted(self.look().pods().items()) if p.ready] == [0, 1, 2]

    def rollouts(self) -> list[str]:
        look = self.look()
        look.pods()
        return [r.name for r in look.rollouts()]

    def evict(self, name: str, uid: str) -> None:
        EvictedPods(self.api, self.namespace).replace_pod(name, uid)

    def until(self, so: Callable[[], bool], seconds: float = 60) -> None:
        end = granted() + seconds
        while not so():
            assert granted() < end, "it did not come about"
            self.pass_time()


def _simulated() -> Subject:
    api = SimApi()
    pods = SimPods(api, SimKafka())
    pods.create(OWNER)

    def budget(least: int | None) -> None:
        pods.min_available = least

    def generation(number: int) -> None:
        api.touch(SETS_PATH)["metadata"]["generation"] = number

    return Subject(api, "ns", pods.tick, budget, lambda: generation(2), lambda: generation(1))


def _stateful_set(revision: str) -> dict[str, Any]:
    container = {"name": "pause", "image": PAUSE_IMAGE, "imagePullPolicy": "Never"}
    template = {
        "metadata": {"labels": LABELS, "annotations": {"revision": revision}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 2},
    }
    spec = {
        "replicas": 3,
        "serviceName": "kafka",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": LABELS},
        "template": template,
    }
    meta = {"name": "kafka", "namespace": NAMESPACE}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}


def _budget(least: int | None) -> None:
    kubectl("delete", "pdb", "-n", NAMESPACE, "--all")
    if least is not None:
        spec = {"minAvailable": least, "selector": {"matchLabels": LABELS}}
        meta = {"name": "kafka", "namespace": NAMESPACE}
        apply([{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}])
        observed = ("-n", NAMESPACE, "pdb/kafka", "--for=jsonpath={.status.observedGeneration}=1", "--timeout=60s")
        kubectl("wait", *observed)


@pytest.fixture(scope="module")
def real() -> Iterator[Subject]:
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=60s")
    kubectl("create", "namespace", NAMESPACE)
    apply([_stateful_set("1")])
    yield Subject(
        KubernetesApi(),
        NAMESPACE,
        lambda: time.sleep(0.1),
        _budget,
        lambda: apply([_stateful_set("2")]),
        lambda: None,
    )
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture(params=["simulated", "real"])
def subject(request: pytest.FixtureRequest) -> Subject:
    found: Subject = _simulated() if request.param == "simulated" else request.getfixturevalue("real")
    found.until(found.ready, seconds=120)
    return found


def test_an_eviction_with_another_uid_is_a_conflict_and_touches_nothing(subject: Subject) -> None:
    before = subject.uid(1)
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "kafka-1", "namespace": subject.namespace},
        "deleteOptions": {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}},
    }
    with pytest.raises(ApiFailure) as raised:
        subject.api.create(f"/api/v1/namespaces/{subject.namespace}/pods/kafka-1/eviction", body)
    assert raised.value.conflict
    subject.evict("kafka-1", "11111111-2222-3333-4444-555555555555")
    subject.pass_time()
    pod = subject.pod(1)
    assert pod is not None
    assert (pod.uid, pod.deleting, pod.ready) == (before, False, True)


def test_an_evicted_pod_has_a_successor_of_its_name_with_another_uid(subject: Subject) -> None:
    before = {b: subject.uid(b) for b in (0, 1, 2)}
    subject.evict("kafka-1", before[1])
    stopping = subject.pod(1)
    assert stopping is None or stopping.uid != before[1] or (stopping.deleting, stopping.ready) == (True, False)
    subject.until(lambda: (p := subject.pod(1)) is not None and p.uid != before[1])
    subject.until(subject.ready)
    assert {b: subject.uid(b) for b in (0, 2)} == {b: before[b] for b in (0, 2)}


def test_asking_again_with_the_same_uid_never_touches_the_successor(subject: Subject) -> None:
    before = subject.uid(2)
    for _ in range(2):
        subject.evict("kafka-2", before)
    subject.until(lambda: (p := subject.pod(2)) is not None and p.uid != before)
    successor = subject.uid(2)
    subject.evict("kafka-2", before)
    subject.until(subject.ready)
    assert subject.uid(2) == successor


def test_a_pod_that_is_not_there_is_no_error(subject: Subject) -> None:
    subject.evict("kafka-7", "11111111-2222-3333-4444-555555555555")


def test_a_pod_has_an_address_of_its_own_which_no_other_has(subject: Subject) -> None:
    pods = subject.look().pods()
    assert len({pod.ip for pod in pods.values()}) == len(pods) == 3
    assert None not in {pod.ip for pod in pods.values()}
    before = pods[1]
    assert before.uid is not None
    subject.evict("kafka-1", before.uid)
    subject.until(lambda: (p := subject.pod(1)) is not None and p.uid != before.uid)
    subject.until(subject.ready)
    after = subject.look().pods()
    assert {after[n].ip for n in (0, 2)} == {pods[n].ip for n in (0, 2)}, "an address stays with its Pod"
    assert after[1].ip not in {pods[n].ip for n in (0, 2)}


def test_a_budget_that_does_not_permit_it_is_told(subject: Subject) -> None:
    before = subject.uid(0)
    subject.budget(3)
    try:
        with pytest.raises(WriteFailed, match="PodDisruptionBudget"):
            subject.evict("kafka-0", before)
        assert subject.uid(0) == before
    finally:
        subject.budget(None)
    subject.evict("kafka-0", before)
    subject.until(lambda: (p := subject.pod(0)) is not None and p.uid != before)


def test_an_annotation_for_strimzi_is_set_and_taken_off_on_the_very_pod_alone(subject: Subject) -> None:
    pods, uid, another = StrimziPods(subject.api, subject.namespace), subject.uid(0), subject.uid(1)

    def asked() -> bool | None:
        pod = subject.pod(0)
        assert pod is not None
        return pod.restart_asked

    for ask, by, then in (
        (pods.replace_pod, another, False),
        (pods.replace_pod, uid, True),
        (pods.keep_pod, another, True),
        (pods.keep_pod, uid, False),
        (pods.keep_pod, uid, False),
    ):
        ask("kafka-0", by)
        assert asked() is then
    pods.keep_pod("kafka-7", uid)
    assert subject.uid(0) == uid


def test_a_rollout_is_seen_while_it_goes_on(subject: Subject) -> None:
    assert subject.rollouts() == []
    subject.begin_rollout()
    subject.until(lambda: subject.rollouts() == ["kafka"])
    subject.end_rollout()
    subject.until(lambda: subject.rollouts() == [], seconds=120)
