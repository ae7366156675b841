"""What is to be planned, small enough to be sent to every task, and how a part of the partitions is read."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from kafka_medic.plan.problem import Broker, Problem
from kafka_medic.plan.wanted import Wanted
from kafka_medic.plan.wave_limits import WaveLimits

__all__ = ["Question"]


@dataclass(frozen=True)
class Question:
    """brokers: by id. wanted: which factor each topic is to have. by_bytes: bytes per broker are to be even, not
    replicas."""

    brokers: tuple[Broker, ...]
    wanted: Wanted
    limits: WaveLimits = field(default_factory=WaveLimits)
    by_bytes: bool = False

    def problem(self, table: pa.Table, *, whole: bool) -> Problem:
        """The problem that a table poses; whole: it is all there is, not a part. Raises ProblemError."""
        topics = table.column("topic").unique().to_pylist() if "topic" in table.column_names else []
        known = [topic for topic in topics if isinstance(topic, str)]
        wanted = self.wanted
        return Problem(
            table, self.brokers, wanted.factor, wanted.factors_of(known), wanted.exempt_of(known),
            whole=whole, by_bytes=self.by_bytes,
        )  # fmt: skip
