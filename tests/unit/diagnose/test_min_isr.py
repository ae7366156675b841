"""Topics that acknowledge what fewer brokers have than expected, although they have the replicas; and what must not
fire."""

from __future__ import annotations

import pytest

from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.finding import Finding
from kafka_medic.resources import kafkacluster
from kafka_medic.resources.vocabulary import Severity
from tests.unit.cluster import worlds

MIN_ISR = "min.insync.replicas"
OWN = ("TOPIC", "orders", MIN_ISR, "1", True)
ROWS = [worlds.partition("orders", 0, minIsr=1), worlds.partition("orders", 1, (2, 3, 1), minIsr=1)]


def found(*settings, rows=ROWS, topics=(), being_set=(), **changes) -> Finding | None:
    spec = kafkacluster.Expectations.model_validate({"topics": list(topics)})
    snapshot = worlds.healthy(rows=rows, configs=worlds.configs(*settings), **changes)
    findings = diagnose(snapshot, expectations=Expectations.from_spec(spec), being_set=frozenset(being_set))
    return next((f for f in findings if f.type == "MinInsyncReplicasLow"), None)


def test_a_topic_with_a_lower_minimum_of_its_own_is_named_with_what_it_is_and_what_cures_it():
    finding = found(OWN, ("TOPIC", "__consumer_offsets", MIN_ISR, "2", True))
    assert finding is not None
    assert finding.affected == ("orders",)
    assert finding.severity is Severity.WARNING
    assert finding.evidence[0] == "orders has 1 (wanted 2)"
    assert "spec.expectations.topics" in finding.evidence[1]
    assert finding.playbook == "raise-min-insync-replicas"
    assert not finding.firing(), "a raise of the factor sets it a moment after the last replica is in"


@pytest.mark.parametrize(
    ("told", "evidence"),
    [("11", "orders has 1 (wanted 2)"), ("12", "orders has 1 (wanted 2)"), ("22", None), ("2", None), ("", None)],
)
def test_more_than_the_default_is_expected_of_it(told, evidence):
    """The default of the brokers that it is on, whatever the broker that answered shows. Broker 4 holds none of it."""
    falls_back = (*OWN[:4], False)
    wants = {"pattern": "orders", "minInSyncReplicas": 2, "replicationFactor": 3}
    of_all = kafkacluster.Expectations.model_validate({"minInSyncReplicas": 1, "topics": [wants]})
    brokers = [("BROKER", str(b), MIN_ISR, value, False) for b, value in zip((1, 2), told, strict=False)]
    other = ("BROKER", "4", MIN_ISR, "1", False)
    snapshot = worlds.healthy(rows=ROWS, configs=worlds.configs(falls_back, *brokers, other))
    findings = [
        f for f in diagnose(snapshot, expectations=Expectations.from_spec(of_all)) if f.type == "MinInsyncReplicasLow"
    ]
    assert [f.evidence[0] for f in findings] == ([evidence] if evidence else [])


TWINS = {
    "as expected": {"settings": [(*OWN[:3], "2", True)]},
    "more than expected": {"settings": [(*OWN[:3], "3", True)]},
    "the default is low, which is said of the default": {"settings": [(*OWN[:4], False)]},
    "exempt": {"settings": [OWN], "topics": [{"pattern": "orders", "exempt": True}]},
    "less is expected of it": {"settings": [OWN], "topics": [{"pattern": "orders", "minInSyncReplicas": 1}]},
    "fewer replicas are expected of it, none of which would be spared": {
        "settings": [OWN],
        "topics": [{"pattern": "orders", "replicationFactor": 2}],
    },
    "a run that adds replicas is about to set it": {"settings": [OWN], "being_set": ["orders"]},
    "too few replicas in one partition": {"settings": [OWN], "rows": [ROWS[0], worlds.partition("orders", 1, (1, 2))]},
    "a replica is only coming": {"settings": [OWN], "rows": [ROWS[0], {**ROWS[1], "adding": [1]}]},
    "a replica is about to go": {"settings": [OWN], "rows": [ROWS[0], {**ROWS[1], "removing": [1]}]},
    "replicas not known": {"settings": [OWN], "rows": [ROWS[0], {**ROWS[1], "replicas": None}]},
    "whether a replica is coming is not known": {"settings": [OWN], "rows": [ROWS[0], {**ROWS[1], "adding": None}]},
    "no replica would be spared": {
        "settings": [OWN],
        "rows": [worlds.partition("orders", 0, (1, 2), minIsr=1)],
        "topics": [{"pattern": "orders", "replicationFactor": 2}],
    },
    "a value that is no number": {"settings": [(*OWN[:3], "many", True), (*OWN[:3], None, True)]},
}


@pytest.mark.parametrize("twin", TWINS)
def test_what_must_not_fire(twin):
    case = dict(TWINS[twin])
    assert found(*case.pop("settings"), **case) is None


def test_nothing_is_said_while_partitions_or_settings_are_not_known():
    for changes in ({"configs": None}, {"partitions": None}):
        snapshot = worlds.healthy(rows=ROWS, **({"configs": worlds.configs(OWN)} | changes))
        assert "MinInsyncReplicasLow" not in {f.type for f in diagnose(snapshot)}
