"""Small clusters for the planner's tests."""

from __future__ import annotations

import pyarrow as pa

from kafka_medic.plan.problem import Broker, Problem


def partitions(replicas_by_topic, **extra):
    """Table from {"topic": [[1, 2], [2, 3]]}; extra columns as lists in the same order."""
    topics = [topic for topic, rows in replicas_by_topic.items() for _ in rows]
    numbers = [number for rows in replicas_by_topic.values() for number in range(len(rows))]
    replicas = [row for rows in replicas_by_topic.values() for row in rows]
    columns = {
        "topic": pa.array(topics, pa.string()),
        "partition": pa.array(numbers, pa.int32()),
        "replicas": pa.array(replicas, pa.list_(pa.int32())),
    }
    return pa.table({**columns, **extra})


def brokers(racks, dead=()):
    """Brokers 0, 1, ... with the racks given by one letter each ("aabb"), or by a number: no racks."""
    if isinstance(racks, int):
        return tuple(Broker(number, None, number not in dead) for number in range(racks))
    return tuple(Broker(number, rack, number not in dead) for number, rack in enumerate(racks))


def problem(replicas_by_topic, racks, factor, topic_factors=None, exempt=(), dead=(), **extra):
    return Problem(
        partitions(replicas_by_topic, **extra),
        brokers(racks, dead),
        factor,
        topic_factors or {},
        frozenset(exempt),
    )
