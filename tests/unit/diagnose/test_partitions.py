"""Partitions without leader, without replicas in sync, without enough of them; leadership that stays away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import Directory
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.memory import DetectorMemory, remember
from tests.unit.cluster import worlds

B1_GONE = worlds.brokers(b1={"registered": False, "reachable": None, "pod": worlds.pod(1, ready=False)})


def found(snapshot, **kwargs):
    return {f.id: f for f in diagnose(snapshot, **kwargs)}


def test_leaderless_names_the_missing_broker_and_the_records_nobody_can_read():
    up = worlds.healthy(
        rows=[worlds.partition("orders", 0, (1,), logEnd=21)],
        groups=worlds.groups(("billing", "Empty", "orders", 0, 10)),
        at=worlds.later(-15),
    )
    down = worlds.healthy(
        rows=[worlds.partition("orders", 0, (1,), leader=-1, logEnd=None)], brokers=B1_GONE, groups=None
    )
    finding = found(down, previous=up)["PartitionLeaderless"]
    assert finding.affected == ("orders-0",)
    evidence = " ".join(finding.evidence)
    assert "only replicas on broker 1, which is missing" in evidence
    assert "group billing cannot read 11 records: orders-0 committed 10, log end 21" in evidence
    assert not finding.firing()
    alone = " ".join(found(down)["PartitionLeaderless"].evidence)
    assert "which groups wait for these partitions is not known" in alone


def test_the_records_nobody_can_read_are_counted_for_as_long_as_the_partition_has_no_leader():
    """The look before knew no log end either: it is the last one that was known that counts, and never a zero."""
    row, groups = worlds.partition("orders", 0, (1,), logEnd=21), worlds.groups(("billing", "Empty", "orders", 0, 10))
    up = worlds.healthy(rows=[row], groups=groups, at=worlds.later(-60))
    gone = [worlds.partition("orders", 0, (1,), leader=-1, logEnd=None)]
    before, now = (worlds.healthy(rows=gone, brokers=B1_GONE, groups=groups, at=worlds.later(n)) for n in (-15, 0))
    memory = DetectorMemory()
    for look in (up, before, now):
        memory = remember(memory, look)
    told = " ".join(found(now, previous=before, memory=memory)["PartitionLeaderless"].evidence)
    assert "group billing cannot read 11 records: orders-0 committed 10, log end 21" in told
    untold = " ".join(found(now, previous=before)["PartitionLeaderless"].evidence)
    assert "group billing cannot read an unknown number of records: orders-0 committed 10" in untold


def test_leaderless_with_a_live_replica_warns_of_the_election():
    row = worlds.partition("orders", 0, (1, 2), leader=-1, isr=[1], minIsr=1)
    evidence = " ".join(found(worlds.healthy(rows=[row], brokers=B1_GONE))["PartitionLeaderless"].evidence)
    assert "would lose acknowledged records" in evidence


def test_leader_not_known_is_not_leaderless():
    assert found(worlds.healthy(rows=[worlds.partition("orders", 0, leader=None)])) == {}


def test_under_replicated_and_under_min_isr():
    row = worlds.partition("orders", 0, isr=[1])
    findings = found(worlds.healthy(rows=[row]))
    assert set(findings) == {"PartitionUnderReplicated", "PartitionUnderMinIsr"}
    assert "broker 2 is out of the ISR of 1 partition" in findings["PartitionUnderReplicated"].evidence[0]
    assert "has 1 in sync (required: 2)" in findings["PartitionUnderMinIsr"].evidence[0]


MIN_ISR = "min.insync.replicas"
SHOWN = ("TOPIC", "orders", MIN_ISR, "1", False)


def refused(*settings, version="4.3.1", replicas=(1,), **row):
    """What is said of a partition that broker 1, of this version, leads."""
    listed = worlds.brokers(b1={"version": version})
    rows = [worlds.partition("orders", 0, replicas, **row)]
    configs = worlds.configs(*settings) if settings else None
    found_ = found(worlds.healthy(rows=rows, brokers=listed, configs=configs)).get("PartitionUnderMinIsr")
    return found_ and found_.evidence[0].removeprefix("orders-0 has ")


def told(*values):
    return [("BROKER", str(b), MIN_ISR, value, False) for b, value in enumerate(values, 1)]


def test_a_leader_of_3_7_or_later_asks_for_no_more_replicas_than_there_are():
    """Kafka 3.6.2 acknowledged 0 of 10 records to a topic of one replica under a minimum of 2, 3.7.0 all 10."""
    for version in ("3.7.0", "3.9.1", "4.3.1"):
        assert refused(version=version, minIsr=2) is None
        assert refused(SHOWN, *told("2"), version=version, minIsr=2) is None
        assert refused(version=version, replicas=(1, 2), isr=[1], minIsr=3) == "1 in sync (required: 2)"
    for version in ("3.6.2", "3.6", "2.8.1"):
        assert refused(version=version, minIsr=2) == "1 in sync (required: 2)"
    assert refused(SHOWN, *told("2"), version="3.6.2", minIsr=2) == "1 in sync (required: 2)"
    assert refused(version="3.6.2", replicas=(1, 2), isr=[1], minIsr=3) == "1 in sync (required: 3)"


def test_of_a_version_that_is_not_known_only_what_every_version_refuses_is_named():
    for version in (None, "7.5.0-ccs", "3"):
        assert refused(version=version, minIsr=2) is None
        assert refused(version=version, replicas=(1, 2), isr=[1], minIsr=2) == "1 in sync (required: 2)"


def test_it_is_the_leaders_own_minimum_that_refuses():
    """Broker 1 leads. What the others have counts once they lead."""
    short = {"replicas": (1, 2, 3), "isr": [1]}
    assert refused(SHOWN, *told("2", "1", "1"), minIsr=2, **short) == "1 in sync (required: 2)"
    assert refused(SHOWN, *told("1", "2", "2"), minIsr=2, **short) is None
    assert refused(SHOWN, *told("2"), minIsr=None, **short) == "1 in sync (required: 2)", "the others do not answer"
    assert refused(SHOWN, *told("2")[1:], ("BROKER", "2", MIN_ISR, "2", False), minIsr=2, **short) is None, "unknown"
    assert refused(("TOPIC", "orders", MIN_ISR, "2", True), minIsr=2, **short) == "1 in sync (required: 2)"
    assert refused(("TOPIC", "other", MIN_ISR, "2", False), minIsr=2, **short) == "1 in sync (required: 2)", "as given"
    assert refused(SHOWN, *told("2"), minIsr=2, **short, leader=None) is None


def test_a_replica_that_a_reassignment_adds_is_expected_to_be_behind():
    row = worlds.partition("orders", 0, (1, 2, 3), isr=[1, 2], adding=[3])
    assert set(found(worlds.healthy(rows=[row]))) == {"ReplicationFactorLow/topics", "ForeignReassignment"}
    tp = next(worlds.healthy(rows=[row]).rows()).tp
    assert set(found(worlds.healthy(rows=[row]), ours=frozenset({tp}))) == {"ReplicationFactorLow/topics"}


def _away(**changes):
    rows = [{**worlds.partition("orders", n, (1, 2, 3), leader=2), **changes} for n in range(4)]
    rows += [worlds.partition("orders", n, (2, 3, 1)) for n in range(4, 8)]
    return rows


def test_a_broker_that_came_back_leading_nothing():
    finding = found(worlds.healthy(rows=_away()))["LeadersImbalanced"]
    assert finding.affected == ("broker-1",)
    assert "broker 1 leads 0 of 4 partitions" in finding.evidence[0]
    before = worlds.healthy(rows=_away(), at=worlds.later(-60))
    assert found(worlds.healthy(rows=_away()), previous=before)["LeadersImbalanced"].firing()


def test_what_kafkas_own_rebalancing_does_is_said_where_it_is_on():
    name = "auto.leader.rebalance.enable"
    on = worlds.configs(("BROKER", "1", name, "true", False), ("BROKER", "2", name, "false", False))
    told = found(worlds.healthy(rows=_away(), configs=on))["LeadersImbalanced"].evidence[2]
    assert told.startswith(f"{name} is on (broker 1).")
    assert "set it to false on every broker and KRaft controller" in told
    off = worlds.configs(("BROKER", "1", name, "false", False))
    assert not any(name in e for e in found(worlds.healthy(rows=_away(), configs=off))["LeadersImbalanced"].evidence)


def test_imbalance_while_catching_up_is_silent():
    assert "LeadersImbalanced" not in found(worlds.healthy(rows=_away(isr=[2, 3])))
    one_behind = [*_away(), worlds.partition("late", 0, (2, 1, 3), isr=[2, 3])]
    assert "LeadersImbalanced" not in found(worlds.healthy(rows=one_behind))


def test_imbalance_while_reassigning_is_silent():
    rows = _away(replicas=[1, 2, 3, 4], adding=[4])
    listed = (*worlds.brokers(), worlds.broker(4))
    assert "LeadersImbalanced" not in found(worlds.healthy(rows=rows, brokers=listed))


def test_imbalance_toward_a_dead_recovering_or_cordoned_broker_is_silent():
    for change in (
        {"reachable": False},
        {"registered": False},
        {"recovering": True},
        {"pod": worlds.pod(1, cordoned=True)},
    ):
        snapshot = worlds.healthy(rows=_away(), brokers=worlds.brokers(b1=change))
        assert "LeadersImbalanced" not in found(snapshot), change


def test_imbalance_toward_a_broker_that_runs_in_the_pod_of_a_cordoned_node_is_silent():
    pods = {"b1": {"pod": worlds.pod(1, answers_as=2)}, "b2": {"pod": worlds.pod(2, answers_as=1, cordoned=True)}}
    assert "LeadersImbalanced" not in found(worlds.healthy(rows=_away(), brokers=worlds.brokers(**pods)))


def test_little_imbalance_is_tolerated():
    rows = [worlds.partition("orders", n, (1, 2, 3)) for n in range(10)]
    rows[0] = worlds.partition("orders", 0, (1, 2, 3), leader=2)
    assert found(worlds.healthy(rows=rows)) == {}


def test_committed_beyond_the_log_end():
    snapshot = worlds.healthy(
        groups=worlds.groups(
            ("billing", "Empty", "orders", 0, 101),
            ("billing", "Empty", "orders", 1, 100),
            ("audit", None, "orders", 2, 500),
            ("fine", "Stable", "orders", 0, -1),
            ("gone", "Empty", "deleted", 0, 7),
            ("null", "Empty", "orders", 0, None),
        )
    )
    findings = found(snapshot)
    assert set(findings) == {"OffsetBeyondLogEnd/billing", "OffsetBeyondLogEnd/audit"}
    assert findings["OffsetBeyondLogEnd/billing"].affected == ("billing", "orders-0")
    assert "committed 101, log end 100" in findings["OffsetBeyondLogEnd/billing"].evidence[0]
    assert "unknown state" in findings["OffsetBeyondLogEnd/audit"].evidence[1]


def test_a_log_end_not_known_is_not_zero():
    rows = [worlds.partition("orders", 0, logEnd=None)]
    assert found(worlds.healthy(rows=rows)) == {}


THROTTLE = (
    ("BROKER", "1", "leader.replication.throttled.rate", "1000000", True),
    ("TOPIC", "orders", "leader.replication.throttled.replicas", "0:1", True),
)


def test_a_throttle_left_behind():
    finding = found(worlds.healthy(configs=worlds.configs(*THROTTLE)))["LeftoverThrottle"]
    assert finding.affected == ("broker 1", "topic orders")
    assert "leader.replication.throttled.rate=1000000" in finding.evidence[0]


@pytest.mark.parametrize(
    ("moving", "error", "left"),
    [
        (0, None, True),
        (1, None, False),
        (None, None, False),
        (None, "KAFKA_STORAGE_ERROR", True),
        (None, "OTHER", False),
    ],
)
def test_a_throttle_of_copies_between_log_directories_is_left_behind_once_there_are_none(moving, error, left):
    """KIP-113: they are no reassignment. Another client's may be under way."""
    rate = worlds.configs(("BROKER", "1", "replica.alter.log.dirs.io.max.bytes.per.second", "1000000", True))
    directories = (Directory("/data/0", None, 100, 50, 0), Directory("/data/1", error, 100, 50, moving))
    snapshot = worlds.healthy(configs=rate, brokers=worlds.brokers(b1={"directories": directories}))
    assert ("LeftoverThrottle" in found(snapshot)) == left
    untold = worlds.healthy(configs=rate, brokers=worlds.brokers(b1={"directories": None}))
    assert "LeftoverThrottle" not in found(untold)


def test_throttles_in_use_static_empty_or_with_reassignments_unknown_are_silent():
    moving = [worlds.partition("orders", 0, (1, 2, 3, 4), isr=[1, 2, 3], adding=[4])]
    set_ = worlds.configs(*THROTTLE)
    listed = (*worlds.brokers(), worlds.broker(4))
    assert "LeftoverThrottle" not in found(worlds.healthy(rows=moving, brokers=listed, configs=set_))
    unknown = [worlds.partition("orders", 0, adding=None)]
    assert found(worlds.healthy(rows=unknown, configs=set_)) == {}
    assert found(worlds.healthy(sources=worlds.sources(reassignments="refused"), configs=set_)) == {}
    assert diagnose(worlds.healthy(configs=set_), throttling=True) == ()
    static = worlds.configs(
        ("BROKER", "1", "leader.replication.throttled.rate", "1", False),
        ("TOPIC", "orders", "leader.replication.throttled.replicas", "", True),
    )
    assert found(worlds.healthy(configs=static)) == {}


def test_somebody_elses_reassignment_is_named():
    row = worlds.partition("orders", 0, (1, 2, 3), adding=[3], removing=[1])
    finding = found(worlds.healthy(rows=[row]))["ForeignReassignment"]
    assert finding.affected == ("orders-0",)
    assert "orders-0 +[3] -[1]" in finding.evidence[0]
    assert "never ends" not in "".join(finding.evidence)


def test_a_reassignment_that_kraft_never_ends_is_named():
    rows = [
        worlds.partition("orders", 0, (1, 2, 3), isr=[1], adding=[2, 3], removing=[3]),
        worlds.partition("orders", 1, (1, 2, 3), isr=[1], adding=[2], removing=[1]),
    ]
    evidence = found(worlds.healthy(rows=rows))["ForeignReassignment"].evidence
    assert [text for text in evidence if text.startswith("orders-0: one broker is both being added and being removed")]
    assert not [text for text in evidence if "orders-1:" in text]


def test_findings_survive_a_chunked_table():
    snapshot = worlds.healthy(rows=_away())
    table = snapshot.partitions
    import pyarrow as pa

    chunked = pa.concat_tables([table.slice(0, 3), table.slice(3)])
    assert found(replace(snapshot, partitions=chunked)).keys() == found(snapshot).keys()
