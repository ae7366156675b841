"""How each broker's account differs from what is decided (`authority`), for detectors, guards and plans alike.

A Snapshot's `partitions` hold what was decided when it was taken; null is undecided. A document from another writer may
hold the account of a broker that is behind, so a view that is ahead of it makes rules 4 and 5 apply once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.accounts import Ints, Mask
from kafka_medic.cluster.authority import Leadership, leadership
from kafka_medic.cluster.snapshot import Mode, Snapshot, TopicPartition, View

AGREEMENT = "agreement"
"""Where a Snapshot keeps it (`Snapshot.worked_out`)."""
UNKNOWN = -2
"""In a column of numbers: null. Kafka's own are -1 and higher."""
NOT_ASKED = UNKNOWN - 1
"""Below every account: the broker was not asked about the partition."""


def _column(name: str, kind: pa.DataType) -> pa.Field[Any]:
    return pa.field(name, kind)


BELIEFS_SCHEMA: pa.Schema = pa.schema(
    [
        _column("topic", pa.string()),
        _column("partition", pa.int64()),
        _column("leader", pa.int64()),
        _column("epoch", pa.int64()),
        _column("topicId", pa.string()),
        _column("kind", pa.string()),
        _column("actualLeader", pa.int64()),
        _column("actualEpoch", pa.int64()),
    ]
)
"""What a broker reports that differs. `kind`: `behind`, `other leader` (same epoch), `other incarnation`, `gone` (there
is no such partition), `missing` (there is, and the broker does not report it). UNKNOWN and "" stand for null."""


@dataclass(frozen=True, slots=True, eq=False)
class Disagreement:
    """One broker's account, where it differs. `absent`: registered brokers that it does not count as members; `ghosts`:
    members that it counts and that are not registered; `controller`: the one that it names, if it is another."""

    broker: int
    absent: tuple[int, ...]
    ghosts: tuple[int, ...]
    controller: int | None
    beliefs: pa.Table

    @property
    def any(self) -> bool:
        return bool(self.absent or self.ghosts or self.controller is not None or self.beliefs.num_rows)

    def lasts_since(self, before: Disagreement) -> bool:
        """Whether any of this was so before already."""
        if set(self.absent) & set(before.absent) or set(self.ghosts) & set(before.ghosts):
            return True
        if self.controller is not None and self.controller == before.controller:
            return True
        keys = ["topic", "partition", "leader", "epoch", "topicId"]
        both = self.beliefs.select(keys).join(before.beliefs.select(keys), keys, join_type="inner")
        return both.num_rows > 0

    def examples(self, limit: int) -> list[str]:
        """The first differences, in words."""
        return [_example(row) for row in self.beliefs.slice(0, limit).to_pylist()]


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """`reporting` of `voters` registered brokers reported their partitions. `disagreements`: by broker, of each that
    answered and differs. `undecided`: partitions whose leader, epoch or existence the accounts leave open. `doubted`:
    brokers whose account of something undecided may be an earlier state, and of what, in words. `unidentified`:
    brokers that report topics without the ids that are decided, so that those may be deleted ones."""

    reporting: int
    voters: int
    disagreements: Mapping[int, Disagreement]
    undecided: tuple[TopicPartition, ...]
    doubted: Mapping[int, str]
    unidentified: frozenset[int]
    _snapshot: Snapshot

    @property
    def witnessed(self) -> bool:
        """More than half of the voters reported their partitions, so that no single one is believed."""
        return self.reporting * 2 > self.voters

    def accounts_of(self, tp: TopicPartition) -> list[str]:
        """Every account of one partition, with the brokers that give it."""
        return _accounts_of(self._snapshot, tp)


def agreement(snapshot: Snapshot) -> Agreement:
    """Worked out once for each snapshot. What a broker did not report is not compared."""
    if AGREEMENT not in snapshot.worked_out:
        snapshot.worked_out[AGREEMENT] = _agreement(snapshot)
    found: Agreement = snapshot.worked_out[AGREEMENT]
    return found


def stale_accounts(decided: pa.Table, accounts: Mapping[int, pa.Table]) -> frozenset[int]:
    """Brokers whose account (STATES_SCHEMA) differs from what is decided, while a Snapshot is being made."""
    tables = {id(table): table for table in accounts.values()}
    if len(tables) < 2:
        return frozenset()
    names: Any = pc.unique(pa.concat_tables([t.select(["topic"]) for t in (decided, *tables.values())])["topic"])
    topics = sorted(names.to_pylist())
    truth = _columns(decided, topics, "leaderEpoch")
    stale = {
        key
        for key, table in tables.items()
        if _differing(truth, _columns(table, topics, "leaderEpoch"), topics).num_rows
    }
    return frozenset(broker for broker, table in accounts.items() if id(table) in stale)


def _agreement(snapshot: Snapshot) -> Agreement:
    views = snapshot.views or ()
    outside = {b.id for b in snapshot.brokers or () if b.registered is False}
    voters = len(views) if snapshot.brokers is None else sum(b.registered is not False for b in snapshot.brokers)
    voting = [v for v in views if v.broker not in outside and v.leaders is not None]
    beliefs, undecided, doubts = _beliefs(snapshot, voting, voters)
    found = {}
    for view in views:
        mine = beliefs.get(id(view.leaders), BELIEFS_SCHEMA.empty_table())
        if mine.num_rows and view.covers is not None:
            mine = mine.filter(pc.field("topic").isin(sorted(view.covers)))
        one = Disagreement(view.broker, *_members(snapshot, view), _controller(snapshot, view), mine)
        if one.any:
            found[view.broker] = one
    unidentified = frozenset(v.broker for v in views if v.leaders is not None and _unidentified(snapshot, v.leaders))
    reasons = {tp: f"accounts of {tp} differ: {'; '.join(_accounts_of(snapshot, tp))}" for tp in set(doubts.values())}
    doubted = {broker: reasons[tp] for broker, tp in doubts.items()}
    doubted = dict.fromkeys(*_members_in_doubt(snapshot, voting)) | doubted
    return Agreement(len(voting), voters, found, undecided, doubted, unidentified, snapshot)


def _accounts_of(snapshot: Snapshot, tp: TopicPartition) -> list[str]:
    tables = {id(v.leaders): v.leaders for v in snapshot.views or () if v.leaders is not None}
    texts = {}
    for key, table in tables.items():
        mine = table.filter((pc.field("topic") == tp.topic) & (pc.field("partition") == tp.partition))
        row = next(iter(mine.to_pylist()), None)
        texts[key] = "no such partition" if row is None else _account(row["leader"], row["epoch"], row["topicId"])
    by_account: dict[str, list[int]] = {}
    for view in snapshot.views or ():
        if view.leaders is not None and view.covers_topic(tp.topic):
            by_account.setdefault(texts[id(view.leaders)], []).append(view.broker)
    return [f"{account} ({_brokers(who)})" for account, who in sorted(by_account.items())]


def _members_in_doubt(snapshot: Snapshot, voting: list[View]) -> tuple[list[int], str]:
    """(every voter while they differ on a broker that may be registered or not, of which in words)."""
    for unsure in (b.id for b in snapshot.brokers or () if b.registered is None):
        votes = {v.broker: unsure in v.members for v in voting if v.members is not None}
        if len(set(votes.values())) > 1:
            return list(votes), f"accounts differ on whether broker {unsure} is registered"
    return [], ""


def _unidentified(snapshot: Snapshot, leaders: pa.Table) -> bool:
    decided = snapshot.partitions
    if decided is None or not leaders["topicId"].null_count:
        return False
    nameless: Any = pc.unique(leaders.filter(pc.is_null(leaders["topicId"]))["topic"])
    mine = decided.filter(pc.is_in(decided["topic"], value_set=nameless))
    return mine.num_rows > mine["topicId"].null_count


def _members(snapshot: Snapshot, view: View) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if snapshot.brokers is None or view.members is None:
        return (), ()
    registered = {b.id for b in snapshot.brokers if b.registered is True}
    # A broker of which it is not known whether it is registered proves nothing either way.
    unsure = {b.id for b in snapshot.brokers if b.registered is None}
    named = set(view.members)
    return tuple(sorted(registered - named)), tuple(sorted(named - registered - unsure))


def _controller(snapshot: Snapshot, view: View) -> int | None:
    """KRaft brokers name a random live broker as controller (KIP-590), so only ZooKeeper's are compared."""
    controller = snapshot.controller
    if snapshot.cluster.mode is not Mode.ZOOKEEPER or controller is None or controller.id is None:
        return None
    return view.controller if view.controller not in (None, controller.id) else None


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """A table of partitions by one number for each (topic, partition)."""

    keys: Ints
    leader: Ints
    epoch: Ints
    ids: list[str | None]
    """By topic."""

    def leadership(self, row: int) -> Leadership:
        return Leadership(int(self.leader[row]), int(self.epoch[row]))


@dataclass(frozen=True, slots=True, eq=False)
class _Account:
    """One voter's account. `covers`: the topics, by their places, that it was asked about; None: all."""

    broker: int
    reported: _Columns
    covers: Ints | None

    def about(self, keys: Ints) -> Mask:
        """Of each partition, whether the voter was asked about it."""
        return np.ones(len(keys), dtype=np.bool_) if self.covers is None else np.isin(keys >> 32, self.covers)


def _beliefs(
    snapshot: Snapshot, voting: list[View], voters: int
) -> tuple[dict[int, pa.Table], tuple[TopicPartition, ...], dict[int, TopicPartition]]:
    """(what differs, by identity of a view's table; undecided partitions; by broker, the first of those of which it may
    report an earlier state)."""
    decided = snapshot.partitions
    tables = {id(v.leaders): v.leaders for v in snapshot.views or () if v.leaders is not None}
    if decided is None or not tables:
        return {}, (), {}
    if len(tables) == 1 and _same(decided, next(iter(tables.values()))):
        return {}, (), {}
    names: Any = pc.unique(pa.concat_tables([t.select(["topic"]) for t in (decided, *tables.values())])["topic"])
    topics = sorted(names.to_pylist())
    reported = {key: _columns(table, topics, "epoch") for key, table in tables.items()}
    at = {topic: code for code, topic in enumerate(topics)}
    accounts = [_Account(v.broker, reported[id(v.leaders)], _codes(v.covers, at)) for v in voting]
    truth = _raised(_columns(decided, topics, "leaderEpoch"), accounts, _controller_of(snapshot), voters)
    found = {key: _differing(truth, mine, topics) for key, mine in reported.items()}
    unknown = truth.keys[(truth.leader == UNKNOWN) | (truth.epoch == UNKNOWN)]
    undecided = unknown[_disputed(unknown, list(reported.values()))]
    named = tuple(TopicPartition(topics[key >> 32], key & 0xFFFFFFFF) for key in undecided.tolist())
    doubted = _doubted(undecided, accounts) if named and accounts else {}
    return found, named, {broker: named[first] for broker, first in doubted.items()}


def _codes(covers: frozenset[str] | None, at: Mapping[str, int]) -> Ints | None:
    return None if covers is None else np.array([at[topic] for topic in covers if topic in at], dtype=np.int64)


def _controller_of(snapshot: Snapshot) -> int | None:
    return snapshot.controller.id if snapshot.controller else None


def _same(decided: pa.Table, reported: pa.Table) -> bool:
    if decided.num_rows != reported.num_rows or decided["leader"].null_count or decided["leaderEpoch"].null_count:
        return False
    if not reported["topicId"].null_count and not reported["topicId"].equals(decided["topicId"]):
        return False
    pairs = (("topic", "topic"), ("partition", "partition"), ("leader", "leader"), ("leaderEpoch", "epoch"))
    return all(decided[mine].equals(reported[theirs]) for mine, theirs in pairs)


def _columns(table: pa.Table, topics: list[str], epoch: str) -> _Columns:
    code: Any = pc.index_in(table["topic"], value_set=pa.array(topics, pa.string()))
    at = np.asarray(code.to_numpy(), dtype=np.int64)
    ids: list[str | None] = [None] * len(topics)
    which, first = np.unique(at, return_index=True)
    for topic, topic_id in zip(which.tolist(), table["topicId"].take(first).to_pylist(), strict=True):
        ids[topic] = topic_id
    return _Columns((at << 32) | _numbers(table["partition"]), _numbers(table["leader"]), _numbers(table[epoch]), ids)


def _numbers(column: pa.ChunkedArray[Any]) -> Ints:
    filled: Any = pc.fill_null(column, pa.scalar(UNKNOWN, column.type)) if column.null_count else column
    return np.asarray(filled.to_numpy(), dtype=np.int64)


def _places(wanted: Ints, keys: Ints) -> Ints:
    """Where each of `wanted` is among `keys`; -1: nowhere."""
    if np.array_equal(wanted, keys):
        return np.arange(len(keys), dtype=np.int64)
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    at = order[np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)]
    return np.where(keys[at] == wanted, at, -1)


def _other(truth: _Columns, mine: _Columns) -> Mask:
    """By topic: both name an id, and not the same."""
    pairs = zip(truth.ids, mine.ids, strict=True)
    return np.fromiter((a is not None and b is not None and a != b for a, b in pairs), dtype=np.bool_)


def _raised(truth: _Columns, accounts: Sequence[_Account], controller: int | None, voters: int) -> _Columns:
    """With rules 4 and 5 on partitions of which a voter's view is ahead."""
    tables = {id(account.reported): account.reported for account in accounts}
    wanted = _ahead(truth, list(tables.values()))
    if not len(wanted):
        return truth
    rows = {key: _places(wanted, mine.keys) for key, mine in tables.items()}
    # By table: has it the partition, of no other incarnation?
    usable = {key: (rows[key] >= 0) & ~_other(truth, mine)[wanted >> 32] for key, mine in tables.items()}
    covered = [account.about(wanted) for account in accounts]
    leader, epoch = truth.leader.copy(), truth.epoch.copy()
    for n, at in enumerate(_places(wanted, truth.keys).tolist()):
        leaderships = {
            account.broker: account.reported.leadership(int(rows[key][n]))
            for account, mine in zip(accounts, covered, strict=True)
            if mine[n] and usable[key := id(account.reported)][n]
        }
        found = leadership(leaderships, controller, voters)
        decided = (UNKNOWN, UNKNOWN) if found is None or found.epoch is None else (found.leader, found.epoch)
        leader[at], epoch[at] = decided
    return _Columns(truth.keys, leader, epoch, truth.ids)


def _ahead(truth: _Columns, tables: Sequence[_Columns]) -> Ints:
    """Partitions of which any of these tables has a later epoch than the decided one, within the incarnation."""
    ahead: set[int] = set()
    for mine in tables:
        at = _places(mine.keys, truth.keys)
        newer = (at >= 0) & ~_other(truth, mine)[mine.keys >> 32] & (mine.leader != UNKNOWN)
        newer[newer] = (truth.epoch[at[newer]] != UNKNOWN) & (mine.epoch[newer] > truth.epoch[at[newer]])
        ahead.update(mine.keys[newer].tolist())
    return np.array(sorted(ahead), dtype=np.int64)


def _differing(truth: _Columns, mine: _Columns, topics: list[str]) -> pa.Table:
    """With BELIEFS_SCHEMA. What is undecided, or not known on one side, differs from nothing."""
    at = _places(mine.keys, truth.keys)
    other = _other(truth, mine)[mine.keys >> 32]
    settled = (truth.leader != UNKNOWN) & (truth.epoch != UNKNOWN)
    same = (at >= 0) & ~other & (mine.leader != UNKNOWN) & (mine.epoch != UNKNOWN)
    same[same] = settled[at[same]]
    older, led = np.zeros(len(at), dtype=np.bool_), np.zeros(len(at), dtype=np.bool_)
    older[same] = mine.epoch[same] != truth.epoch[at[same]]
    led[same] = (mine.epoch[same] == truth.epoch[at[same]]) & (mine.leader[same] != truth.leader[at[same]])
    kinds = {"behind": older, "other leader": led, "other incarnation": other, "gone": (at < 0) & ~other}
    found = [_reported(kind, mine, truth, np.flatnonzero(where), at, topics) for kind, where in kinds.items()]
    missing = (_places(truth.keys, mine.keys) < 0) & settled & ~_other(truth, mine)[truth.keys >> 32]
    return pa.concat_tables([*found, _missing(truth, np.flatnonzero(missing), topics)]).combine_chunks()


def _reported(kind: str, mine: _Columns, truth: _Columns, rows: Ints, at: Ints, topics: list[str]) -> pa.Table:
    """Rows of `mine` that differ, beside what is decided of them. `at`: the place in `truth` of each row."""
    decided = at[rows]
    # A last row of nulls, for those that have none in `truth`.
    leaders, epochs = np.append(truth.leader, UNKNOWN), np.append(truth.epoch, UNKNOWN)
    ids = [mine.ids[code] or "" for code in (mine.keys[rows] >> 32).tolist()]
    reported = (mine.leader[rows], mine.epoch[rows])
    return _beliefs_table(kind, mine.keys[rows], reported, ids, (leaders[decided], epochs[decided]), topics)


def _missing(truth: _Columns, rows: Ints, topics: list[str]) -> pa.Table:
    """Rows of `truth` that the broker does not report."""
    unknown = np.full(len(rows), UNKNOWN, dtype=np.int64)
    decided = (truth.leader[rows], truth.epoch[rows])
    return _beliefs_table("missing", truth.keys[rows], (unknown, unknown), [""] * len(rows), decided, topics)


def _beliefs_table(
    kind: str, keys: Ints, reported: tuple[Ints, Ints], ids: list[str], decided: tuple[Ints, Ints], topics: list[str]
) -> pa.Table:
    names = [topics[code] for code in (keys >> 32).tolist()]
    kinds = [kind] * len(keys)
    columns = [
        pa.array(names, pa.string()),
        pa.array(keys & 0xFFFFFFFF),
        *map(pa.array, reported),
        pa.array(ids, pa.string()),
        pa.array(kinds, pa.string()),
        *map(pa.array, decided),
    ]
    return pa.table(columns, schema=BELIEFS_SCHEMA)


def _disputed(keys: Ints, tables: Sequence[_Columns]) -> Mask:
    """Whether accounts of these partitions differ."""
    first = tables[0]
    differs: Mask = np.zeros(len(keys), dtype=np.bool_)
    for mine in tables[1:]:
        differs |= _other(first, mine)[keys >> 32]
        here, there = _places(keys, first.keys), _places(keys, mine.keys)
        differs |= (here < 0) != (there < 0)
        both = (here >= 0) & (there >= 0)
        for column in ("leader", "epoch"):
            left, right = getattr(first, column)[here[both]], getattr(mine, column)[there[both]]
            differs[both] |= left != right
    return differs


def _doubted(keys: Ints, accounts: Sequence[_Account]) -> dict[int, int]:
    """By broker, the place in `keys` of the first partition of which it may report an earlier state. Beyond doubt is
    only the account with the latest epoch where two brokers give it, and all report the same incarnation."""
    lacking: Mask = np.zeros(len(keys), dtype=np.bool_)
    covered = [account.about(keys) for account in accounts]
    epochs, leaders = [], []
    for account, mine in zip(accounts, covered, strict=True):
        at = _places(keys, account.reported.keys)
        lacking |= mine & ((at < 0) | _other(accounts[0].reported, account.reported)[keys >> 32])
        epochs.append(np.where(mine, np.append(account.reported.epoch, UNKNOWN)[at], NOT_ASKED))
        leaders.append(np.where(mine, np.append(account.reported.leader, UNKNOWN)[at], NOT_ASKED))
    by_epoch, by_leader = np.stack(epochs), np.stack(leaders)  # a row for each account
    is_latest = by_epoch == by_epoch.max(axis=0)
    latest_leader = np.where(is_latest, by_leader, NOT_ASKED).max(axis=0)
    is_same = is_latest & (by_leader == latest_leader)
    rivals = (is_latest & ~is_same).any(axis=0)
    undecidable = lacking | rivals | (is_same.sum(axis=0) < 2)
    doubtful = {
        account.broker: np.flatnonzero(mine & (undecidable | ~same))
        for account, mine, same in zip(accounts, covered, is_same, strict=True)
    }
    return {broker: int(places[0]) for broker, places in doubtful.items() if len(places)}


def _example(row: Mapping[str, Any]) -> str:
    name = f"{row['topic']}-{row['partition']}"
    mine, actual = _account(row["leader"], row["epoch"]), _account(row["actualLeader"], row["actualEpoch"])
    match row["kind"]:
        case "other incarnation":
            return f"{name} of a deleted topic with the same name (id {row['topicId']}), {mine}"
        case "gone":
            return f"{name} does not exist, reported with {mine}"
        case "missing":
            return f"{name} not reported, decided is {actual}"
        case _:
            return f"{name} {mine}, decided is {actual}"


def _account(leader: int | None, epoch: int | None, topic_id: str | None = None) -> str:
    text = "no leader" if leader == -1 else f"leader {'unknown' if leader in (None, UNKNOWN) else leader}"
    text += f" epoch {'unknown' if epoch in (None, UNKNOWN) else epoch}"
    return f"{text} of topic id {topic_id}" if topic_id else text


def _brokers(ids: list[int]) -> str:
    return ("broker " if len(ids) == 1 else "brokers ") + ", ".join(map(str, sorted(ids)))
