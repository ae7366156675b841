"""Room for what is copied, as far as brokers report it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from kafka_medic.cluster.snapshot import Directory, TopicPartition
from kafka_medic.guard.disk_room import disk_has_room
from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook.effects import Reassign
from kafka_medic.playbook.reassign.action import _incoming
from kafka_medic.resources.vocabulary import Guard
from tests.unit.cluster import worlds
from tests.unit.playbook import adding_replicas


@pytest.mark.parametrize(
    ("free", "coming", "verdict"),
    [
        (100, 100, Verdict.ALLOW),
        (99, 100, Verdict.WAIT),
        (None, 100, Verdict.UNKNOWN),
        (0, 0, Verdict.ALLOW),
    ],
)
def test_a_wave_waits_for_room(free, coming, verdict):
    snapshot = worlds.healthy(brokers=worlds.brokers(b2={"disk_free": free}))
    (reason,) = disk_has_room(snapshot, {2: coming})
    assert reason.verdict is verdict
    assert ("broker 2 has 99 B free, but is to get 100 B" in reason.message) == (verdict is Verdict.WAIT)


def test_a_broker_that_does_not_report_its_free_space_is_not_checked():
    told = {"disk_free": None, "directories": (Directory("/data/0"),)}
    (reason,) = disk_has_room(worlds.healthy(brokers=worlds.brokers(b2=told)), {2: 100})
    assert reason.verdict is Verdict.ALLOW


def test_a_partition_of_unknown_size_is_not_empty():
    snapshot = worlds.healthy(brokers=worlds.brokers(b2={"disk_free": 100, "directories": (Directory("/data", None),)}))
    found = disk_has_room(snapshot, {2: None})
    assert [(r.guard, r.verdict) for r in found] == [(Guard.DISK_HAS_ROOM, Verdict.UNKNOWN)]
    assert "broker 2" in found[0].message
    silent = worlds.healthy(brokers=worlds.brokers(b2={"directories": (Directory("/data", None),)}))
    assert [r.verdict for r in disk_has_room(silent, {2: None})] == [Verdict.ALLOW], "nobody checks there"


def test_unknown_brokers_do_not_permit():
    (reason,) = disk_has_room(replace(worlds.healthy(), brokers=None), {})
    assert reason.verdict is Verdict.UNKNOWN


def test_what_is_on_its_way_takes_room_as_well_and_a_later_wave_none_yet():
    rows = [
        adding_replicas.row(change, state) | {"sizeBytes": 7}
        for change, state in zip(
            adding_replicas.CHANGES,
            (adding_replicas.MOVING, adding_replicas.BEFORE, adding_replicas.BEFORE),
            strict=True,
        )
    ]
    at = SimpleNamespace(plan=adding_replicas.plan(), snapshot=worlds.healthy(rows=rows))
    assert _incoming(at, None) == {2: 7, 3: 14}
    later = Reassign("add/wave-1", {TopicPartition("logs", 0): (3, 1, 2)})
    assert _incoming(at, later) == {1: 7, 2: 14, 3: 7}
