"""What does not answer: one broker, the ensemble, all of them, or the operator's own link."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from kafka_medic.diagnose.authority import QUORUM_FOR
from kafka_medic.diagnose.brokers import DOWN_FOR
from kafka_medic.diagnose.connectivity import BLIND_FOR
from kafka_medic.diagnose.partitions import UNDER_REPLICATED_FOR
from tests.gameday import cluster
from tests.gameday.cluster import Cuts
from tests.gameday.scenario import TIMEOUT, Act, Expected, Scenario, Scene, run
from tests.testbed import faults

GROWTH_BYTES = 30 * 1024 * 1024
"""Of both clusters' unreachable time together; librdkafka and the allocator take some on the first failures."""


def test_unreachable(scenes: list[Scene]) -> None:
    before = cluster.operator_memory()
    run(scenes, acts, cluster.restore)
    after = cluster.operator_memory()
    print(f"operator: {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB after")
    assert after - before < GROWTH_BYTES


def acts(scene: Scene) -> Iterator[Act]:
    yield hung(scene)
    yield listener_cut(scene)
    if scene.kafka.shape == "zookeeper":
        yield Scenario(
            "two of three ZooKeeper servers gone",
            (Expected("QuorumDegraded", QUORUM_FOR, ("no majority", "server 2 does not serve")),),
            partial(servers, scene, faults.pause),
            partial(servers_back, scene),
            settle=2 * TIMEOUT,
            keep=20,
        )
    cuts = Cuts()
    yield Scenario(
        "the operator cut off",
        (Expected("OperatorIsolated", BLIND_FOR, ("every Pod is Ready", "the operator is cut off")),),
        partial(cluster.cut_operator, scene, cuts),
        cuts.mend,
        settle=3 * TIMEOUT,
        keep=30,
    )
    yield Scenario(
        "every broker gone",
        (
            Expected(
                "ClusterUnreachable", BLIND_FOR, ("no broker answers", "the operator changes nothing until one answers")
            ),
        ),
        partial(cluster.all_gone, scene),
        partial(cluster.all_back, scene),
        # What was seen while there still was one to tell it, and cannot be seen to have gone.
        also=frozenset({"PartitionLeaderless", "PartitionUnderReplicated", "PartitionUnderMinIsr", "QuorumDegraded"}),
        settle=3 * TIMEOUT,
        keep=30,
        clears_within=150,
    )


def hung(scene: Scene) -> Scenario:
    """Its port still takes connections, so that its Pod stays Ready for some time. That it no longer is after that
    makes the broker no less down."""
    expected = [
        Expected("BrokerDown/broker-2", DOWN_FOR, ("not registered", "does not answer", "Pod kafka-2 is")),
        Expected("PartitionUnderReplicated", UNDER_REPLICATED_FOR, ("broker 2 (down) is out of the ISR",)),
    ]
    if scene.kafka.shape == "kraft":
        expected.append(Expected("QuorumDegraded", QUORUM_FOR, ("voter 2",)))
    return Scenario(
        "a broker that hangs",
        tuple(expected),
        partial(faults.pause_broker, scene.kafka, 2),
        partial(cluster.resume, scene, 2),
        settle=12 + 2 * TIMEOUT,
        keep=75,
    )


def listener_cut(scene: Scene) -> Scenario:
    """Still registered and in every ISR, so that no metadata shows it."""
    broker, cuts = 2, Cuts()

    def cure() -> None:
        cuts.mend()
        scene.kafka.wait_ready()
        cluster.home(scene)

    words = ("registered, yet does not answer", "Pod kafka-2 is")
    return Scenario(
        "a client listener cut, the broker in every ISR",
        (Expected(f"BrokerDown/broker-{broker}", DOWN_FOR, words),),
        partial(cluster.cut_clients, scene, broker, cuts),
        cure,
        settle=3 * TIMEOUT,
        keep=20,
    )


def servers(scene: Scene, change: Callable[[str, str], None]) -> None:
    for number in (1, 2):
        change(scene.kafka.namespace, f"zookeeper-{number}")


def servers_back(scene: Scene) -> None:
    """A broker whose session ended meanwhile has registered anew, and leads less than before."""
    servers(scene, faults.resume)
    cluster.home(scene)
