"""Topics that have a KafkaTopic: what the Topic Operator would put back is not planned, and who says what is shown."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from tests.simulation.pods import STRIMZI
from tests.simulation.world import BROKERS, NO_ELECTIONS, World, factor_one_cluster

TOPICS = "/apis/kafka.strimzi.io/v1/namespaces/ns/kafkatopics"
SELECTOR = {"podSelector": {"matchLabels": {"strimzi.io/cluster": "kafka"}}, "restart": "StrimziAnnotation"}


def strimzi(**how: Any) -> World:
    """The incident on a cluster of Strimzi's, where nothing but factors is amiss."""
    world = World(factor_one_cluster())
    world.install(brokers={**BROKERS, **SELECTOR}, remediation=NO_ELECTIONS, **how)
    world.with_pods()
    assert world.pods is not None
    world.pods.create(STRIMZI)
    world.api.objects["/apis/kafka.strimzi.io"] = {"metadata": {}, "versions": [{"version": "v1"}]}
    return world


def kafka_topic(world: World, name: str, *, topic: str | None = None, **meta: Any) -> str:
    """As the Topic Operator has it; its path."""
    labels = {"strimzi.io/cluster": "kafka", **meta.pop("labels", {})}
    spec: dict[str, Any] = {"replicas": 1, "config": {"min.insync.replicas": "1"}}
    if topic is not None:
        spec["topicName"] = topic
    world.api.put(TOPICS, {"metadata": {"name": name, "labels": labels, **meta}, "spec": spec})
    return f"{TOPICS}/{name}"


def finding(world: World) -> dict[str, Any] | None:
    found = world.cluster()["status"].get("findings", [])
    return next((f for f in found if f["type"] == "TopicOwnedElsewhere"), None)


def planned(world: World) -> set[str]:
    plan = world.until_phase("AwaitingApproval").status.plan
    assert plan is not None
    moved = {c["topic"] for c in plan.to_kubernetes()["changes"]}
    return moved | {c["resourceName"] for c in plan.to_kubernetes()["configChanges"]}


def test_what_its_owner_would_put_back_is_left_out_of_the_plan_and_never_written():
    world = strimzi()
    kafka_topic(world, "orders")
    assert planned(world) == {"payments", "__consumer_offsets"}
    plan = world.run().status.plan
    assert plan is not None
    assert "left out, since their owner would change them back: orders (KafkaTopic orders)" in plan.summary
    before = dict(world.kafka.dynamic)
    world.approve(world.run())
    world.until(lambda: world.run().status.phase == "Succeeded", reconciles=200)
    assert [k for k in world.kafka.dynamic if k[1] == "orders" and world.kafka.dynamic[k] != before.get(k)] == []
    assert {len(p.replicas) for tp, p in world.kafka.partitions.items() if tp.topic == "orders"} == {1}


def test_the_finding_has_the_edit_and_who_keeps_the_object():
    world = strimzi()
    kafka_topic(world, "my-orders", topic="orders", labels={"argocd.argoproj.io/instance": "shop"})
    for _ in range(8):
        world.step(15)
    found = finding(world)
    assert found is not None
    assert (found["state"], found["affected"]) == ("Firing", ["orders"])
    patch = '{"spec":{"replicas":3,"config":{"min.insync.replicas":2}}}'
    assert f"kubectl patch kafkatopic my-orders --type merge -p '{patch}'" in found["evidence"]
    assert "edit them in Git, where Argo CD takes them from" in found["evidence"]


def test_an_owner_that_agrees_and_topics_of_which_nothing_is_expected_are_no_finding():
    world = strimzi(expectations={"topics": [{"pattern": "payments", "exempt": True}]})
    kafka_topic(world, "payments")
    agrees = world.api.objects[kafka_topic(world, "orders")]
    agrees["spec"] |= {"replicas": 3, "config": {"min.insync.replicas": 2}}
    for _ in range(8):
        world.step(15)
    assert finding(world) is None


@pytest.mark.parametrize("note", [{"strimzi.io/pause-reconciliation": "true"}, {"strimzi.io/managed": "false"}])
def test_an_owner_that_was_told_to_leave_the_topic_alone_holds_nothing_up(note):
    world = strimzi()
    kafka_topic(world, "orders", annotations=note)
    assert planned(world) == {"orders", "payments", "__consumer_offsets"}


def test_where_all_topics_have_an_owner_the_run_waits_and_says_what_for():
    world = strimzi()
    for name in ("orders", "payments", "__consumer_offsets"):
        kafka_topic(world, name.strip("_").replace("_", "-"), topic=name)
    for _ in range(8):
        world.step(15)
    run = next(r for r in world.runs() if r.spec.playbook.name == "raise-replication-factor")
    assert run.status.phase == "Planning"
    assert "would change them back: __consumer_offsets (KafkaTopic consumer-offsets)" in run.status.message
    assert "strimzi.io/pause-reconciliation=true" in run.status.message


def test_owners_that_cannot_be_read_hold_every_change_of_topics_up():
    world = strimzi()
    listed = world.api.list

    def refuses(path: str, query: Any = None) -> Any:
        if path == TOPICS:
            raise ApiFailure(403, "kafkatopics.kafka.strimzi.io is forbidden")
        return listed(path, query)

    world.api.list = refuses  # type: ignore[method-assign]
    for _ in range(8):
        world.step(15)
    run = next(r for r in world.runs() if r.spec.playbook.name == "raise-replication-factor")
    assert run.status.phase == "Planning"
    assert "topic-owners: AuthorizationFailed" in run.status.message or "is forbidden" in run.status.message
