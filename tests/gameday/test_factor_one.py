"""Replicas that are not there: the factor, what shows when the only replica is away, and offsets that no log has."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

from kafka_medic.diagnose.authority import QUORUM_FOR
from kafka_medic.diagnose.group_progress import STALLED_FOR
from kafka_medic.diagnose.moves import LEFTOVER_FOR
from kafka_medic.diagnose.partitions import LEADERLESS_FOR, UNDER_REPLICATED_FOR
from tests.gameday import cluster
from tests.gameday.cluster import BILLING, MOVING, ORDERS, RATES, THIN, THIN_ON
from tests.gameday.scenario import Act, Expected, Scenario, Scene, Twin, patch, run
from tests.incident import records

GROUP, STANDING = f"{BILLING}-{THIN}", "standing"


def test_factor_one(scenes: list[Scene]) -> None:
    run(scenes, acts, cluster.restore)


def acts(scene: Scene) -> Iterator[Act]:
    yield Twin("healthy, idle, one topic exempt", lambda: None)
    yield left_behind(scene)
    yield four_replicas(scene)
    yield moving_and_standing(scene)
    yield only_replica_away(scene)
    yield log_lost(scene)


def left_behind(scene: Scene) -> Scenario:
    boot = scene.boot

    def fault() -> None:
        cluster.cordon(scene, 2)
        records.create_topic(boot, "thin", [[0]], {"min.insync.replicas": "1"})
        records.commit_offset(boot, f"{BILLING}-{ORDERS}", ORDERS, 5000)
        with scene.client() as client:
            cluster.throttle(client, "1000000")

    def cure() -> None:
        cluster.uncordon(scene, 2)
        records.delete_topic(boot, "thin")
        records.commit_offset(boot, f"{BILLING}-{ORDERS}", ORDERS, 10)
        with scene.client() as client:
            cluster.throttle(client, None)

    expected = (
        Expected("NodeMaintenance/broker-2", 0, (scene.kafka.node_of(2), "is cordoned")),
        Expected("ReplicationFactorLow/topics", 0, ("thin has factor 1 (wanted 3) in 1 of 1",)),
        Expected(f"OffsetBeyondLogEnd/{BILLING}-{ORDERS}", 0, (f"{ORDERS}-0 committed 5000, log end 2", "Empty")),
        Expected("LeftoverThrottle", LEFTOVER_FOR, (f"broker 1: {RATES[0]}=1000000", "no reassignment in flight")),
    )
    return Scenario("small things left behind", expected, fault, cure)


def four_replicas(scene: Scene) -> Scenario:
    word = "no cure now: factor 4 needs 4 live brokers, the cluster has 3"
    return Scenario(
        "four replicas wanted of three brokers",
        (
            Expected("ReplicationFactorLow/topics", 0, (word, f"{ORDERS} has factor 3 (wanted 4)")),
            Expected("ReplicationFactorLow/internal-topics", 0, (word, "__consumer_offsets")),
            Expected("ReplicationFactorLow/broker-defaults", 0, ("default.replication.factor=3 on broker 0, 1, 2",)),
        ),
        partial(patch, scene, '{"spec":{"expectations":{"replicationFactor":4}}}'),
        partial(patch, scene, '{"spec":{"expectations":{"replicationFactor":3}}}'),
    )


def moving_and_standing(scene: Scene) -> Scenario:
    """Somebody else's reassignment, and consumers that are there and commit nothing. For all that time neither
    LeftoverThrottle nor LeadersImbalanced: broker 2 is preferred and cannot lead yet."""
    boot, members = scene.boot, contextlib.ExitStack()

    def fault() -> None:
        records.commit_offset(boot, STANDING, ORDERS, 10)
        members.enter_context(records.joined(boot, STANDING, ORDERS, "shop-1"))
        cluster.begin_move(scene)
        cluster.looked_at(scene)
        assert records.write(boot, ORDERS, ["not committed"]) == 1

    def cure() -> None:
        members.close()
        cluster.end_move(scene)

    expected = (
        Expected("ForeignReassignment", 0, (f"{MOVING}-0 +[2] -[]",)),
        Expected(f"ClientStalled/{STANDING}", STALLED_FOR, (f"{ORDERS}-0 committed 10 for", "12 records behind")),
    )
    assert STALLED_FOR > LEFTOVER_FOR + 15
    return Scenario("somebody moves a partition, consumers stand still", expected, fault, cure)


def only_replica_away(scene: Scene) -> Scenario:
    """Committed 10, log end 21: exactly 11 records cannot be read. That is no offset problem, and the broker, whose Pod
    waits for its node, is not called down yet."""
    expected = [
        Expected(
            "PartitionLeaderless",
            LEADERLESS_FOR,
            (
                f"1 partition has its only replicas on broker {THIN_ON}, which is missing",
                f"group {GROUP} cannot read 11 records: {THIN}-0 committed 10, log end 21",
            ),
        ),
        Expected("PartitionUnderReplicated", UNDER_REPLICATED_FOR, (f"broker {THIN_ON} (down) is out of the ISR",)),
    ]
    if scene.kafka.shape == "kraft":
        expected.append(Expected("QuorumDegraded", QUORUM_FOR, (f"voter {THIN_ON}",)))
    return Scenario(
        "the only replica's broker away",
        tuple(expected),
        partial(cluster.stop, scene, THIN_ON),
        partial(cluster.start, scene, THIN_ON),
        settle=10,
        keep=20,
    )


def log_lost(scene: Scene) -> Scenario:
    return Scenario(
        "an only log lost",
        (
            Expected(
                f"LogEndRegressed/{THIN}",
                0,
                (f"{THIN}-0: log end 21,", "at least 21 records", f"groups that had committed beyond it: {GROUP}"),
            ),
            Expected(f"OffsetBeyondLogEnd/{GROUP}", 0, (f"{THIN}-0 committed 10, log end 0",)),
        ),
        partial(cluster.lose_log, scene, THIN, THIN_ON),
        partial(records.delete_topic, scene.boot, THIN),
        # What showed while the broker was away may be on its way out still.
        also=frozenset({"PartitionLeaderless", "PartitionUnderReplicated", "QuorumDegraded"}),
    )
