"""For how long an effect that failed is left alone. It is tried for ever: a restore must be, above all."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

LONGEST = 300.0
"""Seconds between two tries, at most."""
_DOUBLINGS = 16
"""More than `LONGEST` has room for. 2.0**1024 is an OverflowError."""

Key = tuple[str, str]
"""(the run's uid, the effect's id in its journal)"""


def pause_after(failures: int) -> float:
    """Seconds until the next try, after so many failures in a row."""
    return min(2.0 ** min(failures, _DOUBLINGS), LONGEST)


@dataclass(slots=True)
class Backoff:
    """`waiting`: failures in a row of each effect, and when it may be tried again, by a clock that only goes forwards.
    It is kept in memory alone: a new process tries at once."""

    waiting: dict[Key, tuple[int, float]] = field(default_factory=dict)

    def left(self, key: Key, now: float) -> float:
        """Seconds until the effect may be tried; 0 when it may be now."""
        _, until = self.waiting.get(key, (0, now))
        return max(until - now, 0.0)

    def failed(self, key: Key, now: float) -> int:
        """How often in a row, this time included."""
        count = self.waiting.get(key, (0, now))[0] + 1
        self.waiting[key] = count, now + pause_after(count)
        return count

    def succeeded(self, key: Key) -> None:
        self.waiting.pop(key, None)

    def forget_but(self, runs: Set[str]) -> None:
        """Keep what these runs wait for; the others have ended."""
        self.waiting = {key: value for key, value in self.waiting.items() if key[0] in runs}
