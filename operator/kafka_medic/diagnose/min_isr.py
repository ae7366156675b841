"""Topics that have their replicas, and acknowledge records which fewer of them hold than is expected."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.columns import Partitions, partitions_of, some
from kafka_medic.diagnose.defaults import MIN_ISR
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene
from kafka_medic.resources.vocabulary import Severity

PLAYBOOK = "raise-min-insync-replicas"
LOW_FOR = 60.0
"""Seconds: in which somebody who makes a topic sets it, too."""
UNKNOWN = -1
"""In place of a number of replicas."""


@dataclass(frozen=True, slots=True)
class LowMinimums:
    """low: topic -> (its min.insync.replicas, the one that is expected), by name; unknown: topics that may belong to
    them, as far as is known of their replicas."""

    low: Mapping[str, tuple[int, int]]
    unknown: tuple[str, ...]


def low_minimums(snapshot: Snapshot, expectations: Expectations) -> LowMinimums | None:
    """None where partitions or settings are not known.

    Only topics that have as many replicas as expected and one to spare, in every partition: the others come first, or
    would stop with the first broker that goes. And only what no default cures: topics that fall back on one that is too
    low itself are `ReplicationFactorLow/broker-defaults`, which is set once for all of them.
    """
    p = partitions_of(snapshot)
    if p is None or snapshot.configs is None:
        return None
    low = {
        topic: (value, wanted)
        for topic, value, own in _minimums(snapshot.configs)
        if (wanted := _wanted(topic, expectations)) > value and (own or wanted > expectations.min_in_sync_replicas)
    }
    if not low:
        return LowMinimums({}, ())
    fewest = _fewest_replicas(p, low)
    found = {
        topic: low[topic]
        for topic in sorted(low)
        if fewest.get(topic, 0) >= max(low[topic][1] + 1, expectations.factor_of(topic) or 0)
    }
    return LowMinimums(found, tuple(topic for topic in sorted(low) if fewest.get(topic) == UNKNOWN))


def detect(scene: Scene) -> Iterator[Finding]:
    """MinInsyncReplicasLow, without topics of which a run that adds replicas is about to set it."""
    found = low_minimums(scene.snapshot, scene.expectations)
    low = {topic: both for topic, both in found.low.items() if topic not in scene.being_set} if found else {}
    if not low:
        return
    examples = [f"{topic} has {value} (wanted {wanted})" for topic, (value, wanted) in low.items()]
    yield Finding(
        id="MinInsyncReplicasLow",
        type="MinInsyncReplicasLow",
        severity=Severity.WARNING,
        message=f"{MIN_ISR} of {len(low)} topics is lower than expected, down to {min(v for v, _ in low.values())}",
        affected=tuple(low),
        evidence=(
            some(examples),
            "they have the replicas for more, and what is acknowledged with acks=all may be on as few brokers as that; "
            "if it is meant so, say it in spec.expectations.topics (minInSyncReplicas)",
            scene.read_from("configs", "kafka"),
        ),
        for_seconds=LOW_FOR,
        playbook=PLAYBOOK,
    )


def _wanted(topic: str, expectations: Expectations) -> int:
    """What is expected of it, but never so much that the replicas expected of it have none to spare; 0: nothing."""
    return min(expectations.min_isr_of(topic) or 0, max((expectations.factor_of(topic) or 0) - 1, 1))


def _minimums(configs: pa.Table) -> Iterator[tuple[str, int, bool]]:
    """(topic, value in effect, whether it is the topic's own); what is no number is not known, and left out."""
    of_topics = configs.filter(
        pc.and_(pc.equal(configs["resourceType"], pa.scalar("TOPIC")), pc.equal(configs["name"], pa.scalar(MIN_ISR)))
    )
    columns: list[list[Any]] = [of_topics[name].to_pylist() for name in ("resource", "value", "dynamic")]
    for topic, value, own in zip(*columns, strict=True):
        text = value or ""
        if text.isascii() and text.isdigit() and len(text) < 10:
            yield topic, int(text), bool(own)


def _fewest_replicas(p: Partitions, topics: Collection[str]) -> dict[str, int]:
    """Of each topic's partitions the fewest replicas, without those that are only coming or about to go; UNKNOWN where
    those of one are not known."""
    staying = p.replicas.per_row(~p.replicas.within(p.adding) & ~p.replicas.within(p.removing))
    staying[~(p.replicas.known & p.adding.known & p.removing.known)] = UNKNOWN
    codes = [code for code, name in enumerate(p.topics) if name in topics]
    chosen = np.isin(p.topic, codes)
    fewest = np.full(len(p.topics), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(fewest, p.topic[chosen], staying[chosen])
    return {p.topics[code]: int(fewest[code]) for code in codes}
