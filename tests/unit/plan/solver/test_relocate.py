"""Replacing a broker, moving off one, spreading over racks, lowering imbalance: what moves, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from kafka_medic.cli import main
from kafka_medic.plan.allowed import Allowed
from kafka_medic.plan.estimate import estimate
from kafka_medic.plan.model import PLAN_SCHEMA, Spread
from kafka_medic.plan.problem import Broker, Problem, ProblemError
from kafka_medic.plan.relocation import Leave, LowerImbalance, Relocation, SpreadRacks
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.solver.relocate import plan_relocation
from kafka_medic.plan.verify.moves import verify_moves
from tests.unit.plan.cluster_tables import brokers, partitions


def planned(rows, racks, question, dead=(), **extra):
    request = Relocation(partitions({"t": rows}, **extra), brokers(racks, dead), question)
    plan = plan_relocation(request)
    assert verify_moves(request, plan) == []
    return request, plan


def final(plan):
    return {row["partition"]: row["replicas"] for row in plan.table.to_pylist()}


def test_what_a_dead_broker_had_is_copied_from_whoever_is_left():
    sizes = pa.array([10, 20, 30])
    request, plan = planned([[0, 1], [1, 2], [2, 0]], "abcd", Leave((0,), gone=True), dead=[0], sizeBytes=sizes)
    assert final(plan) == {0: [1, 3], 2: [2, 3]}
    cost = estimate(plan, request.leaders_of_changed(plan), throttle=10)
    assert (cost.bytes_total, cost.busiest_in, cost.busiest_out, cost.seconds) == (40, 40, 30, 4.0)


def test_a_dead_broker_need_not_be_listed():
    _, plan = planned([[9, 1], [1, 2], [2, 9]], "abcd", Leave((9,), gone=True))
    assert plan.summary.moves == 2


def test_a_broker_that_is_left_sends_what_it_leads_and_takes_nothing():
    leader = pa.array([0, 1, 0])
    sizes = pa.array([10, 20, 30])
    request, plan = planned([[0], [1], [0]], 3, Leave((0,), gone=False), leader=leader, sizeBytes=sizes)
    assert set(final(plan)) == {0, 2}
    assert all(row != [0] for row in final(plan).values())
    assert estimate(plan, request.leaders_of_changed(plan)).busiest_out == 40


def test_what_is_gone_sends_nothing_whoever_says_that_it_leads():
    rows, sizes = [[0, 1], [0, 2], [3, 0]], pa.array([200 << 30] * 3)
    request, plan = planned(rows, 7, Leave((0,), gone=True), leader=pa.array([0, 0, 0]), sizeBytes=sizes)
    assert plan.summary.waves == 1
    assert request.leaders_of_changed(plan).to_pylist() == [1, 2, 3]


def test_racks_are_spread_over_and_leaders_stay_where_they_are():
    """Unless a broker would be fuller than it has to be."""
    _, plan = planned([[0, 1, 2], [3, 2, 1], [4, 0, 2]], "aabbcc", SpreadRacks())
    after = final(plan)
    assert set(after) == {0, 1}
    assert {n: row[0] for n, row in after.items()} == {0: 0, 1: 3}
    assert plan.summary.moves == plan.summary.lower_bound_moves == 2
    assert (plan.summary.rack_violations, plan.summary.rack_violations_bound) == (0, 0)


def test_imbalance_is_lowered_as_far_as_the_moves_go():
    rows = [[0, 1]] * 6 + [[2, 3]] * 2
    for moves, top in ((1, 6), (2, 5), (4, 4), (99, 4)):
        _, plan = planned(rows, 4, LowerImbalance(moves))
        assert plan.summary.replicas_per_broker.max == plan.summary.replicas_per_broker.bound == top
        assert plan.summary.moves <= min(moves, 4)


def sized(rows, sizes, racks, moves, allowed=None):
    """(bytes on each broker after the plan, the plan)."""
    table = partitions({"t": rows}, sizeBytes=sizes)
    request = Relocation(table, brokers(racks), LowerImbalance(moves, by_bytes=True), allowed or Allowed())
    plan = plan_relocation(request)
    assert verify_moves(request, plan) == []
    after = dict(enumerate(rows)) | final(plan)
    count = racks if isinstance(racks, int) else len(racks)
    return [sum(size for n, size in enumerate(sizes) if broker in after[n]) for broker in range(count)], plan


def test_large_replicas_are_exchanged_for_small_ones_where_numbers_are_even():
    held, plan = sized([[0], [0], [1], [1]], [100, 90, 10, 20], "ab", 2)
    assert held == [110, 110]
    assert plan.summary.moves == 2
    assert plan.summary.replicas_per_broker == Spread(2, 2, 2, 2)
    assert plan.summary.bytes_per_broker == Spread(110, 110, 110, 110)


def test_no_plan_brings_bytes_below_the_largest_partition():
    held, plan = sized([[0], [0], [1]], [1000, 30, 10], "ab", 2)
    assert held == [1000, 40]
    assert plan.summary.bytes_per_broker == Spread(40, 1000, 1000, 520)


def test_a_replica_moves_alone_to_a_broker_that_holds_fewer():
    held, plan = sized([[0], [0], [0], [1]], [50, 40, 30, 60], "ab", 9)
    assert held == [90, 90]
    assert plan.summary.moves == 1
    assert sum(plan.sizes.to_pylist()) == 30


def test_of_steps_that_are_nearly_as_good_the_one_with_the_fewest_bytes_is_taken():
    held, plan = sized([[0]] * 3 + [[1]] * 3, [1000, 110, 10, 900, 11, 10], "ab", 2)
    assert held == [1021, 1020]
    assert sum(plan.sizes.to_pylist()) == 121


def test_a_step_copies_no_more_than_eight_times_what_it_gains():
    assert sized([[0], [0], [1]], [600, 245, 245], "abc", 9)[1].summary.moves == 1
    assert sized([[0], [1]], [600, 500], "ab", 9)[1].summary.moves == 0
    assert sized([[0], [0], [1], [1]], [600, 100, 500, 150], "ab", 9)[1].summary.moves == 0
    held, _ = sized([[0]] * 20 + [[1]] * 20, [61] * 20 + [39] * 20, 2, 100)
    assert max(held) <= 1010


def test_brokers_of_a_larger_rack_are_evened_below_the_mean_of_all():
    rows = [[n % 2, 2 + n // 2 % 2, 4 + n % 3] for n in range(84)]
    held, plan = sized(rows, [8 if 6 in row else 20 for row in rows], "aabbccc", 100)
    assert max(held[4:]) - min(held[4:]) <= max(held[4:]) / 20
    assert plan.summary.moves


def test_a_small_rack_is_evened_beside_a_large_one():
    rows = [[n % 2, 2 + n % 17] for n in range(170)]
    held, _ = sized(rows, [80 if row[0] == 0 else 10 for row in rows], "aa" + "b" * 17, 200)
    assert abs(held[0] - held[1]) <= max(held[:2]) / 20


def test_bytes_are_evened_among_those_that_may_give_and_take():
    rows = [[0], [0], [0], [1], [1], [1], [2]]
    _, plan = sized(rows, [300, 100, 100, 10, 10, 10, 90_000], 3, 9, Allowed(exclude_brokers=frozenset({2})))
    assert plan.summary.moves
    even = [[n % 3] for n in range(30)]
    _, plan = sized(even, [100] * 30, 4, 9, Allowed(only_give=frozenset({3})))
    assert plan.summary.moves == 0


def test_weights_that_are_too_far_apart_for_so_many_bytes_are_refused():
    listed = (Broker(0, weight=0.001), Broker(1, weight=1000))
    table = partitions({"t": [[n % 2] for n in range(20)]}, sizeBytes=[10**13] * 20)
    with pytest.raises(ProblemError, match=r"cannot be shared by weights of 0\.001 to 1000"):
        plan_relocation(Relocation(table, listed, LowerImbalance(100, by_bytes=True)))
    with pytest.raises(ProblemError, match=r"cannot be shared by weights of 0\.001 to 1000"):
        plan_local(Problem(table, listed, 2, by_bytes=True))


def test_a_plan_for_bytes_owes_its_figure_and_numbers_as_even_as_before():
    table = partitions({"t": [[0], [0], [1], [1]]}, sizeBytes=[100, 90, 10, 20])
    by_bytes, by_number = (Relocation(table, brokers(2), LowerImbalance(9, by_bytes=b)) for b in (True, False))
    plan = plan_relocation(by_bytes)
    unsaid = replace(plan, summary=replace(plan.summary, bytes_per_broker=None))
    assert verify_moves(by_bytes, unsaid) == ["the summary has no bytesPerBroker"]
    assert verify_moves(by_number, unsaid) == []
    alone = replace(plan, table=plan.table.slice(0, 1), sizes=plan.sizes.slice(0, 1))
    assert any("replicas per broker were 2..2 and become 1..3" in line for line in verify_moves(by_bytes, alone))


def test_bytes_that_are_close_stay_where_they_are():
    held, plan = sized([[0], [0], [1], [1]], [505, 500, 500, 495], "ab", 9)
    assert (held, plan.summary.moves) == ([1005, 995], 0)


def test_racks_stay_as_well_used_when_bytes_are_evened():
    held, plan = sized([[0, 2]] * 3 + [[1, 3]] * 3, [90, 80, 70, 1, 1, 1], "aabb", 20)
    assert max(held) == 151
    racks = [{broker // 2 for broker in row} for row in final(plan).values()]
    assert all(len(used) == 2 for used in racks)


def test_limits_hold_when_bytes_are_evened():
    rows, sizes = [[0], [0], [1], [1]], [100, 90, 10, 20]
    assert sized(rows, sizes, "ab", 1)[1].summary.moves == 0
    assert sized(rows, sizes, "ab", 2, Allowed(bytes=90))[1].summary.moves == 0
    assert sized(rows, sizes, "ab", 2, Allowed(bytes_per_broker=80))[1].summary.moves == 0
    assert sized(rows, sizes, "ab", 2, Allowed(exclude_brokers=frozenset({1})))[1].summary.moves == 0


def test_bytes_are_not_evened_where_a_size_is_not_known():
    with pytest.raises(ProblemError, match="the size of t-1 is not known"):
        sized([[0], [0]], [100, None], "ab", 2)


def test_a_new_broker_is_filled_with_followers():
    _, plan = planned([[0, 1], [1, 2], [2, 0]] * 4, 4, LowerImbalance(6))
    assert plan.summary.replicas_per_broker == Spread(6, 6, 6, 6)
    assert all(row[-1] == 3 for row in final(plan).values())


@pytest.mark.parametrize(
    ("rows", "dead", "question", "reason"),
    [
        (
            [[0, 1], [0]],
            [0],
            Leave((0,), gone=True),
            "row 2: t-1: in sync on broker 0 alone, .* 1 partition is lost .*--skip-lost",
        ),
        (
            [[0, 1]],
            [0],
            Leave((0,), gone=False),
            "broker 0 is not alive, so it cannot send what it holds: use replace-broker",
        ),
        ([[0, 1]], [], Leave((7,), gone=False), "broker 7 is not listed"),
        ([[0, 1]], [], Leave((), gone=True), "no broker is named"),
        (
            [[0, 1, 2, 3]],
            [],
            Leave((0,), gone=False),
            "row 1: t-0 wants replication factor 4, but only 3 brokers are alive",
        ),
        ([[0, 1]], [], LowerImbalance(0), "0 moves are below 1"),
    ],
)
def test_what_cannot_be_moved_is_refused(rows, dead, question, reason):
    with pytest.raises(ProblemError, match=reason):
        planned(rows, 4, question, dead)


def test_a_partition_in_sync_on_the_dead_broker_alone_is_refused():
    isr = pa.array([[1, 0], [0]], pa.list_(pa.int32()))
    with pytest.raises(ProblemError, match="row 2: t-1: in sync on broker 0 alone"):
        planned([[0, 1], [0, 1]], 3, Leave((0,), gone=True), [0], isr=isr)


def test_disk_capacity_holds_for_moves_as_well():
    table = partitions({"t": [[0]] * 4}, sizeBytes=pa.array([100] * 4))
    spacious = (Broker(0), Broker(1, disk_free=100), Broker(2, disk_free=300))
    request = Relocation(table, spacious, Leave((0,), gone=False))
    plan = plan_relocation(request)
    assert sorted(row[0] for row in final(plan).values()) == [1, 2, 2, 2]
    with pytest.raises(ProblemError, match="bytes of new replicas and has room for"):
        plan_relocation(Relocation(table, (*spacious[:2], Broker(2, disk_free=299)), Leave((0,), gone=False)))


REQUEST = {
    question: Relocation(partitions({"t": [[0, 1], [2, 3], [0, 2], [1, 0]]}), brokers("aabbcc"), question)
    for question in (Leave((0,), gone=False), SpreadRacks(), LowerImbalance(1))
}


@pytest.mark.parametrize(
    ("question", "row", "values", "reason"),
    [
        (Leave((0,), gone=False), 0, {"replicas": [1, 7], "preferredOrder": [1, 7]}, "not alive"),
        (
            Leave((0,), gone=False),
            0,
            {"replicas": [4, 5], "preferredOrder": [4, 5]},
            "leaves a broker that it should stay on",
        ),
        (
            Leave((0,), gone=False),
            0,
            {"replicas": [4, 1], "preferredOrder": [4, 1]},
            "does not keep its replicas first",
        ),
        (Leave((0,), gone=False), 0, {"replicas": [1]}, "another number of replicas"),
        (Leave((0,), gone=False), 0, {"partition": 1, "replicasBefore": [2, 3]}, "is not on the broker and is touched"),
        (SpreadRacks(), 0, {"replicas": [1, 0], "preferredOrder": [1, 0]}, "moves nothing"),
        (SpreadRacks(), 0, {"replicas": [4, 5], "preferredOrder": [4, 5]}, "not spread as well as it could be"),
        (SpreadRacks(), 0, {"replicas": [2, 4], "preferredOrder": [2, 4]}, "moves more than it takes"),
        (LowerImbalance(1), 0, {"replicas": [2, 3], "preferredOrder": [2, 3]}, ""),
    ],
)
def test_a_broken_row_is_found(question, row, values, reason):
    plan = plan_relocation(REQUEST[question])
    rows = plan.table.to_pylist()
    rows[row].update(values)
    found = verify_moves(REQUEST[question], replace(plan, table=pa.Table.from_pylist(rows, PLAN_SCHEMA)))
    assert any(reason in line for line in found), found


@pytest.mark.parametrize(
    ("question", "reason"), [(Leave((0,), gone=False), "partitions stay on broker 0"), (SpreadRacks(), "not planned")]
)
def test_a_partition_left_out_is_found(question, reason):
    plan = plan_relocation(REQUEST[question])
    less = replace(plan, table=plan.table.slice(1), sizes=plan.sizes.slice(1))
    assert any(reason in line for line in verify_moves(REQUEST[question], less))


def test_more_moves_than_allowed_are_found():
    table = partitions({"t": [[0]] * 6})
    plan = plan_relocation(Relocation(table, brokers(3), LowerImbalance(9)))
    assert plan.summary.moves == 4
    broken = verify_moves(Relocation(table, brokers(3), LowerImbalance(3)), plan)
    assert "4 moves where 3 are allowed" in broken


@pytest.mark.parametrize(
    ("options", "moves"),
    [
        (("replace-broker", "--broker", "1"), 2),
        (("move-off", "--broker", "2"), 2),
        (("spread-racks",), 1),
        (("lower-imbalance", "--max-moves", "1"), 1),
    ],
)
def test_the_command_writes_a_plan_for_people(tmp_path, capsys, options, moves):
    rows = [[1, 2], [1, 3], [2, 3]]
    listed = [{"topic": "t", "partition": n, "replicas": row} for n, row in enumerate(rows)]
    (tmp_path / "p.json").write_text(json.dumps(listed))
    (tmp_path / "b.json").write_text(
        json.dumps([{"id": n, "rack": r} for n, r in ((1, "a"), (2, "a"), (3, "b"), (4, "c"))])
    )
    line = ["plan", *options, "--partitions", str(tmp_path / "p.json"), "--brokers", str(tmp_path / "b.json")]
    assert main.main([*line, "--output", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    assert "replicas moved" in printed.out
    assert "carries out no file" in printed.err
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["moves"] == moves
    request = json.loads((tmp_path / "out" / "reassignment.json").read_text())
    assert all(len(row["replicas"]) == 2 for row in request["partitions"])
    assert (tmp_path / "out" / "plan.parquet").exists()


def relieved(folder, *options, sizes=(70, 40, 20)):
    rows = [[1, 2], [1, 3], [2, 1]]
    listed = [
        {"topic": "t", "partition": n, "replicas": row, "isr": row, "sizeBytes": size}
        for n, (row, size) in enumerate(zip(rows, sizes, strict=True))
    ]
    (folder / "p.json").write_text(json.dumps(listed))
    (folder / "b.json").write_text(json.dumps([{"id": n, "diskFree": 100} for n in (1, 2, 3, 4)]))
    line = ["plan", "relieve-disk", *options, "--partitions", str(folder / "p.json")]
    return main.main([*line, "--brokers", str(folder / "b.json"), "--output", str(folder / "out")])


@pytest.mark.parametrize(("need", "left"), [(15, {2}), (41, {1, 2}), (70, {0}), (130, {0, 1, 2})])
def test_the_command_frees_bytes_of_a_disk_with_as_few_bytes_as_can_be(tmp_path, need, left):
    assert relieved(tmp_path, "--free", f"1={need}") == 0
    request = json.loads((tmp_path / "out" / "reassignment.json").read_text())["partitions"]
    assert {row["partition"] for row in request} == left
    assert all(1 not in row["replicas"] and len(row["replicas"]) == 2 for row in request)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--free", "1"), "--free 1: must be N=BYTES, for example 7=500000000000"),
        (("--free", "1=" + "9" * 5000), "must be N=BYTES, for example 7=500000000000"),
        (("--free", "1=٣٠"), "--free 1=٣٠: must be N=BYTES"),
        (("--free", "1=0"), "b.json: 0 bytes are below 1"),
        (("--free", "9=5"), "b.json: broker 9 is not listed"),
        (("--free", "1=131"), "b.json: 131 bytes have to leave broker 1, and replicas of only 130 can"),
        (("--free", "1=5", "--free", "1=6"), "b.json: broker 1 is named twice"),
    ],
)
def test_a_disk_that_cannot_be_relieved_so_is_exit_4_and_nothing_written(tmp_path, capsys, options, reason):
    assert relieved(tmp_path, *options) == 4
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_command_lowers_imbalance_by_bytes_in_one_process(tmp_path, capsys):
    listed = [
        {"topic": "t", "partition": n, "replicas": [n // 2], "sizeBytes": size}
        for n, size in enumerate([100, 90, 10, 20])
    ]
    (tmp_path / "p.json").write_text(json.dumps(listed))
    (tmp_path / "b.json").write_text('[{"id": 0}, {"id": 1}]')
    line = ["plan", "lower-imbalance", "--balance", "bytes", "--max-moves", "9"]
    line += ["--partitions", str(tmp_path / "p.json"), "--brokers", str(tmp_path / "b.json")]
    assert main.main([*line, "--output", str(tmp_path / "out")]) == 0
    assert "bytes per broker" in capsys.readouterr().out
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["bytesPerBroker"] == {"min": 110, "max": 110, "bound": 110, "anyPlan": 110}
    assert (tmp_path / "out" / "report.html").exists()
    assert main.main([*line, "--output", str(tmp_path / "other"), "--engine", "spark"]) == 4
    assert "--engine spark: --balance bytes lowers imbalance in one process alone" in capsys.readouterr().err


def test_a_disk_is_not_relieved_on_spark(tmp_path, capsys):
    (tmp_path / "b.json").write_text('[{"id": 1}]')
    line = ["plan", "relieve-disk", "--free", "1=5", "--partitions", "s3a://b/p", "--output", str(tmp_path / "out")]
    assert main.main([*line, "--brokers", str(tmp_path / "b.json")]) == 4
    assert "--partitions s3a://b/p: relieve-disk is not planned on Spark; give a file" in capsys.readouterr().err


def test_a_replica_of_unknown_size_relieves_no_disk(tmp_path, capsys):
    assert relieved(tmp_path, "--free", "1=50", sizes=(None, 40, 20)) == 0
    assert "left out: 1 partition" in capsys.readouterr().err


def test_partitions_on_a_dead_broker_are_left_alone_and_that_is_said(tmp_path, capsys):
    rows = [{"topic": "t", "partition": n, "replicas": replicas} for n, replicas in enumerate([[1, 9], [1, 2], [1, 2]])]
    listed = [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 9, "alive": False}]
    (tmp_path / "p.json").write_text(json.dumps(rows))
    (tmp_path / "b.json").write_text(json.dumps(listed))
    line = ["plan", "lower-imbalance", "--max-moves", "5", "--partitions", str(tmp_path / "p.json")]
    assert main.main([*line, "--brokers", str(tmp_path / "b.json"), "--output", str(tmp_path / "out")]) == 0
    assert "left out: 1 partition; each has a replica on a broker that is not alive" in capsys.readouterr().err
    assert (tmp_path / "out" / "left-out.csv").read_text().splitlines()[1].startswith('"t",0,')
    moved = json.loads((tmp_path / "out" / "reassignment.json").read_text())["partitions"]
    assert moved
    assert 0 not in [row["partition"] for row in moved]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("lower-imbalance", "--max-moves", "0"), "--max-moves 0: must be at least 1"),
        (("move-off", "--broker", "9"), "b.json: broker 9 is not listed"),
        (("replace-broker", "--broker", "1"), "p.json: row 1: t-0: in sync on broker 1 alone"),
    ],
)
def test_a_question_that_cannot_be_answered_is_exit_4_and_nothing_written(tmp_path, capsys, options, reason):
    (tmp_path / "p.json").write_text(json.dumps([{"topic": "t", "partition": 0, "replicas": [1]}]))
    (tmp_path / "b.json").write_text(json.dumps([{"id": 1}, {"id": 2}]))
    line = ["plan", *options, "--partitions", str(tmp_path / "p.json"), "--brokers", str(tmp_path / "b.json")]
    assert main.main([*line, "--output", str(tmp_path / "out")]) == 4
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
