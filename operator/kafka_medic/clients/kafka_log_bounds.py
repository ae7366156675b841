"""kafka-python: where the logs of partitions start and end for consumers, as the leaders report it.

A cluster has one row of these for each partition, so requests and responses are columns from end to end.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from kafka import errors
from kafka.protocol.consumer.offsets import ListOffsetsRequest

from kafka_medic.clients.kafka_log_ends import ABSENT
from kafka_medic.clients.log_columns import OFFSETS_VERSIONS, OffsetsReader, encode_offsets
from kafka_medic.clients.tables import BOUNDS_SCHEMA
from kafka_medic.clients.undecoded import undecoded
from kafka_medic.cluster.partition_rows import NOWHERE, Rows

CONSUMER = -1
LATEST, EARLIEST = -1, -2
Ints = npt.NDArray[np.int64]


class OffsetsRequest(undecoded(ListOffsetsRequest), init=False):  # type: ignore[call-arg,misc]
    """A ListOffsets request as a consumer: for LATEST the high watermark, for EARLIEST the log start. `led` has
    LED_SCHEMA, with the rows of a topic together. A broker that leads under another epoch answers with an error. The
    response is a ResponseBytes."""

    def __init__(
        self, led: pa.Table, timestamp: int, timeout_ms: int, encoded: MutableMapping[int, bytes] | None = None
    ) -> None:
        """`encoded`: bodies of the same request that were sent before, by version."""
        earliest, latest = OFFSETS_VERSIONS
        super().__init__(min_version=earliest, max_version=latest)
        self._led, self._timestamp, self._timeout_ms = led, timestamp, timeout_ms
        self._encoded = {} if encoded is None else encoded

    def encode(self, version: int | None = None, header: bool = False, framed: bool = False) -> bytes:
        """In place of ApiMessage.encode, which `KafkaProtocol.send_request` calls."""
        if version is not None:
            self.API_VERSION = version
        known: int = self.API_VERSION
        body = self._encoded.get(known)
        if body is None:
            body = self._encoded[known] = encode_offsets(
                known, self._led, replica=CONSUMER, timestamp=self._timestamp, timeout_ms=self._timeout_ms
            )
        if header:
            body = self.encode_header(flexible=self.flexible_version_q(known)) + body
        return struct.pack(">i", len(body)) + body if framed else body


@dataclass(frozen=True, slots=True, eq=False)
class Led:
    """The requests for log bounds, kept for the next observation of the same partitions. `wanted`, `started`:
    the rows of each leader, all and those whose log start is read. `encoded`: requests by timestamp and leader, each
    by version. `readers`: of each leader's responses."""

    table: pa.Table
    wanted: Mapping[int, pa.Table]
    started: Mapping[int, pa.Table]
    encoded: defaultdict[tuple[int, int], dict[int, bytes]]
    readers: defaultdict[int, OffsetsReader]

    @classmethod
    def of(cls, led: pa.Table, before: Led | None) -> Led:
        """`led` has LED_SCHEMA. The same as before if that was made of equal rows."""
        if before is not None and before.table.equals(led):
            return before
        wanted = by_leader(led)
        started = wanted if led["start"].to_numpy().all() else by_leader(led.filter(led["start"]))
        return cls(led, wanted, started, defaultdict(dict), defaultdict(OffsetsReader))


def by_leader(led: pa.Table) -> dict[int, pa.Table]:
    """The rows of each leader, in the order of their ids, with those of a topic together. `led` has LED_SCHEMA."""
    if not led.num_rows:
        return {}
    leaders = led["leader"].to_numpy()
    topics: Any = led["topic"].combine_chunks()
    order = np.lexsort((topics.dictionary_encode().indices.to_numpy(), leaders))
    rows: Any = pa.array(order)
    taken = led.take(rows).combine_chunks()
    leaders = leaders[order]
    firsts = np.flatnonzero(np.diff(leaders, prepend=leaders[0] - 1))
    ends = np.append(firsts[1:], len(leaders))
    return {
        int(leaders[first]): taken.slice(first, end - first)
        for first, end in zip(firsts.tolist(), ends.tolist(), strict=True)
    }


def bounds(led: pa.Table, starts: pa.Table, ends: pa.Table) -> pa.Table:
    """BOUNDS_SCHEMA, of the partitions in `led` that are in each answer that is to have them. Answers have
    OFFSETS_SCHEMA. An error of the start counts before one of the end. Without a row: what the broker does not hold or
    does not serve."""
    start, start_error = _offsets(led, starts)
    end, end_error = _offsets(led, ends)
    unread = ~led["start"].to_numpy()
    begun = (start >= 0) | unread
    error = np.where(start_error != 0, start_error, np.where(begun, end_error, 0))
    there = (error != 0) | (begun & (end >= 0))
    found = led.select(["topic", "partition"])
    if not there.all():
        found, start, end, error, unread = (
            found.filter(pa.array(there)),
            start[there],
            end[there],
            error[there],
            unread[there],
        )
    failed = error != 0
    columns: list[Any] = [
        *found.columns,
        pa.array(start, mask=failed | unread),
        pa.array(end, mask=failed),
        _texts(found, error),
    ]
    return pa.table(columns, schema=BOUNDS_SCHEMA)


def _offsets(led: pa.Table, answer: pa.Table) -> tuple[Ints, Ints]:
    """Of each row of `led` the offset, -1 for none, and the code of an error other than that it is not served. The last
    counts where an answer has several for one partition."""
    codes, offsets = (answer[name].to_numpy().astype(np.int64) for name in ("error", "offset"))
    if codes.any():
        absent = [code for code in np.unique(codes).tolist() if code and issubclass(errors.for_code(code), ABSENT)]
        offsets = np.where(codes == 0, offsets, -1)
        codes = np.where(np.isin(codes, absent), 0, codes)
    kept = (codes != 0) | (offsets >= 0)
    if kept.all() and answer["partition"].equals(led["partition"]) and answer["topic"].equals(led["topic"]):
        return offsets, codes
    rows = Rows.of(led).find(answer)
    kept &= rows != NOWHERE  # what was not requested is not believed
    found, failed = np.full(led.num_rows, -1, np.int64), np.zeros(led.num_rows, np.int64)
    found[rows[kept]] = offsets[kept]
    failed[rows[kept]] = codes[kept]
    return found, failed


def _texts(found: pa.Table, codes: Ints) -> Any:
    """A column of text: the errors of these codes, null for 0."""
    failed = np.flatnonzero(codes)
    if not len(failed):
        return pa.nulls(len(codes), pa.string())
    each, kinds = np.unique(codes[failed], return_inverse=True)
    names: Any = pa.array([errors.for_code(code).__name__ for code in each.tolist()], pa.string())
    wanted: Any = pa.array(failed)
    rows = found.take(wanted)
    topics: Any = rows["topic"].combine_chunks()
    numbers: Any = rows["partition"].combine_chunks()
    join: Any = pc.binary_join_element_wise
    texts = join("log end of ", topics, "-", numbers.cast(pa.string()), ": ", names.take(pa.array(kinds)), "")
    places = np.zeros(len(codes), np.int64)
    places[failed] = np.arange(len(failed))
    return texts.take(pa.array(places, mask=codes == 0))
