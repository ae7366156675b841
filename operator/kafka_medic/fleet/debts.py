"""What a cluster owes to its factor and to its racks, from the partitions of one Snapshot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kafka_medic.fleet.traffic import Floats, Ints
from kafka_medic.plan.arrow import compute, flat_values, integers, list_lengths, names
from kafka_medic.plan.wanted import Wanted

__all__ = ["Debts", "debts", "led"]


@dataclass(frozen=True)
class Debts:
    """partitions: that lack replicas. replicas: that are missing. bytes: to be copied for them, of those whose size is
    known; unknown: those whose size is not. racks: partitions whose replicas share a rack though there are enough;
    None where the rack of a replica's broker is not known. moving: partitions that are being reassigned, which count
    for nothing here. topics: the names of those that lack most."""

    partitions: int
    replicas: int
    bytes: int
    unknown: int
    racks: int | None
    moving: int
    topics: tuple[str, ...]


def debts(partitions: pa.Table, brokers: pa.Table, wanted: Wanted) -> Debts:
    """partitions: rows of PARTITIONS of one Snapshot. brokers: rows of BROKERS of the same one."""
    topic = partitions["topic"].combine_chunks().dictionary_encode()
    listed = names(topic.dictionary)
    factor = np.array([wanted.of(name) or 0 for name in listed], dtype=np.int64)
    code = integers(topic.indices)
    length = list_lengths(partitions["replicas"])
    moving = np.asarray(compute.fill_null(partitions["moving"], False).to_numpy(), dtype=bool)
    settled = (length >= 0) & ~moving
    missing = np.where(settled, np.maximum(factor[code] - length, 0), 0) if len(listed) else np.zeros(0, np.int64)
    size = integers(partitions["sizeBytes"])
    lacking = missing > 0
    per_topic = np.bincount(code, weights=missing, minlength=len(listed))
    most = [listed[at] for at in np.argsort(-per_topic, kind="stable")[:5].tolist() if per_topic[at]]
    return Debts(
        partitions=int(lacking.sum()),
        replicas=int(missing.sum()),
        bytes=int((missing * np.maximum(size, 0)).sum()),
        unknown=int((lacking & (size < 0)).sum()),
        racks=_sharing(partitions["replicas"], np.where(settled, length, 0), brokers),
        moving=int(moving.sum()),
        topics=tuple(most),
    )


def led(partitions: pa.Table, topics: tuple[str, ...], brokers: Ints) -> Floats:
    """float64[B, K]: the share of each topic that each broker leads: of its bytes, or of its partitions where sizes are
    not known. brokers: int64[B] ids. What nobody leads is nobody's."""
    place = {name: at for at, name in enumerate(topics)}
    encoded = partitions["topic"].combine_chunks().dictionary_encode()
    code = np.array([place.get(name, 0) for name in names(encoded.dictionary)] or [0])[integers(encoded.indices)]
    size, leader = integers(partitions["sizeBytes"]), integers(partitions["leader"])
    count = len(topics)
    known = np.bincount(code, weights=size < 0, minlength=count) == 0
    total = np.bincount(code, weights=np.maximum(size, 0), minlength=count)
    weight = np.where((known & (total > 0))[code], np.maximum(size, 0), 1).astype(np.float64)
    total = np.bincount(code, weights=weight, minlength=count)
    share = np.zeros((len(brokers), count))
    order = np.argsort(brokers)
    at = np.searchsorted(brokers[order], leader).clip(max=max(len(brokers) - 1, 0))
    here = np.flatnonzero(brokers[order][at] == leader) if len(brokers) else np.zeros(0, dtype=np.int64)
    np.add.at(share, (order[at[here]], code[here]), weight[here] / total[code[here]])
    return share


def _sharing(replicas: object, length: Ints, brokers: pa.Table) -> int | None:
    """Partitions on fewer racks than they could be; a replica on a broker of unknown rack leaves it open."""
    rack_of: dict[int, str | None] = {row["id"]: row["rack"] for row in brokers.select(["id", "rack"]).to_pylist()}
    racks = sorted({rack for rack in rack_of.values() if rack is not None})
    if len(racks) < 2 or None in rack_of.values():
        return None if racks else 0
    whole = list_lengths(replicas)
    row = np.repeat(np.arange(len(whole)), np.maximum(whole, 0))
    ids = np.array(sorted(rack_of), dtype=np.int64)
    place: dict[str | None, int] = {rack: at for at, rack in enumerate(racks)}
    code = np.array([place[rack_of[number]] for number in ids.tolist()], dtype=np.int64)
    held = flat_values(replicas)
    at = np.searchsorted(ids, held).clip(max=len(ids) - 1)
    if (ids[at] != held).any():
        return None
    pairs = np.unique(row * len(racks) + code[at])
    distinct = np.bincount(pairs // len(racks), minlength=len(whole))
    return int(((length > 0) & (distinct < np.minimum(length, len(racks)))).sum())
