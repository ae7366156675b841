"""Too few replicas, or all of them in one place: topics, internal topics, and (`defaults`) what new ones get."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kafka_medic.cluster.snapshot import INTERNAL_TOPICS
from kafka_medic.diagnose import defaults
from kafka_medic.diagnose.columns import Ints, Partitions, some
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Severity

PLAYBOOK = "raise-replication-factor"


def detect(scene: Scene) -> Iterator[Finding]:
    """ReplicationFactorLow in its three scopes, RackSpreadLow."""
    p = scene.partitions
    if p is not None:
        # A replica that is being added does not count yet: until it is in, the partition is as exposed as
        # before.
        placed = p.replicas.per_row(~p.replicas.within(p.adding))
        low = _low_topics(scene, p, placed)
        internal = [t for t in low if t in INTERNAL_TOPICS]
        if ordinary := [t for t in low if t not in INTERNAL_TOPICS]:
            yield _low_finding(scene, "topics", "topic", ordinary, low)
        if internal:
            yield _low_finding(scene, "internal-topics", "internal topic", internal, low)
        if scene.expectations.rack_aware:
            yield from _rack_spread(scene, p)
    yield from defaults.detect(scene)


def _low_topics(scene: Scene, p: Partitions, placed: Ints) -> dict[str, tuple[int, int, int, int]]:
    """Topic -> (lowest factor, wanted factor, partitions below it, partitions), of topics below what is
    wanted."""
    known = p.replicas.known
    topic, factor = p.topic[known], placed[known]
    lowest = np.full(len(p.topics), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(lowest, topic, factor)
    wanted = np.full(len(p.topics), -1, dtype=np.int64)
    for code in range(len(p.topics)):
        wanted[code] = scene.expectations.factor_of(p.topics[code]) or -1
    below = np.bincount(topic[factor < wanted[topic]], minlength=len(p.topics))
    total = np.bincount(topic, minlength=len(p.topics))
    rows = [
        (p.topics[c], (int(lowest[c]), int(wanted[c]), int(below[c]), int(total[c]))) for c in np.flatnonzero(below)
    ]
    return dict(sorted(rows))


def _low_finding(
    scene: Scene, scope: str, what: str, topics: Sequence[str], low: dict[str, tuple[int, int, int, int]]
) -> Finding:
    lowest = min(low[t][0] for t in topics)
    wanted = max(low[t][1] for t in topics)
    examples = [
        f"{t} has factor {low[t][0]} (wanted {low[t][1]}) in {low[t][2]} of {many(low[t][3], 'partition')}"
        for t in topics
    ]
    evidence = [some(examples), scene.read_from("kafka", "views")]
    if scene.live is None:
        evidence.append("the number of live brokers is not known, so the cure may not be possible now")
    elif len(scene.live) < wanted:
        evidence.append(
            f"no cure now: factor {wanted} needs {many(wanted, 'live broker')}, the cluster has {len(scene.live)}; "
            "start or add brokers, or lower spec.expectations for these topics"
        )
    return Finding(
        id=f"ReplicationFactorLow/{scope}",
        type="ReplicationFactorLow",
        severity=Severity.CRITICAL if lowest <= 1 else Severity.WARNING,
        message=f"{many(len(topics), what)} with fewer replicas than expected (lowest {lowest})",
        affected=tuple(topics),
        evidence=tuple(evidence),
        playbook=PLAYBOOK,
    )


def _rack_spread(scene: Scene, p: Partitions) -> Iterator[Finding]:
    """Partitions whose replicas share a rack although there are racks enough. Only where the rack of every
    replica's broker is known: a broker without a rack is not a rack of its own."""
    racks = sorted({b.rack for b in scene.brokers if b.rack is not None})
    if len(racks) < 2 or not len(p.replicas.rows):
        return
    placed = sorted((b.id, racks.index(b.rack)) for b in scene.brokers if b.rack is not None)
    ids = np.array([broker for broker, _ in placed], dtype=np.int64)
    at = np.minimum(np.searchsorted(ids, p.replicas.ids), len(ids) - 1)
    rack = np.where(ids[at] == p.replicas.ids, np.array([code for _, code in placed])[at], -1)
    lacking = p.replicas.per_row(rack < 0)
    pairs = np.sort((p.replicas.rows << 32) | (rack & 0xFFFFFFFF))
    distinct = np.bincount(pairs[np.r_[True, pairs[1:] != pairs[:-1]]] >> 32, minlength=len(p))
    possible = np.minimum(p.replicas.counts, len(racks))
    tight = p.replicas.known & (lacking == 0) & (distinct < possible) & ~p.moving
    topics = tuple(t for t in p.topic_names(tight) if not scene.expectations.exempt(t))
    if not topics:
        return
    chosen = np.flatnonzero(tight)[:10]
    examples = [f"{p.name(int(r))} on {distinct[r]} of {many(int(possible[r]), 'rack')}" for r in chosen]
    yield Finding(
        id="RackSpreadLow",
        type="RackSpreadLow",
        severity=Severity.WARNING,
        message=f"{many(len(topics), 'topic')} with partitions on fewer racks than possible",
        affected=topics,
        evidence=(some(examples), f"racks: {some(racks)}", scene.read_from("kafka", "views")),
        playbook="spread-racks",
        for_seconds=60.0,
    )
