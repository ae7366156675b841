"""Brokers that have another idea of the cluster than the cluster has."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kafka_medic.diagnose.authority import QUORUM_FOR
from kafka_medic.diagnose.brokers import ZOMBIE_FOR
from kafka_medic.diagnose.views import DIVERGED_FOR
from tests.gameday import cluster
from tests.gameday.cluster import ORDERS, Cuts
from tests.gameday.scenario import Act, Expected, Scenario, Scene, Twin, run
from tests.incident import records
from tests.testbed import wait_for

SESSION = 12.0
"""Seconds until a broker that is cut off has lost its session (ZooKeeper here 6 s, KRaft 9 s), and a look."""
RECREATED = "recreated"
FOLLOWS = frozenset({"ViewDiverged", "PartitionUnderReplicated", "PartitionLeaderless"})
"""Of a broker that the cluster has dropped: what it believes is old, and what it has replicas of lacks one."""


def test_split_brain(scenes: list[Scene]) -> None:
    run(scenes, acts, cluster.restore)


def acts(scene: Scene) -> Iterator[Act]:
    if scene.kafka.shape == "zookeeper":
        yield stale(scene)
    yield cut_off(scene)
    if scene.kafka.shape == "zookeeper":
        yield Scenario(
            "a registration lost: a zombie for good",
            (
                Expected(
                    "BrokerZombie/broker-2", ZOMBIE_FOR, ("not among the registered brokers", "answered a request")
                ),
            ),
            partial(cluster.forget, scene, 2),
            partial(restarted, scene, 2),
            also=FOLLOWS,
            keep=20,
        )
    yield Twin(
        "every leader elected away and back",
        partial(cluster.elect_everything, scene),
        partial(cluster.home, scene),
        may=frozenset({"ForeignReassignment"}),  # which changing the order of replicas is, for a moment
    )
    yield Twin(
        "a topic deleted and recreated under load, time after time",
        partial(recreate, scene),
        partial(records.delete_topic, scene.boot, RECREATED),
        seconds=60.0,
    )


def recreate(scene: Scene) -> None:
    """Each incarnation begins at leader epoch 0, and is written to."""
    for _ in range(6):
        wait_for("the name to be free", lambda: _made(scene), 30)
        assert records.write(scene.boot, RECREATED, [f"r-{n}" for n in range(200)]) == 200
        records.delete_topic(scene.boot, RECREATED)
    wait_for("the name to be free", lambda: _made(scene), 30)


def _made(scene: Scene) -> bool:
    """With ZooKeeper a name is taken for a moment after its topic was deleted."""
    try:
        records.create_topic(scene.boot, RECREATED, [[0, 1, 2], [1, 2, 0]], {"min.insync.replicas": "2"})
    except Exception as problem:
        if "marked for deletion" in str(problem) or "already exists" in str(problem):
            return False
        raise
    return True


def restarted(scene: Scene, broker: int) -> None:
    cluster.restart(scene, broker)
    cluster.home(scene)


def stale(scene: Scene) -> Scenario:
    """The published split brain, exactly: what the controller says does not reach one broker, then another one goes."""
    controller = cluster.controller(scene)
    kept, away = cluster.others(controller)
    cuts = Cuts()

    def fault() -> None:
        cluster.cut_from_controller(scene, kept, cuts)
        cluster.stop(scene, away)
        # It leads this one, under an epoch that it has not heard of, so that nobody follows it.
        lost = [f"only-there-{n}" for n in range(3)]
        assert records.write(scene.kafka.broker_address(kept), ORDERS, lost, partition=kept, acks="1") == 3

    def cure() -> None:
        cuts.mend()
        cluster.start(scene, away)

    words = (
        f"still lists broker {away}, not registered",
        f"3 records are only in its own log, and lost at its restart unless saved: {ORDERS}-{kept}: 3",
        f"broker {kept} is stale",
    )
    return Scenario(
        "a broker that the controller cannot tell",
        (Expected(f"ViewDiverged/broker-{kept}", DIVERGED_FOR, words),),
        fault,
        cure,
        # It took its followers out of the ISR by itself: acks=all is refused there, as it was then.
        also=frozenset({"PartitionUnderReplicated", "PartitionLeaderless", "PartitionUnderMinIsr"}),
        settle=5,
        keep=20,
    )


def cut_off(scene: Scene) -> Scenario:
    broker = cluster.others(cluster.controller(scene))[1]
    cuts = Cuts()

    def cure() -> None:
        cuts.mend()
        cluster.home(scene)

    words = ("not among the registered brokers", "answered a request of its own")
    expected = [Expected(f"BrokerZombie/broker-{broker}", ZOMBIE_FOR, words)]
    if scene.kafka.shape == "kraft":
        expected.append(Expected("QuorumDegraded", QUORUM_FOR, (f"voter {broker}",)))
    return Scenario(
        "a broker cut from the whole authority",
        tuple(expected),
        partial(cluster.cut_from_authority, scene, broker, cuts),
        cure,
        also=FOLLOWS,
        settle=SESSION,
        keep=20,
    )
