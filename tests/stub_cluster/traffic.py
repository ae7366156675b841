"""Requests and bytes on the wire, by kind of request and by broker."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.api_key import ApiKey


def name_of(key: int) -> str:
    """Of a request, by its API key."""
    try:
        return str(ApiKey(key).name)
    except ValueError:
        return f"key {key}"


@dataclass
class Count:
    """`received` and `sent`: bytes with Kafka's own framing, as the stub brokers see them."""

    requests: int = 0
    received: int = 0
    sent: int = 0

    def add(self, other: Count) -> None:
        self.requests += other.requests
        self.received += other.received
        self.sent += other.sent


@dataclass
class Traffic:
    """`refused`: requests that no stub broker answers, by kind and why. `connections`: opened."""

    counts: defaultdict[tuple[int, int], Count] = field(default_factory=lambda: defaultdict(Count))
    refused: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    connections: int = 0

    def asked(self, broker: int, key: int, size: int) -> None:
        count = self.counts[broker, key]
        count.requests += 1
        count.received += size

    def answered(self, broker: int, key: int, size: int) -> None:
        """Counts bytes as they leave: an aborted answer counts in part."""
        self.counts[broker, key].sent += size

    def reset(self) -> None:
        self.counts.clear()
        self.refused.clear()
        self.connections = 0

    def document(self) -> dict[str, Any]:
        """For JSON."""
        total = Count()
        by_request: defaultdict[str, Count] = defaultdict(Count)
        by_broker: defaultdict[str, Count] = defaultdict(Count)
        for (broker, key), count in sorted(self.counts.items()):
            for one in (total, by_request[name_of(key)], by_broker[str(broker)]):
                one.add(count)
        return {
            **vars(total),
            "connections": self.connections,
            "by_request": {name: dict(vars(count)) for name, count in sorted(by_request.items())},
            "by_broker": {name: dict(vars(count)) for name, count in by_broker.items()},
            "refused": dict(self.refused),
        }
