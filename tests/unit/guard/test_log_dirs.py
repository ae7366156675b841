"""Moves between the log directories of a broker: every directory answers, and every volume has room."""

from __future__ import annotations

import pytest

from kafka_medic.cluster.log_dirs import ReplicaDirs
from kafka_medic.cluster.snapshot import STORAGE_ERROR, Directory
from kafka_medic.guard.log_dirs import VolumeRoom, log_dirs_online, volumes_have_room
from kafka_medic.guard.verdict import Verdict

WELL, FAILED = Directory("/data/0", None, 100, 50), Directory("/data/1", STORAGE_ERROR)
UNREAD = Directory("/data/1", "CLUSTER_AUTHORIZATION_FAILED")


@pytest.mark.parametrize(
    ("told", "verdict", "words"),
    [
        (ReplicaDirs((WELL,)), Verdict.ALLOW, "every log directory of broker 1 answers"),
        (ReplicaDirs((WELL, FAILED)), Verdict.WAIT, "log directory /data/1 of broker 1 has failed"),
        (ReplicaDirs((WELL, UNREAD)), Verdict.UNKNOWN, "/data/1 (CLUSTER_AUTHORIZATION_FAILED) of broker 1 could not"),
        (ReplicaDirs(()), Verdict.UNKNOWN, "broker 1 reports no log directory"),
        ("timed out", Verdict.UNKNOWN, "the log directories of broker 1 are not known: timed out"),
    ],
)
def test_every_directory_of_the_broker_has_to_answer(told, verdict, words):
    (reason,) = log_dirs_online({1: told})
    assert (reason.verdict, words in reason.message) == (verdict, True), reason.message
    assert log_dirs_online({1: told, 2: "timed out"})[-1].verdict is Verdict.UNKNOWN, "each broker by itself"


def test_without_a_move_there_is_nothing_to_ask():
    assert log_dirs_online({})[0].verdict is Verdict.ALLOW
    assert volumes_have_room({}, 20)[0].verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    ("rooms", "verdict"),
    [
        ((), Verdict.ALLOW),
        ((VolumeRoom(1, "/data/1", 40, 40),), Verdict.ALLOW),
        ((VolumeRoom(1, "/data/1", 41, 40),), Verdict.WAIT),
        ((VolumeRoom(1, "/data/1", 1, -5),), Verdict.WAIT),
        (None, Verdict.UNKNOWN),
    ],
)
def test_every_volume_keeps_its_share(rooms, verdict):
    (reason,) = volumes_have_room({1: rooms}, 20)
    assert (reason.guard, reason.verdict) == ("DiskHasRoom", verdict)
    if verdict is Verdict.WAIT:
        assert "volume /data/1 of broker 1 has" in reason.message
        assert "above the 20 % that it keeps free" in reason.message
