"""Water filling: the most even way to pour whole replicas onto brokers that hold some already."""

from __future__ import annotations

import numpy as np

from kafka_medic.plan.columns import Ints

__all__ = ["Basin", "level_with_caps", "water_fill"]


ENDLESS = 1 << 62
"""A level that nothing reaches."""


class Basin:
    """A group of brokers (one rack) that any of its replicas may go to.

    load: int64[b] replicas each broker holds before anything is poured. A group of none never takes any.
    """

    def __init__(self, load: Ints) -> None:
        self.load = load.astype(np.int64)
        self._sorted = np.sort(self.load)
        self._prefix = np.concatenate(([0], np.cumsum(self._sorted)))
        self._below = np.arange(len(load)) * self._sorted - self._prefix[:-1]

    def level(self, poured: int) -> int:
        """Load of the broker that takes the last of `poured` >= 1 replicas (marginal cost of that one)."""
        if not len(self.load):
            return ENDLESS
        active = max(int(np.searchsorted(self._below, poured, side="left")), 1)
        return int(-(-(poured + self._prefix[active]) // active))

    def capacity(self, level: int) -> int:
        """Replicas that fit without any broker passing `level`."""
        active = int(np.searchsorted(self._sorted, level))
        return int(active * level - self._prefix[active])


def water_fill(load: Ints, amount: int) -> Ints:
    """int64[b] replicas to add to each broker so that the sorted loads are as even as they can be.

    The remainder goes to the first brokers in order, so that the answer is always the same.
    """
    added = np.zeros(len(load), dtype=np.int64)
    if amount <= 0:
        return added
    level = Basin(load).level(amount) - 1
    added = np.maximum(level - load, 0).astype(np.int64)
    rest = amount - int(added.sum())
    added[np.flatnonzero(load + added <= level)[:rest]] += 1
    return added


def level_with_caps(basins: list[Basin], caps: Ints, amount: int) -> tuple[int, Ints]:
    """Lowest level at which `amount` fits when basin i takes at most caps[i]; and what each takes.

    Raises ValueError if the caps together are below the amount.
    """
    if int(caps.sum()) < amount:
        raise ValueError(f"{amount} replicas do not fit into caps of {int(caps.sum())}")
    low, high = 0, max((int(basin.load.max(initial=0)) for basin in basins), default=0) + amount + 1

    def taken(level: int) -> Ints:
        return np.minimum(np.array([basin.capacity(level) for basin in basins], dtype=np.int64), caps)

    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if int(taken(middle).sum()) >= amount else (middle + 1, high)
    take = taken(low - 1)
    more = taken(low) - take
    rest = amount - int(take.sum())
    # Give the last level out in order of rack, at most what each has room for.
    before = np.cumsum(more) - more
    return low, take + np.clip(rest - before, 0, more)
