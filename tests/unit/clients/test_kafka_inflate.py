"""A batch of records that grows without measure is refused, whatever compressed it."""

from __future__ import annotations

import io
import resource
from types import SimpleNamespace as Told

import lz4.frame
import pytest
import zstandard
from kafka import codec, errors
from kafka.record.default_records import DefaultRecordBatchBuilder

from kafka_medic.clients import kafka_inflate
from kafka_medic.clients.kafka_log_read import fetched
from kafka_medic.cluster.snapshot import TopicPartition

TP = TopicPartition("orders", 0)
KINDS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
PLAIN = b"x" * 1000


@pytest.fixture(autouse=True)
def bounded(monkeypatch):
    kafka_inflate.bound()
    monkeypatch.setattr(kafka_inflate, "MAX_BYTES", 4 << 20)


def answer(kind: int, value: bytes):
    made = DefaultRecordBatchBuilder(2, kind, 0, -1, -1, -1, 100 << 20)
    made.append(0, timestamp=1, key=None, value=value, headers=[])
    part = Told(error_code=0, records=bytes(made.build()))
    return Told(error_code=0, responses=[Told(partitions=[part])])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_within_is_read(kind):
    (record,), after = fetched(answer(KINDS[kind], PLAIN), TP, 0, 1)
    assert (record.value, after) == (PLAIN, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_is_refused(kind):
    with pytest.raises(errors.KafkaError, match=r"grows beyond 4194304 bytes"):
        fetched(answer(KINDS[kind], b"\0" * (40 << 20)), TP, 0, 1)


@pytest.mark.parametrize("kind", ["gzip", "lz4", "zstd"])
def test_a_bomb_costs_no_more_than_the_limit(kind):
    """A gigabyte, of which not more than the limit is ever made."""
    encoders = {
        "gzip": codec.gzip_encode,
        "lz4": lambda data: lz4.frame.compress(data, block_linked=False),
        "zstd": zstandard.ZstdCompressor().compress,
    }
    bomb = encoders[kind](b"\0" * (400 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(errors.KafkaError):
        getattr(kafka_inflate, f"{kind}_decode")(bomb)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_a_block_of_snappy_that_lies_about_its_length():
    with pytest.raises(errors.KafkaError):
        kafka_inflate.snappy_decode(b"\xff\xff\xff\xff\x0f" + b"\0" * 100)
    stream = io.BytesIO(codec.snappy_encode(PLAIN)).getvalue()
    assert kafka_inflate.snappy_decode(stream) == PLAIN
