"""Adding replicas: what holds it up, what ends it, and that nothing unknown lets it pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import STORAGE_ERROR, Directory, TopicPartition
from kafka_medic.guard.reassign import judge_reassign
from kafka_medic.guard.verdict import Verdict
from kafka_medic.resources.vocabulary import Guard
from tests.unit.cluster import worlds

MOVES = (("orders", 0, (1,), (1, 2, 3)), ("orders", 1, (2,), (2, 3, 1)))
FOUR = (1, 2, 3, 4)
BEFORE = (worlds.partition("orders", 0, (1,), minIsr=1), worlds.partition("orders", 1, (2,), minIsr=1))


def judged(snapshot, moves=MOVES, factor=3, now=worlds.NOW, **kwargs):
    return judge_reassign(snapshot, moves, factor, now, **kwargs)


def refusals(snapshot, **kwargs):
    found = {}
    for reason in judged(snapshot, **kwargs).refusals:
        found[reason.guard] = found.get(reason.guard, reason.verdict)
    return found


def test_a_fitting_plan_is_allowed_and_every_guard_is_of_the_vocabulary():
    judgement = judged(worlds.healthy(rows=BEFORE))
    assert judgement.verdict is Verdict.ALLOW, judgement.refusals
    assert {r.guard for r in judgement.reasons} <= {g.value for g in Guard}
    assert len(judgement.reasons) == 8


def test_going_on_with_what_is_under_way_or_done():
    under_way = [worlds.partition("orders", 0, (1, 2, 3), isr=[1], adding=[2, 3]), BEFORE[1]]
    asked = [TopicPartition("orders", 0)]
    assert judged(worlds.healthy(rows=under_way), asked=asked).verdict is Verdict.ALLOW
    unasked = refusals(worlds.healthy(rows=under_way), asked=[TopicPartition("orders", 1)])
    expected = {"NoForeignReassignment": Verdict.WAIT, "PreconditionsHold": Verdict.DENY}
    assert unasked == expected, "somebody else moves it to the planned set"
    done = [worlds.partition("orders", 0, (1, 2, 3)), worlds.partition("orders", 1, (2, 3, 1))]
    assert judged(worlds.healthy(rows=done)).verdict is Verdict.ALLOW


def test_stale_or_missing_sources():
    assert refusals(worlds.healthy(rows=BEFORE), now=worlds.later(31)) == {"SourcesFresh": Verdict.UNKNOWN}
    for name in ("kafka", "views", "reassignments"):
        failed = worlds.sources(**{name: "timed out"})
        assert refusals(worlds.healthy(rows=BEFORE, sources=failed)) == {"SourcesFresh": Verdict.UNKNOWN}
    # What this question does not rest on does not hold it up.
    failed = worlds.sources(groups="timed out", kubernetes="refused")
    assert judged(worlds.healthy(rows=BEFORE, sources=failed)).verdict is Verdict.ALLOW


def test_no_broker_answers():
    gone = worlds.brokers(**{f"b{n}": {"reachable": False} for n in worlds.IDS})
    assert refusals(worlds.healthy(rows=BEFORE, brokers=gone))["ClusterReachable"] is Verdict.WAIT
    unsure = worlds.brokers(**{f"b{n}": {"reachable": None} for n in worlds.IDS})
    assert refusals(worlds.healthy(rows=BEFORE, brokers=unsure))["ClusterReachable"] is Verdict.UNKNOWN


def test_fewer_live_brokers_than_the_factor():
    found = refusals(worlds.healthy(rows=BEFORE), factor=4)
    assert found == {"EnoughLiveBrokers": Verdict.DENY}
    one_down = worlds.healthy(rows=BEFORE, brokers=worlds.brokers(b3={"reachable": False}))
    assert refusals(one_down)["EnoughLiveBrokers"] is Verdict.WAIT
    one_unsure = worlds.healthy(rows=BEFORE, brokers=worlds.brokers(b3={"registered": None}))
    assert refusals(one_unsure)["EnoughLiveBrokers"] is Verdict.UNKNOWN


def test_a_dead_target():
    found = refusals(worlds.healthy(rows=BEFORE, brokers=worlds.brokers(b3={"reachable": False})))
    assert found["TargetsAlive"] is Verdict.WAIT
    assert found["BrokersStable"] is Verdict.WAIT
    strangers = (("orders", 0, (1,), (1, 2, 9)),)
    assert refusals(worlds.healthy(rows=BEFORE), moves=strangers) == {
        "TargetsAlive": Verdict.DENY,
        "FitToReceive": Verdict.DENY,
    }


def of_four(rows, **changes):
    """A fourth broker, with changes, on which no replica is."""
    views = tuple(worlds.view(n, rows, members=FOUR) for n in FOUR)
    return worlds.healthy(rows=rows, brokers=(*worlds.brokers(), worlds.broker(4, **changes)), views=views)


@pytest.mark.parametrize(("leader", "verdict"), [(-1, Verdict.WAIT), (None, Verdict.UNKNOWN), (9, Verdict.WAIT)])
def test_nobody_to_copy_from(leader, verdict):
    rows = [{**BEFORE[0], "leader": leader}, BEFORE[1]]
    assert refusals(worlds.healthy(rows=rows))["TargetsAlive"] is verdict


def test_nobody_copies_from_a_leader_that_does_not_know_of_them():
    """Broker 4 gets nothing itself."""
    led_by_4 = [worlds.partition("orders", 0, (4, 1), leaderEpoch=6)]
    told = tuple(worlds.view(n, led_by_4, members=FOUR, told={("orders", 0): (1, 5)} if n == 4 else {}) for n in FOUR)
    moves = (("orders", 0, (4, 1), (4, 1, 2)),)
    stale = replace(of_four(led_by_4), views=told)
    assert refusals(stale, moves=moves) == {"TargetsAlive": Verdict.DENY}
    silent = replace(of_four(led_by_4), views=told[:3])
    assert refusals(silent, moves=moves) == {"TargetsAlive": Verdict.UNKNOWN}
    assert judged(of_four(led_by_4), moves=moves).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "foreign",
    [
        worlds.partition("other", 0, (1, 2), adding=[2]),
        worlds.partition("other", 0, (1, 2), removing=[2]),
    ],
)
def test_somebody_elses_reassignment_waits(foreign):
    assert refusals(worlds.healthy(rows=[*BEFORE, foreign])) == {"NoForeignReassignment": Verdict.WAIT}


@pytest.mark.parametrize(
    "changes",
    [{"adding": [2]}, {"adding": [2, 3], "removing": [1]}, {"replicas": [1, 2, 3, 4], "adding": [2, 3, 4]}],
)
def test_another_reassignment_of_our_partition_is_foreign_and_drift(changes):
    row = {**worlds.partition("orders", 0, (1, 2), isr=[1]), **changes}
    found = refusals(of_four([row, BEFORE[1]]), asked=[TopicPartition("orders", 0)])
    assert found == {"NoForeignReassignment": Verdict.WAIT, "PreconditionsHold": Verdict.DENY}


def test_a_reassignment_not_known_is_unknown():
    rows = [*BEFORE, {**worlds.partition("other", 0), "adding": None}]
    assert refusals(worlds.healthy(rows=rows)) == {"NoForeignReassignment": Verdict.UNKNOWN}


def test_another_broker_recovering_or_not_known():
    assert refusals(of_four(BEFORE, recovering=True)) == {"BrokersStable": Verdict.WAIT}
    assert refusals(of_four(BEFORE, recovering=None)) == {"BrokersStable": Verdict.UNKNOWN}


@pytest.mark.parametrize("replicas", [(2,), (1, 2), (3, 2)])
def test_drift_is_denied_and_named(replicas):
    judgement = judged(worlds.healthy(rows=[worlds.partition("orders", 0, replicas), BEFORE[1]]))
    assert judgement.verdict is Verdict.DENY
    assert [r.guard for r in judgement.refusals] == ["PreconditionsHold"]
    assert "orders-0 has replicas" in judgement.refusals[0].message


def test_a_partition_that_is_gone_a_move_that_takes_away_and_one_given_twice():
    gone = judged(worlds.healthy(rows=BEFORE[:1]))
    assert "orders-1 no longer exists" in gone.refusals[0].message
    for after in ((2, 3), (1, 1, 2)):
        assert refusals(worlds.healthy(rows=BEFORE), moves=(("orders", 0, (1,), after),)) == {
            "PreconditionsHold": Verdict.DENY
        }
    assert refusals(worlds.healthy(rows=BEFORE), moves=MOVES + MOVES) == {"PreconditionsHold": Verdict.DENY}


@pytest.mark.parametrize("field", ["brokers", "partitions"])
def test_a_part_that_is_not_known(field):
    judgement = judged(worlds.healthy(rows=BEFORE, **{field: None}))
    assert judgement.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("key", ["replicas", "adding", "removing", "leader"])
def test_a_null_in_a_moved_partition(key):
    assert judged(worlds.healthy(rows=[{**BEFORE[0], key: None}, BEFORE[1]])).verdict is Verdict.UNKNOWN


def test_a_topic_partition_is_found_by_both_parts():
    assert TopicPartition("orders", 0) in {r.tp for r in worlds.healthy(rows=BEFORE).rows()}


GONE = {"registered": False, "reachable": False}
HELD = (worlds.partition("orders", 0, (4, 1, 2), isr=[1, 2], leader=1), worlds.partition("orders", 1, (1, 4), isr=[1]))
REPLACES = (("orders", 0, (4, 1, 2), (1, 2, 3)), ("orders", 1, (1, 4), (1, 3)))


def without_4(rows=HELD, **changes):
    """Broker 4 is gone, and holds replicas."""
    members = FOUR if changes.get("registered") else (1, 2, 3)
    views = tuple(worlds.view(n, rows, members=members) for n in (1, 2, 3))
    broker = replace(worlds.broker(4), **(GONE | changes))
    return worlds.healthy(rows=rows, brokers=(*worlds.brokers(), broker), views=views)


def test_a_broker_that_is_gone_may_be_replaced():
    judgement = judged(without_4(), moves=REPLACES, replaced=(4,))
    assert judgement.verdict is Verdict.ALLOW, judgement.refusals
    assert len(judgement.reasons) == 9
    nobody_replaced = refusals(without_4(), moves=REPLACES, replaced=())
    assert nobody_replaced == {"BrokersStable": Verdict.WAIT, "PreconditionsHold": Verdict.DENY}
    unlisted = replace(without_4(), brokers=worlds.brokers())
    assert judged(unlisted, moves=REPLACES, replaced=(4,)).verdict is Verdict.ALLOW


@pytest.mark.parametrize("registered", [True, False, None])
@pytest.mark.parametrize("reachable", [True, False, None])
def test_only_both_witnesses_together_say_that_a_broker_is_gone(registered, reachable):
    found = refusals(without_4(registered=registered, reachable=reachable), moves=REPLACES, replaced=(4,))
    expected = None if (registered, reachable) == (False, False) else Verdict.UNKNOWN
    expected = Verdict.DENY if registered or reachable else expected
    assert found.get("ReplacedBrokersDown") is expected


def test_a_replica_that_is_in_sync_is_not_given_up():
    listed = (worlds.partition("orders", 0, (4, 1, 2), isr=[1, 2, 4], leader=1), HELD[1])
    assert refusals(without_4(listed), moves=REPLACES, replaced=(4,)) == {"ReplacedBrokersDown": Verdict.WAIT}
    unread = ({**HELD[0], "isr": None}, HELD[1])
    assert refusals(without_4(unread), moves=REPLACES, replaced=(4,))["ReplacedBrokersDown"] is Verdict.UNKNOWN


FIRST = TopicPartition(HELD[0]["topic"], HELD[0]["partition"])
DISKS = (Directory("/data/0", None, 100, 40), Directory("/data/1", STORAGE_ERROR))


@pytest.mark.parametrize(
    ("directories", "offline", "isr", "expected"),
    [
        (DISKS, (FIRST,), (1, 2), None),
        (DISKS, (), (1, 2), Verdict.DENY),
        (DISKS, None, (1, 2), Verdict.UNKNOWN),
        (DISKS, (FIRST,), (1, 2, 4), Verdict.WAIT),
        (DISKS[:1], (), (1, 2), Verdict.DENY),
    ],
    ids=["gone", "on-the-other-directory", "not-known-where", "still-in-sync", "no-directory-failed"],
)
def test_of_a_broker_that_is_up_only_what_it_reports_on_a_failed_directory_is_replaced(
    directories, offline, isr, expected
):
    rows = ({**HELD[0], "isr": list(isr)}, HELD[1])
    up = {"registered": True, "reachable": True, "directories": directories, "offline_replicas": offline}
    found = refusals(without_4(rows, **up), moves=REPLACES[:1], replaced=(4,))
    assert found.get("ReplacedBrokersDown") is expected


def test_while_a_replica_is_removed_its_directory_is_not_asked_about():
    """Observers do not count it among those on a failed directory: it may be missing for the reassignment."""
    under_way = {**HELD[0], "replicas": [4, 1, 2, 3], "isr": [1, 2], "adding": [3], "removing": [4]}
    up = {"registered": True, "reachable": True, "directories": DISKS}
    second = TopicPartition(HELD[1]["topic"], HELD[1]["partition"])
    waits = without_4((under_way, HELD[1]), **up, offline_replicas=(second,))
    assert judged(waits, moves=REPLACES, replaced=(4,), asked=[FIRST]).verdict is Verdict.ALLOW
    serves = without_4((under_way, HELD[1]), **up, offline_replicas=())
    assert refusals(serves, moves=REPLACES, replaced=(4,), asked=[FIRST]) == {"ReplacedBrokersDown": Verdict.DENY}


def test_what_a_broker_said_of_its_directories_has_to_be_fresh():
    up = {"registered": True, "reachable": True, "directories": DISKS, "offline_replicas": (FIRST,)}
    stale = replace(without_4(**up), sources=worlds.sources(log_dirs="timed out"))
    assert refusals(stale, moves=REPLACES[:1], replaced=(4,)) == {"SourcesFresh": Verdict.UNKNOWN}
    assert judged(without_4(**up), moves=REPLACES[:1], replaced=(4,)).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "under_way",
    [
        {"replicas": [1, 2, 3, 4], "adding": [3], "removing": [4]},
        {"replicas": [1, 2, 3]},
    ],
)
def test_a_replacement_under_way_or_done_goes_on(under_way):
    rows = ({**HELD[0], **under_way}, HELD[1])
    assert judged(without_4(rows), moves=REPLACES, replaced=(4,), asked=[FIRST]).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "under_way",
    [
        {"replicas": [1, 2, 3, 4], "adding": [3], "removing": [2, 4]},
        {"replicas": [1, 2, 4], "adding": [], "removing": [2]},
        {"replicas": [4, 1, 2, 5], "adding": [5], "removing": [4]},
    ],
)
def test_a_reassignment_that_removes_anything_else_is_somebody_elses(under_way):
    rows = ({**HELD[0], **under_way}, HELD[1])
    found = refusals(without_4(rows), moves=REPLACES, replaced=(4,), asked=[FIRST])
    assert found["NoForeignReassignment"] is Verdict.WAIT
    assert found["PreconditionsHold"] is Verdict.DENY


@pytest.mark.parametrize(
    ("before", "after"),
    [((4, 1, 2), (1, 3)), ((4, 1, 2), (1, 3, 4)), ((4, 1, 2), (1, 3, 3)), ((4, 1, 2), (3, 4, 2))],
)
def test_a_plan_that_gives_up_more_is_denied(before, after):
    """Fewer replicas than there were, a replica that is live, and one on the very broker that is replaced."""
    moves = (("orders", 0, before, after), REPLACES[1])
    assert refusals(without_4(), moves=moves, replaced=(4,))["PreconditionsHold"] is Verdict.DENY


def test_every_other_broker_has_to_be_up():
    down = replace(without_4(), brokers=(*worlds.brokers(b3={"reachable": False}), replace(worlds.broker(4), **GONE)))
    assert refusals(down, moves=REPLACES, replaced=(4,))["BrokersStable"] is Verdict.WAIT
