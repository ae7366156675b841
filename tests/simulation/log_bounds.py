"""Where logs start and end, of single partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import KafkaReads
from kafka_medic.clients.tables import BOUNDS_SCHEMA, LED_SCHEMA, table_of
from kafka_medic.cluster.snapshot import TopicPartition

Bounds = dict[TopicPartition, tuple[int | None, int] | ReadFailed]


def log_bounds(
    kafka: KafkaReads,
    leaders: Mapping[TopicPartition, int],
    epochs: Mapping[TopicPartition, int] | None = None,
    ends_alone: Collection[TopicPartition] = (),
) -> dict[int, Bounds | ReadFailed]:
    """What these leaders report, by leader. `ends_alone`: whose start is not to be read."""
    led = led_table(leaders, epochs)
    started: Any = pa.array([tp not in ends_alone for tp in leaders], pa.bool_())
    answers = kafka.log_bounds(led.set_column(4, led.schema.field("start"), started))
    return {b: answer if isinstance(answer, ReadFailed) else bounds_of(answer) for b, answer in answers.items()}


def bounds_table(bounds: Mapping[TopicPartition, tuple[int, int] | str]) -> pa.Table:
    """BOUNDS_SCHEMA, from where the logs of single partitions start and end, or why that could not be read."""
    rows = [(*tp, None, None, told) if isinstance(told, str) else (*tp, *told, None) for tp, told in bounds.items()]
    return table_of(rows, BOUNDS_SCHEMA)


def led_table(leaders: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int] | None = None) -> pa.Table:
    """LED_SCHEMA, from single partitions, to read starts and ends."""
    of = epochs or {}
    return table_of([(tp.topic, tp.partition, leader, of.get(tp), True) for tp, leader in leaders.items()], LED_SCHEMA)


def bounds_of(table: pa.Table) -> dict[TopicPartition, tuple[int | None, int] | ReadFailed]:
    """Single partitions of a table with BOUNDS_SCHEMA."""
    found: dict[TopicPartition, tuple[int | None, int] | ReadFailed] = {}
    for topic, number, start, end, error in zip(*(column.to_pylist() for column in table.columns), strict=True):
        bounds = (start, end) if error is None else ReadFailed(FailureKind.OTHER, error)
        found[TopicPartition(topic, number)] = bounds
    return found
