"""What only several looks can tell: logs that became shorter, groups that stand still, partitions nobody leads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import Mode, Quorum, Source, SourceState, Voter
from kafka_medic.controller.kept_state import from_status, status_fields
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.leaderless import implied_timeout_ms
from kafka_medic.diagnose.memory import MAX_OUTAGES, MAX_RECREATED, MAX_REGRESSIONS, DetectorMemory, remember
from kafka_medic.resources.kafkacluster_status import KafkaClusterStatus
from kafka_medic.resources.vocabulary import Severity
from tests.unit.cluster import worlds

ORDERS = "orders"


def world(at=0.0, *, mode=Mode.KRAFT, groups=None, brokers=None, quorum=None, **row):
    rows = [worlds.partition(ORDERS, 0, **row)]
    more = {name: value for name, value in (("brokers", brokers), ("quorum", quorum)) if value}
    return worlds.healthy(mode, rows=rows, at=worlds.later(at), groups=groups or worlds.groups(), **more)


def after(*snapshots, **options):
    memory = DetectorMemory()
    for snapshot in snapshots:
        memory = remember(memory, snapshot, **options)
    return memory


def found(*snapshots, memory=None):
    told = diagnose(snapshots[-1], memory=memory or after(*snapshots))
    return {f.id: f for f in told}


def billing(committed, state="Stable", partition=0, topic=ORDERS, group="billing"):
    return (group, state, topic, partition, committed)


# LogEndRegressed


def test_a_log_that_became_shorter_is_remembered_after_new_writes_have_passed_it():
    group = worlds.groups(billing(100, "Empty"), billing(60, "Empty", group="slow"))
    looks = [
        world(-60, logEnd=100, groups=group),
        world(-45, logEnd=89, leaderEpoch=6, groups=group),
        world(-30, logEnd=130, leaderEpoch=6, groups=worlds.groups(billing(130))),
        world(0, logEnd=500, leaderEpoch=6, groups=worlds.groups(billing(500))),
    ]
    second = found(*looks[:2])
    first_seen = second["LogEndRegressed/orders"]
    assert first_seen.severity is Severity.CRITICAL, "the group can still be set back"
    assert first_seen.affected == ("orders-0", "billing")
    assert "OffsetBeyondLogEnd/billing" in second
    last = found(*looks)
    finding = last["LogEndRegressed/orders"]
    assert "OffsetBeyondLogEnd/billing" not in last, "nothing in the present shows it any more"
    assert (finding.severity, finding.firing()) == (Severity.WARNING, True)
    assert finding.since == worlds.later(-45)
    evidence = " ".join(finding.evidence)
    assert "log end 100" in evidence
    assert "only 89 (leader epoch 5 then 6)" in evidence
    assert "at least 11 records lost" in evidence
    assert "groups that had committed beyond it: billing" in evidence
    assert "slow" not in evidence


def test_a_log_end_that_is_not_known_is_not_shorter_and_does_not_make_one_forgotten():
    leaderless = world(-30, logEnd=None, leader=-1)
    assert found(world(-45, logEnd=100), leaderless).keys() == {"PartitionLeaderless", "ControllerStuck"}
    assert found(world(-45, logEnd=100), leaderless, world(-15, logEnd=100)) == {}
    assert "LogEndRegressed/orders" in found(world(-45, logEnd=100), leaderless, world(-15, logEnd=89, leaderEpoch=6))


def test_partitions_that_could_not_be_read_change_nothing():
    blind = replace(world(-30), partitions=None)
    assert "LogEndRegressed/orders" in found(world(-45, logEnd=100), blind, world(0, logEnd=89, leaderEpoch=6))


@pytest.mark.parametrize(
    "now", [{"topicId": "another", "leaderEpoch": 9}, {"topicId": "another"}, {"topicId": None, "leaderEpoch": 0}]
)
def test_a_topic_made_anew_lost_no_record_but_its_old_offsets_say_so(now):
    group = worlds.groups(billing(100, "Empty"))
    findings = found(world(-15, logEnd=100), world(0, logEnd=5, groups=group, **now))
    assert findings.keys() == {"OffsetBeyondLogEnd/billing"}
    evidence = " ".join(findings["OffsetBeyondLogEnd/billing"].evidence)
    assert "topic orders was deleted and recreated" in evidence
    assert "committed 100, log end 5, log start 0" in evidence


def test_a_topic_that_is_gone_has_no_log_and_what_was_remembered_of_it_goes():
    gone = worlds.healthy(rows=[worlds.partition("other", 0)], at=worlds.later(-15))
    assert found(world(-30, logEnd=100), gone, world(0, logEnd=5)) == {}
    memory = after(world(-45, logEnd=100), world(-30, logEnd=50), gone)
    assert memory.regressions == ()


def test_an_answer_from_behind_is_no_regression():
    behind = world(-15, logEnd=40, leaderEpoch=3)
    assert found(world(-30, logEnd=100), behind) == {}
    assert found(world(-30, logEnd=100), behind, world(0, logEnd=101)) == {}


def test_a_regression_is_forgotten_when_retention_has_passed_it_or_after_its_time():
    looks = [world(-30, logEnd=100), world(-15, logEnd=89)]
    assert found(*looks, world(0, logEnd=120, logStart=99))
    assert found(*looks, world(0, logEnd=120, logStart=100)) == {}
    assert found(*looks, world(3600 * 24 * 7 - 16, logEnd=120))
    assert found(*looks, world(3600 * 24 * 7, logEnd=120)) == {}


def test_a_clock_that_is_set_makes_nothing_old_or_young():
    memory = after(world(-30, logEnd=100), world(-15, logEnd=89))
    ahead = remember(memory, world(3600 * 24 * 30, logEnd=120), elapsed=15.0)
    assert [r.at for r in ahead.regressions] == [worlds.later(3600 * 24 * 30 - 15)]
    back = remember(ahead, world(0, logEnd=100), elapsed=15.0)
    assert [(r.before, r.after) for r in back.regressions] == [(120, 89)], "the order of looks counts, not the clock"


def test_regressions_are_bounded_the_worst_are_kept_and_the_rest_is_counted():
    def many(end):
        rows = [worlds.partition("t", n, logEnd=end + (n if end == 1000 else 0)) for n in range(MAX_REGRESSIONS + 20)]
        groups = worlds.groups(billing(1000, "Empty", 0, "t"))
        return worlds.healthy(rows=rows, groups=groups)

    memory = after(many(1000), many(10))
    assert (len(memory.regressions), memory.dropped) == (MAX_REGRESSIONS, 20)
    kept = {r.partition for r in memory.regressions}
    assert 0 in kept, "one that a group had passed is worse than a larger one"
    assert MAX_REGRESSIONS + 19 in kept
    assert 1 not in kept
    evidence = " ".join(found(many(10), memory=memory)["LogEndRegressed/t"].evidence)
    assert "20 smaller regressions were seen and not kept" in evidence


def test_which_groups_had_passed_it_is_said_to_be_unknown_when_it_is():
    memory = after(world(-15, logEnd=100), replace(world(0, logEnd=89), groups=None))
    evidence = " ".join(found(world(0, logEnd=89), memory=memory)["LogEndRegressed/orders"].evidence)
    assert "which groups had committed beyond it is not known" in evidence


def test_what_is_remembered_over_a_restart_is_of_that_topic_and_not_of_its_namesake():
    """The operator that starts knows no log end; the id that came with the regression says whose it was."""
    memory = after(world(-45, logEnd=100), world(-30, logEnd=50))
    again = from_status(KafkaClusterStatus(**status_fields(memory, worlds.NOW)))
    assert again.regressions == memory.regressions
    assert remember(again, world(-15, logEnd=60)).regressions == memory.regressions
    anew = remember(again, world(-15, logEnd=60, topicId="another", leaderEpoch=0))
    assert (anew.regressions, set(anew.recreated)) == ((), {ORDERS})
    later = from_status(KafkaClusterStatus(**status_fields(anew, worlds.NOW)))
    assert later.recreated == anew.recreated


def test_topics_made_anew_are_not_remembered_without_bound():
    def made(number):
        rows = [worlds.partition(f"t{n}", 0, logEnd=100 - number, topicId=f"{number}") for n in range(200)]
        return worlds.healthy(rows=rows, at=worlds.later(number))

    assert len(after(made(0), made(1)).recreated) == MAX_RECREATED


# OffsetBeyondLogEnd


def test_log_ends_read_before_the_offsets_may_be_a_race_and_have_to_last():
    late = tuple(
        Source(s.name, worlds.later(5), SourceState.KNOWN) if s.name == "groups" else s for s in worlds.sources()
    )
    snapshot = worlds.healthy(sources=late, groups=worlds.groups(billing(101)))
    finding = found(snapshot)["OffsetBeyondLogEnd/billing"]
    assert not finding.firing()
    assert "so the offsets may be valid" in " ".join(finding.evidence)
    assert found(worlds.healthy(groups=worlds.groups(billing(101))))["OffsetBeyondLogEnd/billing"].firing()


# ClientStalled


def stalled(*ends, committed=(90, 90, 90, 90), states=("Stable",) * 4, every=60.0, **row):
    looks = [
        world(every * (n - len(ends) + 1), logEnd=end, groups=worlds.groups(billing(committed[n], states[n])), **row)
        for n, end in enumerate(ends)
    ]
    return found(*looks).get("ClientStalled/billing")


def test_members_alive_records_arriving_and_nothing_committed():
    finding = stalled(100, 110, 130, 150)
    assert finding is not None
    assert finding.firing()
    assert finding.affected == ("billing", "orders-0")
    told = "orders-0 committed 90 for 180 s (4 probes), log end then 100, now 150, 60 records behind"
    assert finding.evidence[0] == told
    assert not stalled(100, 110, every=60.0).firing()


@pytest.mark.parametrize(
    "more",
    [
        {"ends": (100, 100, 100, 100)},  # nothing is written
        {"ends": (90, 90, 90, 90)},  # all is read
        {"committed": (90, 95, 99, 100)},  # it gets on, if slowly
        {"committed": (90, 90, 90, 91)},
        {"states": ("Empty",) * 4},  # nobody is there
        {"states": ("Stable", "Stable", "Stable", "PreparingRebalance")},
        {"states": ("Stable", "Stable", "PreparingRebalance", "Stable")},  # has just begun anew
        {"states": (None,) * 4},
        {"leader": -1, "ends": (None,) * 4},  # that nobody leads the partition speaks for itself
    ],
)
def test_what_looks_like_a_stalled_client_and_is_none(more):
    ends = more.pop("ends", (100, 110, 130, 150))
    assert stalled(*ends, **more) is None


def test_a_group_that_has_just_begun_is_given_its_time():
    groups = worlds.groups(billing(90))
    findings = found(
        world(-3600, logEnd=100), world(-15, logEnd=110, groups=groups), world(0, logEnd=120, groups=groups)
    )
    assert not findings["ClientStalled/billing"].firing()


def paces(*commits, every=10.0, ends=1000, **row):
    looks = [
        world(every * n, logEnd=ends, groups=worlds.groups(billing(c, "Empty" if c is None else "Stable")), **row)
        for n, c in enumerate(commits)
    ]
    return after(*looks).paces


@pytest.mark.parametrize(
    ("commits", "row", "pace"),
    [
        ((0, 100, 400, 450), {}, 30.0),  # the fastest
        ((0, 0, 0, 300), {}, 10.0),  # it commits more rarely than it is looked at
        ((1000, 1000, 1000), {}, None),  # has nothing to read
        ((0, 0, 0), {}, None),
        ((400, 100), {}, None),  # was set back
        ((0, 900), {"logStart": 900}, None),  # has read nothing of what retention had deleted
    ],
)
def test_how_fast_a_group_was_seen_reading(commits, row, pace):
    assert paces(*commits, **row) == ({} if pace is None else {"billing": pace})


def test_a_pace_is_known_while_the_group_stands_still_and_until_it_is_gone():
    def look(at, *groups, **row):
        return world(at, logEnd=100, groups=worlds.groups(*groups), **row)

    read = [look(0, billing(0)), look(10, billing(50)), look(20, billing(50, "Empty"))]
    assert after(*read).paces == {"billing": 5.0}
    assert after(*read, replace(look(30), groups=None)).paces == {"billing": 5.0}
    assert after(*read, look(30, billing(0, group="audit"))).paces == {}
    idle = [world(10 * n, logEnd=50, groups=worlds.groups(billing(50))) for n in range(1, 4)]
    caught_up = [world(40, logEnd=60, groups=worlds.groups(billing(60)))]
    assert after(*idle, *caught_up).paces == {"billing": 1.0}, "while it had nothing to read it was not slow"


def two_topics(at, other_committed, end):
    rows = [worlds.partition(ORDERS, 0, logEnd=end), worlds.partition("other", 0, logEnd=end)]
    groups = worlds.groups(billing(90), billing(other_committed, topic="other"))
    return worlds.healthy(rows=rows, groups=groups, at=worlds.later(at))


def test_a_topic_that_the_group_has_left_while_it_reads_others_says_nothing():
    moving = [two_topics(60 * n, 90 + 10 * n, 100 + 10 * n) for n in range(5)]
    assert found(*moving) == {}
    standing = [two_topics(60 * n, 90, 100 + 10 * n) for n in range(5)]
    assert found(*standing)["ClientStalled/billing"].affected == ("billing", "orders-0", "other-0")


def test_one_partition_that_stands_still_among_others_that_do_not():
    def look(n):
        rows = [worlds.partition(ORDERS, k, logEnd=100 + 10 * n) for k in range(2)]
        groups = worlds.groups(billing(90), billing(90 + 10 * n, partition=1))
        return worlds.healthy(rows=rows, groups=groups, at=worlds.later(60 * n))

    assert found(*map(look, range(5)))["ClientStalled/billing"].affected == ("billing", "orders-0")


def test_a_clock_that_jumps_ahead_is_no_long_stall():
    groups = worlds.groups(billing(90))
    memory = remember(DetectorMemory(), world(0, logEnd=100, groups=groups))
    later = world(36000, logEnd=110, groups=groups)
    assert not found(later, memory=remember(memory, later, elapsed=15.0))["ClientStalled/billing"].firing()
    back = world(-36000, logEnd=110, groups=groups)
    assert not found(back, memory=remember(memory, back, elapsed=15.0))["ClientStalled/billing"].firing()


# ControllerStuck


BEHIND = {"quorum": Quorum(1, (Voter(1, 0, 0), Voter(2, 900, 60_000), Voter(3, 0, 0)))}


def dead(mode=Mode.KRAFT, **changes):
    usual = {"registered": False, "reachable": None, "pod": worlds.pod(2, ready=False)}
    return {"mode": mode, "brokers": worlds.brokers(b2=usual | changes), "leader": 2}


@pytest.mark.parametrize(
    "case",
    [
        dead(),
        dead(Mode.ZOOKEEPER),
        dead() | {"leader": -1},
        dead(registered=True, reachable=False) | BEHIND,  # a KRaft controller that does not even fence it
        dead(registered=True, reachable=False, pod=None) | BEHIND,
        dead(registered=True, reachable=False) | {"quorum": Quorum(1, (Voter(1, 0, 0),))},  # it is no voter
    ],
)
def test_a_broker_is_gone_and_its_partitions_get_no_other_leader(case):
    looks = [world(at, logEnd=None, **case) for at in (-60, -30, 0)]
    finding = found(*looks)["ControllerStuck"]
    assert finding.firing()
    assert finding.severity is Severity.CRITICAL
    assert finding.playbook == "restart-controller"
    assert finding.affected == ("broker-1", "orders-0")
    evidence = " ".join(finding.evidence)
    assert "broker 1 is the controller and answers" in evidence
    assert "electable: broker 1, broker 3" in evidence
    assert not found(*looks[1:])["ControllerStuck"].firing()


@pytest.mark.parametrize(
    "case",
    [
        dead() | {"isr": [2]},  # nobody to elect: PartitionLeaderless speaks
        dead() | {"leader": 1},
        dead(Mode.ZOOKEEPER, registered=True, reachable=False),  # its session lives, so the controller is right to wait
        dead(registered=True, reachable=False, pod=worlds.pod(2)),  # its Pod is Ready: it is us who do not reach it
        dead(registered=None),
        dead(registered=True, reachable=False),  # it keeps up with the quorum: its client listener alone is cut
    ],
)
def test_where_nobody_is_to_blame(case):
    looks = [world(at, **case) for at in (-60, -30, 0)]
    assert "ControllerStuck" not in found(*looks)


def test_without_a_controller_nobody_is_stuck():
    looks = [replace(world(at, **dead()), controller=None) for at in (-60, 0)]
    assert "ControllerStuck" not in found(*looks)


def test_one_election_after_another_is_no_stuck_controller():
    def look(n):
        rows = [worlds.partition(ORDERS, k, leader=-1 if k == n else 1, logEnd=None) for k in range(9)]
        return worlds.healthy(rows=rows, at=worlds.later(15 * n), groups=worlds.groups())

    looks = [look(n) for n in range(9)]
    remembered = {"ControllerStuck": worlds.later(0)}
    finding = {f.id: f for f in diagnose(looks[-1], memory=after(*looks), remembered=remembered)}["ControllerStuck"]
    assert not finding.firing()


# How long nobody led


def test_the_longest_time_without_a_leader_is_measured_over_looks():
    led, none = {"leader": 1, "leaderEpoch": 5}, {"leader": -1, "leaderEpoch": 6, "logEnd": None}
    looks = [world(0, **led), world(15, **none), world(30, **none), world(45, leader=3, leaderEpoch=7)]
    memory = after(*looks[:3])
    assert memory.longest_leaderless.seconds == 15
    memory = after(*looks)
    assert (memory.longest_leaderless.topic, memory.longest_leaderless.seconds) == (ORDERS, 30)
    assert memory.leaderless.num_rows == 0
    shorter = [world(100, leader=-1, leaderEpoch=8), world(110, leader=1, leaderEpoch=9)]
    assert after(*looks, *shorter).longest_leaderless.seconds == 30


def test_a_leader_in_between_two_looks_ends_the_interval():
    memory = after(*(world(15 * n, leader=-1, leaderEpoch=6 + 2 * n) for n in range(3)))
    assert memory.leaderless["seconds"].to_pylist() == [0]


def test_a_topic_made_anew_begins_its_times_anew() -> None:
    """Neither how long its namesake had no leader, nor how its groups stood still on it, says anything of it."""
    stalled = worlds.groups(billing(50))
    old = [world(at, leader=-1, logEnd=90 + at, groups=stalled) for at in (-90, -60, -30)]
    anew = world(0, leader=-1, leaderEpoch=0, logEnd=200, topicId="id-anew", groups=stalled)
    assert after(*old).leaderless["seconds"].to_pylist() == [60.0]
    assert after(*old, anew).leaderless["seconds"].to_pylist() == [0.0]
    old = [world(at, logEnd=190 + at, groups=stalled) for at in (-90, -60, -30)]
    anew = world(0, leaderEpoch=0, logEnd=200, topicId="id-anew", groups=stalled)
    assert after(*old).progress["seconds"].to_pylist() == [60.0]
    assert after(*old, anew).progress["seconds"].to_pylist() == [0.0]
    assert set(after(*old, anew).recreated) == {ORDERS}, "although its log is longer"


def test_partitions_not_known_for_a_while_count_as_they_were_before():
    none = {"leader": -1, "leaderEpoch": 6}
    blind = replace(world(15), partitions=None)
    assert after(world(0, **none), blind, world(30, **none)).longest_leaderless.seconds == 30
    unsure = world(15, leader=None, leaderEpoch=None)
    assert after(world(0, **none), unsure, world(30, **none)).leaderless.num_rows == 1


def test_it_is_forgotten_after_its_time_and_bounded():
    def look(at, leader):
        rows = [worlds.partition(f"t{n}", 0, leader=leader, leaderEpoch=5) for n in range(30)]
        return worlds.healthy(rows=rows, at=worlds.later(at))

    memory = after(look(0, -1), look(15, -1), look(30, 1))
    assert len(memory.longest) == MAX_OUTAGES
    assert remember(memory, look(3600 * 24 * 8, 1)).longest == ()


@pytest.mark.parametrize(("seconds", "timeout"), [(0.1, 60_000), (40, 60_000), (41, 65_000), (240, 360_000)])
def test_the_client_setting_outlasts_it_with_a_margin_and_never_below_kafkas_default(seconds, timeout):
    assert implied_timeout_ms(seconds) == timeout


@pytest.mark.parametrize("field", ["partitions", "groups", "brokers", "views"])
def test_nothing_known_is_nothing_remembered(field):
    empty = worlds.healthy(rows=[], groups=worlds.groups())
    for snapshot in (worlds.healthy(**{field: None}), empty):
        memory = after(worlds.healthy(), snapshot, worlds.healthy())
        assert (memory.regressions, memory.longest) == ((), ())
