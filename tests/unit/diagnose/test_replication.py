"""Incident I4: too few replicas, and its twins."""

from __future__ import annotations

from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.resources import kafkacluster
from kafka_medic.resources.vocabulary import Severity
from tests.unit.cluster import worlds

MIN_ISR = "min.insync.replicas"
ONE = [
    worlds.partition("orders", 0, (1,), minIsr=1),
    worlds.partition("orders", 1, (2,), minIsr=1),
    worlds.partition("__consumer_offsets", 0, (1,), minIsr=1),
]


def found(snapshot, **kwargs):
    return {f.id: f for f in diagnose(snapshot, **kwargs)}


def expectations(**spec):
    return Expectations.from_spec(kafkacluster.Expectations.model_validate(spec))


def test_topics_and_internal_topics_are_named_apart():
    findings = found(worlds.healthy(rows=ONE))
    topics = findings["ReplicationFactorLow/topics"]
    internal = findings["ReplicationFactorLow/internal-topics"]
    assert topics.affected == ("orders",)
    assert internal.affected == ("__consumer_offsets",)
    assert topics.playbook == internal.playbook == "raise-replication-factor"
    assert topics.severity is Severity.CRITICAL
    assert topics.firing()
    assert "orders has factor 1 (wanted 3) in 2 of 2 partitions" in topics.evidence[0]
    assert not any("no cure now" in line for line in topics.evidence)


def test_one_partition_below_is_enough_and_factor_two_is_a_warning():
    rows = [worlds.partition("orders", 0), worlds.partition("orders", 1, (1, 2))]
    finding = found(worlds.healthy(rows=rows))["ReplicationFactorLow/topics"]
    assert finding.severity is Severity.WARNING
    assert "in 1 of 2 partitions" in finding.evidence[0]


def test_fewer_live_brokers_than_the_factor_still_fires_and_says_so():
    snapshot = worlds.healthy(rows=ONE, brokers=worlds.brokers(b3={"reachable": False, "registered": False}))
    evidence = " ".join(found(snapshot)["ReplicationFactorLow/topics"].evidence)
    assert "no cure now" in evidence
    assert "the cluster has 2" in evidence


def test_without_brokers_the_evidence_says_what_is_not_known():
    snapshot = worlds.healthy(rows=ONE, brokers=None)
    assert "not known" in found(snapshot)["ReplicationFactorLow/topics"].evidence[-1]


def test_exempt_topics_and_lower_expectations_are_silent():
    wanted = expectations(
        topics=[
            {"pattern": "ord.*", "exempt": True},
            {"pattern": "__consumer_offsets", "replicationFactor": 1, "minInSyncReplicas": 1},
        ]
    )
    assert found(worlds.healthy(rows=ONE), expectations=wanted) == {}


def test_a_pattern_is_over_the_whole_name_and_the_first_match_counts():
    wanted = expectations(topics=[{"pattern": "order", "exempt": True}, {"pattern": "orders", "replicationFactor": 5}])
    finding = found(worlds.healthy(), expectations=wanted)["ReplicationFactorLow/topics"]
    assert finding.affected == ("orders",)
    assert "wanted 5" in finding.evidence[0]
    assert wanted.factor_of("order") is None
    assert wanted.min_isr_of("order") is None
    assert wanted.min_isr_of("orders") == 2


def test_a_replica_that_is_being_added_does_not_count_yet():
    rows = [worlds.partition("orders", 0, (1, 2, 3), isr=[1], adding=[2, 3])]
    assert "factor 1" in found(worlds.healthy(rows=rows))["ReplicationFactorLow/topics"].evidence[0]


def test_broker_defaults_say_what_to_set_where():
    rows = [("BROKER", str(n), "default.replication.factor", "1", False) for n in (1, 2)]
    rows += [("BROKER", "3", "default.replication.factor", "3", False)]
    rows += [("BROKER", "1", "offsets.topic.replication.factor", "nonsense", False)]
    finding = found(worlds.healthy(configs=worlds.configs(*rows)))["ReplicationFactorLow/broker-defaults"]
    assert finding.affected == ("default.replication.factor",)
    assert finding.playbook == "raise-defaults"
    assert "default.replication.factor=1 on broker 1, 2" in finding.evidence[0]
    assert "set 3 in their configuration file" in finding.evidence[0]


def test_a_low_minimum_of_the_brokers_is_said_with_them_and_that_it_needs_no_restart():
    rows = [
        ("BROKER", str(n), name, "1", False) for n in (1, 2, 3) for name in (MIN_ISR, "transaction.state.log.min.isr")
    ]
    rows += [("BROKER", "", MIN_ISR, "1", True)]
    finding = found(worlds.healthy(configs=worlds.configs(*rows)))["ReplicationFactorLow/broker-defaults"]
    assert finding.affected == ("transaction.state.log.min.isr", MIN_ISR)
    assert finding.message == "the brokers' defaults create topics with a lower min.insync.replicas than expected"
    assert "min.insync.replicas=1 on broker 1, 2, 3: 2 is expected; it can be set" in finding.evidence[1]
    assert "at run time" in finding.evidence[1]


def test_what_is_set_for_all_brokers_is_no_brokers_own_word():
    rows = [("BROKER", str(n), MIN_ISR, "2", False) for n in (1, 2, 3)] + [("BROKER", "", MIN_ISR, "1", True)]
    assert found(worlds.healthy(configs=worlds.configs(*rows))) == {}


def test_all_replicas_on_one_rack_while_there_are_more():
    racks = {"b1": {"rack": "a"}, "b2": {"rack": "a"}, "b3": {"rack": "b"}}
    rows = [worlds.partition("orders", 0, (1, 2))]
    snapshot = worlds.healthy(rows=rows, brokers=worlds.brokers(**racks))
    wanted = expectations(replicationFactor=2, minInSyncReplicas=1)
    finding = found(snapshot, expectations=wanted)["RackSpreadLow"]
    assert finding.affected == ("orders",)
    assert "orders-0 on 1 of 2 racks" in finding.evidence[0]
    unaware = expectations(replicationFactor=2, minInSyncReplicas=1, rackAware=False)
    assert found(snapshot, expectations=unaware) == {}


def test_racks_are_silent_where_one_is_not_known_or_there_are_not_enough():
    rows = [worlds.partition("orders", 0, (1, 2, 3))]
    for racks in (
        {"b1": {"rack": "a"}, "b2": {"rack": "a"}, "b3": {"rack": None}},  # one unknown
        {"b1": {"rack": "a"}, "b2": {"rack": "a"}, "b3": {"rack": "b"}},  # two racks, both used
        {"b1": {"rack": "a"}, "b2": {"rack": "a"}, "b3": {"rack": "a"}},  # one rack
    ):
        assert found(worlds.healthy(rows=rows, brokers=worlds.brokers(**racks))) == {}
