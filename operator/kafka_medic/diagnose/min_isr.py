"""Topics that have their replicas, and acknowledge records which fewer of them hold than is expected."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kafka_medic.cluster.elements import TOPIC, settings_unread
from kafka_medic.cluster.min_isr import MIN_ISR, Minimums
from kafka_medic.cluster.min_isr import UNKNOWN as UNKNOWN_MINIMUM
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.columns import Partitions, partitions_of, some
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Severity

PLAYBOOK = "raise-min-insync-replicas"
LOW_FOR = 60.0
"""Seconds: in which somebody who makes a topic sets it, too."""
UNKNOWN = -1
"""In place of a number of replicas."""


@dataclass(frozen=True, slots=True)
class LowMinimums:
    """low: topic -> (its min.insync.replicas, the one that is expected), by name; unknown: topics that may belong to
    them, as far as is known of their replicas, or whose settings were not read."""

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
        for topic, value, own in _minimums(p, Minimums.of_snapshot(snapshot))
        if (wanted := _wanted(topic, expectations)) > value and (own or wanted > expectations.min_in_sync_replicas)
    }
    topics = sorted(p.topics) if snapshot.unread else ()
    unread = tuple(t for t in topics if settings_unread(snapshot, TOPIC, t) and _wanted(t, expectations) > 1)
    if not low:
        return LowMinimums({}, unread)
    fewest = _fewest_replicas(p, low)
    found = {
        topic: low[topic]
        for topic in sorted(low)
        if fewest.get(topic, 0) >= max(low[topic][1] + 1, expectations.factor_of(topic) or 0)
    }
    return LowMinimums(found, (*(topic for topic in sorted(low) if fewest.get(topic) == UNKNOWN), *unread))


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
        message=(
            f"{MIN_ISR} of {many(len(low), 'topic')} is lower than expected (lowest {min(v for v, _ in low.values())})"
        ),
        affected=tuple(low),
        evidence=(
            some(examples),
            "a record acknowledged with acks=all may be on that few brokers, though the topics have more replicas; "
            "if this is intended, set minInSyncReplicas in spec.expectations.topics",
            scene.read_from("configs", "kafka"),
        ),
        for_seconds=LOW_FOR,
        playbook=PLAYBOOK,
    )


def _wanted(topic: str, expectations: Expectations) -> int:
    """What is expected of it, but never so much that the replicas expected of it have none to spare; 0: nothing."""
    return min(expectations.min_isr_of(topic) or 0, max((expectations.factor_of(topic) or 0) - 1, 1))


def _minimums(p: Partitions, minimums: Minimums) -> Iterator[tuple[str, int, bool]]:
    """(topic, the lowest that a leader of it would enforce, whether it is the topic's own), of topics whose value is
    known. A broker that does not report its default counts for nothing."""
    values = minimums.of_brokers(p.replicas.ids)
    none = np.iinfo(np.int64).max
    lowest = np.full(len(p.topics), none, dtype=np.int64)
    np.minimum.at(lowest, p.topic[p.replicas.rows], np.where(values == UNKNOWN_MINIMUM, none, values))
    for code, topic in enumerate(p.topics):
        own = minimums.own.get(topic)
        if own is not None:
            yield topic, own, True
        elif topic in minimums.fall_back and lowest[code] < none:
            yield topic, int(lowest[code]), False


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
