"""What is to be planned, small enough to be sent to every task, and what it comes to for a part of the partitions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from kafka_medic.plan.allowed import Allowed, LeftOut
from kafka_medic.plan.arrow import flat_values, integers, list_lengths
from kafka_medic.plan.columns import Bools, Columns, Ints
from kafka_medic.plan.model import PLAN_SCHEMA, Plan
from kafka_medic.plan.problem import Broker, Problem, ProblemError, check_reachable
from kafka_medic.plan.relocation import LowerImbalance, Relieve, Relocation
from kafka_medic.plan.relocation import Question as Moving
from kafka_medic.plan.solver.limits import hopeless
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.solver.relocate import keep, moved, plan_relocation, to_release
from kafka_medic.plan.verify.moves import MovesCheck
from kafka_medic.plan.verify.rules import Check
from kafka_medic.plan.wanted import Wanted
from kafka_medic.plan.wave_limits import WaveLimits

__all__ = ["AFTER", "LEFT", "Demand", "Question"]

AFTER = "after"
"""Column of a block whose partitions were placed already: what each holds then, as indexes into the brokers by id."""
LEFT = "left"
"""Column of a block to which limits were applied: whether a partition waits for another plan."""


@dataclass(frozen=True, eq=False)
class Demand:
    """Of some partitions: what the kernel needs of any question.

    request: as the verifier takes it. columns: what every partition keeps; before: int32[N, H] what it has; missing:
    int32[N] replicas to add; added: int32[n, M] to those that miss some, None: to be placed. least: int64[B] replicas
    that no choice takes off a broker. left_out: int8[N] as in LeftOut; waiting: int32[N] replicas to add once
    a limit lets the partition in.
    """

    request: Problem | Relocation
    columns: Columns
    before: Ints
    missing: Ints
    added: Ints | None
    least: Ints
    left_out: Ints
    waiting: Ints

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """By id."""
        return self.request.brokers

    def check(self, table: pa.Table) -> Check:
        """The verifier's view of a plan."""
        request = self.request
        return MovesCheck(request, table) if isinstance(request, Relocation) else Check(request, table)

    def plan(self, limits: WaveLimits) -> Plan:
        """The plan, where these are all partitions that there are. Raises ProblemError."""
        request = self.request
        return plan_relocation(request, limits) if isinstance(request, Relocation) else plan_local(request, limits)


@dataclass(frozen=True)
class Question:
    """brokers: as they are. ask: which factor each topic is to have, or what is to move. allowed: the limits that hold
    for every question. by_bytes: bytes per broker are to be even, not replicas. standing: the brokers by id as the
    question has them, of which those that are left are not alive.

    Raises ProblemError for what needs no partition to be wrong."""

    brokers: tuple[Broker, ...]
    ask: Wanted | Moving
    limits: WaveLimits = field(default_factory=WaveLimits)
    by_bytes: bool = False
    allowed: Allowed = field(default_factory=Allowed)
    standing: tuple[Broker, ...] = field(init=False, repr=False)

    @property
    def lowers(self) -> int | None:
        """The moves that may be made to lower imbalance, None where that is not the question."""
        return self.ask.moves if isinstance(self.ask, LowerImbalance) else None

    def __post_init__(self) -> None:
        ask = self.ask
        if isinstance(ask, Relieve):  # each block would choose replicas for all of the bytes
            raise ProblemError(None, "bytes that leave brokers cannot be planned in blocks", "brokers")
        if isinstance(ask, LowerImbalance) and ask.by_bytes:  # each exchange sees what all brokers hold by then
            raise ProblemError(None, "bytes cannot be made even in blocks", "brokers")
        nothing = PLAN_SCHEMA.empty_table().select(["topic", "partition", "replicas"])
        if not isinstance(ask, Wanted):
            standing = Relocation(nothing, self.brokers, ask, self.allowed).brokers
        else:
            named = {pattern: factor for pattern, factor in ask.factors if factor < 1}
            standing = Problem(nothing, self.brokers, ask.factor, named, allowed=self.allowed).brokers
        object.__setattr__(self, "standing", standing)

    def demand(self, table: pa.Table, *, whole: bool) -> Demand:
        """What a table comes to; whole: it is all there is, not a part. Raises ProblemError."""
        ask = self.ask
        if isinstance(ask, Wanted):
            topics = table.column("topic").unique().to_pylist() if "topic" in table.column_names else []
            known = [topic for topic in topics if isinstance(topic, str)]
            problem = Problem(
                table, self.brokers, ask.factor, ask.factors_of(known), ask.exempt_of(known),
                whole=whole, by_bytes=self.by_bytes, allowed=self.allowed,
            )  # fmt: skip
            return self._held_back(problem, problem.missing, None, table, whole=whole)
        relocation = Relocation(table, self.brokers, ask, self.allowed, whole=whole)
        if isinstance(ask, LowerImbalance):
            missing = np.zeros(len(relocation.columns.topic), dtype=np.int32)
            return self._held_back(relocation, missing, None, table, whole=whole)
        released = to_release(relocation)
        missing = released[0].sum(axis=1).astype(np.int32)
        return self._held_back(relocation, missing, released, table, whole=whole)

    def _held_back(
        self,
        request: Problem | Relocation,
        missing: Ints,
        released: tuple[Bools, Ints] | None,
        table: pa.Table,
        *,
        whole: bool,
    ) -> Demand:
        """The demand without what does not fit the limits; released: as `to_release` has it. Raises ProblemError."""
        columns, left_out = request.columns, request.left_out
        before, waiting = columns.held, np.zeros_like(missing)
        none = np.zeros(len(self.standing), dtype=np.int64)
        if self.allowed.limited and not whole:
            missing, left_out = missing.copy(), left_out.copy()
            unknown, alone = hopeless(columns, missing, request.brokers, self.allowed)
            left_out[unknown], left_out[alone] = LeftOut.UNKNOWN_SIZE, LeftOut.OVER_LIMIT
            missing[unknown | alone] = 0
            if LEFT in table.column_names:
                waiting = np.where(integers(table.column(LEFT)) > 0, missing, 0)
                left_out[waiting > 0] = LeftOut.OVER_LIMIT
                missing[waiting > 0] = 0
        if AFTER in table.column_names:
            kept, rows, added = moved(columns, _after(table))
            missing = np.zeros(len(columns.topic), dtype=np.int32)
            missing[rows] = (added >= 0).sum(axis=1)
            return Demand(request, kept, before, missing, added, none, left_out, waiting)
        if released is None:
            nothing = np.zeros((0, 1), dtype=np.int32) if self.lowers is not None else None
            return Demand(request, columns, before, missing, nothing, none, left_out, waiting)
        kept = keep(columns, ~released[0] | (missing == 0)[:, None])
        check_reachable(kept, missing, request.brokers)
        return Demand(request, kept, before, missing, None, released[1], left_out, waiting)


def _after(table: pa.Table) -> Ints:
    """int32[N, H] of the column `AFTER`, -1 padded; the table is by topic and partition."""
    lengths = list_lengths(table.column(AFTER))
    after = np.full((len(lengths), max(int(lengths.max(initial=0)), 1)), -1, dtype=np.int32)
    after[np.arange(after.shape[1]) < lengths[:, None]] = flat_values(table.column(AFTER))
    return after
