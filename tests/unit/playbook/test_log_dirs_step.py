"""Where a replica stands between two log directories of its broker."""

from __future__ import annotations

import pytest

from kafka_medic.cluster.log_dirs import Placed, ReplicaDirs
from kafka_medic.cluster.snapshot import STORAGE_ERROR, Directory, TopicPartition
from kafka_medic.playbook.reassign.log_dirs_step import Position, progress, standings
from kafka_medic.resources.remediation_plan import LogDirMove

TP = TopicPartition("orders", 0)
MOVE = LogDirMove(broker=1, topic="orders", partition=0, source="/a", target="/b", batch=0, size_bytes=100)
BOTH = (Directory("/a", None, 1000, 10), Directory("/b", None, 1000, 900), Directory("/c", None, 1000, 900))


def told(current=None, future=None, directories=BOTH):
    here = {TP: Placed(current, 100)} if current else {}
    return ReplicaDirs(directories, here, {TP: Placed(future, 40)} if future else {})


def but(path, error):
    return tuple(Directory(path, error) if d.path == path else d for d in BOTH)


@pytest.mark.parametrize(
    ("dirs", "position", "words"),
    [
        (told("/a"), Position.BEFORE, ""),
        (told("/a", "/b"), Position.MOVING, ""),
        (told("/b"), Position.DONE, ""),
        (told("/b", "/a"), Position.DRIFTED, "another client moves orders-0 of broker 1 to /a"),
        (told("/a", "/c"), Position.DRIFTED, "another client moves orders-0 of broker 1 to /c"),
        (told("/c"), Position.DRIFTED, "orders-0 of broker 1 is in /c; the plan has /a"),
        (told(), Position.DRIFTED, "broker 1 has no replica of orders-0 any more"),
        (told("/a", None, but("/b", STORAGE_ERROR)), Position.DRIFTED, "log directory /b of broker 1 has failed"),
        (
            told("/a", None, but("/b", "OTHER")),
            Position.UNKNOWN,
            "log directory /b of broker 1 could not be read: OTHER",
        ),
        (told("/a", None, BOTH[:1]), Position.DRIFTED, "log directory /b of broker 1 does not exist any more"),
        (told(None, "/b", but("/a", STORAGE_ERROR)), Position.DRIFTED, "log directory /a of broker 1 has failed"),
        (
            told(None, None, but("/a", "OTHER")),
            Position.UNKNOWN,
            "log directory /a of broker 1 could not be read: OTHER",
        ),
        (told(None, None, but("/c", "OTHER")), Position.UNKNOWN, "log directory /c of broker 1 could not be read"),
        ("timed out", Position.UNKNOWN, "the log directories of broker 1 are not known: timed out"),
    ],
)
def test_a_replica_is_where_its_broker_reports_it(dirs, position, words):
    (found,) = standings([MOVE], {1: dirs})
    assert (found.position, found.reason) == (position, words)


def test_a_broker_that_was_not_read_is_not_known():
    assert standings([MOVE], {})[0].position is Position.UNKNOWN


def test_progress_counts_what_is_copied_and_the_busiest_broker_decides_how_long_it_takes():
    other = MOVE.model_copy(update={"broker": 2})
    found = progress(standings([MOVE, other], {1: told("/a", "/b"), 2: told("/a")}), 10)
    assert (found.done, found.total, found.bytes_done, found.bytes_total, found.seconds_left) == (0, 2, 40, 200, 10)
    over = progress(standings([MOVE], {1: told("/b")}), 10)
    assert (over.done, over.bytes_done, over.seconds_left) == (1, 100, None)
    assert progress(standings([MOVE], {1: told("/a")}), None).seconds_left is None
