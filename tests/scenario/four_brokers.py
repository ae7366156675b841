"""Four brokers in three racks, of which the last one is what a test is about."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tests.simulation.kafka import SimKafka
from tests.simulation.lines import SimZooKeeper
from tests.simulation.world import BROKERS, World, four_broker_cluster

LAST = 3
QUIET = {"playbooks": [{"name": "elect-preferred-leaders", "mode": "Observe"}]}


def four_brokers(
    *, zookeeper: bool = False, racks: Mapping[int, str | None] | None = None, controllers: Collection[int] = ()
) -> World:
    """racks: of other brokers than the four. controllers: KRaft's, where they are no brokers."""
    kafka = four_broker_cluster(racks, zookeeper=zookeeper, controllers=controllers, size=5_000_000)
    return watched(kafka)


def watched(kafka: SimKafka) -> World:
    """The operator knows of ZooKeeper where the cluster has it."""
    world = World(kafka, ensemble=SimZooKeeper(kafka) if kafka.zookeeper else None)
    metadata = {"zookeeper": {"connect": "zk:2181"}} if kafka.zookeeper else None
    world.install(brokers=BROKERS, remediation=QUIET, metadata=metadata)
    world.with_pods()
    return world


def held(world: World, broker: int = LAST) -> list[str]:
    return sorted(str(tp) for tp, part in world.kafka.partitions.items() if broker in part.replicas)


def throttles(world: World) -> list[tuple[str, str, str]]:
    return [key for key in world.kafka.dynamic if "throttled" in key[2]]


def lose(world: World, broker: int = LAST) -> None:
    """With its node and its volume: nothing starts it again."""
    world.kafka.stop(broker)
    assert world.pods is not None
    world.pods._put(broker, ready=False, keep=True)
