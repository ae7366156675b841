"""Questions that move replicas: a broker is replaced or left, racks are spread over, imbalance is lowered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_medic.plan.arrow import Column, flat_values, list_lengths
from kafka_medic.plan.columns import Bools, Columns, Ints
from kafka_medic.plan.model import Plan
from kafka_medic.plan.problem import Broker, Problem, ProblemError

__all__ = ["Leave", "LowerImbalance", "Question", "Relocation", "SpreadRacks", "all_live"]


@dataclass(frozen=True)
class Leave:
    """Every replica on the broker goes elsewhere. gone: it is dead, so it can send nothing."""

    broker: int
    gone: bool


@dataclass(frozen=True)
class SpreadRacks:
    """Partitions whose replicas share a rack though they need not are spread, with the fewest moves."""


@dataclass(frozen=True)
class LowerImbalance:
    """Replicas per broker are made as even as `moves` moves can make them."""

    moves: int


Question = Leave | SpreadRacks | LowerImbalance


@dataclass(frozen=True, eq=False)
class Relocation:
    """Move replicas; every partition keeps their number. partitions, brokers: as in Problem.

    Partitions with a replica on a dead broker are left alone where the question leaves a choice. Raises ProblemError.
    columns: as in Problem, with the sender of each partition for its leader.
    """

    partitions: pa.Table
    brokers: tuple[Broker, ...]
    question: Question
    columns: Columns = field(init=False, repr=False)

    def __post_init__(self) -> None:
        brokers, question = self.brokers, self.question
        if isinstance(question, Leave):
            brokers = _without(brokers, question)
        if isinstance(question, LowerImbalance) and question.moves < 1:
            raise ProblemError(None, f"{question.moves} moves are below 1")
        problem = Problem(self.partitions, brokers, 1)
        object.__setattr__(self, "brokers", problem.brokers)
        sender = _senders(problem.columns, problem.brokers, question)
        object.__setattr__(self, "columns", replace(problem.columns, leader=sender))
        if isinstance(question, Leave):
            self._refuse_only_copies(question)

    def wanted(self, _: str) -> None:
        """No factor is wanted."""

    def left_alone(self) -> int:
        """Partitions that are left alone, since a reassignment that names a dead broker does not end."""
        return 0 if isinstance(self.question, Leave) else int((~all_live(self.columns, self.brokers)).sum())

    def leaders_of_changed(self, plan: Plan) -> Column:
        """int32 array: who sends each partition of the plan."""
        columns = self.columns
        place: dict[Any, int] = {name: number for number, name in enumerate(columns.topics)}
        key = columns.topic.astype(np.int64) << 32 | columns.partition
        topics = np.array([place[name] for name in plan.table.column("topic").to_pylist()], dtype=np.int64)
        leader = columns.leader[np.searchsorted(key, topics << 32 | plan.table.column("partition").to_numpy())]
        ids = np.array([broker.id for broker in self.brokers], dtype=np.int32)
        return pa.array(ids[leader], pa.int32())

    def _refuse_only_copies(self, question: Leave) -> None:
        """What a dead broker alone has cannot be copied."""
        columns = self.columns
        index = [broker.id for broker in self.brokers].index(question.broker)
        only = (columns.held == index).any(axis=1) & (columns.held_count == 1)
        if "isr" in self.partitions.column_names:
            isr = self.partitions.column("isr").combine_chunks()
            if not pa.types.is_null(isr.type):
                length = list_lengths(isr)
                alone = np.zeros(len(length), dtype=bool)
                row = np.repeat(np.arange(len(length)), np.maximum(length, 0))
                alone[row[(length[row] == 1) & (flat_values(isr) == question.broker)]] = True
                only |= alone[columns.source_row]
        lost = np.flatnonzero(only)
        if question.gone and len(lost):
            at = lost[np.argmin(columns.source_row[lost])]
            reason = (
                f"{columns.name(at)} is in sync on broker {question.broker} alone, which is gone: nobody can copy it"
            )
            raise ProblemError(int(columns.source_row[at]) + 1, reason)


def all_live(columns: Columns, brokers: Sequence[Broker]) -> Bools:
    """bool[N]: partitions whose replicas are all on brokers that are alive."""
    dead = np.array([not broker.alive for broker in brokers], dtype=bool)
    return np.asarray(~(dead[columns.held] & (columns.held >= 0)).any(axis=1))


def _without(brokers: tuple[Broker, ...], question: Leave) -> tuple[Broker, ...]:
    """The brokers, of which the one that is left takes nothing."""
    number = question.broker
    if not any(broker.id == number for broker in brokers):
        if not question.gone:
            raise ProblemError(None, f"broker {number} is not listed", "brokers")
        brokers = (*brokers, Broker(number, alive=False))  # what is gone is often missing from the list as well
    if not question.gone and not next(broker for broker in brokers if broker.id == number).alive:
        reason = f"broker {number} is not alive, so it cannot send what it holds: replace-broker is the question for it"
        raise ProblemError(None, reason, "brokers")
    return tuple(replace(broker, alive=False) if broker.id == number else broker for broker in brokers)


def _senders(columns: Columns, brokers: Sequence[Broker], question: Question) -> Ints:
    """int32[N]: who sends a partition's data: whoever leads now, also if it leaves; else the first that is alive."""
    leaving = question.broker if isinstance(question, Leave) and not question.gone else None
    able = np.array([broker.alive or broker.id == leaving for broker in brokers], dtype=bool)
    here = able[columns.held] & (columns.held >= 0)
    first = np.take_along_axis(columns.held, np.argmax(here, axis=1)[:, None], axis=1)[:, 0]
    leads = (columns.leader >= 0) & able[columns.leader]
    return np.where(leads, columns.leader, first).astype(np.int32)
