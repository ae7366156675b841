"""What a plan may do, whatever it is asked: which brokers take replicas, which topics stay, how much is copied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from fnmatch import fnmatchcase

import numpy as np

from kafka_medic.plan.bounds import Bound, Bounds
from kafka_medic.plan.broker import Broker, ProblemError
from kafka_medic.plan.columns import Bools

__all__ = ["Allowed", "LeftOut"]


MOST = 2**62
"""Of a limit."""


class LeftOut(IntEnum):
    """Why a partition that should change stays as it is; NOT: it does change, or need not."""

    NOT = 0
    DEAD_REPLICA = 1
    LOST = 2
    EXCLUDED_TOPIC = 3
    OVER_LIMIT = 4
    UNKNOWN_SIZE = 5

    @property
    def key(self) -> str:
        """The name in summary.json."""
        first, *others = self.name.lower().split("_")
        return first + "".join(word.title() for word in others)

    @property
    def words(self) -> str:
        """The name in tables."""
        return self.name.lower().replace("_", " ")

    @property
    def sentence(self) -> str:
        """The same for people."""
        return _SENTENCES[self]


_SENTENCES = {
    LeftOut.NOT: "changes",
    LeftOut.DEAD_REPLICA: "has a replica on a broker that is not alive, and a reassignment with it never ends",
    LeftOut.LOST: "is in sync on no broker that stays, so nothing can copy it",
    LeftOut.EXCLUDED_TOPIC: "is of an excluded topic",
    LeftOut.OVER_LIMIT: "does not fit the limits on moves and bytes",
    LeftOut.UNKNOWN_SIZE: "has no known size, which a limit on bytes needs",
}


@dataclass(frozen=True)
class Allowed:
    """Limits that hold for every question; the default allows everything.

    exclude_brokers: brokers that take no replica and give none, except where the question empties them. only_give:
    brokers that take no replica. Neither becomes the preferred leader of more partitions, but for those whose preferred
    leader leaves: what it keeps may lead them. exclude_topics: shell patterns of topics that stay as they are. moves,
    bytes: the most replicas that are copied, and the most bytes of them. moves_per_broker, bytes_per_broker: the most
    that one broker receives. None: no limit.
    Raises ValueError if a limit is below 1 or above MOST, or if a broker is named twice.
    """

    exclude_brokers: frozenset[int] = frozenset()
    only_give: frozenset[int] = frozenset()
    exclude_topics: tuple[str, ...] = ()
    moves: int | None = None
    bytes: int | None = None
    moves_per_broker: int | None = None
    bytes_per_broker: int | None = None

    def __post_init__(self) -> None:
        for name in ("moves", "bytes", "moves_per_broker", "bytes_per_broker"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ValueError(f"the limit {name} is {limit}, but has to be at least 1")
            if limit is not None and limit > MOST:
                raise ValueError(f"the limit {name} is {limit}, but may be {MOST} at most")
        if both := self.exclude_brokers & self.only_give:
            raise ValueError(f"broker {min(both)} is excluded and only gives: name it once")

    @property
    def limited(self) -> bool:
        """Whether partitions may be left out because a limit is reached."""
        return any(n is not None for n in (self.moves, self.bytes, self.moves_per_broker, self.bytes_per_broker))

    @property
    def limits_brokers(self) -> bool:
        """Whether what one broker receives is limited."""
        return self.moves_per_broker is not None or self.bytes_per_broker is not None

    @property
    def by_bytes(self) -> bool:
        """Whether a limit needs the sizes of partitions."""
        return self.bytes is not None or self.bytes_per_broker is not None

    def among(self, bounds: Bounds) -> Bounds:
        """The bounds, which are among plans that are allowed."""
        if self == Allowed():
            return bounds
        changes = "change the same partitions and keep to the limits"
        return {name: Bound(f"{b.over} that {changes}", b.exact and not self.limited) for name, b in bounds.items()}

    def closing(self, brokers: Iterable[Broker]) -> tuple[Broker, ...]:
        """The brokers; those that take no replica are marked. Raises ProblemError if one of them is not listed."""
        brokers, closed = tuple(brokers), self.exclude_brokers | self.only_give
        if unlisted := closed - {broker.id for broker in brokers}:
            number = min(unlisted)
            option = "excluded" if number in self.exclude_brokers else "only to give"
            raise ProblemError(None, f"broker {number} is {option}, but it is not listed", "brokers")
        return tuple(replace(broker, takes=False) if broker.id in closed else broker for broker in brokers)

    def topic_stays(self, topic: str) -> bool:
        """Whether the topic is excluded."""
        return any(fnmatchcase(topic, pattern) for pattern in self.exclude_topics)

    def staying_topics(self, topics: Sequence[str]) -> Bools:
        """bool[T]: which of the topics are excluded."""
        return np.array([self.topic_stays(topic) for topic in topics] if self.exclude_topics else [False] * len(topics))
