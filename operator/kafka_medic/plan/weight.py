"""Brokers of different capacity: what "even" means when one is to hold twice as much as another.

A broker's share is what it would hold if all that is to be placed were handed out one by one, each to the broker that
then has the least for its weight (D'Hondt's rule, on top of what brokers hold already). A broker with less than the
average share is counted as if it held the difference already, so that equal counts are fair shares, and everything that
makes counts even, and proves how even they can be, does so for brokers of any weight. This is the definition of what is
measured; the planner and the verifier both use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kafka_medic.plan.broker import Broker
from kafka_medic.plan.columns import Ints

__all__ = ["Handicap", "handicap"]

HALVINGS = 100


@dataclass(frozen=True, eq=False)
class Handicap:
    """extra: int64[B] what each broker is counted as holding besides, 0 or more. average: the mean of it over the live
    ones, rounded down, which figures are lowered by, so that they are those of a broker of average share."""

    extra: Ints
    average: int


def handicap(brokers: Sequence[Broker], load: Ints, amount: int) -> Handicap:
    """For the `amount` to be placed over load (int64[B]); all 0 for brokers of equal weight."""
    extra = np.zeros(len(brokers), dtype=np.int64)
    alive = np.array([broker.alive for broker in brokers], dtype=bool)
    weight = np.array([broker.weight for broker in brokers], dtype=np.float64)[alive]
    if not len(weight) or (weight == weight[0]).all():
        return Handicap(extra, 0)
    share = _shares(weight, load[alive].astype(np.int64), amount)
    extra[alive] = share.max() - share
    return Handicap(extra, int(extra[alive].sum()) // len(weight))


def _shares(weight: np.ndarray[tuple[int, ...], np.dtype[np.float64]], load: Ints, amount: int) -> Ints:
    total = int(load.sum()) + amount
    low, high = 0.0, (total + 1) / float(weight.min())
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        fits = int(np.maximum(load, np.floor(middle * weight).astype(np.int64)).sum()) <= total
        low, high = (middle, high) if fits else (low, middle)
    share: Ints = np.floor(low * weight).astype(np.int64)
    filled = np.maximum(load, share)
    cheapest = np.argsort((filled + 1) / weight, kind="stable")[: total - int(filled.sum())]
    share[cheapest] = filled[cheapest] + 1
    return share
