"""Looks at a Kafka cluster all the while, from outside of the operator: what a roll must never do, what it takes."""

from __future__ import annotations

import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.testbed import follow

SECONDS = 0.2
"""Between two looks."""
_POD = '{.metadata.name} {.metadata.uid} {.metadata.deletionTimestamp}|{.status.conditions[?(@.type=="Ready")].status}'


class Watched(Protocol):
    """A Kafka cluster whose Pods carry the label `app.kubernetes.io/name: kafka`, and names that end in their ids."""

    @property
    def namespace(self) -> str: ...

    @property
    def bootstrap(self) -> str: ...


@dataclass
class Restart:
    """One broker's, in monotonic seconds: its Pod told to go, its successor Ready."""

    told: float
    ready: float | None = None


@dataclass
class Watcher:
    """`most_away`: the most brokers that were missing from some ISR at once. `thinnest`: the smallest ISR seen of any
    partition with three replicas or more. `in_sync`: when each broker was last missing from some ISR. `restarts`: by
    broker, in order."""

    kafka: Watched
    most_away: int = 0
    thinnest: int = 99
    looks: int = 0
    in_sync: dict[int, float] = field(default_factory=dict)
    restarts: dict[int, Restart] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _pods: subprocess.Popen[str] | None = None

    def start(self) -> None:
        arguments = ("-n", self.kafka.namespace, "-l", "app.kubernetes.io/name=kafka", "--watch")
        self._pods = follow("get", "pods", *arguments, "-o", f'jsonpath={_POD}{{"\\n"}}')
        self._threads = [threading.Thread(target=self._watch), threading.Thread(target=self._follow)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        assert self._pods is not None
        self._pods.terminate()
        self._pods.wait(10)
        for thread in self._threads:
            thread.join(30)

    def took(self) -> dict[int, float]:
        """Seconds from each broker's Pod being told to go until its successor was Ready and in every ISR: stopping,
        starting and catching up, all of which no operator can shorten."""
        return {
            b: max(r.ready, self.in_sync.get(b, r.ready)) - r.told
            for b, r in self.restarts.items()
            if r.ready is not None
        }

    def began(self) -> float:
        return min(r.told for r in self.restarts.values())

    def _follow(self) -> None:
        assert self._pods is not None
        assert self._pods.stdout is not None
        first: dict[int, str] = {}
        for line in self._pods.stdout:
            now, (pod, _, ready) = time.monotonic(), line.strip().partition("|")
            name, uid, *deleted = pod.split()
            broker = int(name.rpartition("-")[2])
            if deleted and first.setdefault(broker, uid) == uid:
                self.restarts.setdefault(broker, Restart(now))
            elif first.setdefault(broker, uid) != uid and ready == "True" and self.restarts[broker].ready is None:
                self.restarts[broker].ready = now

    def _watch(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap, "log_level": 0})
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
                    if len(part.replicas) > 2:
                        self.thinnest = min(self.thinnest, len(part.isrs))
            self.looks += 1
            self.most_away = max(self.most_away, len(away))
            self.in_sync.update(dict.fromkeys(away, now))
