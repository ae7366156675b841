"""The least that some broker has of a topic since racks differ in size, counted one partition after the other."""

from __future__ import annotations

import numpy as np
import pytest

from kafka_medic.plan.verify import topics
from kafka_medic.plan.verify.topics import rack_floor


def by_hand(held: list[list[int]], comes: list[int], topic: list[int], of: int, size: list[int]) -> list[int]:
    """Each replica that comes goes to a rack with fewest of its partition, where there is a choice to a large one."""
    least = [0] * of
    by_size = sorted(range(len(size)), key=lambda rack: size[rack])
    for some in range(1, len(size)):
        small, inside = by_size[:some], [0] * of
        for stays, more, name in zip(held, comes, topic, strict=True):
            there = [stays.count(rack) for rack in range(len(size))]
            for _ in range(more):
                free = [rack for rack in range(len(size)) if there[rack] < size[rack]]
                there[min(free, key=lambda rack: (there[rack], rack in small, rack))] += 1
            inside[name] += sum(there[rack] for rack in small)
        room = sum(size[rack] for rack in small)
        least = [max(before, -(-count // room)) for before, count in zip(least, inside, strict=True)]
    return least


@pytest.mark.parametrize("cells", [topics.DENSE_CELLS, 1])
def test_tables_and_sorting_count_the_same(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "DENSE_CELLS", cells)
    chance = np.random.default_rng(7)
    for _ in range(60):
        racks, of, count = (int(n) for n in chance.integers((2, 1, 1), (6, 5, 40)))
        size = [int(n) for n in chance.integers(1, 6, racks)]
        if len(set(size)) < 2:
            continue
        held = [[int(r) for r in chance.permutation(racks)[: chance.integers(0, 3)]] for _ in range(count)]
        comes = [int(n) for n in chance.integers(0, 2, count)]
        topic = [int(n) for n in chance.integers(0, of, count)]
        row = np.repeat(np.arange(count), [len(each) for each in held])
        rack = np.array([r for each in held for r in each], dtype=np.int64)
        found = rack_floor((row, rack), np.array(comes, dtype=np.int64), np.array(topic), of, size)
        assert found.tolist() == by_hand(held, comes, topic, of, size)
