"""Description of a stub cluster at its start: brokers, topics, groups and settings."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

Address = tuple[str, int]
Values = Mapping[str, str]
NOTHING: Values = MappingProxyType({})

PARTED, OWN = 10, 5
"""Of a partition that a stale broker believes it leads: how many records before the end of the leader's log the two
logs part, and how many records the stale broker has past that point."""


class Partition(NamedTuple):
    """`start`, `end`: the log of each in-sync replica, the high watermark is its end. `size`: bytes of each replica."""

    leader: int
    epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    start: int = 0
    end: int = 0
    size: int = 0


class Topic(NamedTuple):
    """`settings`: set on the topic itself. Partitions are numbered from 0."""

    name: str
    id: uuid.UUID
    partitions: tuple[Partition, ...]
    settings: Values = NOTHING


class Commit(NamedTuple):
    offset: int
    epoch: int = -1
    metadata: str = ""


class Member(NamedTuple):
    client_id: str
    client_host: str


class Group(NamedTuple):
    """`coordinator`: the broker that lists the group. `consumer`: of KIP-848's protocol rather than the classic one."""

    name: str
    coordinator: int
    committed: Mapping[tuple[str, int], Commit]
    state: str = "Stable"
    members: tuple[Member, ...] = ()
    consumer: bool = False


class Move(NamedTuple):
    """A reassignment in flight."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True)
class Described:
    """A KRaft cluster. `racks`: of each broker. `shared`: settings of all brokers, set while they run (KIP-226);
    `files`: what each broker has in its file; `own`: set on one broker while it runs. `voters`: the quorum, of which
    the first leads."""

    racks: Mapping[int, str | None]
    topics: tuple[Topic, ...] = ()
    groups: tuple[Group, ...] = ()
    moves: Mapping[tuple[str, int], Move] = field(default_factory=dict)
    files: Values = field(default_factory=dict)
    shared: Values = field(default_factory=dict)
    own: Mapping[int, Values] = field(default_factory=dict)
    voters: tuple[int, ...] = ()
    cluster_id: str = "stub-cluster"
    room: int = 1 << 41
    """Bytes of each broker's volume."""

    @cached_property
    def fresh(self) -> Sight:
        return Sight("fresh", {topic.name: topic for topic in self.topics})

    def stale(self, topics: int) -> Sight:
        """The sight of a broker that missed the last leader change of this many topics, in order of name."""
        missed = sorted(topic.name for topic in self.topics)[:topics]
        former = {name: _before(self.fresh.topics[name]) for name in missed}
        return Sight("stale", {topic.name: former.get(topic.name, topic) for topic in self.topics})

    @cached_property
    def held(self) -> Mapping[int, Mapping[str, list[int]]]:
        """By broker, the partitions of each topic of which the broker has a replica."""
        found: dict[int, dict[str, list[int]]] = {broker: {} for broker in self.racks}
        for topic in self.topics:
            for number, partition in enumerate(topic.partitions):
                for broker in partition.replicas:
                    found[broker].setdefault(topic.name, []).append(number)
        return found

    @cached_property
    def groups_of(self) -> Mapping[int, list[Group]]:
        """By coordinator."""
        found: dict[int, list[Group]] = {broker: [] for broker in self.racks}
        for group in self.groups:
            found[group.coordinator].append(group)
        return found

    @cached_property
    def group(self) -> Mapping[str, Group]:
        return {group.name: group for group in self.groups}


class Sight(NamedTuple):
    """The topics as a broker has them, in the order in which it reports them."""

    name: str
    topics: Mapping[str, Topic]

    def partition(self, topic: str, number: int) -> Partition | None:
        found = self.topics.get(topic)
        return found.partitions[number] if found is not None and 0 <= number < len(found.partitions) else None


class Size(NamedTuple):
    """Of a made-up cluster, written `30x20000`."""

    brokers: int
    partitions: int

    @classmethod
    def parse(cls, text: str) -> Size:
        brokers, _, partitions = text.lower().partition("x")
        found = cls(int(brokers), int(partitions))
        if found.brokers < 1 or found.partitions < 1:
            raise ValueError(f"{text}: at least one broker and one partition")
        return found

    def __str__(self) -> str:
        return f"{self.brokers}x{self.partitions}"


FACTOR, PER_TOPIC, COMMITS, RACKS = 3, 20, 10, 3
"""Of a made-up cluster: replicas of a partition, partitions of a topic, partitions that a group commits, racks."""


def made_up(size: Size, groups: int = 0, seed: int = 1) -> Described:
    """A healthy cluster: each preferred replica leads, all replicas are in sync and the load is even. The first replica
    is drawn, and the others are its neighbours, each in another rack. Topics come in no order, as from a broker."""
    chance = random.Random(seed)
    brokers, factor = size.brokers, min(FACTOR, size.brokers)
    rings = [tuple((first + n) % brokers for n in range(factor)) for first in range(brokers)]
    topics = []
    for number in range(-(-size.partitions // PER_TOPIC)):
        count = min(PER_TOPIC, size.partitions - number * PER_TOPIC)
        turned = chance.randrange(brokers)
        partitions = []
        for p in range(count):
            ring = rings[(turned + number * PER_TOPIC + p) % brokers]
            start = chance.randrange(1 << 30)
            partitions.append(
                Partition(
                    ring[0],
                    3 + chance.randrange(7),
                    ring,
                    ring,
                    start,
                    start + 10_000,
                    (1 << 29) + chance.getrandbits(24),
                )
            )
        settings = {"min.insync.replicas": "2"} if factor > 2 else NOTHING
        name = f"orders.{chance.getrandbits(32):08x}.{number:06d}"
        topics.append(Topic(name, uuid.UUID(int=chance.getrandbits(128), version=4), tuple(partitions), settings))
    chance.shuffle(topics)
    return Described(
        _racks(brokers),
        tuple(topics),
        tuple(_group(n, topics, brokers) for n in range(groups)),
        files={"default.replication.factor": str(factor), "min.insync.replicas": "2" if factor > 2 else "1"},
        voters=tuple(range(min(3, brokers))),
    )


def _racks(brokers: int) -> dict[int, str | None]:
    """No two of three neighbours share a rack, all around: what does not fill a round of racks has racks of its own."""
    even = brokers - brokers % RACKS
    return {b: f"zone-{b % RACKS if b < even else RACKS + b - even}" for b in range(brokers)}


def _group(number: int, topics: list[Topic], brokers: int) -> Group:
    topic = topics[number % len(topics)]
    committed = {
        (topic.name, n): Commit(partition.end - 10, partition.epoch)
        for n, partition in enumerate(topic.partitions[:COMMITS])
    }
    return Group(f"group-{number:06d}", number % brokers, committed, members=(Member("reader", "/127.0.0.1"),))


def _before(topic: Topic) -> Topic:
    """The same before its last change of leader: each partition's second replica led."""
    former = tuple(p._replace(leader=p.replicas[1 % len(p.replicas)], epoch=p.epoch - 1) for p in topic.partitions)
    return topic._replace(partitions=former)
