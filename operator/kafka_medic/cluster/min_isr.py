"""min.insync.replicas as it is enforced: by a partition's leader, with that broker's own configuration.

A topic's own value counts on every broker. A topic without one gets the value that its leader has as a broker (KIP-226;
`LogConfig` takes its defaults from the `KafkaConfig` of the broker that holds the log). Brokers that are configured
differently therefore enforce different minimums. Any replica may come to lead, so the minimum of a partition is the
largest among the brokers of its replica set, each as that broker reports itself. What one broker shows for a topic
without a value of its own is the default of that broker, and counts for nothing here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import ConfigValue, PartitionRow, Snapshot

MIN_ISR = "min.insync.replicas"
UNKNOWN = -1
"""In a column, where a value is not known."""
MINIMUMS = "minimums"
"""Where a Snapshot keeps them (`Snapshot.worked_out`)."""
Ints: TypeAlias = npt.NDArray[np.int64]


def whole(text: str | None) -> int | None:
    """The number that a setting holds; None for what is no number."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


@dataclass(frozen=True, slots=True)
class Minimums:
    """`own`: topics with a value of their own. `fall_back`: topics that were read to have none; a topic in neither was
    not read. `brokers`: the value in effect of each broker, as the broker reports it."""

    own: Mapping[str, int]
    fall_back: frozenset[str]
    brokers: Mapping[int, int]

    @classmethod
    def of_settings(
        cls,
        topics: Mapping[str, Mapping[str, ConfigValue]],
        brokers: Mapping[int, Mapping[str, ConfigValue]],
    ) -> Minimums:
        """Of settings as brokers answer them."""
        read = {topic: values[MIN_ISR] for topic, values in topics.items() if MIN_ISR in values}
        return cls._of(read, {b: whole(v[MIN_ISR].value) for b, v in brokers.items() if MIN_ISR in v})

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot) -> Minimums:
        """Of the settings that a snapshot holds; of none where they are not known."""
        if MINIMUMS not in snapshot.worked_out:
            snapshot.worked_out[MINIMUMS] = cls._of_configs(snapshot.configs)
        found: Minimums = snapshot.worked_out[MINIMUMS]
        return found

    @classmethod
    def _of_configs(cls, configs: pa.Table | None) -> Minimums:
        if configs is None:
            return cls({}, frozenset(), {})
        named = configs.filter(pc.equal(configs["name"], pa.scalar(MIN_ISR)))
        columns: list[list[Any]] = [named[c].to_pylist() for c in ("resourceType", "resource", "value", "dynamic")]
        rows = list(zip(*columns, strict=True))
        topics = {name: ConfigValue(value, bool(own)) for kind, name, value, own in rows if kind == "TOPIC"}
        brokers = {name: whole(value) for kind, name, value, _ in rows if kind == "BROKER"}
        return cls._of(topics, {b: n for name, n in brokers.items() if (b := whole(name)) is not None})

    @classmethod
    def _of(cls, topics: Mapping[str, ConfigValue], brokers: Mapping[int, int | None]) -> Minimums:
        own = {t: n for t, v in topics.items() if v.dynamic and (n := whole(v.value)) is not None}
        fall_back = frozenset(t for t, v in topics.items() if not v.dynamic)
        return cls(own, fall_back, {b: n for b, n in brokers.items() if n is not None})

    def largest(self, topic: str, brokers: Collection[int]) -> int | None:
        """The largest that one of these brokers would enforce; None where that of one is not known."""
        values = [self.enforced(topic, broker) for broker in brokers]
        known = [value for value in values if value is not None]
        return max(known) if known and len(known) == len(values) else None

    def enforced(self, topic: str, leader: int) -> int | None:
        """What this broker enforces while it leads; None where that is not known."""
        own = self.own.get(topic)
        if own is not None:
            return own
        return self.brokers.get(leader) if topic in self.fall_back else None

    def column(self, topics: pa.ChunkedArray[Any], *brokers: Any) -> Ints:
        """`largest` of each row, over all of these columns of broker ids or of lists of them; UNKNOWN where it is not
        known. A list that is null adds nobody, but for the first."""
        own, falls_back = self._by_topic(topics)
        found: Ints = np.full(len(topics), UNKNOWN, dtype=np.int64)
        lacking = ~falls_back
        for number, column in enumerate(map(_chunked, brokers)):
            rows, ids = _flat(column)
            values = self.of_brokers(ids)
            np.maximum.at(found, rows, values)
            lacking[rows[values == UNKNOWN]] = True
            if number == 0:
                lacking |= np.asarray(pc.is_null(column).to_numpy(), dtype=np.bool_)
        found[lacking] = UNKNOWN
        return np.where(own == UNKNOWN, found, own)

    def _by_topic(self, topics: pa.ChunkedArray[Any]) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """For each row the own value of its topic, UNKNOWN where it has none, and whether its topic falls back."""
        coded: Any = pc.dictionary_encode(topics).combine_chunks()
        coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
        if isinstance(coded, pa.ChunkedArray):  # an empty table stays chunked in some versions of Arrow
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
        names, codes = coded.dictionary.to_pylist(), coded.indices.to_numpy()
        own = np.array([self.own.get(name, UNKNOWN) for name in names], dtype=np.int64)
        falls_back = np.array([name in self.fall_back for name in names], dtype=np.bool_)
        return own[codes], falls_back[codes]

    def of_brokers(self, ids: Ints) -> Ints:
        """The value of each of these brokers; UNKNOWN where the broker reports none."""
        if not self.brokers or not len(ids):
            return np.full(len(ids), UNKNOWN, dtype=np.int64)
        known = np.array(sorted(self.brokers), dtype=np.int64)
        values = np.array([self.brokers[int(broker)] for broker in known], dtype=np.int64)
        at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        return np.where(known[at] == ids, values[at], UNKNOWN)


def least_to_keep(snapshot: Snapshot, row: PartitionRow, away: Collection[int]) -> int | None:
    """The minimum that a partition has to meet while these brokers are away; None where it is not known.

    Whoever stays may come to lead, so each of them has to report its value. Where the settings say less than the whole
    of that, the `minIsr` that the snapshot was given counts. The largest value that is known wins, also over that one.
    """
    minimums = Minimums.of_snapshot(snapshot)
    replicas = {*(row.replicas or ()), *(row.adding or ())}
    stated = minimums.largest(row.topic, replicas - set(away))
    if stated is None and row.min_isr is None:
        return None
    values = (minimums.enforced(row.topic, broker) for broker in replicas)
    return max(stated or 0, row.min_isr or 0, *(value for value in values if value is not None))


def _chunked(column: Any) -> pa.ChunkedArray[Any]:
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _flat(column: pa.ChunkedArray[Any]) -> tuple[Ints, Ints]:
    """The row of each broker id, and the ids; an id that is null is nobody's."""
    flat: Any = column
    rows: Ints = np.arange(len(column), dtype=np.int64)
    if pa.types.is_list(column.type):
        rows = np.asarray(pc.list_parent_indices(column).to_numpy(), dtype=np.int64)
        flat = pc.list_flatten(column)
    filled: Any = pc.fill_null(flat, pa.scalar(UNKNOWN, flat.type)) if flat.null_count else flat
    return rows, np.asarray(filled.to_numpy(), dtype=np.int64)
