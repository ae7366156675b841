"""How much of a plan may be in flight at once."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WaveLimits"]


@dataclass(frozen=True)
class WaveLimits:
    """Bounds on one wave.

    bytes_in, bytes_out: per broker; a single partition above them gets a wave's whole allowance alone.
    partitions_per_broker: partitions that a broker sends or receives. records: partitions in one
    request; Kafka refuses more than 10,000 records in one metadata transaction.
    """

    bytes_in: int = 256 << 30
    bytes_out: int = 256 << 30
    partitions_per_broker: int = 1_000
    records: int = 5_000

    def __post_init__(self) -> None:
        for name in ("bytes_in", "bytes_out", "partitions_per_broker", "records"):
            if getattr(self, name) < 1:
                raise ValueError(f"wave limit {name} is below 1")
