"""The accounts that brokers give of the partitions, side by side in columns, and what `authority` decides of them.

Where all accounts are the same, which is the usual case, nothing is compared. Only disputed rows become objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.authority import GONE, UNNAMED, Leadership, incarnation, leadership, weigh
from kafka_medic.cluster.snapshot import STATES_SCHEMA

T = TypeVar("T")
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """ZooKeeper's own record of a topic. `topic_id`: None before KIP-516. `partitions`: (leader, leader epoch, ISR,
    replicas) of each; the first three are None where the partition's state node does not exist yet."""

    topic_id: str | None
    partitions: Mapping[int, tuple[int | None, int | None, tuple[int, ...] | None, tuple[int, ...]]]


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """`states`: the decided partitions with STATES_SCHEMA, in order; null is undecided. `disputed`: topics on which
    accounts differ, decided or not."""

    states: pa.Table
    disputed: frozenset[str] = frozenset()


def settle(
    views: Mapping[int, pa.Table],
    controller: int | None,
    voters: int,
    records: Mapping[str, TopicRecord | None] | None = None,
    covers: Mapping[int, frozenset[str]] | None = None,
) -> Settled:
    """What is true of each partition by the accounts of the voters in `views` (STATES_SCHEMA). Equal views share a
    table. `records`: of disputed topics, None for one that does not exist. `covers`: the only topics on which these
    voters were asked."""
    tables = list({id(table): table for table in views.values()}.values())
    if len(tables) == 1:
        return Settled(tables[0].sort_by([("topic", "ascending"), ("partition", "ascending")]).combine_chunks())
    brokers = [[b for b, table in views.items() if table is one] for one in tables]
    accounts = _Accounts.of(tables, brokers, controller, voters, covers or {})
    found, disputed = accounts.decided(records or {})
    return Settled(found, disputed)


@dataclass(frozen=True, slots=True, eq=False)
class _Accounts:
    """Accounts side by side. `incarnations`: of each table, by topic. `codes`, `keys`: of each table's rows, the
    topic's place in `topics`, and one number for topic and partition. `covers`: as in `settle`."""

    topics: list[str]
    tables: list[pa.Table]
    brokers: list[list[int]]
    controller: int | None
    voters: int
    codes: list[Ints]
    keys: list[Ints]
    incarnations: list[list[str]]
    covers: Mapping[int, frozenset[str]]

    @classmethod
    def of(
        cls,
        tables: list[pa.Table],
        brokers: list[list[int]],
        controller: int | None,
        voters: int,
        covers: Mapping[int, frozenset[str]],
    ) -> _Accounts:
        names: Any = pc.unique(pa.concat_tables([t.select(["topic"]) for t in tables])["topic"])
        topics = sorted(names.to_pylist())
        codes, keys, incarnations = [], [], []
        for table in tables:
            code: Any = pc.index_in(table["topic"], value_set=pa.array(topics, pa.string()))
            at = np.asarray(code.to_numpy(), dtype=np.int64)
            codes.append(at)
            keys.append((at << 32) | np.asarray(table["partition"].to_numpy(), dtype=np.int64))
            by_topic = [GONE] * len(topics)
            firsts = np.unique(at, return_index=True)
            for topic, topic_id in zip(firsts[0].tolist(), table["topicId"].take(firsts[1]).to_pylist(), strict=True):
                by_topic[topic] = topic_id or UNNAMED
            incarnations.append(by_topic)
        return cls(topics, tables, brokers, controller, voters, codes, keys, incarnations, covers)

    def decided(self, records: Mapping[str, TopicRecord | None]) -> tuple[pa.Table, frozenset[str]]:
        """(the decided partitions, the disputed topics)."""
        covered = [self._covered(brokers) for brokers in self.brokers]
        decided, disputed = self._incarnations(covered)
        unrecorded = np.array([topic not in records for topic in self.topics], dtype=np.bool_)
        exists = np.array([found not in (None, GONE) for found in decided], dtype=np.bool_) & unrecorded
        undecided = np.array([found is None for found in decided], dtype=np.bool_) & unrecorded
        # By table: does its account concern the incarnation that exists?
        concerns = [
            np.fromiter((own in (found, UNNAMED) for own, found in zip(mine, decided, strict=True)), dtype=np.bool_)
            & exists
            & topics
            for mine, topics in zip(self.incarnations, covered, strict=True)
        ]
        agreed, rows, more = self._partitions(concerns)
        rows += self._unknown([undecided & topics for topics in covered])
        rows += _recorded(records)
        ids = {t: None if found in (None, UNNAMED) else found for t, found in zip(self.topics, decided, strict=True)}
        ids |= {topic: record.topic_id if record else None for topic, record in records.items()}
        if rows:
            columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)]
            single = pa.table([*columns, [ids[row[0]] for row in rows]], schema=STATES_SCHEMA)
            agreed = pa.concat_tables([agreed, single])
        ordered = agreed.sort_by([("topic", "ascending"), ("partition", "ascending")]).combine_chunks()
        return ordered, frozenset(disputed | more)

    def _covered(self, brokers: Sequence[int]) -> Mask:
        """By topic, whether any of these brokers was asked about it."""
        if not all(broker in self.covers for broker in brokers):
            return np.ones(len(self.topics), dtype=np.bool_)
        topics = frozenset().union(*(self.covers[broker] for broker in brokers))
        return np.fromiter((topic in topics for topic in self.topics), dtype=np.bool_)

    def _incarnations(self, covered: Sequence[Mask]) -> tuple[list[str | None], set[str]]:
        """(by topic, the incarnation that exists, None where that is undecided; the topics on which accounts
        differ)."""
        decided: list[str | None] = []
        disputed: set[str] = set()
        for code, topic in enumerate(self.topics):
            by_table = {n: mine[code] for n, mine in enumerate(self.incarnations)}
            given = {by_table[n] for n, topics in enumerate(covered) if topics[code]}
            if len(given - {UNNAMED}) > 1 or given >= {UNNAMED, GONE}:
                disputed.add(topic)
            decided.append(incarnation(self._expanded(by_table, topic), self.controller, self.voters))
        return decided, disputed

    def _unknown(self, undecided: Sequence[Mask]) -> list[tuple[Any, ...]]:
        """Every partition that a table lists of its undecided topics, with nothing known of it."""
        keys = {int(key) for keys, topics in zip(self.keys, undecided, strict=True) for key in keys[topics[keys >> 32]]}
        return [(self.topics[key >> 32], key & 0xFFFFFFFF, None, None, None, None) for key in sorted(keys)]

    def _partitions(self, concerns: list[Mask]) -> tuple[pa.Table, list[tuple[Any, ...]], set[str]]:
        """(rows on which the accounts agree, the disputed ones one by one, their topics)."""
        mine = [mask[code] for mask, code in zip(concerns, self.codes, strict=True)]
        every = np.unique(np.concatenate([keys[m] for keys, m in zip(self.keys, mine, strict=True)]))
        topic = every >> 32
        has_account = [mask[topic] for mask in concerns]
        places: list[Ints] = []  # of each table, by key: its row, -1 where it has none
        for keys, m in zip(self.keys, mine, strict=True):
            place = np.full(len(every), -1, dtype=np.int64)
            place[np.searchsorted(every, keys[m])] = np.flatnonzero(m)
            places.append(place)
        differs = self._differ(has_account, places)
        agreed = pa.concat_tables(self.tables).take(self._first_rows(places)[~differs])
        rows = self._disputed(every, np.flatnonzero(differs), has_account, places)
        return agreed, rows, {self.topics[c] for c in np.unique(topic[differs]).tolist()}

    def _differ(self, has_account: Sequence[Mask], places: Sequence[Ints]) -> Mask:
        """By key, whether the tables that have an account of it differ, or one of them lacks the partition."""
        differs = np.zeros(len(places[0]), dtype=np.bool_)
        marked = [marks(table) for table in self.tables]
        low, high = (np.full((len(differs), len(marked[0])), edge, dtype=np.int64) for edge in (_HIGH, _LOW))
        for place, given, mark in zip(places, has_account, marked, strict=True):
            there = place >= 0
            differs |= given & ~there
            for column, values in enumerate(mark):
                low[there, column] = np.minimum(low[there, column], values[place[there]])
                high[there, column] = np.maximum(high[there, column], values[place[there]])
        differs |= (low != high).any(axis=1)
        return differs

    def _first_rows(self, places: Sequence[Ints]) -> Ints:
        """By key, its row in the first table that has one, counted through all tables."""
        first = np.full(len(places[0]), -1, dtype=np.int64)
        start = 0
        for place, table in zip(places, self.tables, strict=True):
            free = (first < 0) & (place >= 0)
            first[free] = place[free] + start
            start += table.num_rows
        return first

    def _disputed(
        self, every: Ints, at: Ints, has_account: Sequence[Mask], places: Sequence[Ints]
    ) -> list[tuple[Any, ...]]:
        """The disputed partitions, without those of which it is decided that they do not exist."""
        read = [self._read(table, place[at]) for table, place in zip(self.tables, places, strict=True)]
        given = np.stack([mask[at] for mask in has_account], axis=1).tolist()
        # Few combinations of accounts are distinct, within a topic where not everybody was asked about all.
        known: dict[tuple[Any, ...], tuple[Any, ...] | None] = {}
        rows = []
        for n, key in enumerate(every[at].tolist()):
            accounts = tuple(rows_of[n] if has else _SILENT for rows_of, has in zip(read, given[n], strict=True))
            topic = self.topics[key >> 32]
            case = (accounts, topic if self.covers else None)
            if case not in known:
                known[case] = self._decide(accounts, topic)
            found = known[case]
            if found is not None:
                rows.append((topic, key & 0xFFFFFFFF, *found))
        return rows

    def _decide(self, accounts: tuple[_Account | str | None, ...], topic: str) -> tuple[Any, ...] | None:
        """(leader, leader epoch, replicas, ISR) by what each table has of one partition: its row, None where it has
        none, _SILENT where it is about another incarnation. None: it is decided that there is no such partition."""
        there = {n: account is not None for n, account in enumerate(accounts) if account != _SILENT}
        present = weigh(self._expanded(there, topic), self.controller, self.voters)
        if present is False:
            return None
        read = {n: account for n, account in enumerate(accounts) if isinstance(account, tuple)}
        leaders = self._expanded({n: one[0] for n, one in read.items()}, topic)
        found = leadership(leaders, self.controller, self.voters)
        replicas = self._list({n: one[2] for n, one in read.items()}, topic)
        if found is None or present is None:
            return None, None, replicas, None
        current = {n: one[1] for n, one in read.items() if one[0] == found}
        return found.leader, found.epoch, replicas, self._list(current, topic, as_set=True)

    def _list(self, ids: Mapping[int, tuple[int, ...]], topic: str, as_set: bool = False) -> tuple[int, ...] | None:
        key = {n: tuple(sorted(one)) if as_set else one for n, one in ids.items()}
        found = weigh(self._expanded(key, topic), self.controller, self.voters)
        return None if found is None else next(ids[n] for n, one in key.items() if one == found)

    @staticmethod
    def _read(table: pa.Table, rows: Ints) -> list[_Account | None]:
        """Each of these rows; None for -1."""
        chosen = table.take(rows[rows >= 0])
        columns: list[list[Any]] = [chosen[name].to_pylist() for name in ("leader", "leaderEpoch", "isr", "replicas")]
        found = iter(zip(*columns, strict=True))
        accounts: list[_Account | None] = []
        for row in rows.tolist():
            if row < 0:
                accounts.append(None)
                continue
            leader, epoch, isr, replicas = next(found)
            accounts.append((Leadership(leader, epoch), tuple(isr), tuple(replicas)))
        return accounts

    def _expanded(self, by_table: Mapping[int, T], topic: str) -> dict[int, T]:
        """From tables to the brokers that gave them, of those that were asked about the topic."""
        return {
            broker: value
            for n, value in by_table.items()
            for broker in self.brokers[n]
            if broker not in self.covers or topic in self.covers[broker]
        }


_Account = tuple[Leadership, tuple[int, ...], tuple[int, ...]]
"""Leader and epoch, ISR, replicas."""
_SILENT = "silent"
_LOW, _HIGH = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def _recorded(records: Mapping[str, TopicRecord | None]) -> list[tuple[Any, ...]]:
    """The partitions of ZooKeeper's records, as rows."""
    return [
        (topic, number, leader, epoch, replicas, isr)
        for topic, record in records.items()
        for number, (leader, epoch, isr, replicas) in sorted(record.partitions.items() if record else ())
    ]


def marks(table: pa.Table) -> tuple[Ints, ...]:
    """Columns by which rows of two tables are told apart: leader, epoch, and a number for each list."""
    return (
        _filled(table["leader"]),
        _filled(table["leaderEpoch"]),
        _list_mark(table["replicas"], ordered=True),
        _list_mark(table["isr"], ordered=False),
    )


def _filled(column: pa.ChunkedArray[Any]) -> Ints:
    values: Any = pc.fill_null(column, pa.scalar(-2, column.type))
    return np.asarray(values.to_numpy(), dtype=np.int64)


def _list_mark(column: pa.ChunkedArray[Any], *, ordered: bool) -> Ints:
    """A number of 64 bits for each list of broker ids; equal for equal lists, and else equal by rare chance alone."""
    flat = np.asarray(pc.list_flatten(column).to_numpy(), dtype=np.uint64)
    rows = np.asarray(pc.list_parent_indices(column).to_numpy(), dtype=np.int64)
    with np.errstate(over="ignore"):
        mixed = (flat + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        if ordered and len(rows):
            starts = np.r_[0, np.flatnonzero(rows[1:] != rows[:-1]) + 1]
            place = np.arange(len(rows)) - np.repeat(starts, np.diff(np.r_[starts, len(rows)]))
            mixed *= np.uint64(2) * place.astype(np.uint64) + np.uint64(1)
            mixed ^= mixed >> np.uint64(31)
        marks = np.zeros(len(column), dtype=np.uint64)
        np.add.at(marks, rows, mixed)
    return marks.view(np.int64)
