"""Questions that move replicas: brokers are replaced, left or relieved, racks are spread over, imbalance is lowered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from kafka_medic.plan.allowed import Allowed, LeftOut
from kafka_medic.plan.arrow import Column, flat_values, is_valid, list_lengths
from kafka_medic.plan.columns import Bools, Columns, Ints
from kafka_medic.plan.model import Plan
from kafka_medic.plan.problem import Broker, Problem, ProblemError, dead_replicas, ids_of, rows_of
from kafka_medic.report.units import many

__all__ = ["Leave", "LowerImbalance", "Question", "Relieve", "Relocation", "SpreadRacks"]

EXAMPLES = 3
"""Partitions that an error names; it always gives their number."""


@dataclass(frozen=True)
class Leave:
    """Every replica on the brokers goes elsewhere. gone: they are dead, so they send nothing. skip_lost: partitions
    that are in sync on no other broker are left out; without it they are refused. only: (topic, partition) of those
    that are asked for, where it is not all."""

    brokers: tuple[int, ...]
    gone: bool
    skip_lost: bool = False
    only: frozenset[tuple[str, int]] | None = None


@dataclass(frozen=True)
class SpreadRacks:
    """Partitions whose replicas share a rack though they need not are spread, with the fewest moves."""


@dataclass(frozen=True)
class LowerImbalance:
    """Replicas per broker are made as even as `moves` moves can make them; by_bytes: bytes per broker, for which every
    size has to be known. Numbers of replicas then become no less even."""

    moves: int
    by_bytes: bool = False


@dataclass(frozen=True)
class Relieve:
    """At least so many bytes leave each of these brokers, and as few more as was found: (broker, bytes). The brokers
    take nothing. Each partition stays as well spread over racks as it is. What has no known size, or is not known to be
    in sync everywhere, stays. No limit on what is copied can be kept beside that. only: of such a broker nothing leaves
    but these (topic, partition). sizes: of such a broker's own replicas, by (topic, partition); nothing else leaves it.
    Without them its replicas are as large as their leaders'. What arrives elsewhere is as large as on the leader."""

    bytes_to_free: tuple[tuple[int, int], ...]
    only: tuple[tuple[int, frozenset[tuple[str, int]]], ...] = ()
    sizes: tuple[tuple[int, Mapping[tuple[str, int], int]], ...] = ()


Question = Leave | SpreadRacks | LowerImbalance | Relieve


@dataclass(frozen=True, eq=False)
class Relocation:
    """Move replicas; every partition keeps their number. partitions, brokers, allowed, whole: as in Problem.

    A partition with a replica on a dead broker is left out, unless the question empties that broker: its reassignment
    would never end. Raises ProblemError.
    columns: as in Problem, with the sender of each partition for its leader.
    leaving: bool[B], the brokers that the question empties. left_out: int8[N] as in LeftOut: why a partition stays as
    it is. It counts the partitions that the question asks for, or might choose.
    """

    partitions: pa.Table
    brokers: tuple[Broker, ...]
    question: Question
    allowed: Allowed = field(default_factory=Allowed)
    whole: bool = True
    columns: Columns = field(init=False, repr=False)
    leaving: Bools = field(init=False, repr=False)
    left_out: Ints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        brokers, question = self.brokers, self.question
        if isinstance(question, Leave):
            brokers = _without(brokers, question, self.allowed)
        if isinstance(question, Relieve):
            brokers = _relieved(brokers, question, self.allowed)
        if isinstance(question, LowerImbalance) and question.moves < 1:
            raise ProblemError(None, f"{question.moves} moves are below 1")
        by_bytes = isinstance(question, LowerImbalance) and question.by_bytes
        problem = Problem(self.partitions, self.allowed.closing(brokers), 1, whole=self.whole, by_bytes=by_bytes)
        object.__setattr__(self, "brokers", problem.brokers)
        ids = [broker.id for broker in problem.brokers]
        named = question.brokers if isinstance(question, Leave) else ()
        object.__setattr__(self, "leaving", np.isin(ids, named))
        sender = _senders(problem.columns, problem.brokers, self.leaving, question)
        object.__setattr__(self, "columns", replace(problem.columns, leader=sender))
        object.__setattr__(self, "left_out", self._left_out())

    def wanted(self, _: str) -> None:
        """No factor is wanted."""

    def leaders_of_changed(self, plan: Plan) -> Column:
        """int32 array: the broker that sends each partition of the plan."""
        return ids_of(self.columns.leader[rows_of(plan, self.columns)], self.brokers)

    def _left_out(self) -> Ints:
        columns, question = self.columns, self.question
        asked = np.ones(len(columns.held), dtype=bool)
        if isinstance(question, Leave):
            asked = self.asked()
        if isinstance(question, Relieve):
            asked = self._on_relieved() & ~self._excluded()
        others = [replace(b, alive=b.alive or left) for b, left in zip(self.brokers, self.leaving, strict=True)]
        why = np.zeros(len(asked), dtype=np.int8)
        if isinstance(question, Relieve):
            why[columns.size < 0] = LeftOut.UNKNOWN_SIZE
        why[dead_replicas(columns, others)] = LeftOut.DEAD_REPLICA
        if isinstance(question, Leave) and question.gone:
            lost = self._lost() & asked
            self._refuse_lost(lost & ~self._excluded(), question)
            why[lost] = LeftOut.LOST
        if isinstance(question, Leave):
            why[self._excluded()] = LeftOut.EXCLUDED_TOPIC
        return np.where(asked, why, LeftOut.NOT).astype(np.int8)

    def _excluded(self) -> Bools:
        """bool[N]: partitions of excluded topics."""
        stays: Bools = self.allowed.staying_topics(self.columns.topics)
        return stays[self.columns.topic] if len(stays) else np.zeros(len(self.columns.topic), dtype=bool)

    def may_change(self) -> Bools:
        """bool[N]: partitions that the plan may touch."""
        return np.asarray((self.left_out == LeftOut.NOT) & ~self._excluded())

    def asked(self) -> Bools:
        """bool[N]: partitions with a replica on a broker that the question empties, of those that it is about."""
        columns, question = self.columns, self.question
        there = _on(columns, self.leaving)
        if not isinstance(question, Leave) or question.only is None:
            return there
        rows = np.flatnonzero(there)
        names = ((columns.topics[int(columns.topic[at])], int(columns.partition[at])) for at in rows)
        there[rows] = [name in question.only for name in names]
        return there

    def may_leave(self) -> Bools:
        """bool[N]: partitions of which a replica may leave a broker that is relieved, and which it takes bytes off."""
        in_sync = self.columns.isr_count == self.columns.held_count
        return np.asarray(self.may_change() & in_sync & (self.columns.size > 0))

    def may_leave_broker(self, broker: int) -> Bools:
        """bool[N]: the same of one broker that is relieved."""
        assert isinstance(self.question, Relieve)
        only, able = dict(self.question.only).get(broker), self.may_leave() & (self.size_on(broker) > 0)
        if only is None:
            return able
        rows, columns = np.flatnonzero(able), self.columns
        able[rows] = [(columns.topics[int(columns.topic[at])], int(columns.partition[at])) in only for at in rows]
        return able

    def size_on(self, broker: int) -> Ints:
        """int64[N]: bytes of the replicas on one broker that is relieved; -1: unknown."""
        assert isinstance(self.question, Relieve)
        own, columns = dict(self.question.sizes).get(broker), self.columns
        if own is None:
            return columns.size
        size = np.full(len(columns.size), -1, dtype=np.int64)
        rows = np.flatnonzero(_on(columns, np.array([b.id == broker for b in self.brokers], dtype=bool)))
        size[rows] = [own.get((columns.topics[int(columns.topic[at])], int(columns.partition[at])), -1) for at in rows]
        return size

    def _on_relieved(self) -> Bools:
        """bool[N]: partitions with a replica on a broker that is relieved."""
        assert isinstance(self.question, Relieve)
        named = [broker for broker, _ in self.question.bytes_to_free]
        return _on(self.columns, np.isin([broker.id for broker in self.brokers], named))

    def _lost(self) -> Bools:
        """bool[N]: partitions that are in sync on brokers that are gone alone, or have no replica elsewhere."""
        columns = self.columns
        lost = ~_on(columns, ~self.leaving)
        if "isr" not in self.partitions.column_names:
            return lost
        isr = self.partitions.column("isr").combine_chunks()
        if pa.types.is_null(isr.type):
            return lost
        length = np.maximum(list_lengths(isr), 0)
        row = np.repeat(np.arange(len(length)), length)
        gone = [broker.id for broker, left in zip(self.brokers, self.leaving, strict=True) if left]
        here = np.isin(flat_values(isr), gone)
        # One that is known to be in sync nowhere is lost as well.
        only = (np.bincount(row[here], minlength=len(length)) == length) & is_valid(isr)
        return np.asarray(lost | only[columns.source_row])

    def _refuse_lost(self, lost: Bools, question: Leave) -> None:
        """What brokers that are gone alone have cannot be copied."""
        rows = np.flatnonzero(lost)
        if question.skip_lost or not len(rows):
            return
        columns = self.columns
        rows = rows[np.argsort(columns.source_row[rows])]
        names = ", ".join(columns.name(at) for at in rows[:EXAMPLES])
        more = f" and {len(rows) - EXAMPLES:,} more" if len(rows) > EXAMPLES else ""
        which = "broker " + ", ".join(map(str, question.brokers))
        reason = (
            f"{names}{more}: in sync on {which} alone, which cannot send it; "
            f"{many(len(rows), 'partition is', 'partitions are')} lost unless the broker comes back. Start the "
            "broker, or leave the partitions out with --skip-lost"
        )
        raise ProblemError(int(columns.source_row[rows[0]]) + 1, reason)


def _on(columns: Columns, which: Bools) -> Bools:
    """bool[N]: partitions with a replica on some of these brokers (bool[B])."""
    return np.asarray((which[columns.held] & (columns.held >= 0)).any(axis=1))


def _without(brokers: tuple[Broker, ...], question: Leave, allowed: Allowed) -> tuple[Broker, ...]:
    """The brokers, of which those that are left take nothing."""
    if not question.brokers:
        raise ProblemError(None, "no broker is named that replicas are to leave", "brokers")
    listed = {broker.id: broker for broker in brokers}
    for number in question.brokers:
        if number in allowed.exclude_brokers:
            raise ProblemError(None, f"broker {number} is excluded, but its replicas are to leave it", "brokers")
        if number not in listed:
            if not question.gone:
                raise ProblemError(None, f"broker {number} is not listed", "brokers")
            brokers = (*brokers, Broker(number, alive=False))  # what is gone is often missing from the list as well
        elif not question.gone and not listed[number].alive:
            reason = f"broker {number} is not alive, so it cannot send what it holds: use replace-broker for it"
            raise ProblemError(None, reason, "brokers")
    left = frozenset(question.brokers)
    return tuple(replace(broker, alive=broker.alive and broker.id not in left) for broker in brokers)


def _relieved(brokers: tuple[Broker, ...], question: Relieve, allowed: Allowed) -> tuple[Broker, ...]:
    """The brokers, of which those that are relieved take nothing."""
    if not question.bytes_to_free:
        raise ProblemError(None, "no broker is named that bytes are to leave", "brokers")
    if allowed.limited:
        raise ProblemError(None, "limits on moves and bytes cannot be kept where a number of bytes has to leave")
    listed = {broker.id: broker for broker in brokers}
    named: set[int] = set()
    for number, need in question.bytes_to_free:
        if number in named:
            raise ProblemError(None, f"broker {number} is named twice", "brokers")
        if number in allowed.exclude_brokers:
            raise ProblemError(None, f"broker {number} is excluded, but bytes are to leave it", "brokers")
        if number not in listed:
            raise ProblemError(None, f"broker {number} is not listed", "brokers")
        if not listed[number].alive:
            raise ProblemError(None, f"broker {number} is not alive, so nothing can be removed from it", "brokers")
        if need < 1:
            raise ProblemError(None, f"{need} bytes are below 1", "brokers")
        named.add(number)
    return tuple(replace(broker, takes=broker.takes and broker.id not in named) for broker in brokers)


def _senders(columns: Columns, brokers: Sequence[Broker], leaving: Bools, question: Question) -> Ints:
    """int32[N]: the broker that sends a partition's data: the present leader, also if it leaves; else the first replica
    that is alive."""
    sends = leaving & (isinstance(question, Leave) and not question.gone)
    able = np.array([broker.alive for broker in brokers], dtype=bool) | sends
    here = able[columns.held] & (columns.held >= 0)
    first = np.take_along_axis(columns.held, np.argmax(here, axis=1)[:, None], axis=1)[:, 0]
    leads = (columns.leader >= 0) & able[columns.leader]
    return np.where(leads, columns.leader, first).astype(np.int32)
