"""What a healthy cluster is expected to look like, as the detectors use it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafka_medic.cluster.snapshot import PartitionRow, Snapshot
from kafka_medic.resources.kafkacluster import Expectations as ExpectationsSpec
from kafka_medic.resources.name_patterns import matching


@dataclass(frozen=True, slots=True)
class TopicException:
    """What differs for topics whose whole name matches `pattern`, a regular expression (RE2)."""

    pattern: str
    replication_factor: int | None = None
    min_in_sync_replicas: int | None = None
    exempt: bool = False


@dataclass(frozen=True, slots=True)
class Expectations:
    """The defaults are those of KafkaCluster's `spec.expectations`; the first exception that matches
    counts."""

    replication_factor: int = 3
    min_in_sync_replicas: int = 2
    rack_aware: bool = True
    exceptions: tuple[TopicException, ...] = ()
    minimum_version: str | None = None
    uneven_percent: int = 20
    _known: dict[str, TopicException | None] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_spec(cls, spec: ExpectationsSpec) -> Expectations:
        """From the resource, whose own validation has made sure that the patterns compile."""
        return cls(
            replication_factor=spec.replication_factor,
            min_in_sync_replicas=spec.min_in_sync_replicas,
            rack_aware=spec.rack_aware,
            minimum_version=spec.minimum_version,
            uneven_percent=spec.uneven_percent,
            exceptions=tuple(
                TopicException(
                    pattern=topic.pattern,
                    replication_factor=topic.replication_factor,
                    min_in_sync_replicas=topic.min_in_sync_replicas,
                    exempt=topic.exempt,
                )
                for topic in spec.topics
            ),
        )

    def factor_of(self, topic: str) -> int | None:
        """Replicas that each of the topic's partitions should have; None when nothing is expected of it."""
        exception = self._exception(topic)
        if exception is None:
            return self.replication_factor
        if exception.exempt:
            return None
        return exception.replication_factor or self.replication_factor

    def min_isr_of(self, topic: str) -> int | None:
        """The min.insync.replicas that the topic should have; None when nothing is expected of it."""
        exception = self._exception(topic)
        if exception is None:
            return self.min_in_sync_replicas
        if exception.exempt:
            return None
        return exception.min_in_sync_replicas or self.min_in_sync_replicas

    def exempt(self, topic: str) -> bool:
        exception = self._exception(topic)
        return exception is not None and exception.exempt

    def learn(self, topics: Iterable[str]) -> None:
        """Which exception counts for each of them: many at once, since each pattern is read once for all."""
        left = [topic for topic in dict.fromkeys(topics) if topic not in self._known]
        for exception in self.exceptions:
            hits = matching(exception.pattern, left)
            self._known.update((topic, exception) for topic, hit in zip(left, hits, strict=True) if hit)
            left = [topic for topic, hit in zip(left, hits, strict=True) if not hit]
        self._known.update(dict.fromkeys(left))

    def _exception(self, topic: str) -> TopicException | None:
        if not self.exceptions:
            return None
        if topic not in self._known:
            self.learn([topic])
        return self._known[topic]


def below_factor(snapshot: Snapshot, expectations: Expectations) -> list[PartitionRow] | None:
    """Partitions with fewer replicas than their topic should have; None where the replicas of one that counts are not
    known."""
    low = []
    for row in snapshot.rows():
        wanted = expectations.factor_of(row.topic)
        if wanted is None:
            continue
        if row.replicas is None or row.adding is None:
            return None
        # A replica that is still being added does not count yet: whoever adds it may give up.
        if len(row.replicas) - len(row.adding) < wanted:
            low.append(row)
    return low
