"""Where an offset would go: within the log always, and healed without losing or repeating what can be told apart."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.playbook.offsets.targets import Aim, How, Spot, read_aim, target
from kafka_medic.resources.kafkacluster_status import LogEndRegressionStatus

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def spot(offset, epoch=None, *, regression=None, start=5, end=40, leader_epoch=6, epoch_end=None, recreated=None):
    tp = TopicPartition("orders", 0)
    known = {"leader_epoch": leader_epoch, "regression": regression, "epoch_end": epoch_end, "recreated": recreated}
    return Spot("billing", "Empty", tp, Committed(offset, epoch), start, end, **known)


def regression(before=30, after=20, epoch_after=6, groups=("billing",)):
    return LogEndRegressionStatus(
        topic="orders", partition=0, before=before, after=after, at=NOW, epoch_after=epoch_after, groups=groups
    )


@pytest.mark.parametrize(
    ("text", "before", "at", "offset", "skipped", "again"),
    [
        ("to-earliest", 10, None, 5, 0, 5),
        ("to-latest", 10, None, 40, 30, 0),
        ("to-latest", 50, None, 40, 0, 0),
        ("to-current", 50, None, 40, 0, 0),
        ("to-current", 2, None, 5, 0, 0),
        ("to-offset:12", 10, None, 12, 2, 0),
        ("to-offset:99", 10, None, 40, 30, 0),
        ("shift-by:-3", 10, None, 7, 0, 3),
        ("shift-by:-30", 10, None, 5, 0, 5),
        ("shift-by:+4", 10, None, 14, 4, 0),
        ("to-datetime:2026-01-01T11:00:00Z", 10, 8, 8, 0, 2),
        ("by-duration:PT1H", 10, None, 40, 30, 0),
    ],
)
def test_in_the_words_of_kafkas_own_tool(text, before, at, offset, skipped, again):
    found = target(read_aim(text), spot(before), at)
    assert found is not None
    assert (found.offset, found.skipped, found.read_again) == (offset, skipped, again)


def test_what_is_there_already_stays():
    assert target(Aim(How.LATEST), spot(40)) is None
    assert target(Aim(How.CURRENT), spot(10)) is None
    assert target(Aim(How.LAST_KNOWN_GOOD), spot(40)) is None


@pytest.mark.parametrize(
    ("here", "offset", "again", "words"),
    [
        (spot(50), 40, 0, "log end; the group reads nothing again"),
        (spot(50, 9), 5, 0, "topic recreated"),
        (spot(50, 5, regression=regression()), 20, 0, "has read everything before this offset"),
        (spot(28, 5, regression=regression()), 20, 0, "has read everything before this offset"),
        (spot(28, None, regression=regression()), 20, 8, "has no leader epoch"),
        (spot(28, 5, regression=regression(), start=25), 25, 0, "records that retention has deleted are skipped"),
        (spot(28, 5, regression=regression(groups=None)), 20, 0, "has read everything before this offset"),
        (spot(28, 5, epoch_end=17), 17, 0, "end of the commit's leader epoch 5"),
        (spot(28, 5, epoch_end=17, regression=regression()), 17, 0, "end of the commit's leader epoch 5"),
        (spot(28, 5, epoch_end=2), 5, 0, "end of the commit's leader epoch 5"),
        (spot(50, 5, epoch_end=40), 40, 0, "log end; the group reads nothing again"),
        (spot(50, 6, epoch_end=40), 5, 35, "within leader epoch 6 no log loses records"),
        (spot(50, 0, leader_epoch=0, epoch_end=40), 5, 35, "within leader epoch 0 no log loses records"),
        (spot(50, 5, epoch_end=17, recreated=NOW), 5, 35, "was deleted and recreated, seen at 2026-01-01T12:00:00"),
        (spot(28, 5, epoch_end=17, recreated=NOW), 5, 23, "the commit may be of the topic before"),
        (spot(50, recreated=NOW), 5, 35, "may read up to 35 offsets again"),
        (spot(28, None, regression=regression(), recreated=NOW), 5, 23, "the commit may be of the topic before"),
    ],
)
def test_the_last_good_one(here, offset, again, words):
    found = target(Aim(How.LAST_KNOWN_GOOD), here)
    assert found is not None
    assert (found.offset, found.skipped, found.read_again) == (offset, 0, again)
    assert words in found.reason


@pytest.mark.parametrize(
    "here",
    [
        spot(28, 6, regression=regression()),  # committed after the log had become shorter
        spot(28, None, regression=regression(groups=("other",))),  # was not beyond it then
        spot(20, 5, regression=regression()),
        spot(31, 5, regression=regression()),
        spot(28, 5, epoch_end=28),  # its epoch reached as far
        spot(28, 5, epoch_end=28, recreated=NOW),
        spot(28, recreated=NOW),  # committed since, for all that is known
    ],
)
def test_a_group_that_has_read_what_stands_there_now_is_left_alone(here):
    assert target(Aim(How.LAST_KNOWN_GOOD), here) is None


def test_times():
    assert read_aim("by-duration:1h").since(NOW) == int(NOW.timestamp() - 3600) * 1000
    assert read_aim("by-duration:P1DT1M").since(NOW) == int(NOW.timestamp() - 86460) * 1000
    assert read_aim("to-datetime:2026-01-01T12:00:00").since(NOW) == int(NOW.timestamp()) * 1000
    assert read_aim("to-earliest").since(NOW) is None


@pytest.mark.parametrize(
    "text",
    ["nowhere", "to-offset", "to-offset:-1", "shift-by:x", "to-datetime:soon", "by-duration:1y", "to-latest:3", "",
     "to-offset:99999999999999999999", "by-duration:P"],
)  # fmt: skip
def test_what_cannot_be_understood_is_refused_with_the_way_out(text):
    with pytest.raises(ValueError, match="; write"):
        read_aim(text)
