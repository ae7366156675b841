"""Excluded brokers and topics, brokers that only give, limits on moves and bytes, several brokers, lost partitions."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_medic.cli import main
from kafka_medic.cli.plan_figures import figures
from kafka_medic.plan.allowed import Allowed, LeftOut
from kafka_medic.plan.estimate import estimate
from kafka_medic.plan.files.report import figure_rows, render_report
from kafka_medic.plan.files.report_data import report_data
from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.problem import Problem, ProblemError
from kafka_medic.plan.relocation import Leave, LowerImbalance, Relieve, Relocation, SpreadRacks
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.solver.relocate import plan_relocation
from kafka_medic.plan.verify.moves import verify_moves
from kafka_medic.plan.verify.rules import verify
from tests.unit.plan.cluster_tables import brokers, partitions


def moved(rows, racks, question, allowed=None, dead=(), **extra):
    request = relocation_of(rows, racks, question, allowed, dead, **extra)
    plan = plan_relocation(request)
    assert verify_moves(request, plan) == []
    return plan


def relocation_of(rows, racks, question, allowed=None, dead=(), **extra):
    return Relocation(partitions({"t": rows}, **extra), brokers(racks, dead), question, allowed or Allowed())


def raised(rows, racks, factor, allowed, dead=(), **extra):
    request = Problem(partitions(rows, **extra), brokers(racks, dead), factor, allowed=allowed)
    plan = plan_local(request)
    assert verify(request, plan) == []
    return plan


def final(plan):
    return {(row["topic"], row["partition"]): row["replicas"] for row in plan.table.to_pylist()}


def received(plan):
    """Broker -> replicas that came."""
    new = [b for row in plan.table.to_pylist() for b in set(row["replicas"]) - set(row["replicasBefore"])]
    return {b: new.count(b) for b in set(new)}


def test_two_brokers_are_replaced_at_once():
    plan = moved([[0, 1, 2], [1, 2, 3], [4, 5, 0]], 7, Leave((0, 1), gone=True), dead=[0])
    assert plan.summary.moves == 4
    assert not {0, 1} & {b for row in final(plan).values() for b in row}


def test_a_cluster_may_be_left_by_two_brokers_that_are_alive():
    plan = moved([[0, 1], [1, 0], [2, 3]], 4, Leave((0, 1), gone=False))
    assert {tuple(sorted(row)) for row in final(plan).values()} == {(2, 3)}


def test_what_is_lost_is_refused_with_its_number_and_left_out_on_request():
    isr = pa.array([[0, 1], [0], [1, 0]], pa.list_(pa.int32()))
    rows = [[0, 1, 2], [0, 1, 2], [0, 1, 2]]
    with pytest.raises(ProblemError, match=r"t-0, t-1, t-2: in sync on broker 0, 1 alone.* 3 partitions are lost"):
        moved(rows, 5, Leave((0, 1), gone=True), isr=isr)
    plan = moved([[0, 1, 2], [0, 1, 2], [2, 0, 3]], 5, Leave((0, 1), gone=True, skip_lost=True), isr=pa.array(
        [[2, 0], [0, 1], [2]], pa.list_(pa.int32())
    ))  # fmt: skip
    assert plan.summary.left_out == {LeftOut.LOST: 1}
    assert plan.left_out.to_pylist()[0]["partition"] == 1
    assert ("t", 1) not in final(plan)


def test_only_the_partitions_that_are_named_leave_the_broker():
    """What else it holds may stay there, whether or not others have it in sync."""
    isr = pa.array([[1, 2], [1, 2], [0]], pa.list_(pa.int32()))
    plan = moved([[0, 1, 2]] * 3, 4, Leave((0,), gone=True, skip_lost=True, only=frozenset({("t", 1)})), isr=isr)
    assert list(final(plan)) == [("t", 1)]
    assert 0 not in final(plan)["t", 1]
    assert plan.summary.left_out == {}


def test_the_verifier_sees_a_partition_that_should_have_stayed_or_left():
    rows = [[0, 1, 2]] * 3
    both = moved(rows, 4, Leave((0,), gone=True, only=frozenset({("t", 0), ("t", 1)})))
    less = relocation_of(rows, 4, Leave((0,), gone=True, only=frozenset({("t", 1)})))
    more = relocation_of(rows, 4, Leave((0,), gone=True, only=frozenset({("t", 0), ("t", 1), ("t", 2)})))
    assert any("is not on the broker and is touched" in problem for problem in verify_moves(less, both))
    assert any("partitions stay on broker 0" in problem for problem in verify_moves(more, both))


def test_what_is_in_sync_nowhere_is_lost_and_what_is_not_known_is_not():
    isr = pa.array([[], None, [1]], pa.list_(pa.int32()))
    with pytest.raises(ProblemError, match=r"t-0: in sync on broker 0 alone"):
        moved([[0, 1], [0, 1], [0, 1]], 4, Leave((0,), gone=True), isr=isr)
    plan = moved([[0, 1], [0, 1], [0, 1]], 4, Leave((0,), gone=True, skip_lost=True), isr=isr)
    assert plan.summary.left_out == {LeftOut.LOST: 1}
    assert list(final(plan)) == [("t", 1), ("t", 2)]


def test_limits_that_a_plan_was_made_with_are_checked_when_it_is_read_back(tmp_path, capsys):
    (tmp_path / "p.json").write_text(json.dumps([{"topic": "t", "partition": n, "replicas": [0]} for n in range(5)]))
    (tmp_path / "b.json").write_text(json.dumps([{"id": n} for n in range(3)]))
    given = ["--partitions", str(tmp_path / "p.json"), "--brokers", str(tmp_path / "b.json")]
    given += ["--replication-factor", "2"]
    assert main.main(["plan", "raise-replication-factor", *given, "--output", str(tmp_path / "plan")]) == 0
    for name in ("plan.parquet", "reassignment.json"):
        line = ["plan", "verify", *given, "--plan", str(tmp_path / "plan" / name)]
        assert main.main([*line, "--max-moves", "5", "--max-moves-per-broker", "3"]) == 0
        assert main.main([*line, "--max-moves", "4"]) == 1
        assert "moves 5, more than 4" in capsys.readouterr().out


MOVES = {
    "replace-broker": ["--broker", "0"],
    "move-off": ["--broker", "0"],
    "spread-racks": [],
    "lower-imbalance": ["--max-moves", "3"],
    "lower-imbalance by bytes": ["--max-moves", "3", "--balance", "bytes"],
    "relieve-disk": ["--free", "0=150"],
}


def uneven(folder, question):
    """Five brokers in three racks, of which broker 0 holds most, and racks 0 and 1 are shared."""
    held = [[0, 1], [0, 2], [0, 1], [0, 3], [0, 1], [0, 2], [1, 2], [0, 4]]
    rows = [{"topic": "t", "partition": n, "replicas": r, "isr": r, "sizeBytes": 100 + n} for n, r in enumerate(held)]
    if question == "replace-broker":
        rows = [row | {"isr": [b for b in row["isr"] if b]} for row in rows]
    listed = [{"id": n, "rack": "aabbc"[n], "alive": n != 0 or question != "replace-broker"} for n in range(5)]
    (folder / "p.json").write_text(json.dumps(rows))
    (folder / "b.json").write_text(json.dumps(listed))
    return ["--partitions", str(folder / "p.json"), "--brokers", str(folder / "b.json")]


@pytest.mark.parametrize("asked", MOVES)
def test_a_plan_that_moves_replicas_is_checked_again_in_either_format(tmp_path, capsys, asked):
    question, out = asked.split(" ")[0], tmp_path / "plan"
    given = [*uneven(tmp_path, question), *MOVES[asked]]
    assert main.main(["plan", question, *given, "--output", str(out)]) == 0
    moved = json.loads((out / "summary.json").read_text())["moves"]
    assert moved
    capsys.readouterr()
    verify_plan = ["plan", "verify", "--of", question, *given, "--plan"]
    for name in ("plan.parquet", "reassignment.json"):
        assert main.main([*verify_plan, str(out / name)]) == 0
        assert f"{moved} new replica" in capsys.readouterr().out
    plan = json.loads((out / "reassignment.json").read_text())
    first = plan["partitions"][0]
    first["replicas"][-1] = first["replicas"][0]
    (out / "reassignment.json").write_text(json.dumps(plan))
    assert main.main([*verify_plan, str(out / "reassignment.json")]) == 1
    # What was carried out meanwhile, by this plan or by somebody else, is no longer what it was made from.
    now = json.loads((tmp_path / "p.json").read_text())
    after = {(r["topic"], r["partition"]): r["replicas"] for r in pq.read_table(out / "plan.parquet").to_pylist()}
    (tmp_path / "p.json").write_text(
        json.dumps(
            [
                row | {"replicas": (own := after.get((row["topic"], row["partition"]), row["replicas"])), "isr": own}
                for row in now
            ]
        )
    )
    assert main.main([*verify_plan, str(out / "plan.parquet")]) == 1


def test_a_plan_is_checked_by_the_question_that_it_answers(tmp_path, capsys):
    given = uneven(tmp_path, "move-off")
    assert main.main(["plan", "move-off", "--broker", "0", *given, "--output", str(tmp_path / "plan")]) == 0
    line = ["plan", "verify", *given, "--plan", str(tmp_path / "plan" / "plan.parquet")]
    capsys.readouterr()
    for words, code, told in (
        (["--of", "move-off", "--broker", "1"], 1, "is not on the broker and is touched"),
        (["--of", "move-off", "--broker", "0", "--broker", "2"], 1, "stay on broker 0, 2"),
        (["--of", "lower-imbalance", "--max-moves", "2"], 1, "7 moves where 2 are allowed"),
        (["--of", "move-off", "--broker", "0", "--max-moves", "6"], 1, "moves 7, more than 6"),
        (["--of", "move-off", "--broker", "0", "--exempt", "t"], 1, "is of an excluded topic and is touched"),
        (["--of", "move-off"], 4, "--of move-off: needs --broker"),
        ([], 4, "--of raise-replication-factor: needs --replication-factor"),
        (["--of", "relieve-disk"], 4, "--of relieve-disk: needs --free"),
        (["--of", "lower-imbalance"], 4, "--of lower-imbalance: needs --max-moves"),
        (["--of", "spread-racks", "--broker", "0"], 4, "--broker: is no option of spread-racks"),
        (["--of", "move-off", "--broker", "0", "--skip-lost"], 4, "--skip-lost: is no option of move-off"),
        (["--of", "move-off", "--broker", "0", "--balance", "bytes"], 4, "--balance bytes: is no option of move-off"),
    ):
        assert main.main([*line, *words]) == code, words
        printed = capsys.readouterr()
        assert told in printed.out + printed.err, words


def checked(folder, rows, plan, *words, racks="aabbcc"):
    """(exit code, what it prints) of `plan verify` for a reassignment of topic t; rows, plan: by partition."""
    sizes = {n: row[1] for n, row in rows.items() if isinstance(row, tuple)}
    held = {n: row[0] if isinstance(row, tuple) else row for n, row in rows.items()}
    listed = [
        {"topic": "t", "partition": n, "replicas": r, "isr": r, "sizeBytes": sizes.get(n, 100)} for n, r in held.items()
    ]
    (folder / "p.json").write_text(json.dumps(listed))
    (folder / "b.json").write_text(json.dumps([{"id": n, "rack": rack} for n, rack in enumerate(racks)]))
    wanted = [{"topic": "t", "partition": n, "replicas": r} for n, r in plan.items()]
    (folder / "r.json").write_text(json.dumps({"version": 1, "partitions": wanted}))
    given = ["--partitions", folder / "p.json", "--brokers", folder / "b.json", "--plan", folder / "r.json"]
    return main.main(["plan", "verify", *words, *map(str, given)])


MOVE_OFF, RAISE = ["--of", "move-off", "--broker", "0"], ["--replication-factor", "2"]
LOWER = ["--of", "lower-imbalance", "--max-moves", "20"]
SPREAD = ["--of", "spread-racks"]
ORDER = {n: [2, 0, 4] for n in range(3)}


@pytest.mark.parametrize(
    ("rows", "plan", "words", "told"),
    [
        ({0: [0, 2]}, {0: [2, 3]}, MOVE_OFF, "1 partitions are spread over fewer racks than they could be"),
        ({0: [0]}, {0: [0, 1]}, RAISE, "1 partitions are spread over fewer racks than they could be"),
        (
            {n: [n % 6] for n in range(12)}, {n: [0] for n in range(12) if n % 6}, LOWER,
            "replicas per broker were 2..2 and become 0..12",
        ),
        (
            {n: ([n % 6], 1000 if n < 6 else 1) for n in range(12)}, {1: [0], 6: [1]}, [*LOWER, "--balance", "bytes"],
            "the fullest broker held 1001 bytes and becomes 2000",
        ),
        ({n: [0, 2, 4] for n in range(3)}, ORDER, [*SPREAD, "--exclude-topic", "t"], "is of an excluded topic"),
        ({n: [0, 2, 4] for n in range(3)}, ORDER, [*SPREAD, "--only-gives", "2"], "may take no leadership"),
        ({n: [2, 0, 4] for n in range(3)}, ORDER, SPREAD, "has that order already"),
    ],
)  # fmt: skip
def test_a_plan_that_answers_its_question_badly_breaks_a_rule(tmp_path, capsys, rows, plan, words, told):
    assert checked(tmp_path, rows, plan, *words) == 1
    assert told in capsys.readouterr().out


def test_a_plan_that_relieves_a_disk_is_right_also_when_logs_have_grown(tmp_path):
    rows = {n: ([0, 2 + n % 4], 201) for n in range(6)}
    assert checked(tmp_path, rows, {0: [2, 4], 1: [3, 4]}, "--of", "relieve-disk", "--free", "0=200") == 0


@pytest.mark.parametrize(
    "words", [["--max-moves", "1"], ["--max-bytes-per-broker", "1"], ["--engine", "spark"], ["--where", "x"]]
)
def test_no_option_is_ignored(tmp_path, capsys, words):
    relieve = ["--of", "relieve-disk", "--free", "0=200", *words]
    assert checked(tmp_path, {0: [0, 2]}, {0: [2, 4]}, *relieve) == 4
    assert f"{words[0]}" in capsys.readouterr().err


def test_a_dead_broker_elsewhere_leaves_out_only_the_partitions_that_it_shares():
    plan = moved([[0, 1], [0, 9], [9, 2]], "abcdefghij", Leave((0,), gone=True), dead=[0, 9])
    assert list(final(plan)) == [("t", 0)]
    assert plan.summary.left_out == {LeftOut.DEAD_REPLICA: 1}
    both = moved([[0, 1], [0, 9, 3], [9, 2]], "abcdefghij", Leave((0, 9), gone=True), dead=[0, 9])
    assert (both.summary.partitions, both.summary.left_out) == (3, {})


def test_an_excluded_broker_gets_nothing_and_gives_nothing():
    allowed = Allowed(exclude_brokers=frozenset({3}))
    plan = raised({"t": [[0], [1], [2], [3]]}, "aabb", 2, allowed)
    assert 3 not in received(plan)
    # Broker 3 is by far the fullest, and one that only gives would give.
    rows = [[3]] * 9 + [[0]]
    assert moved(rows, 4, LowerImbalance(9), allowed).summary.moves == 0
    only = moved(rows, 4, LowerImbalance(9), Allowed(only_give=frozenset({3})))
    assert only.summary.moves > 4


def test_a_broker_that_only_gives_is_no_target_of_a_move():
    plan = moved([[0, 1], [0, 2]], 5, Leave((0,), gone=False), Allowed(only_give=frozenset({3})))
    assert 3 not in received(plan)


def test_racks_are_spread_around_an_excluded_broker():
    rows = [[0, 1, 2], [0, 1, 3]]
    plan = moved(rows, "aabbcc", SpreadRacks(), Allowed(exclude_brokers=frozenset({0, 4})))
    assert final(plan) == {("t", 0): [0, 2, 5], ("t", 1): [0, 3, 5]}
    # Nothing that may move helps here: what shares the rack is excluded.
    assert moved([[0, 1]], "aabb", SpreadRacks(), Allowed(exclude_brokers=frozenset({0, 1}))).summary.moves == 0


def test_excluded_brokers_take_no_leadership():
    allowed = Allowed(exclude_brokers=frozenset({1}))
    rows = {"t": [[0, 1]] * 6}
    plan = raised(rows, 3, 3, allowed)
    assert all(row["preferredOrder"][0] != 1 for row in plan.table.to_pylist())
    assert plan.summary.leaders_per_broker.max == plan.summary.leaders_per_broker.bound == 3


def test_excluded_topics_stay_as_they_are():
    plan = raised({"logs-a": [[0]], "t": [[0]]}, 3, 2, Allowed(exclude_topics=("logs-*",)))
    assert list(final(plan)) == [("t", 0)]
    request = Relocation(
        partitions({"logs-a": [[0]], "t": [[0]]}),
        brokers(3),
        Leave((0,), gone=False),
        Allowed(exclude_topics=("log*",)),
    )
    plan = plan_relocation(request)
    assert verify_moves(request, plan) == []
    assert plan.summary.left_out == {LeftOut.EXCLUDED_TOPIC: 1}


def test_the_most_exposed_partitions_come_first_within_a_limit():
    rows = [[0, 1], [2], [0, 2], [1]]
    plan = raised({"t": rows}, 4, 3, Allowed(moves=5))
    assert [number for _, number in final(plan)] == [0, 1, 3]
    assert plan.summary.left_out == {LeftOut.OVER_LIMIT: 1}
    assert plan.summary.moves == plan.summary.lower_bound_moves == 5


def test_what_is_left_out_stands_in_the_table_and_on_the_page():
    request = Problem(partitions({"t": [[0], [2]]}), brokers(3, [2]), 2)
    plan = plan_local(request)
    assert ("Left out: dead replica", "1") in [row[:2] for row in figure_rows(plan.summary)]
    page = render_report(report_data(request, plan, request.leaders_of_changed(plan)))
    assert "Left out: dead replica" in page
    assert "left out: dead replica" in figures(plan.summary, estimate(plan), "added")


def test_a_limit_on_bytes_takes_what_fits_and_leaves_out_what_has_no_size():
    sizes = pa.array([90, 20, None, 70])
    plan = raised({"t": [[0]] * 4}, 4, 2, Allowed(bytes=100), sizeBytes=sizes)
    assert [number for _, number in final(plan)] == [0]
    assert plan.summary.left_out == {LeftOut.OVER_LIMIT: 2, LeftOut.UNKNOWN_SIZE: 1}


@pytest.mark.parametrize("question", [None, Leave((0,), gone=False)])
def test_a_partition_that_fits_no_limit_alone_keeps_no_other_one_back(question):
    rows, allowed = {"a": [[0]], "b": [[0]]}, Allowed(moves=1, bytes_per_broker=50)
    sizes = pa.array([100, 5])
    if question is None:
        plan = raised(rows, 3, 2, allowed, sizeBytes=sizes)
    else:
        request = Relocation(partitions(rows, sizeBytes=sizes), brokers(3), question, allowed)
        plan = plan_relocation(request)
        assert verify_moves(request, plan) == []
    assert list(final(plan)) == [("b", 0)]
    assert plan.summary.left_out == {LeftOut.OVER_LIMIT: 1}


def test_a_partition_that_a_limit_leaves_out_needs_no_broker_to_go_to():
    rows = partitions({"a": [[0, 1, 2]], "b": [[0]]}, sizeBytes=pa.array([100, 5]))
    request = Relocation(rows, brokers(3), Leave((0,), gone=False), Allowed(bytes=50))
    plan = plan_relocation(request)
    assert verify_moves(request, plan) == []
    assert list(final(plan)) == [("b", 0)]


def test_a_bound_that_disks_put_out_of_reach_is_not_called_exact():
    rows = partitions({"t": [[0], [0], [3], [3]]}, sizeBytes=pa.array([5] * 4))
    room = (0, 5, 10**6, 0)
    free = tuple(replace(broker, disk_free=bytes_) for broker, bytes_ in zip(brokers(4), room, strict=True))
    plan = plan_local(Problem(rows, free, 2))
    figure = plan.summary.replicas_per_broker
    assert (figure.max, figure.bound) == (3, 2)
    assert not plan.summary.bounds["replicasPerBroker"].exact


def test_a_bound_of_a_relieved_disk_is_of_the_replicas_that_move():
    replicas = [[0, 1], [2, 0]]
    isr = pa.array(replicas, pa.list_(pa.int32()))
    rows = partitions({"t": replicas}, sizeBytes=pa.array([10, 10]), isr=isr, leader=pa.array([0, 2], pa.int32()))
    plan = plan_relocation(Relocation(rows, brokers("bbaa"), Relieve(((0, 5),)), Allowed()))
    assert "move the same replicas" in plan.summary.bounds["replicasPerBroker"].over


def test_where_no_broker_is_up_nothing_can_be_spread():
    assert moved([[0, 1]], "ab", SpreadRacks(), dead=[0, 1]).summary.moves == 0


@pytest.mark.parametrize("question", [Leave((0,), gone=False), SpreadRacks(), LowerImbalance(50)])
def test_no_broker_receives_more_than_its_limit(question):
    rows = [[0, 1]] * 20 + [[2, 3]] * 3
    size = pa.array([10] * 23)
    racks = 6 if isinstance(question, LowerImbalance) else "aabbcc"
    plan = moved(rows, racks, question, Allowed(moves_per_broker=4, bytes_per_broker=35), sizeBytes=size)
    assert plan.summary.moves
    assert max(received(plan).values()) <= 3


def test_no_broker_receives_more_than_its_limit_when_factors_are_raised():
    plan = raised({"t": [[0]] * 20}, 4, 2, Allowed(moves_per_broker=4))
    assert received(plan) == {1: 4, 2: 4, 3: 4}
    assert plan.summary.left_out == {LeftOut.OVER_LIMIT: 8}


@pytest.mark.parametrize(
    ("allowed", "reason"),
    [
        (Allowed(exclude_brokers=frozenset({3})), "goes to a broker that may take no replica"),
        (Allowed(only_give=frozenset({3})), "goes to a broker that may take no replica"),
        (Allowed(exclude_topics=("t",)), "is of an excluded topic and is touched"),
        (Allowed(moves=1), "moves 2, more than 1"),
        (Allowed(bytes=10), "bytes 20, more than 10"),
        (Allowed(moves_per_broker=1), "moves to one broker 2, more than 1"),
        (Allowed(bytes_per_broker=19), "bytes to one broker 20, more than 19"),
    ],
)
def test_a_plan_that_ignores_a_limit_is_found(allowed, reason):
    table, all_brokers = partitions({"t": [[0, 1], [0, 2]]}, sizeBytes=pa.array([10, 10])), brokers(4)
    plan = plan_relocation(Relocation(table, all_brokers, Leave((0,), gone=False)))
    rows = [
        row | {"replicas": [n + 1, 3], "preferredOrder": [n + 1, 3]} for n, row in enumerate(plan.table.to_pylist())
    ]
    plan = replace(plan, table=pa.Table.from_pylist(rows, PLAN_SCHEMA))
    found = verify_moves(Relocation(table, all_brokers, Leave((0,), gone=False), allowed), plan)
    assert any(reason in line for line in found), found


@pytest.mark.parametrize(
    ("allowed", "reason"),
    [
        (Allowed(exclude_brokers=frozenset({9})), "broker 9 is excluded, but it is not listed"),
        (Allowed(exclude_brokers=frozenset({0})), "broker 0 is excluded, but its replicas are to leave it"),
        (Allowed(exclude_brokers=frozenset({2, 3})), "t-0 wants 1 more replicas, but only 0 of the brokers"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(allowed, reason):
    with pytest.raises(ProblemError, match=reason):
        moved([[0, 1]], 4, Leave((0,), gone=False), allowed)


def test_figures_of_the_second_file_are_counted_anew():
    request = Problem(partitions({"t": [[0]] * 6}), brokers(3), 2)
    plan = plan_local(request)
    assert (plan.summary.reordered, plan.summary.leaders_reassigned.max) == (4, 6)
    wrong = replace(plan.summary, reordered=3, leaders_reassigned=plan.summary.leaders_per_broker)
    found = verify(request, replace(plan, summary=wrong))
    assert any("leadersAfterReassignment" in line for line in found)
    assert any("preferred orders" in line for line in found)


def test_moves_are_divided_among_racks_that_cannot_give_each_other_replicas():
    """With a replica in each rack nothing leaves its rack, and the fullest brokers are in several of them."""
    rows = [[0, 3, 6]] * 20 + [[1, 3, 7]] * 4
    for moves, top in ((6, 20), (19, 15), (200, 8)):
        plan = moved(rows, "aaabbbccc", LowerImbalance(moves))
        assert plan.summary.replicas_per_broker.max == top
        assert plan.summary.moves <= moves


@pytest.fixture
def call(tmp_path, capsys):
    def run(*options, rows=((1, 2), (1, 3), (2, 3), (4, 1)), free=None, **fields):
        listed = [
            {"topic": "t" if n else "u", "partition": max(n - 1, 0), "replicas": row, "sizeBytes": 10}
            | {name: values[n] for name, values in fields.items()}
            for n, row in enumerate(rows)
        ]
        (tmp_path / "p.json").write_text(json.dumps(listed))
        (tmp_path / "b.json").write_text(json.dumps([{"id": n, "diskFree": (free or {}).get(n)} for n in range(1, 7)]))
        line = ["plan", *options, "--partitions", str(tmp_path / "p.json"), "--brokers", str(tmp_path / "b.json")]
        code = main.main([*line, "--output", str(tmp_path / "out"), "-o", "json"])
        printed = capsys.readouterr()
        return code, printed.out and json.loads(printed.out), printed.err, tmp_path / "out"

    return run


def test_the_command_replaces_two_brokers_within_limits(call):
    code, summary, err, made = call(
        "replace-broker", "--broker", "1", "--broker", "2", "--exclude-broker", "5", "--max-moves", "3",
        "--exclude-topic", "none", "--skip-lost",
    )  # fmt: skip
    assert code == 0
    assert (summary["moves"], summary["leftOut"]) == (
        3, {"deadReplica": 0, "lost": 1, "excludedTopic": 0, "overLimit": 0, "unknownSize": 0}
    )  # fmt: skip
    assert "--exclude-topic none: matches no topic" in err
    assert "left out: 1 partition; each is in sync on no broker that stays" in err
    assert (made / "left-out.csv").read_text().splitlines()[1].startswith('"u",0,"is in sync on no broker')
    assert not any(5 in row["replicas"] for row in json.loads((made / "reassignment.json").read_text())["partitions"])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--max-moves", "0"), "--max-moves 0: must be at least 1"),
        (("--max-bytes-per-broker", "-1"), "--max-bytes-per-broker -1: must be at least 1"),
        (("--max-bytes-per-broker", str(2**63)), f"--max-bytes-per-broker {2**63}: must be {2**62} at most"),
        (("--exclude-broker", "4", "--only-gives", "4"), "--only-gives 4: is also excluded; name it once"),
        (("--only-gives", "9"), "b.json: broker 9 is only to give, but it is not listed"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(call, options, reason):
    code, _, err, made = call("move-off", "--broker", "1", *options)
    assert code == 4
    assert reason in err
    assert not made.exists()


@pytest.mark.parametrize(
    ("question", "way_out"),
    [
        (("replace-broker", "--broker", "1", "--skip-lost"), "or exclude topics, or set --max-bytes-per-broker"),
        (("relieve-disk", "--free", "1=20"), "or exclude topics, or free fewer bytes"),
    ],
)
def test_a_refusal_for_want_of_room_names_an_option_that_the_question_has(call, question, way_out):
    rows = ((1, 2), (1, 2), (2, 3), (2, 4))
    code, _, err, made = call(*question, rows=rows, isr=rows, free={2: 0, 3: 10, 4: 0, 5: 0, 6: 0})
    assert (code, made.exists()) == (4, False)
    assert "the new replicas cannot be placed: 20 bytes of new replicas have room of 10 on all brokers together" in err
    assert way_out in err


def test_an_excluded_broker_is_none_of_those_that_a_topic_has_to_go_to():
    """Where weights differ, the second opinion tried fewer groups of the others than the plan did, and refused it."""
    drawn = random.Random(981)
    count = drawn.randint(5, 7)
    rows = {
        f"t{n}": [drawn.sample(range(count), drawn.choice([2, 3])) for _ in range(drawn.randint(2, 12))]
        for n in range(3)
    }
    weighed = tuple(replace(b, weight=drawn.choice([1.0, 2.0, 3.0])) for b in brokers(count))
    request = Problem(partitions(rows), weighed, 4, allowed=Allowed(exclude_brokers=frozenset([1])))
    plan = plan_local(request)
    assert plan.summary.topic_replicas.bound == 9
    assert verify(request, plan) == []
