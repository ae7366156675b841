"""The canary's client over a SimKafka: what is sent is acknowledged and read back at once, or is given up on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kafka_medic.clients.ports import CanaryEvent, Delivered, Returned, Undelivered
from kafka_medic.cluster.snapshot import TopicPartition
from tests.simulation.kafka import SimKafka


@dataclass
class SimCanary:
    """`deaf`: brokers through which no record gets; `full`: the queue takes nothing. A record that is not delivered is
    reported only by `give_up`, as librdkafka does when the delivery timeout is over."""

    kafka: SimKafka
    topic: str
    deaf: set[int] = field(default_factory=set)
    full: bool = False
    sent: list[tuple[int, bytes]] = field(default_factory=list)
    queued: list[tuple[int, bytes]] = field(default_factory=list)
    following: dict[int, int] = field(default_factory=dict)
    log: dict[int, list[bytes]] = field(default_factory=dict)
    events: list[CanaryEvent] = field(default_factory=list)
    closed: bool = False
    through: Callable[[TopicPartition], None] = lambda _: None
    """Told of each record that was read back."""

    def send(self, partition: int, value: bytes) -> bool:
        if self.full:
            return False
        self.sent.append((partition, value))
        self.queued.append((partition, value))
        return True

    def follow(self, partition: int, offset: int) -> None:
        self.following[partition] = offset

    def forget(self, partition: int) -> None:
        self.following.pop(partition, None)

    def poll(self, seconds: float) -> Sequence[CanaryEvent]:
        for partition, value in list(self.queued):
            part = self.kafka.partitions.get(TopicPartition(self.topic, partition))
            if part is None or part.leader not in self.kafka.up or part.leader in self.deaf:
                continue
            self.queued.remove((partition, value))
            log = self.log.setdefault(partition, [])
            log.append(value)
            self.events.append(Delivered(partition, value, len(log) - 1, 0.003))
        for partition, offset in self.following.items():
            for at in range(offset, len(self.log.get(partition, []))):
                self.events.append(Returned(partition, at, self.log[partition][at]))
                self.following[partition] = at + 1
                self.through(TopicPartition(self.topic, partition))
        events, self.events = self.events, []
        return events

    def give_up(self) -> None:
        self.events += [Undelivered(partition, value, "Local: Message timed out") for partition, value in self.queued]
        self.queued.clear()

    def close(self) -> None:
        self.closed = True
