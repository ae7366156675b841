"""Where replicas may go: live brokers, numbered, in numbered racks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kafka_medic.plan.columns import Ints
from kafka_medic.plan.problem import Broker, rack_names

__all__ = ["Sites", "count_per_broker", "rack_indexes", "racks_of"]


@dataclass(frozen=True, eq=False)
class Sites:
    """Where replicas may go: B brokers in R racks.

    rack: int32[B] rack of each broker, -1 for one that is not alive. load: int64[B] replicas held.
    A cluster that declares no rack is one in which each live broker is a rack of its own.
    """

    rack: Ints
    load: Ints
    racks: int

    def members(self, rack: int) -> Ints:
        """Indexes of a rack's live brokers, ascending."""
        return np.flatnonzero(self.rack == rack)

    def sizes(self) -> Ints:
        """int64[R] live brokers per rack."""
        return np.bincount(self.rack[self.rack >= 0], minlength=self.racks)


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
    return np.where(brokers >= 0, sites.rack[brokers], -1).astype(np.int32)
