"""Where replicas may go: live brokers, numbered, in numbered racks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kafka_medic.plan.broker import Broker, rack_names
from kafka_medic.plan.columns import Ints
from kafka_medic.plan.solver.aggregate import Kinds, classify

__all__ = ["Sites", "count_per_broker", "kinds_of", "rack_indexes", "racks_of", "sites_of"]


@dataclass(frozen=True, eq=False)
class Sites:
    """Where replicas may go: B brokers in R racks.

    rack: int32[B] rack of each broker, -1 for one that takes no replica. load: int64[B] replicas held.
    standing: int32[B] rack of each broker that is alive, also if it takes none. None: all that are alive take replicas.
    A cluster that declares no rack is one in which each live broker is a rack of its own.
    """

    rack: Ints
    load: Ints
    racks: int
    standing: Ints | None = None

    @property
    def stands(self) -> Ints:
        """int32[B] rack of each broker that is alive, -1 for others."""
        return self.rack if self.standing is None else self.standing

    @property
    def places(self) -> int:
        """Racks, counted twice where some brokers take no replica, see `kinds_of`."""
        return self.racks if self.standing is None else 2 * self.racks

    def members(self, rack: int) -> Ints:
        """Indexes of a rack's brokers that take replicas, ascending."""
        return np.flatnonzero(self.rack == rack)

    def sizes(self) -> Ints:
        """int64[R] brokers per rack that take replicas."""
        return np.bincount(self.rack[self.rack >= 0], minlength=self.racks)

    def live_sizes(self) -> Ints:
        """int64[R] live brokers per rack."""
        return np.bincount(self.stands[self.stands >= 0], minlength=self.racks)


def sites_of(brokers: Sequence[Broker], load: Ints) -> Sites:
    """The sites of these brokers, which hold `load` (int64[B])."""
    standing, racks = rack_indexes(brokers)
    takes = np.array([broker.takes for broker in brokers], dtype=bool)
    if takes[standing >= 0].all():
        return Sites(standing, load, racks)
    return Sites(np.where(takes, standing, -1).astype(np.int32), load, racks, standing)


def rack_indexes(brokers: Sequence[Broker]) -> tuple[Ints, int]:
    """(int32[B] rack of each broker, -1 for one that is not alive; R). Without racks each live broker is one."""
    alive = np.array([broker.alive for broker in brokers], dtype=bool)
    rack = np.full(len(alive), -1, dtype=np.int32)
    names = rack_names(brokers)
    if names:
        number = {name: index for index, name in enumerate(names)}
        rack[alive] = [number[b.rack or ""] for b in brokers if b.alive]
    else:
        rack[alive] = np.arange(int(alive.sum()))
    return rack, int(rack.max(initial=-1)) + 1


def count_per_broker(brokers: Ints, length: int) -> Ints:
    """int64[length]: how often each index stands in a matrix of them, -1 padded."""
    flat = brokers.ravel()
    return np.bincount(flat[flat >= 0], minlength=length).astype(np.int64)


def racks_of(brokers: Ints, sites: Sites) -> Ints:
    """int32: the racks of a matrix of broker indexes, -1 padded."""
    return np.where(brokers >= 0, sites.stands[brokers], -1).astype(np.int32)


def kinds_of(held: Ints, missing: Ints, sites: Sites) -> tuple[Kinds, Ints]:
    """(kinds, int32[N] the kind of each partition) from held int32[N, H] broker indexes and missing int32[N].

    A rack has as many free brokers for a partition as take replicas and have none of it. So a replica on a broker that
    takes none counts as one in a twin of its rack, which is numbered R higher.
    """
    rack = racks_of(held, sites)
    if sites.standing is not None:
        rack[(held >= 0) & (sites.rack[held] < 0) & (rack >= 0)] += sites.racks
    return classify(rack, missing, sites.places)
