"""Brokers that hold clearly more, or less, than an even share of replicas, bytes or traffic.

An even share is what a broker holds if every partition uses racks as well as it can, and brokers are as even as that
leaves possible. So a broker that is alone in its rack may have to hold more than others. Only differences that moves
can lower count, as far as passes over columns show that. A plan that finds nothing to move waits (`playbook.engine`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafka_medic.cluster.elements import failed_directories
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.columns import Ints, Mask, Partitions, numbers, partitions_of, some
from kafka_medic.diagnose.disks import KEPT_FREE, room_above
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene, blind, broker_name
from kafka_medic.report.units import many
from kafka_medic.resources.durations import format_bytes
from kafka_medic.resources.vocabulary import Severity

UNEVEN_FOR = 1800.0
"""Seconds: a broker that was added gets this time to fill, or to be filled."""
LEAST_REPLICAS = 10
LEAST_BYTES = 10_000_000_000
LEAST_TRAFFIC = 1_000_000
"""Bytes per second. Smaller differences are not worth a move, whatever their percentage."""
PLAYBOOK, OF_LEADERS = "rebalance", "rebalance-leaders"
OF_BYTES = "LoadUneven/bytes"
"""The finding for which that Playbook evens bytes."""
LOOKED_UP = 1 << 20
"""Broker ids below this are looked up in a table, which takes a tenth of the time of a search."""
BALANCERS = {
    "strimzi.cruisecontrol.metrics": "Cruise Control",
    "__CruiseControlMetrics": "Cruise Control",
    "_confluent_balancer_api_state": "Self-Balancing Clusters",
}
"""Topics that another balancer keeps for itself: Strimzi's Cruise Control, any other one, and Confluent's."""

Floats = npt.NDArray[np.float64]
Unit = Callable[[float], str]


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """What each broker holds, what would be even, and how much could leave it. ids: of the brokers, ascending."""

    ids: Ints
    held: Floats
    even: Floats
    room: Floats

    def above(self, percent: int, least: float) -> Mask:
        """Brokers that could give more than `percent` of an even share, and `least` or more."""
        return self._clearly(self.room, percent, least)

    def unequal(self, percent: int, least: float) -> Mask:
        """Those, and brokers that lack as much while others have it to give."""
        lacks = np.minimum(self.even - self.held, self.room.sum())
        return self.above(percent, least) | self._clearly(lacks, percent, least)

    def _clearly(self, apart: Floats, percent: int, least: float) -> Mask:
        found: Mask = (apart > self.even * percent / 100) & (apart >= least)
        return found

    def told(self, chosen: Mask, unit: Unit) -> str:
        """The chosen brokers with their shares, those that differ most first."""
        rows = np.flatnonzero(chosen)
        rows = rows[np.argsort(-np.abs(self.held - self.even)[rows], kind="stable")]
        return some([f"broker {self.ids[r]} has {unit(self.held[r])} (even: {unit(self.even[r])})" for r in rows])

    def range(self, unit: Unit) -> str:
        return f"{unit(self.held.min())} to {unit(self.held.max())}"


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Where the replicas are. ids: brokers that get a share, ascending; racks: of each, numbered. at: of each replica
    the place of its broker in `ids`, -1 for a broker that gets none. movable: whether the replica may move."""

    partitions: Partitions
    ids: Ints
    racks: Ints
    at: Ints
    movable: Mask

    def without(self, gone: Mask) -> Placed:
        """Without these brokers, and what they hold."""
        stay = np.flatnonzero(~gone)
        place = np.full(len(self.ids) + 1, -1, dtype=np.int64)  # the last one stands for no broker
        place[stay] = np.arange(len(stay))
        racks: Ints = np.unique(self.racks[stay], return_inverse=True)[1]
        return Placed(self.partitions, self.ids[stay], racks, place[self.at], self.movable)


def detect(scene: Scene) -> Iterator[Finding]:
    """LoadUneven: of replicas, else of bytes and of traffic. Both follow replicas, so they are findings only where
    replicas are even, and evidence elsewhere. Bytes need room to move, and leaders do not."""
    percent, p, table = scene.expectations.uneven_percent, scene.partitions, scene.snapshot.partitions
    if not percent or p is None or table is None or not scene.live or blind(scene) or clouded(scene.snapshot):
        return
    placed = _placed(scene, p)
    if placed is None or not len(placed.ids):
        return
    sizes = numbers(table["sizeBytes"])
    unsized = int(np.count_nonzero(~sizes.known))
    full, rates = short_of_room(scene.snapshot), _rates(scene, placed)
    replicas = _beside_full(placed, full, None)
    size = None if unsized else _beside_full(placed, full, sizes.values)
    large = None if size is None else size.unequal(percent, LEAST_BYTES)
    # Who is sent little has room, or is new.
    busy = None if rates is None else rates.above(percent, LEAST_TRAFFIC)
    unequal = replicas.unequal(percent, LEAST_REPLICAS)
    if unequal.any():
        also = [f"bytes are not judged: the size of {many(unsized, 'partition')} is not known"] if unsized else []
        if size is not None and large is not None and large.any():
            also.append(f"bytes: {size.told(large, _size)}")
        if rates is not None and busy is not None and busy.any():
            also.append(f"bytes in: {rates.told(busy, _rate)}")
        yield _of_replicas(scene, placed, replicas, unequal, also)
    if unequal.any():
        return
    if len(replicas.ids) == len(placed.ids) and size is not None and large is not None and large.any():
        words = f"brokers hold {size.range(_size)}, though replicas are even"
        balancer, told = _balancer(placed)
        evidence = (size.told(large, _size), *told, scene.read_from("log-dirs", "kafka"))
        yield _finding("bytes", words, size.ids[large], evidence, None if balancer else PLAYBOOK)
    # Other leaders need no room: there it counts whether replicas are even by themselves.
    even = not _shares(placed, None).unequal(percent, LEAST_REPLICAS).any()
    if even and rates is not None and busy is not None and busy.any():
        words = f"clients send {rates.range(_rate)} to a broker, though replicas are even"
        balancer, told = _balancer(placed)
        evidence = (rates.told(busy, _rate), *told, scene.read_from("metrics", "kafka"))
        yield _finding("traffic", words, rates.ids[busy], evidence, None if balancer else OF_LEADERS)


def short_of_room(snapshot: Snapshot) -> frozenset[int]:
    """Brokers that cannot take LEAST_REPLICAS of mean size and keep KEPT_FREE percent of each volume free."""
    if snapshot.partitions is None or not snapshot.partitions.num_rows:
        return frozenset()
    sizes = numbers(snapshot.partitions["sizeBytes"])
    least = LEAST_REPLICAS * float(sizes.values[sizes.known].mean()) if sizes.known.any() else 0.0
    rooms = {b.id: room_above(b, KEPT_FREE) for b in snapshot.brokers or ()}
    return frozenset(b for b, room in rooms.items() if room is not None and (room < least or not room))


def _beside_full(placed: Placed, full: frozenset[int], sizes: Ints | None) -> Shares:
    """As `_shares`. A broker that is short of room keeps what it has where that is less than an even share. Others
    share the rest, and alone are in the answer."""
    shares = _shares(placed, sizes)
    short = np.isin(placed.ids, list(full))
    while (pinned := short & (shares.held < shares.even)).any():
        placed, short = placed.without(pinned), short[~pinned]
        shares = _shares(placed, sizes)
    return shares


def clouded(snapshot: Snapshot) -> str | None:
    """What keeps shares from being compared in this snapshot; None where they can be."""
    p, brokers = partitions_of(snapshot), snapshot.brokers
    if p is None or brokers is None:
        return "which broker has which replica"
    if unread := int(np.count_nonzero(~(p.replicas.known & p.adding.known & p.removing.known))):
        return f"the replicas of {many(unread, 'partition')}"
    if moving := int(np.count_nonzero(p.moving)):
        return f"each broker's share ({many(moving, 'partition is', 'partitions are')} being reassigned)"
    if failed := [f"broker {b.id}" for b in brokers if failed_directories(b)]:
        return f"each broker's share (a log directory of {some(failed, 3)} has failed)"
    known = sorted(brokers, key=lambda b: b.id)
    at = _places(p, [b.id for b in known])
    held = np.bincount(at + 1, minlength=len(known) + 1)
    away = [b.id for b, count in zip(known, held[1:].tolist(), strict=True) if count and not b.live]
    away += np.unique(p.replicas.ids[at < 0]).tolist() if held[0] else []
    names = some([f"broker {b}" for b in away], 3)
    return f"each broker's share ({names} is not known to be up)" if away else None


def _places(p: Partitions, brokers: Sequence[int]) -> Ints:
    """Of each replica the place of its broker among these, which ascend; -1: it is none of them."""
    if not brokers:
        return np.full(len(p.replicas.ids), -1, dtype=np.int64)
    ids, replicas = np.array(brokers, dtype=np.int64), p.replicas.ids
    if ids[-1] < LOOKED_UP:
        # The last place stands for every id that is higher, and for negative ones.
        table = np.full(int(ids[-1]) + 2, -1, dtype=np.int64)
        table[ids] = np.arange(len(ids))
        found: Ints = table[np.clip(replicas, -1, len(table) - 1)]
        return found
    at = np.minimum(np.searchsorted(ids, replicas), len(ids) - 1)
    return np.where(ids[at] == replicas, at, -1)


def _placed(scene: Scene, p: Partitions) -> Placed | None:
    """None where the racks of some brokers alone are known: what is even cannot be told then."""
    going = {b.in_its_pod for b in scene.brokers if b.pod is not None and (b.pod.cordoned or b.pod.maintenance)}
    going |= {b.id for b in scene.brokers if b.recovering is True} | set(scene.leaving)
    taking = sorted((b for b in scene.brokers if b.live and b.id not in going), key=lambda b: b.id)
    names = [b.rack for b in taking if b.rack is not None] if scene.expectations.rack_aware else []
    if names and len(names) < len(taking):
        return None
    alone = np.arange(len(taking), dtype=np.int64)
    number = {name: n for n, name in enumerate(dict.fromkeys(names))}
    racks = np.array([number[name] for name in names], dtype=np.int64) if names else alone
    at = _places(p, [b.id for b in taking])
    movable = np.ones(len(at), dtype=np.bool_)
    if scene.expectations.exceptions:
        stays = np.array([scene.expectations.exempt(topic) for topic in p.topics], dtype=np.bool_)
        movable = ~stays[p.topic[p.replicas.rows]]
    return Placed(p, np.array([b.id for b in taking], dtype=np.int64), racks, at, movable)


def _shares(placed: Placed, sizes: Ints | None) -> Shares:
    """By the number of replicas, or by bytes; sizes: of the partitions, all known."""
    there = placed.at >= 0
    at, rows, movable = placed.at[there], placed.partitions.replicas.rows[there], placed.movable[there]
    of_partition = np.ones(len(placed.partitions)) if sizes is None else sizes.astype(np.float64)
    each = of_partition[rows]
    held = np.bincount(at, weights=each, minlength=len(placed.ids)).astype(np.float64)
    factor = np.bincount(rows, minlength=len(placed.partitions))
    even = _even(placed.racks, np.bincount(factor, weights=of_partition).astype(np.float64))
    excess = np.maximum(held - even, 0.0)
    # A replica that is larger than the excess would only take it elsewhere.
    leaves = movable & (each <= excess[at])
    able = np.bincount(at[leaves], weights=each[leaves], minlength=len(placed.ids))
    return Shares(placed.ids, held, even, np.minimum(excess, able))


def _even(racks: Ints, by_factor: Floats) -> Floats:
    """The even share of each broker. by_factor[f]: number, or bytes, of the partitions with f replicas that count.

    A partition that uses racks as well as it can has from `least` to `most` replicas in each of them. Within these
    bounds racks are filled to one level for each broker.
    """
    sizes = np.bincount(racks).astype(np.float64)
    lowest, highest = np.zeros(len(sizes)), np.zeros(len(sizes))
    for factor in np.flatnonzero(by_factor).tolist():
        level = 0
        while level < sizes.max() and np.minimum(sizes, level + 1).sum() <= factor:
            level += 1
        least = np.minimum(sizes, level)
        most = least if least.sum() >= factor else np.minimum(sizes, level + 1)
        lowest, highest = lowest + by_factor[factor] * least, highest + by_factor[factor] * most
    total = float(by_factor @ np.arange(len(by_factor)))
    low, high = 0.0, total
    for _ in range(64):
        middle = (low + high) / 2
        enough = np.clip(middle * sizes, lowest, highest).sum() >= total
        low, high = (low, middle) if enough else (middle, high)
    shares: Floats = (np.clip(high * sizes, lowest, highest) / sizes)[racks]
    return shares


def _rates(scene: Scene, placed: Placed) -> Shares | None:
    """Of what clients send to brokers that lead something; None where one of these reports no rate."""
    leader = placed.partitions.leader
    ids = placed.ids[np.isin(placed.ids, leader.values[leader.known])]
    reported = {b.id: b.bytes_in_rate for b in scene.brokers}
    rates = [rate for b in ids.tolist() if (rate := reported[b]) is not None]
    if not rates or len(rates) < len(ids):
        return None
    held = np.array(rates, dtype=np.float64)
    even = np.full(len(held), held.mean())
    return Shares(ids, held, even, np.maximum(held - even, 0.0))


def _of_replicas(scene: Scene, placed: Placed, shares: Shares, unequal: Mask, also: Sequence[str]) -> Finding:
    evidence = [shares.told(unequal, _count)]
    balancer, told = _balancer(placed)
    evidence += told
    leaving = [b.id for b in scene.brokers if b.id in scene.leaving]
    evidence += [f"broker {b} gets no share: {scene.leaving[b]}" for b in sorted(leaving)[:5]]
    if full := sorted(short_of_room(scene.snapshot)):
        names = some([f"broker {b}" for b in full])
        evidence.append(f"{names} gets nothing: less than {KEPT_FREE} % of a volume would be free afterwards")
    words = f"brokers hold {shares.range(_count)} replicas"
    evidence = [*evidence, *also, scene.read_from("kafka", "views")]
    return _finding("replicas", words, shares.ids[unequal], evidence, None if balancer else PLAYBOOK)


def _balancer(placed: Placed) -> tuple[str | None, tuple[str, ...]]:
    """(another balancer of this cluster, the evidence of it)."""
    topic = next((topic for topic in BALANCERS if topic in placed.partitions.topics), None)
    if topic is None:
        return None, ()
    who = BALANCERS[topic]
    what = f"topic {topic} shows that {who} balances this cluster: use {who}, or delete the topic if it is a leftover"
    return who, (what,)


def _finding(of: str, words: str, brokers: Ints, evidence: Sequence[str], playbook: str | None = None) -> Finding:
    return Finding(
        id=f"LoadUneven/{of}",
        type="LoadUneven",
        severity=Severity.INFO,
        message=words,
        affected=tuple(broker_name(b) for b in brokers.tolist()),
        evidence=tuple(evidence),
        for_seconds=UNEVEN_FOR,
        playbook=playbook,
    )


def _count(share: float) -> str:
    return f"{share:.0f}"


def _size(share: float) -> str:
    return format_bytes(int(share))


def _rate(share: float) -> str:
    return f"{format_bytes(int(share))}/s"
