"""Bytes leave brokers whose volumes fill: which replicas go, where they may go, and what is refused."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from kafka_medic.plan.allowed import Allowed, LeftOut
from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.problem import Broker, ProblemError
from kafka_medic.plan.relocation import Relieve, Relocation
from kafka_medic.plan.solver.relief import EXACT, fewest_bytes
from kafka_medic.plan.solver.relocate import plan_relocation
from kafka_medic.plan.spark.question import Question
from kafka_medic.plan.verify.moves import verify_moves
from tests.unit.plan.cluster_tables import brokers, partitions


def asked(rows, sizes, need, listed=3, allowed=None, only=(), **columns):
    """A request that so many bytes leave broker 0, or of each broker in a mapping. only: by broker, partitions."""
    listed = brokers(listed) if isinstance(listed, int | str) else listed
    isr = pa.array(rows, pa.list_(pa.int32()))
    columns = {"isr": isr, "sizeBytes": pa.array(sizes, pa.int64()), **columns}
    wanted = need if isinstance(need, dict) else {0: need}
    alone = tuple((broker, frozenset(("t", n) for n in numbers)) for broker, numbers in dict(only).items())
    question = Relieve(tuple(wanted.items()), alone)
    return Relocation(partitions({"t": rows}, **columns), listed, question, allowed or Allowed())


def planned(*args, **columns):
    request = asked(*args, **columns)
    plan = plan_relocation(request)
    assert verify_moves(request, plan) == []
    return plan


def gone(plan, broker=0):
    """Partitions that have left the broker."""
    return [m.partition for m in plan.moves() if broker in m.replicas_before and broker not in m.replicas]


def test_as_few_bytes_leave_as_can_be_and_nothing_else_moves():
    plan = planned([[0, 1], [1, 0], [0, 1], [1, 2]], [50, 30, 21, 99], 51)
    assert gone(plan) == [1, 2]
    assert plan.summary.moves == 2
    assert {m.partition: set(m.replicas) for m in plan.moves()} == {1: {1, 2}, 2: {1, 2}}


@pytest.mark.parametrize(("need", "left"), [(1, [2]), (50, [0]), (101, [0, 1, 2]), (80, [0, 1]), (71, [0, 2])])
def test_the_need_is_met_with_the_least_that_meets_it(need, left):
    assert gone(planned([[0, 1]] * 3, [50, 30, 21], need)) == left


def test_what_leaves_is_as_large_as_it_is_on_the_broker_and_arrives_as_large_as_on_the_leader():
    rows, sizes, own = [[1, 0]] * 3, [50, 30, 21], {("t", 0): 10, ("t", 1): 30, ("t", 2): 40}
    small = (Broker(0), Broker(1), Broker(2, disk_free=29))
    for listed, need, left in ((3, 35, [2]), (3, 41, [0, 2]), (small, 30, [2])):
        free = asked(rows, sizes, need, listed)
        request = replace(free, question=replace(free.question, sizes=((0, own),)))
        plan = plan_relocation(request)
        assert verify_moves(request, plan) == []
        assert gone(plan) == left
    without = replace(free, question=replace(free.question, sizes=((0, {("t", 1): 30}),)))
    with pytest.raises(ProblemError, match="replicas of only 0 can"):
        plan_relocation(without)


def test_of_a_broker_with_several_volumes_only_what_is_on_one_of_them_leaves():
    rows, sizes = [[0, 1]] * 3, [50, 30, 21]
    assert gone(planned(rows, sizes, 20)) == [2]
    assert gone(planned(rows, sizes, 20, only={0: [0, 1]})) == [1]
    with pytest.raises(ProblemError, match="replicas of only 30 can"):
        planned(rows, sizes, 40, only={0: [1]})
    with pytest.raises(ProblemError, match="replicas of only 0 can"):
        planned(rows, sizes, 1, only={0: []})
    free, kept = asked(rows, sizes, 20), asked(rows, sizes, 20, only={0: [0, 1]})
    told = verify_moves(kept, plan_relocation(free))
    assert any("may not leave its broker" in line for line in told), told


def test_a_follower_leaves_before_a_leader_where_that_costs_no_more():
    rows, leaders = [[0, 1], [0, 1], [0, 1]], pa.array([0, 1, 0])
    assert gone(planned(rows, [50, 50, 50], 50, leader=leaders)) == [1]
    assert gone(planned(rows, [49, 50, 50], 49, leader=leaders)) == [0]


@pytest.mark.parametrize("sizes", [[0, None, 10, 10], [10, None, 10, 0]])
def test_what_has_no_known_size_or_no_bytes_stays(sizes):
    plan = planned([[0, 1]] * 4, sizes, 20)
    assert set(gone(plan)) == {n for n, size in enumerate(sizes) if size}
    assert plan.summary.left_out == {LeftOut.UNKNOWN_SIZE: 1}


@pytest.mark.parametrize("isr", [[1], [0], [], None])
def test_a_partition_that_is_not_in_sync_everywhere_stays(isr):
    isr = pa.array([isr, [0, 1]], pa.list_(pa.int32()))
    assert gone(planned([[0, 1]] * 2, [50, 90], 40, isr=isr)) == [1]


def test_a_partition_with_a_replica_on_a_dead_broker_stays():
    listed = brokers(4, dead=[3])
    plan = planned([[0, 3], [0, 1]], [50, 90], 40, listed)
    assert gone(plan) == [1]
    assert plan.summary.left_out == {LeftOut.DEAD_REPLICA: 1}


def test_racks_stay_as_well_used_as_they_were():
    # Broker 0 is alone in its rack, so a partition on all racks keeps it.
    plan = planned([[0, 1, 2], [0, 1]], [50, 90], 40, "abcb")
    assert gone(plan) == [1]
    (move,) = plan.moves()
    assert set(move.replicas) == {1, 2}
    with pytest.raises(ProblemError, match="40 bytes have to leave broker 0, and replicas of only 0 can"):
        plan_relocation(asked([[0, 1, 2]], [50], 40, "abcb"))


def test_a_receiver_takes_no_more_than_its_room_and_the_broker_itself_nothing():
    listed = (Broker(0), Broker(1, disk_free=60), Broker(2, disk_free=30))
    plan = planned([[0]] * 3, [60, 30, 90], 90, listed)
    assert {m.partition: m.replicas for m in plan.moves()} == {0: (1,), 1: (2,)}
    assert gone(planned([[0, 1], [1, 0]], [10, 10], {0: 5, 1: 5}, 4), 1) != []


def test_other_replicas_leave_where_the_best_ones_find_no_room_together():
    listed = (Broker(0), Broker(1, disk_free=60), Broker(2, disk_free=40))
    plan = planned([[0]] * 4, [50, 45, 60, 35], 95, listed)
    assert {m.partition: m.replicas for m in plan.moves()} == {2: (1,), 3: (2,)}


def test_what_one_broker_sends_leaves_less_room_for_the_other():
    listed = (Broker(0), Broker(1), Broker(2, disk_free=30), Broker(3, disk_free=20))
    plan = planned([[0], [1], [1]], [30, 30, 20], {0: 30, 1: 20}, listed)
    assert {m.partition: m.replicas for m in plan.moves()} == {0: (2,), 2: (3,)}


def test_brokers_are_relieved_together_each_by_what_it_needs():
    plan = planned([[0, 1], [1, 0], [0, 2], [1, 2]], [10, 20, 30, 40], {0: 25, 1: 15}, 5)
    assert (gone(plan, 0), gone(plan, 1)) == ([2], [1])


@pytest.mark.parametrize(
    ("rows", "sizes", "need", "listed", "allowed", "reason"),
    [
        ([[0, 1]], [50], 51, 3, None, "51 bytes have to leave broker 0, and replicas of only 50 can"),
        ([[0, 1]], [50], 10, 2, None, "10 bytes have to leave broker 0, and replicas of only 0 can"),
        ([[0, 1]], [50], 10, 3, Allowed(exclude_topics=("t",)), "replicas of only 0 can"),
        ([[0, 1]], [50], 10, 3, Allowed(only_give=frozenset({2})), "replicas of only 0 can"),
        ([[0, 1]], [50], 10, (Broker(0), Broker(1), Broker(2, disk_free=49)), None, "replicas of only 0 can"),
        ([[0]] * 2, [5, 5], 10, (Broker(0), Broker(1, disk_free=6)), None, "bytes of new replicas"),
        ([[0, 1]], [50], 0, 3, None, "0 bytes are below 1"),
        ([[0, 1]], [50], {}, 3, None, "no broker is named"),
        ([[0, 1]], [50], {9: 5}, 3, None, "broker 9 is not listed"),
        ([[0, 1]], [50], 5, 3, Allowed(exclude_brokers=frozenset({0})), "broker 0 is excluded"),
        ([[0, 1]], [50], 5, brokers(3, dead=[0]), None, "broker 0 is not alive"),
        ([[0, 1]], [50], 5, 3, Allowed(moves=1), "limits"),
    ],
)
def test_what_cannot_be_relieved_is_refused(rows, sizes, need, listed, allowed, reason):
    with pytest.raises(ProblemError, match=reason):
        plan_relocation(asked(rows, sizes, need, listed, allowed))


def test_a_broker_that_is_named_twice_is_refused():
    request = asked([[0, 1]], [5], 5)
    with pytest.raises(ProblemError, match="broker 0 is named twice"):
        Relocation(request.partitions, request.brokers, Relieve(((0, 1), (0, 2))))


def test_blocks_are_refused_since_each_would_free_all_of_it():
    with pytest.raises(ProblemError, match="cannot be planned in blocks"):
        Question(brokers(3), Relieve(((0, 5),)))


WHOLE = [[0, 1], [0, 1], [0, 1], [1, 2], [0, 3]]


def broken(change, need=10, **columns):
    columns = {"isr": pa.array(WHOLE, pa.list_(pa.int32())), **columns}
    request = asked(WHOLE, [10, 30, None, 10, 10], need, brokers("aabb"), **columns)
    plan = plan_relocation(asked(WHOLE, [10, 30, None, 10, 10], 10, brokers("aabb")))
    rows = plan.table.to_pylist()
    assert len(rows) == 1
    rows[0].update(change)
    return verify_moves(request, replace(plan, table=pa.Table.from_pylist(rows, PLAN_SCHEMA)))


def moved(partition, before, after):
    return {"partition": partition, "replicasBefore": before, "replicas": after, "preferredOrder": after}


@pytest.mark.parametrize(
    ("change", "columns", "reason"),
    [
        (moved(0, [0, 1], [1, 2]), {"need": 11}, "replicas of 10 bytes leave broker 0, where 11 have to"),
        (moved(2, [0, 1], [1, 2]), {}, "has no known size and is touched"),
        (moved(3, [1, 2], [1, 3]), {}, "is not on a broker that is relieved and is touched"),
        (moved(0, [0, 1], [0, 2]), {}, "leaves a broker that it should stay on"),
        (moved(4, [0, 3], [3, 2]), {}, "is spread over fewer racks than before"),
        (
            moved(0, [0, 1], [1, 2]),
            {"isr": pa.array([[1], [0, 1], None, [1, 2], [0, 3]], pa.list_(pa.int32()))},
            "is not known to be in sync everywhere and is touched",
        ),
    ],
)
def test_a_broken_row_is_found(change, columns, reason):
    found = broken(change, **columns)
    assert any(reason in line for line in found), found


def test_one_that_could_stay_is_found():
    rows = WHOLE, [10, 30, None, 10, 10]
    plan = plan_relocation(asked(*rows, 40, brokers("aabb")))
    assert verify_moves(asked(*rows, 40, brokers("aabb")), plan) == []
    found = verify_moves(asked(*rows, 10, brokers("aabb")), plan)
    assert "replicas of 40 bytes leave broker 0, one more than 10 bytes take" in found


@pytest.mark.parametrize("count", [1, 5, 12, EXACT])
def test_few_sizes_are_met_at_best(count):
    draw = np.random.default_rng(count)
    for _ in range(20):
        size = draw.integers(1, 40, count)
        need = int(draw.integers(1, size.sum() + 1))
        chosen = fewest_bytes(size, np.zeros(count, dtype=bool), need)
        if count > 12:
            continue
        sums = (sum(some) for n in range(count + 1) for some in itertools.combinations(size.tolist(), n))
        assert int(size[chosen].sum()) == min(s for s in sums if s >= need)


def test_many_sizes_are_met_within_the_smallest_that_was_taken():
    draw = np.random.default_rng(7)
    for count in (17, 60, 900):
        for spread in (10, 10**12):
            size = draw.integers(1, spread, count)
            need = int(size.sum()) // 3
            leads = draw.random(count) < 0.5
            chosen = fewest_bytes(size, leads, need)
            over = int(size[chosen].sum()) - need
            assert 0 <= over < size[chosen].min()
            for same in np.unique(size):
                here = size == same
                assert not (chosen & here & leads).any() or not (~chosen & here & ~leads).any()
