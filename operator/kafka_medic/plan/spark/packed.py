"""Rows of a block as bytes: what Spark shuffles and keeps between passes is a few large values, not millions of lists.

Which block a partition belongs to depends on its topic and number alone: on no file, no setting of Spark, and no order
of rows. So equal tables have equal blocks wherever they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_medic.plan.arrow import Column, integers, names
from kafka_medic.plan.columns import Ints

__all__ = ["PIECE_BITS", "block_count", "by_block", "canonical", "keys_of_blocks", "pack", "packed", "unpack"]

PIECE_BITS = 14
"""A topic of up to 2**14 partitions lies in one block; of a larger one every 2**14 partitions do."""
CHUNK = 1 << 17
"""Rows that a task sorts into blocks at a time."""
Batch = Any
"""A pyarrow RecordBatch."""
_FIELDS: Any = [("key", pa.int32()), ("block", pa.int32()), ("data", pa.binary())]
_PACKED: pa.Schema = pa.schema(_FIELDS)


def block_count(rows: int, size: int) -> int:
    """How many blocks of about `size` rows a table is cut into; at least one."""
    return max(-(-rows // size), 1)


def packed(batches: Iterable[Batch], keys: Sequence[int]) -> Iterator[Batch]:
    """For each block with rows in the batches, whose column `block` names it: its number, its key, and the rows as
    bytes, several times where there are many batches. keys: of all blocks, as `keys_of_blocks` has them."""
    waiting: list[Batch] = []
    held = 0
    for batch in batches:
        waiting.append(batch)
        held += batch.num_rows
        if held >= CHUNK:
            yield from _sorted_out(waiting, keys)
            waiting, held = [], 0
    if held:
        yield from _sorted_out(waiting, keys)


def _sorted_out(batches: Sequence[Batch], keys: Sequence[int]) -> Iterator[Batch]:
    table = pa.Table.from_batches(batches).combine_chunks()
    block = integers(table.column("block"))
    table = table.drop_columns(["block"])
    if len(keys) > 1:
        # Sixteen bits are sorted by their digits, in a pass or two.
        order = np.argsort(block.astype(np.uint16) if len(keys) <= 1 << 16 else block, kind="stable")
        table, block = table.take(order), block[order]
    begin = np.flatnonzero(np.diff(block, prepend=-1))
    for first, end in zip(begin.tolist(), [*begin[1:].tolist(), len(block)], strict=True):
        number = int(block[first])
        row: Any = {"key": [keys[number]], "block": [number], "data": [pack(table.slice(first, end - first))]}
        yield pa.RecordBatch.from_pydict(row, _PACKED)


def pack(table: pa.Table) -> bytes:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def unpack(data: Any) -> pa.Table:
    """The table that `pack` made bytes of."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def by_block(batches: Iterable[Batch]) -> Iterator[tuple[int, pa.Table]]:
    """(number, rows in their canonical order) of each block in what `packed` made, ascending."""
    found: dict[int, list[Any]] = {}
    for batch in batches:
        for number, data in zip(integers(batch.column("block")).tolist(), batch.column("data"), strict=True):
            if data.is_valid:
                found.setdefault(number, []).append(data.as_buffer())
    for number in sorted(found):
        yield number, canonical(pa.concat_tables([unpack(data) for data in found.pop(number)]).combine_chunks())


def canonical(table: pa.Table) -> pa.Table:
    """The table by topic and partition, its topics as a dictionary in order; rows that name none come first."""
    topic = table.column("topic").combine_chunks()
    encoded: Column = topic.dictionary_encode() if not pa.types.is_dictionary(topic.type) else topic
    listed = names(encoded.dictionary)
    order = np.array(sorted(range(len(listed)), key=listed.__getitem__), dtype=np.int64)
    rank = np.empty(len(listed) + 1, dtype=np.int64)
    rank[order], rank[-1] = np.arange(len(listed)), -1
    code = rank[integers(encoded.indices)]
    row = np.argsort(code << 32 | integers(table.column("partition")) & 0xFFFFFFFF, kind="stable")
    indices: Any = pa.array(code[row].astype(np.int32), mask=code[row] < 0)
    ordered = pa.DictionaryArray.from_arrays(indices, pa.array([listed[n] for n in order.tolist()], pa.string()))
    at = table.column_names.index("topic")
    rest = table.drop_columns(["topic"]).take(row).combine_chunks()
    return rest.add_column(at, "topic", ordered)


def keys_of_blocks(count: int) -> list[int]:
    """For each block a number that Spark's repartition(count, number) puts into a partition of its own: Murmur3 of an
    int, seed 42, modulo count, is the block."""
    keys = np.full(count, -1, dtype=np.int64)
    begin = 0
    while (keys < 0).any():
        tried = np.arange(begin, begin + 4 * count + 64)
        place, first = np.unique(_murmur3(tried) % count, return_index=True)
        new = keys[place] < 0
        keys[place[new]] = tried[first[new]]
        begin += len(tried)
    return keys.tolist()


def _murmur3(numbers: Ints) -> Ints:
    """int64: the hash of each int32, as Spark's expression `hash` has it."""
    low = np.uint64(0xFFFFFFFF)

    def turned(value: Any, left: int) -> Any:
        return (value << np.uint64(left) | value >> np.uint64(32 - left)) & low

    k = numbers.astype(np.uint64) * np.uint64(0xCC9E2D51) & low
    k = turned(k, 15) * np.uint64(0x1B873593) & low
    h = turned(np.uint64(42) ^ k, 13) * np.uint64(5) + np.uint64(0xE6546B64) & low
    h ^= np.uint64(4)
    h = (h ^ h >> np.uint64(16)) * np.uint64(0x85EBCA6B) & low
    h = (h ^ h >> np.uint64(13)) * np.uint64(0xC2B2AE35) & low
    h ^= h >> np.uint64(16)
    hashed: Ints = h.astype(np.uint32).view(np.int32).astype(np.int64)
    return hashed
