"""A Secret without the label is read only for a KafkaCluster whose author was checked, spec by spec."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.controller.store import Store
from kafka_medic.resources.kafkacluster import KafkaCluster
from tests.simulation.world import POLICIES, World, factor_one_cluster

PATH = "/api/v1/namespaces/ns/secrets"
DATA = {"password": base64.b64encode(b"p").decode()}


@pytest.fixture
def world() -> World:
    w = World(factor_one_cluster())
    w.install()
    w.put("kafkaclusters", w.cluster())  # once the policies stand
    for name, labels in (("plain", {}), ("labelled", {"kafkamedic.dev/credentials": "true"}),
                         ("unlabelled", {"kafkamedic.dev/credentials": "false"})):  # fmt: skip
        w.api.put(PATH, {"metadata": {"name": name, "labels": labels}, "data": DATA})
    return w


def cluster(world: World) -> KafkaCluster:
    return KafkaCluster.parse(world.cluster())


def store(world: World) -> Store:
    return Store(world.api, policies=POLICIES)


def edited(world: World) -> KafkaCluster:
    """By somebody: another spec."""
    stored = world.api.touch("/apis/kafkamedic.dev/v1alpha1/namespaces/ns/kafkaclusters/c")
    stored["metadata"]["generation"] += 1
    return cluster(world)


def test_under_the_policy_any_secret_that_it_names_is_read(world: World) -> None:
    for name in ("plain", "labelled", "unlabelled"):
        assert store(world).secret(cluster(world), name) == {"password": b"p"}


def test_without_it_only_a_labelled_one_is_and_the_message_says_how_to_label(world: World) -> None:
    world.uninstall_policies()
    assert store(world).secret(cluster(world), "labelled") == {"password": b"p"}
    for name in ("plain", "unlabelled"):
        with pytest.raises(ReadFailed, match=f"kubectl label secret {name} -n ns kafkamedic.dev/credentials=true"):
            store(world).secret(cluster(world), name)


def test_a_spec_that_was_checked_stays_checked_and_another_does_not(world: World) -> None:
    """A run under way keeps its connections when an administrator switches admission off; who then edits gets none."""
    kept = store(world)
    assert kept.secret(cluster(world), "plain")
    world.uninstall_policies()
    assert kept.secret(cluster(world), "plain")
    with pytest.raises(ReadFailed, match="nothing checks who may name Secrets"):
        kept.secret(edited(world), "plain")
    world.now += timedelta(hours=1)
    world.install_policies()
    with pytest.raises(ReadFailed, match="the KafkaCluster is older than the check of who may name Secrets"):
        kept.secret(cluster(world), "plain")


def test_what_another_policy_is_like_does_not_matter(world: World) -> None:
    """An upgrade that changes it takes nobody's Kafka away."""
    path = next(p for p in world.api.objects if "validatingadmissionpolicies/approvals" in p)
    world.api.touch(path)["metadata"]["creationTimestamp"] = world.timestamp()
    assert store(world).secret(cluster(world), "plain")
    del world.api.objects[path]
    assert store(world).secret(cluster(world), "plain")


def test_an_author_who_waives_the_check_gets_labelled_ones_alone(world: World) -> None:
    world.api.touch("/apis/kafkamedic.dev/v1alpha1/namespaces/ns/kafkaclusters/c")["spec"]["security"] = {
        "labelledSecretsOnly": True
    }
    assert store(world).secret(cluster(world), "labelled")
    with pytest.raises(ReadFailed, match="labelledSecretsOnly is true"):
        store(world).secret(cluster(world), "plain")
