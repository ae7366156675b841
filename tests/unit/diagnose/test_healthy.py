"""Nothing wrong, nothing said; and how long a finding has lasted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from kafka_medic.cluster.snapshot import Mode
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.resources.vocabulary import FindingState, FindingType
from tests.unit.cluster import worlds


@pytest.mark.parametrize("mode", list(Mode))
def test_a_healthy_cluster_has_no_finding(mode):
    assert diagnose(worlds.healthy(mode)) == ()


@pytest.mark.parametrize("field", ["controller", "quorum", "views", "partitions", "groups", "configs", "sources"])
def test_what_is_not_known_is_not_a_finding(field):
    value = () if field == "sources" else None
    assert diagnose(worlds.healthy(**{field: value})) == ()


def test_every_null_in_a_partition_is_silent():
    for key in ("leader", "leaderEpoch", "replicas", "isr", "adding", "removing", "logEnd", "minIsr"):
        row = {**worlds.partition("orders", 0), key: None}
        assert diagnose(worlds.healthy(rows=[row])) == (), key


def test_an_empty_cluster_is_healthy():
    assert diagnose(worlds.healthy(rows=[], groups=worlds.groups(), configs=worlds.configs())) == ()


def _down():
    return worlds.healthy(brokers=worlds.brokers(b3={"registered": False, "reachable": None}))


def _state(findings):
    return {f.id: f.state for f in findings}["BrokerDown/broker-3"]


def test_a_finding_is_pending_until_it_has_lasted():
    assert _state(diagnose(_down())) is FindingState.PENDING
    remembered = {"BrokerDown/broker-3": worlds.later(-29)}
    assert _state(diagnose(_down(), remembered=remembered)) is FindingState.PENDING
    remembered = {"BrokerDown/broker-3": worlds.later(-30)}
    assert _state(diagnose(_down(), remembered=remembered)) is FindingState.FIRING


def test_since_is_the_previous_snapshots_time_when_it_was_there_already():
    before = replace(_down(), taken_at=worlds.later(-45))
    found = {f.id: f for f in diagnose(_down(), previous=before)}["BrokerDown/broker-3"]
    assert found.since == worlds.later(-45)
    assert found.firing()
    fresh = {f.id: f for f in diagnose(_down(), previous=worlds.healthy(at=worlds.later(-45)))}
    assert fresh["BrokerDown/broker-3"].since == worlds.NOW


def test_what_is_remembered_reaches_further_back_than_the_previous_snapshot():
    before = replace(_down(), taken_at=worlds.later(-15))
    remembered = {"BrokerDown/broker-3": worlds.later(-3600), "Gone": worlds.later(-9)}
    found = diagnose(_down(), previous=before, remembered=remembered)
    assert [f.since for f in found if f.type == "BrokerDown"] == [worlds.later(-3600)]
    assert not any(f.id == "Gone" for f in found)


def test_a_clock_that_jumped_makes_nothing_old():
    remembered = {"BrokerDown/broker-3": worlds.NOW + timedelta(hours=1)}
    newer = replace(_down(), taken_at=worlds.later(60))
    found = diagnose(_down(), previous=newer, remembered=remembered)
    assert [f.since for f in found if f.type == "BrokerDown"] == [worlds.NOW]
    assert _state(found) is FindingState.PENDING


def test_ids_are_unique_and_types_are_of_the_vocabulary():
    rows = [worlds.partition("a", 0, (3,), leader=-1), worlds.partition("b", 0, (1, 2), isr=[1], leader=1)]
    found = diagnose(replace(_down(), partitions=worlds.partitions(rows)))
    assert len({f.id for f in found}) == len(found) > 3
    assert {f.type for f in found} <= {t.value for t in FindingType}
    assert all(f.affected and f.evidence and f.message for f in found)
