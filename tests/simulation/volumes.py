"""The log directories of simulated brokers: one on each volume, and moves between them (KIP-113).

A move creates a future replica in the other directory, copies into it, and then puts it in the place of the current
one, whose files are deleted a while later (`LogManager.replaceCurrentWithFutureLog`). Leader, ISR and assignment do not
change. A copy outlives a restart, since the future replica is a directory with the suffix -future. A directory that
fails takes its future replicas with it, and no move begins while one has failed (`ReplicaManager.handleLogDirFailure`,
`LogManager.getOrCreateLog`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka_medic.clients.answers import LogDir, LogDirs
from kafka_medic.clients.failures import FailureKind, WriteFailed
from kafka_medic.cluster.snapshot import STORAGE_ERROR, TopicPartition
from tests.simulation.brokers import SimBrokers, SimPartition


@dataclass
class SimFuture:
    """A replica on its way to another directory. `share`: of it that is copied."""

    to: int
    share: float = 0.0


@dataclass
class SimVolumes(SimBrokers):
    placed: dict[tuple[int, TopicPartition], int] = field(default_factory=dict)
    """On which volume of its broker a replica is, where it is not the first."""
    futures: dict[tuple[int, TopicPartition], SimFuture] = field(default_factory=dict)
    ticks_of_a_copy: int = 2
    others: dict[tuple[int, int], int] = field(default_factory=dict)
    """Bytes of files that are not Kafka's, by broker and volume."""
    failed_volume: dict[int, int] = field(default_factory=dict)
    """Brokers of which one of several volumes has failed, and which one."""

    def dir_of(self, broker: int, tp: TopicPartition) -> int:
        return self.placed.get((broker, tp), 0)

    def log_dirs_of(self, broker: int) -> LogDirs:
        """One, or one on each volume, and another that failed if it did."""
        lost = self.failed_disk.get(broker)
        known = self.image(broker).rows if broker in self.stale or broker in self.lagging else self.partitions
        logs = {tp: part for tp in known if tp not in (lost or ()) and (part := self.log_of(broker, tp)) is not None}
        held = {tp: part.size if self.has_copied(broker, part) else 0 for tp, part in logs.items()}
        if sizes := self.volumes.get(broker):
            found = [self._directory(broker, n, size, held) for n, size in enumerate(sizes)]
        else:
            total = None if self.free is None else self.free + sum(held.values())
            found = [LogDir.of("/data/0", held, total, self.free)]
        apart = lost is not None and broker not in self.failed_volume
        return LogDirs((*found, *([LogDir(f"/data/{len(found)}", None, error=STORAGE_ERROR)] if apart else [])))

    def _directory(self, broker: int, number: int, size: int, held: Mapping[TopicPartition, int]) -> LogDir:
        path = f"/data/{number}"
        if self.failed_volume.get(broker) == number:
            return LogDir(path, None, error=STORAGE_ERROR)
        here = {tp: bytes_ for tp, bytes_ in held.items() if self.dir_of(broker, tp) == number}
        coming = {tp: f.share for (b, tp), f in self.futures.items() if b == broker and f.to == number}
        copied = {tp: int(self.partitions[tp].size * share) for tp, share in coming.items()}
        taken = sum(here.values()) + sum(copied.values()) + self.files_left(broker, number)
        taken += self.others.get((broker, number), 0)
        return LogDir.of(path, here, size, max(size - taken, 0), future=copied)

    def alter_log_dirs(self, broker: int, targets: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, str]:
        self._writable()
        if broker not in self.up:
            raise WriteFailed(FailureKind.UNREACHABLE, f"broker {broker}")
        self.writes.append(f"log dirs of {broker} {sorted((str(tp), path) for tp, path in targets.items())}")
        refused = {tp: self._alter(broker, tp, path) for tp, path in targets.items()}
        return {tp: why for tp, why in refused.items() if why is not None}

    def _alter(self, broker: int, tp: TopicPartition, path: str) -> str | None:
        """As `ReplicaManager.alterReplicaLogDirs`; the reason for which it refuses."""
        paths = [f"/data/{n}" for n in range(len(self.volumes.get(broker, (0,))))]
        if path not in paths:
            return "LogDirNotFoundError"
        to, key = paths.index(path), (broker, tp)
        if self.failed_volume.get(broker) == to or tp in self.failed_disk.get(broker, ()):
            return "KafkaStorageError"
        future = self.futures.get(key)
        if future is not None and future.to != to:
            self._drop_future(key)
        part = self.partitions.get(tp)
        if part is None:
            return "UnknownTopicOrPartitionError"
        if broker not in part.replicas:
            return "NotLeaderForPartitionError"
        if to == self.dir_of(broker, tp) or key in self.futures:
            return None
        if broker in self.failed_disk:
            return "KafkaStorageError"
        self.futures[key] = SimFuture(to)
        return None

    def _drop_future(self, key: tuple[int, TopicPartition]) -> None:
        future = self.futures.pop(key)
        size = int(self.partitions[key[1]].size * future.share) if key[1] in self.partitions else 0
        self.deleting.append((key[0], self.elapsed, size, future.to))

    def copies(self, broker: int, tp: TopicPartition) -> bool:
        """Whether the broker is copying that replica to another of its directories now."""
        lost = tp in self.failed_disk.get(broker, ())
        return (broker, tp) in self.futures and broker in self.up and not lost

    def replaces(self, broker: int, tp: TopicPartition) -> None:
        """The future replica has caught up."""
        future = self.futures.pop((broker, tp))
        self.deleting.append((broker, self.elapsed, self.partitions[tp].size, self.dir_of(broker, tp)))
        self.placed[broker, tp] = future.to

    def volume_fails(self, broker: int, number: int) -> None:
        """One of several: what is on it is offline, and what was to come there stays where it is."""
        self.failed_volume[broker] = number
        self.disk_fails(
            broker,
            {tp for tp, p in self.partitions.items() if broker in p.replicas and self.dir_of(broker, tp) == number},
        )
        for key in [key for key, f in self.futures.items() if key[0] == broker and f.to == number]:
            del self.futures[key]

    def disk_replaced(self, broker: int) -> None:
        super().disk_replaced(broker)
        self.failed_volume.pop(broker, None)

    def delete(self, name: str) -> None:
        gone = {tp for tp in self.partitions if tp.topic == name}
        super().delete(name)
        for key in [key for key in (*self.placed, *self.futures) if key[1] in gone]:
            self.placed.pop(key, None)
            self.futures.pop(key, None)

    def tick(self) -> None:
        super().tick()
        for (broker, tp), future in list(self.futures.items()):
            if self.copies(broker, tp):
                future.share += 1 / self.ticks_of_a_copy
                if future.share >= 1:
                    self.replaces(broker, tp)

    def comes_to(self, broker: int, tp: TopicPartition) -> None:
        """Kafka puts a new replica into the directory with the fewest (LogManager.nextLogDirs)."""
        volumes = range(len(self.volumes.get(broker, ())))
        count = Counter(self.dir_of(broker, t) for t, p in self.partitions.items() if broker in p.replicas and t != tp)
        able = [n for n in volumes if self.failed_volume.get(broker) != n]
        if able:
            self.placed[broker, tp] = min(able, key=lambda n: (count[n], n))

    def _deletes(self, part: SimPartition, brokers: Sequence[int], tp: TopicPartition | None = None) -> None:
        tp = tp or next((t for t, p in self.partitions.items() if p is part), None)
        for broker in brokers:
            number = 0 if tp is None else self.placed.pop((broker, tp), 0)
            if tp is not None and (broker, tp) in self.futures:
                self._drop_future((broker, tp))
            if self.has_copied(broker, part):
                self.deleting.append((broker, self.elapsed, part.size, number))

    def _writable(self) -> None:
        raise NotImplementedError
