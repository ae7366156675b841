"""Which topics a broker is asked about when nobody asks it for its whole view, and whether its word on them differs.

A stale view shows where something changed since. So each broker is asked about the topics of the partitions that
changed in the last observations and that it has replicas of, and about all other such topics while they are few.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.accounts import marks
from kafka_medic.cluster.concern import Topics, topics_of
from kafka_medic.cluster.partition_rows import NOWHERE, Rows

Mask = npt.NDArray[np.bool_]
NONE: frozenset[str] = frozenset()
MOST_ACCOUNTS = 16
ISR = 3
"""Its place among `marks`."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Of one observation. `topics`: all in which something changed; `held`: of them, by broker, those of changed
    partitions that it has replicas of."""

    topics: frozenset[str] = NONE
    held: Topics = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """An account (STATES_SCHEMA) that others are compared with. `sizes`: by topic, its partitions."""

    states: pa.Table
    rows: Rows
    marks: tuple[npt.NDArray[np.int64], ...]
    sizes: Mapping[str, int]

    @classmethod
    def of(cls, states: pa.Table) -> Reference:
        return cls(states, Rows.of(states), marks(states), _sizes(states))

    def differing(
        self, account: pa.Table, covers: Collection[str] | None = None, *, but_isr: bool = False
    ) -> frozenset[str]:
        """The topics on which `account` differs, of those that it `covers` (None: all). `but_isr`: beyond the ISRs."""
        if account is self.states:
            return NONE
        sizes = _sizes(account)
        topics = set(self.sizes) | set(sizes) if covers is None else covers
        found = {topic for topic in topics if sizes.get(topic, 0) != self.sizes.get(topic, 0)}
        place = self.rows.find(account)
        same = place != NOWHERE
        columns = list(zip(self.marks, marks(account), strict=True))
        for mine, theirs in columns[:ISR] if but_isr else columns:
            same[same] = mine[place[same]] == theirs[same]
        own_ids, ids = self.states["topicId"], account["topicId"]
        same_id: Any = pc.equal(own_ids.take(pa.array(place[same])), ids.filter(pa.array(same)))
        nameless = own_ids.null_count == len(own_ids) and ids.null_count == len(ids)
        if not nameless:
            same[same] = np.asarray(pc.fill_null(same_id, False).to_numpy(), dtype=np.bool_)
        others: Any = pc.unique(account["topic"].filter(pa.array(~same)))
        return frozenset(found.union(others.to_pylist()).intersection(topics))


@dataclass(slots=True, eq=False)
class Accounts:
    """Slices as accounts of everything: `base`, with other words where they differ. The same words are one table, and
    there are no more than MOST_ACCOUNTS: each takes as much memory and time as a whole view."""

    base: Reference
    _made: list[tuple[frozenset[str], pa.Table, pa.Table]] = field(default_factory=list)

    def whole(self, account: pa.Table, covers: Collection[str]) -> pa.Table | None:
        """None: there are too many different ones."""
        differing = self.base.differing(account, covers)
        if not differing:
            return self.base.states
        words = _within(account, differing).sort_by([("topic", "ascending"), ("partition", "ascending")])
        for topics, same, table in self._made:
            if topics == differing and same.equals(words):
                return table
        if len(self._made) >= MOST_ACCOUNTS:
            return None
        table = patched(self.base.states, words, differing)
        self._made.append((differing, words, table))
        return table


def patched(states: pa.Table, account: pa.Table, covers: Collection[str]) -> pa.Table:
    """An account with newer words on the topics that `account` covers."""
    return pa.concat_tables([_without(states, covers), account])


def _without(states: pa.Table, topics: Collection[str]) -> pa.Table:
    return states.filter(pc.invert(_inside(states, topics)))


def _within(states: pa.Table, topics: Collection[str]) -> pa.Table:
    return states.filter(_inside(states, topics))


def _inside(states: pa.Table, topics: Collection[str]) -> Any:
    return pc.is_in(states["topic"], value_set=pa.array(sorted(topics), pa.string()))


def changes(before: pa.Table, now: pa.Table) -> Changes:
    """What is new since `before`. Both have STATES_SCHEMA."""
    reference = Reference.of(before)
    topics = reference.differing(now)
    if not topics:
        return Changes()
    place = reference.rows.find(now)
    rows = place == NOWHERE
    for mine, old in zip(marks(now), reference.marks, strict=True):
        rows[~rows] = mine[~rows] != old[place[~rows]]
    ids: Any = pc.not_equal(now["topicId"].filter(pa.array(~rows)), before["topicId"].take(pa.array(place[~rows])))
    rows[~rows] = np.asarray(pc.fill_null(ids, False).to_numpy(), dtype=np.bool_)
    gone = Rows.of(now).find(before) == NOWHERE
    held: dict[int, set[str]] = {}
    for table, mask in ((now, rows), (before, gone)):
        for broker, theirs in topics_of(table, mask).items():
            held.setdefault(broker, set()).update(theirs)
    return Changes(topics, {broker: frozenset(theirs) for broker, theirs in held.items()})


def troubled(states: pa.Table) -> Mask:
    """By row, whether it has no leader, or not all of its replicas in sync."""
    leaderless: Any = pc.less(states["leader"], pa.scalar(0, pa.int32()))
    short: Any = pc.not_equal(pc.list_value_length(states["replicas"]), pc.list_value_length(states["isr"]))
    return np.asarray(pc.or_(leaderless, short).to_numpy(), dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class Requests:
    """`topics`: by broker. `whole`: brokers that share more of what changed than a slice may hold, the most first."""

    topics: Mapping[int, tuple[str, ...]]
    whole: tuple[int, ...]


def requests(
    brokers: Iterable[int],
    needed: Topics,
    lately: Sequence[Changes],
    sizes: Mapping[str, int],
    limit: int,
    others: Iterable[str] = (),
) -> Requests:
    """What to ask of each broker. `needed`, `others` and one topic that changed last are asked whatever they cost; of
    what changed `lately`, the last first, as many partitions as `limit` allows: of all that changed where that is not
    more, else of its own replicas."""
    every = list(dict.fromkeys(topic for each in lately for topic in sorted(each.topics)))
    cost = {topic: max(1, sizes.get(topic, 0)) for topic in every}
    fits = sum(cost.values()) <= limit
    newest = min(lately[0].topics, key=lambda topic: (cost[topic], topic)) if lately else None
    found: dict[int, tuple[str, ...]] = {}
    over: dict[int, int] = {}
    for broker in brokers:
        own = list(dict.fromkeys(topic for each in lately for topic in sorted(each.held.get(broker, NONE))))
        room, chosen = limit, {newest} if newest is not None else set[str]()
        for topic in every if fits else [*own, *every]:
            if not room:
                break
            if cost[topic] <= room and topic not in chosen:
                room -= cost[topic]
                chosen.add(topic)
        if not chosen.issuperset(own):
            over[broker] = sum(cost[topic] for topic in own)
        found[broker] = tuple(sorted({*chosen, *needed.get(broker, NONE), *others}))
    return Requests(found, tuple(sorted(over, key=lambda broker: -over[broker])))


def in_turn(sizes: Mapping[str, int], last: str, limit: int) -> tuple[str, ...]:
    """The topics behind `last`, in the order of their names and around, that `limit` partitions allow; at least one."""
    listed = sorted(sizes)
    room, found = limit, []
    for topic in [t for t in listed if t > last] + [t for t in listed if t <= last]:
        if sizes[topic] <= room:
            room -= sizes[topic]
            found.append(topic)
        elif found:
            break
    return tuple(found) or tuple(sorted(listed, key=lambda topic: sizes[topic])[:1])


def _sizes(states: pa.Table) -> dict[str, int]:
    counted: Any = pc.value_counts(states["topic"])
    return {row["values"]: row["counts"] for row in counted.to_pylist()}
