"""The present state of a stub cluster, and which cached answers a change makes outdated."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.stub_cluster.description import Described, Group, Move, Partition, Sight, Topic

TOPIC, BROKER = 2, 4
"""KIP-133's resource types."""


@dataclass
class Changes:
    """What changed since the caches were last cleared. `brokers`: all that held or hold a replica of a changed
    partition. `settings`: by resource type and name. `topics_made`: the set of topics changed."""

    topics: set[str] = field(default_factory=set)
    brokers: set[int] = field(default_factory=set)
    settings: set[tuple[int, str]] = field(default_factory=set)
    members: bool = False
    topics_made: bool = False

    def __bool__(self) -> bool:
        return bool(self.topics or self.settings or self.members or self.topics_made)


class State:
    """Begins as described. One topic is replaced as a whole, so a change of a partition costs as much as its topic is
    long."""

    def __init__(self, described: Described) -> None:
        self.described = described
        self.racks = described.racks
        self.members = set(described.racks)
        self.fresh = Sight("fresh", dict(described.fresh.topics))
        self.moves: dict[tuple[str, int], Move] = dict(described.moves)
        self.shared = dict(described.shared)
        self.own = {broker: dict(described.own.get(broker, {})) for broker in described.racks}
        self.held: dict[int, dict[str, list[int]]] = {
            broker: {topic: list(numbers) for topic, numbers in held.items()} for broker, held in described.held.items()
        }
        self.by_id = {topic.id: topic.name for topic in described.topics}
        self.changes = Changes()
        self._outdated: list[tuple[dict[str, Topic], frozenset[str]]] = []

    def stale(self, topics: int) -> Sight:
        """The sight of a broker that missed the last leader change of this many topics, and no other change."""
        missed = frozenset(sorted(topic.name for topic in self.described.topics)[:topics])
        seen = dict(self.described.stale(topics).topics)
        self._outdated.append((seen, missed))
        return Sight("stale", seen)

    def put(self, name: str, changed: Mapping[int, Partition]) -> None:
        """Replace partitions of a topic."""
        topic = self.fresh.topics[name]
        partitions = list(topic.partitions)
        for number, after in changed.items():
            before = partitions[number]
            self._hold(name, number, set(before.replicas), set(after.replicas))
            partitions[number] = after
        self._replace(topic._replace(partitions=tuple(partitions)))

    def make(self, topic: Topic) -> None:
        """A new topic."""
        for number, partition in enumerate(topic.partitions):
            self._hold(topic.name, number, set(), set(partition.replicas))
        self.by_id[topic.id] = topic.name
        self.changes.topics_made = True
        self._replace(topic)

    def set_topic(self, name: str, settings: Mapping[str, str]) -> None:
        self._replace(self.fresh.topics[name]._replace(settings=settings), settings_alone=True)
        self.changes.settings.add((TOPIC, name))

    def set_broker(self, broker: int | None, settings: Mapping[str, str]) -> None:
        """None: of all brokers."""
        if broker is None:
            self.shared = dict(settings)
        else:
            self.own[broker] = dict(settings)
        self.changes.settings.add((BROKER, "" if broker is None else str(broker)))

    def join(self, broker: int) -> None:
        self.members.add(broker)
        self.changes.members = True

    def leave(self, broker: int) -> None:
        self.members.discard(broker)
        self.changes.members = True

    def coordinator(self, group: Group) -> int:
        """The described one; while it is away, the next member in order of id."""
        if group.coordinator in self.members or not self.members:
            return group.coordinator
        return min(self.members, key=lambda broker: (broker < group.coordinator, broker))

    def _hold(self, name: str, number: int, before: set[int], after: set[int]) -> None:
        self.changes.brokers |= before | after
        for broker in before - after:
            numbers = self.held[broker][name]
            numbers.remove(number)
            if not numbers:
                del self.held[broker][name]
        for broker in after - before:
            insort(self.held[broker].setdefault(name, []), number)

    def _replace(self, topic: Topic, *, settings_alone: bool = False) -> None:
        seen = self.fresh.topics
        assert isinstance(seen, dict)
        seen[topic.name] = topic
        for outdated, missed in self._outdated:
            if topic.name not in missed:
                outdated[topic.name] = topic
        if not settings_alone:
            self.changes.topics.add(topic.name)
