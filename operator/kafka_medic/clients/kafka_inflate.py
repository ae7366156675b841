"""kafka-python: records that are compressed, and what they may grow to.

A batch of records grows as far as whoever wrote it wants: gzip a thousandfold, zstd without any limit. kafka-python
takes it whole. `bound` puts limits in place of its functions.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator

import lz4.frame
import zstandard
from kafka import codec, errors
from kafka.record import default_records, legacy_records

MAX_BYTES = 64 << 20
"""Of one batch, when it is taken apart. A broker takes batches of `message.max.bytes` at most (1 MiB), compressed."""


def _refused() -> errors.KafkaError:
    return errors.CorruptRecordError(f"a batch of records that grows beyond {MAX_BYTES} bytes")


def gzip_decode(payload: bytes) -> bytes:
    reader = zlib.decompressobj(wbits=31)
    found = reader.decompress(payload, MAX_BYTES + 1)
    if len(found) > MAX_BYTES:
        raise _refused()
    return found


def zstd_decode(payload: bytes) -> bytes:
    with zstandard.ZstdDecompressor(max_window_size=MAX_BYTES).stream_reader(io.BytesIO(payload)) as reader:
        found: bytes = reader.read(MAX_BYTES + 1)
    if len(found) > MAX_BYTES:
        raise _refused()
    return found


def lz4_decode(payload: bytes) -> bytes:
    found: bytes = lz4.frame.LZ4FrameDecompressor().decompress(payload, max_length=MAX_BYTES + 1)
    if len(found) > MAX_BYTES:
        raise _refused()
    return found


def snappy_decode(payload: bytes) -> bytes:
    """A block begins with the length that it grows to."""
    if sum(map(_length, _blocks(payload))) > MAX_BYTES:
        raise _refused()
    found: bytes = _snappy(payload)
    return found


def _blocks(payload: bytes) -> Iterator[bytes]:
    if not codec._detect_xerial_stream(payload):
        yield payload[:5]
        return
    at = 16
    while at + 4 <= len(payload):
        size = int.from_bytes(payload[at : at + 4], "big")
        yield payload[at + 4 : at + 9]
        at += 4 + size


def _length(block: bytes) -> int:
    found = 0
    for n, byte in enumerate(block):
        found |= (byte & 0x7F) << 7 * n
        if byte < 0x80:
            return found
    raise errors.CorruptRecordError("a block of snappy without its length")


_snappy: Callable[[bytes], bytes] = codec.snappy_decode


def bound() -> None:
    """From now on, all records that kafka-python takes apart in this process."""
    for module in (default_records, legacy_records):
        module.gzip_decode, module.snappy_decode, module.lz4_decode = gzip_decode, snappy_decode, lz4_decode
    default_records.zstd_decode = zstd_decode
    codec.lz4_decode = lz4_decode  # which the function for old brokers ends in
