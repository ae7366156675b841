"""Room for what is copied, as far as brokers report it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.guard.disk_room import disk_has_room
from kafka_medic.guard.verdict import Verdict
from tests.unit.cluster import worlds


@pytest.mark.parametrize(
    ("free", "coming", "verdict"),
    [
        (100, 100, Verdict.ALLOW),
        (99, 100, Verdict.WAIT),
        (None, 100, Verdict.ALLOW),
        (0, 0, Verdict.ALLOW),
    ],
)
def test_a_wave_waits_for_room(free, coming, verdict):
    snapshot = worlds.healthy(brokers=worlds.brokers(b2={"disk_free": free}))
    (reason,) = disk_has_room(snapshot, {2: coming})
    assert reason.verdict is verdict
    assert ("broker 2 has 99 B free, but is to get 100 B" in reason.message) == (verdict is Verdict.WAIT)


def test_unknown_brokers_do_not_permit():
    (reason,) = disk_has_room(replace(worlds.healthy(), brokers=None), {})
    assert reason.verdict is Verdict.UNKNOWN
