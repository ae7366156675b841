"""Preferred elections and offset resets: first versions of their guards."""

from __future__ import annotations

import pytest

from kafka_medic.cluster.snapshot import Controller, TopicPartition
from kafka_medic.guard.elect import judge_elect
from kafka_medic.guard.reset_offsets import judge_reset_offsets, offsets_beyond_log_end
from kafka_medic.guard.verdict import Verdict
from tests.unit.cluster import worlds

AWAY = (worlds.partition("orders", 0, (1, 2, 3), leader=2), worlds.partition("orders", 1, (2, 3, 1)))


def elected(snapshot, partitions=None, now=worlds.NOW):
    judgement = judge_elect(snapshot, now, partitions)
    found = {}
    for reason in judgement.refusals:
        found.setdefault(reason.guard, reason.verdict)
    return judgement, found


def test_an_election_that_may_go():
    for partitions in (None, [TopicPartition("orders", 0)], []):
        judgement, found = elected(worlds.healthy(rows=AWAY), partitions)
        assert judgement.verdict is Verdict.ALLOW, found


def test_nothing_to_elect_is_allowed_and_said():
    judgement, _ = elected(worlds.healthy())
    assert judgement.verdict is Verdict.ALLOW
    assert any("every partition is led by its preferred replica" in r.message for r in judgement.reasons)


@pytest.mark.parametrize(
    ("change", "guard", "verdict"),
    [
        ({"registered": False}, "FitToReceive", Verdict.DENY),
        ({"reachable": False}, "FitToReceive", Verdict.DENY),
        ({"recovering": True}, "FitToReceive", Verdict.WAIT),
        ({"recovering": None}, "FitToReceive", Verdict.UNKNOWN),
        ({"reachable": None}, "FitToReceive", Verdict.UNKNOWN),
    ],
)
def test_the_preferred_broker(change, guard, verdict):
    _, found = elected(worlds.healthy(rows=AWAY, brokers=worlds.brokers(b1=change)))
    assert found == {guard: verdict}


def test_the_preferred_replica_out_of_its_isr_or_of_another():
    row = worlds.partition("orders", 0, (1, 2, 3), leader=2, isr=[2, 3])
    _, found = elected(worlds.healthy(rows=[row]))
    assert found == {"PreferredInIsr": Verdict.DENY, "PreferredCaughtUp": Verdict.WAIT}
    rows = [AWAY[0], worlds.partition("late", 0, (2, 1), isr=[2])]
    _, found = elected(worlds.healthy(rows=rows))
    assert found == {"PreferredCaughtUp": Verdict.WAIT}


@pytest.mark.parametrize("key", ["replicas", "isr", "adding", "removing", "leader"])
def test_a_null_is_unknown(key):
    judgement, _ = elected(worlds.healthy(rows=[{**AWAY[0], key: None}]))
    assert judgement.verdict is Verdict.UNKNOWN


def test_reassigning_unknown_partitions_and_no_controller():
    row = {**AWAY[0], "removing": [3]}
    assert elected(worlds.healthy(rows=[row]))[1] == {"NotReassigning": Verdict.WAIT}
    assert elected(worlds.healthy(), [TopicPartition("nope", 0)])[1] == {"PartitionsKnown": Verdict.DENY}
    assert elected(worlds.healthy(controller=Controller(None)))[1] == {"ControllerActive": Verdict.UNKNOWN}
    for field in ("brokers", "partitions", "controller"):
        assert elected(worlds.healthy(**{field: None}))[0].verdict is Verdict.UNKNOWN
    assert elected(worlds.healthy(), now=worlds.later(60))[1] == {"SourcesFresh": Verdict.UNKNOWN}


ORDERS = TopicPartition("orders", 0)
EMPTY = worlds.groups(("billing", "Empty", "orders", 0, 150))


def reset(snapshot, targets=None, group="billing", now=worlds.NOW):
    judgement = judge_reset_offsets(snapshot, group, {ORDERS: 100} if targets is None else targets, now)
    found = {}
    for reason in judgement.refusals:
        found.setdefault(reason.guard, reason.verdict)
    return judgement, found


def test_a_reset_that_may_go_and_the_one_that_cures():
    snapshot = worlds.healthy(groups=EMPTY)
    assert reset(snapshot)[0].verdict is Verdict.ALLOW
    assert offsets_beyond_log_end(snapshot, "billing") == {ORDERS: 100}
    assert offsets_beyond_log_end(snapshot, "nobody") == {}
    assert offsets_beyond_log_end(worlds.healthy(groups=None), "billing") == {}


@pytest.mark.parametrize(
    ("state", "verdict"),
    [("Stable", Verdict.DENY), ("PreparingRebalance", Verdict.DENY), ("Dead", Verdict.DENY), (None, Verdict.UNKNOWN)],
)
def test_only_an_empty_group(state, verdict):
    found = reset(worlds.healthy(groups=worlds.groups(("billing", state, "orders", 0, 150))))[1]
    assert found == {"GroupEmpty": verdict}


def test_a_group_with_two_states_or_without_offsets():
    two = worlds.groups(("billing", "Empty", "orders", 0, 1), ("billing", "Stable", "orders", 1, 1))
    assert reset(worlds.healthy(groups=two))[1] == {"GroupEmpty": Verdict.UNKNOWN}
    assert reset(worlds.healthy(), group="nobody")[1] == {"GroupEmpty": Verdict.DENY}
    assert reset(worlds.healthy(groups=None))[0].verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(("target", "verdict"), [(101, Verdict.DENY), (-1, Verdict.DENY), (0, None), (100, None)])
def test_the_target_is_within_the_log(target, verdict):
    found = reset(worlds.healthy(groups=EMPTY), {ORDERS: target})[1]
    assert found.get("TargetWithinLog") is verdict


def test_what_is_not_known_about_the_partition():
    for key in ("logStart", "logEnd"):
        rows = [{**worlds.partition("orders", 0), key: None}]
        assert reset(worlds.healthy(rows=rows, groups=EMPTY))[1] == {"TargetWithinLog": Verdict.UNKNOWN}
    rows = [worlds.partition("orders", 0, leader=-1)]
    assert reset(worlds.healthy(rows=rows, groups=EMPTY))[1] == {"PartitionsLed": Verdict.WAIT}
    rows = [worlds.partition("orders", 0, leader=None)]
    assert reset(worlds.healthy(rows=rows, groups=EMPTY))[1] == {"PartitionsLed": Verdict.UNKNOWN}
    found = reset(worlds.healthy(groups=EMPTY), {TopicPartition("gone", 0): 0})[1]
    assert found == {"PartitionsLed": Verdict.DENY}
    unread = worlds.groups(("billing", "Empty", "orders", 0, None))
    assert reset(worlds.healthy(groups=unread))[1] == {"PreviousOffsetsKnown": Verdict.UNKNOWN}
    assert reset(worlds.healthy(groups=EMPTY, partitions=None))[0].verdict is Verdict.UNKNOWN
    assert reset(worlds.healthy(groups=EMPTY), now=worlds.later(60))[1] == {"SourcesFresh": Verdict.UNKNOWN}
