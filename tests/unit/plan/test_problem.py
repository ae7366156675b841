"""Input that would make a wrong plan is refused with its row and the reason."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from kafka_medic.plan.allowed import LeftOut
from kafka_medic.plan.problem import Broker, Problem, ProblemError
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.verify.rules import verify
from tests.unit.plan.cluster_tables import brokers, partitions, problem


def refused(match, *args, **kwargs):
    with pytest.raises(ProblemError, match=match) as caught:
        problem(*args, **kwargs)
    return caught.value


@pytest.mark.parametrize(
    ("replicas", "row", "reason"),
    [
        ([[0], []], 2, "replica list is empty"),
        ([[0], [0, 0]], 2, "broker 0 is listed twice"),
        ([[0], [9]], 2, "broker 9, which is not listed"),
        ([[0], None], 2, "replica list is empty"),
        ([[0], [None]], 2, "holds a null"),
    ],
)
def test_a_bad_replica_list_is_named_by_its_row(replicas, row, reason):
    assert refused(reason, {"t": replicas}, 3, 2).row == row


def test_a_gap_in_the_numbers_is_a_missing_partition():
    table = partitions({"t": [[0], [0], [0]]}).take([0, 2])
    with pytest.raises(ProblemError, match="t-1 is missing") as caught:
        Problem(table, brokers(2), 2)
    assert caught.value.row == 2


def test_a_partition_listed_twice_is_refused_with_both_rows():
    table = partitions({"t": [[0], [0]]}).take([1, 0, 1])
    with pytest.raises(ProblemError, match=r"t-1 is listed twice \(also in row 1\)") as caught:
        Problem(table, brokers(2), 2)
    assert caught.value.row == 3


def test_a_factor_above_the_live_brokers_says_how_many_there_are():
    error = refused("wants replication factor 3, but only 2 brokers are alive", {"t": [[0]]}, 3, 3, dead=[2])
    assert error.row == 1


def test_a_factor_above_the_live_brokers_is_no_fault_where_nothing_has_to_grow():
    assert problem({"t": [[0, 1, 2]]}, 3, 3, dead=[2]).missing.tolist() == [0]


def test_a_replica_on_a_dead_broker_leaves_out_that_partition_alone():
    request = problem({"t": [[0, 1], [0, 2], [0, 2, 3]]}, 4, 3, dead=[2])
    assert request.missing.tolist() == [1, 0, 0]
    assert request.left_out.tolist() == [LeftOut.NOT, LeftOut.DEAD_REPLICA, LeftOut.NOT]
    plan = plan_local(request)
    assert verify(request, plan) == []
    assert plan.summary.to_json()["leftOut"]["deadReplica"] == 1
    assert plan.left_out.to_pylist()[0]["partition"] == 1
    assert any("leftOut" in line for line in verify(request, replace(plan, summary=replace(plan.summary, left_out={}))))


def test_racks_are_declared_by_all_live_brokers_or_by_none():
    mixed = (Broker(0, "a"), Broker(1, None), Broker(2, "b"))
    with pytest.raises(ProblemError, match="broker 1 has no rack") as caught:
        Problem(partitions({"t": [[0]]}), mixed, 2)
    assert (caught.value.table, caught.value.row) == ("brokers", 2)
    Problem(partitions({"t": [[0]]}), (Broker(0, "a"), Broker(1, None, alive=False), Broker(2, "b")), 2)


def test_one_broker_listed_twice_is_refused():
    with pytest.raises(ProblemError, match="broker 0 is listed twice") as caught:
        Problem(partitions({"t": [[0]]}), (Broker(0), Broker(0)), 1)
    assert (caught.value.table, caught.value.row) == ("brokers", 2)


@pytest.mark.parametrize("factor", [0, -1])
def test_a_factor_below_one_is_refused(factor):
    refused("below 1", {"t": [[0]]}, 2, factor)
    refused("for topic 't' is below 1", {"t": [[0]]}, 2, 1, topic_factors={"t": factor})


def test_sizes_leaders_and_isr_are_checked_where_they_are_known():
    sizes = pa.array([1, -5], pa.int64())
    assert refused("sizeBytes -5 is negative", {"t": [[0], [0]]}, 2, 2, sizeBytes=sizes).row == 2
    assert refused("leader 1 is not one", {"t": [[0]]}, 2, 2, leader=pa.array([1])).row == 1
    assert refused("isr names broker 1", {"t": [[0]]}, 2, 2, isr=pa.array([[1]], pa.list_(pa.int32()))).row == 1
    unknown = problem({"t": [[0]]}, 2, 2, sizeBytes=pa.array([None], pa.int64()), leader=pa.array([-1]))
    assert (unknown.columns.size.tolist(), unknown.columns.leader.tolist()) == ([-1], [-1])


def test_a_missing_column_or_one_of_another_type_is_refused():
    table = partitions({"t": [[0]]})
    for bad, reason in (
        (table.drop_columns("replicas"), "'replicas' is missing"),
        (table.set_column(0, "topic", pa.array([1])), "'topic' holds int64"),
        (table.set_column(1, "partition", pa.array(["0"])), "'partition' holds string"),
        (table.set_column(2, "replicas", pa.array([0])), "'replicas' holds int64"),
        (table.set_column(1, "partition", pa.array([2**64 - 1], pa.uint64())), "does not fit"),
    ):
        with pytest.raises(ProblemError, match=reason):
            Problem(bad, brokers(2), 2)


def test_factors_hold_per_topic_and_exempt_topics_are_left_alone():
    request = problem({"a": [[0]], "b": [[0]], "c": [[0]]}, 3, 3, topic_factors={"b": 2}, exempt=["c"])
    assert request.missing.tolist() == [2, 1, 0]
    assert [request.wanted(topic) for topic in "abc"] == [3, 2, None]


def test_a_dictionary_of_topics_with_unused_names_is_read_like_strings():
    table = partitions({"b": [[0]], "a": [[1]]})
    coded = pa.DictionaryArray.from_arrays(pa.array([2, 0]), pa.array(["a", "unused", "b"]))
    assert Problem(table.set_column(0, "topic", coded), brokers(2), 2).columns.topics == ("a", "b")
