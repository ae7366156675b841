"""A KafkaCluster that leaves to Strimzi what Strimzi knows: `spec.strimzi` alone is enough, and it follows changes."""

from __future__ import annotations

from typing import Any

from kafka_medic.clients.kubernetes_api import ApiFailure
from tests.simulation.kafka import SimKafka
from tests.simulation.pods import KAFKA_PATH, STRIMZI
from tests.simulation.world import BASE, NO_ELECTIONS, World

CLUSTER = f"{BASE}/namespaces/ns/kafkaclusters/c"
LISTENERS = [{"name": "plain", "port": 9092, "type": "internal", "tls": False}]


def watched(**kafka: Any) -> World:
    """Strimzi's Pods, and a KafkaCluster of one line."""
    world = World(SimKafka())
    world.kafka.topic("orders", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    world.install(bootstrapServers=None, strimzi={"cluster": "kafka"}, remediation=NO_ELECTIONS)
    world.with_pods(STRIMZI, strimzi_ticks=1)
    world.api.objects["/apis/kafka.strimzi.io"] = {"metadata": {}, "versions": [{"version": "v1"}]}
    resource = world.api.touch(KAFKA_PATH)
    resource["spec"] = {"kafka": {"listeners": LISTENERS}}
    resource["status"] |= {"listeners": [{"name": "plain", "bootstrapServers": "kafka:9092"}], **kafka}
    return world


def told(world: World) -> dict[str, Any]:
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in world.cluster()["status"]["conditions"]}


def test_one_line_is_enough_and_the_status_says_what_it_came_to():
    world = watched()
    world.step(15)
    status = world.cluster()["status"]
    assert status["strimzi"] == {
        "cluster": "kafka",
        "listener": "plain",
        "bootstrapServers": "kafka:9092",
        "protocol": "PLAINTEXT",
        "secrets": [],
        "pools": [],
        "setByHand": [],
    }
    assert told(world)["Ready"][0] == told(world)["RestartsPossible"][0] == "True"
    assert status["brokers"] == {"expected": 3, "registered": 3, "reachable": 3}
    assert "bootstrapServers" not in world.cluster()["spec"], "spec is people's alone"


def test_a_restart_goes_by_strimzi():
    world = watched()
    world.ask("rolling-restart")
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: world.run().status.phase in ("Succeeded", "Failed", "Paused"), reconciles=200, seconds=5)
    assert world.run().status.phase == "Succeeded", world.run().status.message
    assert world.pods is not None
    assert (sorted(world.pods.restarts), world.pods.evicted) == ([0, 1, 2], [])


def test_until_strimzi_says_where_the_brokers_are_nothing_is_planned_and_the_status_says_what_is_missing():
    world = watched(listeners=[])
    world.ask("rolling-restart")
    world.step(15)
    why = "Kafka kafka has no address of its listener plain yet: wait until it is Ready"
    assert told(world)["Ready"] == ("False", "StrimziNotUsable", why)
    assert world.run().status.phase is None
    world.api.touch(KAFKA_PATH)["status"]["listeners"] = [{"name": "plain", "bootstrapServers": "kafka:9092"}]
    world.step(15)
    assert told(world)["Ready"][0] == "True"


def test_what_strimzi_changes_is_followed():
    world = watched()
    world.step(15)
    world.api.touch(KAFKA_PATH)["status"]["listeners"][0]["bootstrapServers"] = "another:9092"
    world.step(15)
    assert world.cluster()["status"]["strimzi"]["bootstrapServers"] == "another:9092"
    del world.api.objects[KAFKA_PATH]
    world.step(15)
    assert told(world)["Ready"][1:] == (
        "StrimziNotUsable",
        "there is no Kafka kafka of Strimzi's in this namespace: correct spec.strimzi.cluster",
    )
    assert {told(world)[kind][0] for kind in told(world) if kind != "Ready"} == {"Unknown"}


def test_rights_that_the_chart_did_not_give_are_named():
    world = watched()
    get = world.api.get

    def refuses(path: str, query: Any = None) -> Any:
        if "/kafkas/" in path:
            raise ApiFailure(403, "kafkas.kafka.strimzi.io is forbidden")
        return get(path, query)

    world.api.get = refuses  # type: ignore[method-assign]
    world.step(15)
    message = told(world)["Ready"][2]
    assert message.startswith("kafkas.kafka.strimzi.io is forbidden: let the chart make the operator's roles")
