"""Groups that fall behind and never catch up.

A lag goes up and down within a day. What a group never caught up with is the least lag of each day. Where that grows
from day to day, the group reads more slowly than records arrive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_medic.fleet.robust import daily
from kafka_medic.fleet.traffic import Topics, Usage
from kafka_medic.fleet.whole import Whole

__all__ = ["FallingBehind", "falling_behind"]

LEAST_DAYS = 3


@dataclass(frozen=True)
class FallingBehind:
    """A group whose least lag of a day (offsets) grew on each of `days` days in a row, the last one included."""

    group: str
    topic: str
    first: int
    last: int
    days: int

    @property
    def per_day(self) -> float:
        return (self.last - self.first) / (self.days - 1)


def falling_behind(usage: Usage, topics: Topics, kept: Whole) -> tuple[FallingBehind, ...]:
    """The one that grows fastest first. A day on which a lag is not known ends the row of days."""
    _, least = daily(kept.time, usage.lag, least=True)
    count = least.shape[1]
    if count < LEAST_DAYS:
        return ()
    with np.errstate(invalid="ignore"):
        grew = np.diff(least, axis=1) > 0
    rises = np.where(grew.all(axis=1), count - 1, (~grew[:, ::-1]).argmax(axis=1))
    found = [
        FallingBehind(
            usage.groups[at],
            topics.names[int(usage.topic[at])],
            int(least[at, count - 1 - int(rises[at])]),
            int(least[at, -1]),
            int(rises[at]) + 1,
        )
        for at in np.flatnonzero(rises + 1 >= LEAST_DAYS).tolist()
    ]
    return tuple(sorted(found, key=lambda f: (-f.per_day, f.group, f.topic)))
