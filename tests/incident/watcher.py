"""Looks at a Kafka cluster all the while, from outside of the operator, and keeps what a roll must never do."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

SECONDS = 0.2
"""Between two looks."""


@dataclass
class Watcher:
    """`most_away`: the most brokers that were missing from some ISR at once. `thinnest`: the smallest ISR of any
    partition seen. `trouble`: (from, to) of each stretch in which not all was in sync, monotonic seconds."""

    bootstrap: str
    most_away: int = 0
    thinnest: int = 99
    looks: int = 0
    trouble: list[list[float]] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        assert self._thread is not None
        self._thread.join(30)

    def troubled_seconds(self) -> float:
        """How long not everything was in sync: what stopping, starting and catching up took."""
        return sum(end - begin for begin, end in self.trouble)

    def _watch(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        while not self._stopping.wait(SECONDS):
            try:
                topics = admin.list_topics(timeout=5).topics
            except KafkaException:
                continue
            now = time.monotonic()
            away: set[int] = set()
            for topic in topics.values():
                for part in topic.partitions.values():
                    away |= set(part.replicas) - set(part.isrs)
                    self.thinnest = min(self.thinnest, len(part.isrs))
            self.looks += 1
            self.most_away = max(self.most_away, len(away))
            if not away:
                continue
            if self.trouble and now - self.trouble[-1][1] < 4 * SECONDS:
                self.trouble[-1][1] = now
            else:
                self.trouble.append([now, now])
