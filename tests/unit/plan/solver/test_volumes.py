"""Which replicas of a broker go to another of its volumes."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafka_medic.plan.solver.volumes import STAYS, to_other_volumes


def goes(size, volume, above):
    return to_other_volumes(np.array(size, np.int64), np.array(volume, np.int64), np.array(above, np.int64)).tolist()


def test_as_few_bytes_as_can_be_go_to_where_there_is_most_room():
    assert goes([50, 30, 20, 7], [0, 0, 0, 1], [-25, 10, 90]) == [STAYS, 2, STAYS, STAYS]
    assert goes([50, 30, 20], [0, 0, 0], [-50, 30, 20]) == [STAYS, 1, 2], "no volume has room for the largest"


def test_what_cannot_be_helped_is_less_and_nothing_without_need_moves():
    assert goes([50, 30], [0, 0], [-60, 40]) == [STAYS, 1]
    assert goes([50, 30], [0, 0], [0, 40]) == [STAYS, STAYS]
    assert goes([50, 30], [0, 0], [-10]) == [STAYS, STAYS], "there is no other volume"
    assert goes([], [], [-10, 5]) == []
    assert goes([0, 5], [0, 0], [-3, 5]) == [STAYS, 1], "an empty replica frees nothing"


volumes = st.integers(2, 4).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(-300, 300), min_size=n, max_size=n),
        st.lists(st.tuples(st.integers(0, 120), st.integers(0, n - 1)), max_size=24),
    )
)


@given(volumes)
def test_no_volume_gets_more_than_it_has_room_for_and_nothing_leaves_that_could_stay(drawn):
    above, replicas = drawn
    size, volume = [s for s, _ in replicas], [v for _, v in replicas]
    found = goes(size, volume, above)
    coming, leaving = [0] * len(above), [[] for _ in above]
    for s, v, to in zip(size, volume, found, strict=True):
        if to != STAYS:
            assert to != v
            coming[to] += s
            leaving[v].append(s)
    for v, room in enumerate(above):
        assert coming[v] <= max(room, 0), "beyond its bound"
        need = max(-room, 0)
        if leaving[v]:
            assert sum(leaving[v]) - min(leaving[v]) < need, "one more than it takes"


@given(st.lists(st.integers(1, 60), min_size=1, max_size=10), st.integers(1, 300))
def test_where_there_is_room_for_all_no_choice_has_fewer_bytes(size, need):
    found = goes(size, [0] * len(size), [-need, 10_000])
    moved = sum(s for s, to in zip(size, found, strict=True) if to != STAYS)
    sums = [sum(c) for n in range(len(size) + 1) for c in itertools.combinations(size, n)]
    assert moved == min((s for s in sums if s >= need), default=sum(size))
