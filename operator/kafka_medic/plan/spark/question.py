"""What is to be planned, small enough to be sent to every task, and what it comes to for a part of the partitions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from kafka_medic.plan.columns import Columns, Ints
from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.problem import Broker, Problem
from kafka_medic.plan.wanted import Wanted
from kafka_medic.plan.wave_limits import WaveLimits

__all__ = ["Demand", "Question"]


@dataclass(frozen=True, eq=False)
class Demand:
    """Of some partitions: what the kernel needs of any question.

    request: as the verifier takes it. columns: what every partition keeps; before: int32[N, H] what it has; missing:
    int32[N] replicas to add. brokers: by id.
    """

    request: Problem
    columns: Columns
    before: Ints
    missing: Ints
    brokers: tuple[Broker, ...]


@dataclass(frozen=True)
class Question:
    """brokers: by id. wanted: which factor each topic is to have. by_bytes: bytes per broker are to be even, not
    replicas."""

    brokers: tuple[Broker, ...]
    wanted: Wanted
    limits: WaveLimits = field(default_factory=WaveLimits)
    by_bytes: bool = False

    def checked(self) -> Question:
        """The question with its brokers by id; raises ProblemError for what needs no partition to be wrong."""
        named = {pattern: factor for pattern, factor in self.wanted.factors if factor < 1}
        nothing = PLAN_SCHEMA.empty_table().select(["topic", "partition", "replicas"])
        return replace(self, brokers=Problem(nothing, self.brokers, self.wanted.factor, named).brokers)

    def demand(self, table: pa.Table, *, whole: bool) -> Demand:
        """What a table comes to; whole: it is all there is, not a part. Raises ProblemError."""
        topics = table.column("topic").unique().to_pylist() if "topic" in table.column_names else []
        known = [topic for topic in topics if isinstance(topic, str)]
        wanted = self.wanted
        problem = Problem(
            table, self.brokers, wanted.factor, wanted.factors_of(known), wanted.exempt_of(known),
            whole=whole, by_bytes=self.by_bytes,
        )  # fmt: skip
        return Demand(problem, problem.columns, problem.columns.held, problem.missing, problem.brokers)
