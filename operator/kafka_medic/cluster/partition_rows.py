"""Which row of a table of partitions each of many (topic, partition) is, without an object for any of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import TopicPartition

Ints = npt.NDArray[np.int64]
NOWHERE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Of a table with the columns `topic` and `partition`, each pair once. `keys`: one number for each pair, ascending,
    and `places` the row that it belongs to; None: the row of its own position."""

    topics: pa.Array[Any]
    keys: Ints
    places: Ints | None

    @classmethod
    def of(cls, table: pa.Table) -> Rows:
        topics: Any = pc.unique(table["topic"])
        keys = _keys(topics, table)
        if (keys[1:] > keys[:-1]).all():
            return cls(topics, keys, None)
        order = np.argsort(keys, kind="stable")
        return cls(topics, keys[order], order)

    def find(self, table: pa.Table) -> Ints:
        """The row of each pair in `table`; NOWHERE for one that is in none."""
        keys = _keys(self.topics, table)
        if not len(self.keys):
            return np.full(len(keys), NOWHERE, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        places = at if self.places is None else self.places[at]
        return np.where(self.keys[at] == keys, places, NOWHERE)

    def find_each(self, partitions: Iterable[TopicPartition]) -> Ints:
        """The same for a handful."""
        pairs = list(partitions)
        columns: list[list[Any]] = [[tp.topic for tp in pairs], [tp.partition for tp in pairs]]
        kinds = (pa.string(), pa.int32())
        return self.find(
            pa.table([pa.array(c, k) for c, k in zip(columns, kinds, strict=True)], ["topic", "partition"])
        )


def _keys(topics: pa.Array[Any], table: pa.Table) -> Ints:
    """Below zero where the topic is not one of `topics`."""
    found: Any = pc.index_in(table["topic"], value_set=topics)
    code = found.fill_null(NOWHERE)
    number = np.asarray(table["partition"].to_numpy(), dtype=np.int64)
    return (np.asarray(code.to_numpy(), dtype=np.int64) << 32) | number
