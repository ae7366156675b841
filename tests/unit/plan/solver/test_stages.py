"""Kinds, quotas and dealing on their own: what each promises to the next."""

from __future__ import annotations

import numpy as np
import pytest

from kafka_medic.plan.solver import quotas
from kafka_medic.plan.solver.aggregate import classify, merge
from kafka_medic.plan.solver.conflict_resolution import conflicts, resolve_conflicts, swap_conflicts
from kafka_medic.plan.solver.expand import expand, stride
from kafka_medic.plan.solver.quotas import best_spread, solve_quotas
from kafka_medic.plan.solver.sites import Sites
from kafka_medic.plan.water_filling import Basin, level_with_caps, water_fill


def sites(racks, load):
    return Sites(np.array(racks, np.int32), np.array(load, np.int64), max(racks) + 1)


def test_kinds_ignore_the_order_of_replicas_and_count_all_partitions():
    held = np.array([[0, 1], [1, 0], [2, -1], [0, 1]], np.int32)
    kinds, kind = classify(held, np.array([1, 1, 2, 2], np.int32), 3)
    assert kinds.count.tolist() == [2, 1, 1]
    assert kind[0] == kind[1] != kind[3]
    assert kinds.held_per_rack(3)[kind[0]].tolist() == [1, 1, 0]


def test_the_dense_and_the_sorting_way_to_classify_agree(monkeypatch):
    rng = np.random.default_rng(3)
    held = rng.integers(-1, 9, (500, 3)).astype(np.int32)
    missing = rng.integers(1, 4, 500).astype(np.int32)
    dense = classify(held, missing, 9)
    monkeypatch.setattr("kafka_medic.plan.solver.aggregate.DENSE_KEYS", 0)
    sorting = classify(held, missing, 9)
    assert (dense[1] == sorting[1]).all()
    assert (dense[0].count == sorting[0].count).all()
    assert (dense[0].racks == sorting[0].racks).all()


def test_parts_of_a_data_set_merge_to_the_kinds_of_the_whole():
    rng = np.random.default_rng(4)
    held = rng.integers(-1, 5, (300, 2)).astype(np.int32)
    missing = rng.integers(1, 3, 300).astype(np.int32)
    whole, _ = classify(held, missing, 5)
    parts = [classify(held[a:b], missing[a:b], 5)[0] for a, b in ((100, 300), (0, 100))]
    merged, places = merge(parts, 5)
    assert all((merged.racks[place] == part.racks).all() for part, place in zip(parts, places, strict=True))
    assert (merged.racks == whole.racks).all()
    assert (merged.count == whole.count).all()


def test_water_fills_the_emptiest_first_and_levels_with_the_last():
    assert water_fill(np.array([5, 0, 2]), 5).tolist() == [0, 4, 1]
    basin = Basin(np.array([5, 0, 2]))
    assert [basin.level(n) for n in range(1, 10)] == [1, 2, 3, 3, 4, 4, 5, 5, 6]
    assert basin.capacity(4) == 6


def test_caps_hold_back_what_a_basin_could_take():
    level, taken = level_with_caps([Basin(np.array([0])), Basin(np.array([4]))], np.array([3, 9]), 6)
    assert (level, taken.tolist()) == (7, [3, 3])
    with pytest.raises(ValueError, match="do not fit"):
        level_with_caps([Basin(np.array([0]))], np.array([3]), 4)


@pytest.mark.parametrize(
    ("held", "missing", "sizes", "forced", "choose", "allowed"),
    [
        ([1, 0, 0], 1, [9, 9, 9], [0, 0, 0], 1, [0, 1, 1]),
        ([1, 0, 0], 2, [9, 9, 9], [0, 1, 1], 0, [0, 0, 0]),
        ([1, 0, 0], 3, [9, 9, 9], [0, 1, 1], 1, [1, 1, 1]),
        ([2, 0], 2, [9, 9], [0, 2], 0, [0, 0]),
        ([1, 0], 3, [1, 9], [0, 3], 0, [0, 0]),  # the first rack has one broker only
    ],
)
def test_the_best_rack_spread_fills_the_emptiest_racks(held, missing, sizes, forced, choose, allowed):
    got = best_spread(np.array([held]), np.array([missing]), np.array(sizes))
    assert got[0][0].tolist() == forced
    assert got[1][0] == choose
    assert got[2][0].astype(int).tolist() == allowed


def test_the_bound_sees_that_racks_keep_load_away_from_empty_brokers():
    # All partitions stand in rack 1 and may not come back to it, so its empty broker 2 cannot help.
    held = np.zeros((30, 1), np.int32) + 1
    kinds, _ = classify(held, np.ones(30, np.int32), 2)
    quotas = solve_quotas(kinds, sites([0, 1, 1], [0, 30, 0]))
    assert quotas.chosen.sum(axis=0).tolist() == [0, 0]
    assert quotas.forced.tolist() == [[1, 0]]
    assert quotas.bound == 30


def test_a_new_rack_takes_more_until_the_brokers_are_level():
    held = np.array([[0]] * 50 + [[1]] * 50, np.int32)
    kinds, _ = classify(held, np.ones(100, np.int32), 3)
    quotas = solve_quotas(kinds, sites([0, 1, 2], [50, 50, 0]))
    assert sorted((np.array([50, 50, 0]) + quotas.chosen.sum(axis=0)).tolist()) == [66, 67, 67]
    assert quotas.bound == 67


@pytest.mark.parametrize("length", [1, 2, 7, 100, 1024])
def test_a_stride_visits_every_place(length):
    assert len({i * stride(length) % length for i in range(length)}) == length


def deal(held, missing, where, width):
    rng = np.random.default_rng(1)
    brokers = np.array([rng.permutation(len(where.rack))[:held] for _ in range(width)], np.int32)
    load = np.bincount(brokers.ravel(), minlength=len(where.rack))
    where = Sites(where.rack, load, where.racks)
    need = np.full(width, missing, np.int32)
    kinds, kind = classify(where.rack[brokers], need, where.racks)
    quotas = solve_quotas(kinds, where)
    added, even = expand(kind, need, where.rack[brokers], quotas, where)
    return brokers, *resolve_conflicts(brokers, added, where, quotas.bound, even=even), where


@pytest.mark.parametrize("pooled", [False, True])
def test_dealing_meets_the_quotas_and_never_repeats_a_rack(pooled, monkeypatch):
    if pooled:
        monkeypatch.setattr(quotas, "LARGEST_TABLE", 0)
    brokers, added, bound, where = deal(1, 2, sites([0, 0, 1, 1, 2, 2, 3, 3], [0] * 8), 400)
    assert not conflicts(where.rack[np.concatenate([brokers, added], axis=1)], 1).any()
    load = where.load + np.bincount(added.ravel(), minlength=8)
    assert (load.max(), load.min()) == (bound, bound) == (150, 150)


def test_neighbours_of_one_topic_land_on_different_brokers():
    where = sites([0] * 5 + [1] * 5 + [2] * 5, [0] * 15)
    _, added, _, _ = deal(1, 1, where, 600)
    for begin in range(0, 600, 30):
        assert np.bincount(added[begin : begin + 30, 0], minlength=15).max() <= 6


def test_swaps_mend_clashes_and_leave_every_quota():
    table = np.array([[0, 0], [1, 1], [2, 3], [3, 2]], np.int32)
    before = np.bincount(table[:, 1], minlength=4)
    assert swap_conflicts(table, 1, np.zeros(4, np.int32)) == []
    assert not conflicts(table, 1).any()
    assert (np.bincount(table[:, 1], minlength=4) == before).all()


def test_where_no_swap_helps_the_load_is_evened_out_along_exchanges():
    # Both partitions stand on 0, so the dealt pair (0, 1) cannot stand; 1 and 2 are to be used instead.
    held = np.array([[0], [0]], np.int32)
    added, bound = resolve_conflicts(held, np.array([[0], [1]], np.int32), sites([0, 0, 0], [2, 0, 0]), 2)
    assert sorted(added.ravel().tolist()) == [1, 2]
    assert bound == 2


def test_exchanges_that_are_cut_short_are_reported_not_hidden(monkeypatch):
    monkeypatch.setattr("kafka_medic.plan.solver.rebalance.MOST_PATHS", 0)
    held = np.array([[0], [0], [0]], np.int32)
    added, bound = resolve_conflicts(held, np.array([[0], [1], [1]], np.int32), sites([0, 0, 0], [0, 0, 0]), 1)
    assert np.bincount(added.ravel()).max() > bound == 1
