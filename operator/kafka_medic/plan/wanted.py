"""Which factor a topic is to have, by shell patterns, for any part of the topics at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

__all__ = ["Wanted"]


@dataclass(frozen=True)
class Wanted:
    """factor: replicas of a topic that no pattern names. factors: (pattern, factor), of several that match the last
    counts. exempt: patterns of topics that are left as they are."""

    factor: int
    factors: tuple[tuple[str, int], ...] = ()
    exempt: tuple[str, ...] = ()

    def of(self, topic: str) -> int | None:
        """The factor of a topic, None if it is exempt."""
        if any(fnmatchcase(topic, pattern) for pattern in self.exempt):
            return None
        matching = [factor for pattern, factor in self.factors if fnmatchcase(topic, pattern)]
        return matching[-1] if matching else self.factor

    def factors_of(self, topics: Iterable[str]) -> dict[str, int]:
        """The topics that a pattern gives a factor of their own."""
        return {topic: factor for pattern, factor in self.factors for topic in topics if fnmatchcase(topic, pattern)}

    def exempt_of(self, topics: Iterable[str]) -> frozenset[str]:
        """The topics that are left as they are."""
        return frozenset(topic for topic in topics if any(fnmatchcase(topic, pattern) for pattern in self.exempt))
