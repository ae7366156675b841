"""Producers that write to partitions at a steady rate, and the exporter of each broker, which counts what it gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.observe.metrics import BrokerMetrics, BrokerSigns
from tests.simulation.kafka import SimKafka


@dataclass
class SimExporters:
    """`rates`: bytes per second by partition, in records of `record` bytes. `wrong`: what a broker's exporter reports
    instead. `down`: brokers whose exporter does not answer."""

    kafka: SimKafka | None = None
    rates: dict[TopicPartition, float] = field(default_factory=dict)
    record: int = 100
    wrong: dict[int, float] = field(default_factory=dict)
    down: set[int] = field(default_factory=set)

    def begin(self, hosts: Mapping[int, str]) -> Callable[[], Mapping[int, BrokerSigns | ReadFailed]]:
        def answer() -> Mapping[int, BrokerSigns | ReadFailed]:
            """As `MetricsProbe`: a source that nobody answers for is Unknown."""
            found = {broker: self._signs(broker) for broker in hosts}
            if found and all(isinstance(one, ReadFailed) for one in found.values()):
                raise ReadFailed(FailureKind.UNREACHABLE, "no exporter answers")
            return found

        return answer

    def pass_time(self, seconds: float) -> None:
        """A producer writes to whoever leads, so long as somebody does."""
        for tp, rate in self.rates.items():
            part = self.kafka.partitions.get(tp) if self.kafka is not None else None
            if part is not None and part.leader >= 0:
                records = round(rate * seconds / self.record)
                part.end += records
                part.size += records * self.record

    def sent_to(self, broker: int) -> float:
        """Bytes per second."""
        assert self.kafka is not None
        parts = self.kafka.partitions
        return sum(rate for tp, rate in self.rates.items() if parts[tp].leader == broker)

    def _signs(self, broker: int) -> BrokerSigns | ReadFailed:
        if broker in self.down:
            return ReadFailed(FailureKind.UNREACHABLE, "connection refused")
        return BrokerSigns(BrokerMetrics(), self.wrong.get(broker, self.sent_to(broker)))
