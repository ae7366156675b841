"""What the operator keeps of a cluster between reconciles, and what of that it stores in KafkaCluster.status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from kafka_medic.cluster.concern import NOTHING, Concern
from kafka_medic.cluster.names import printable
from kafka_medic.cluster.snapshot import NO_LEADER, Snapshot, TopicPartition
from kafka_medic.diagnose.leaderless import Outage, implied_timeout_ms
from kafka_medic.diagnose.log_ends import Regression
from kafka_medic.diagnose.memory import DetectorMemory, remember, restored
from kafka_medic.observe.at_rest import AtRest
from kafka_medic.observe.identities import PodIdentities
from kafka_medic.observe.unnamed import AddressBook
from kafka_medic.observe.view_reads import ViewRotation
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.kafkacluster_status import (
    MAX_LEADERLESS,
    KafkaClusterStatus,
    LeaderlessStatus,
    LogEndRegressionStatus,
    RecreatedTopicStatus,
)

NEED_EVERY_VIEW = frozenset(
    {
        "ViewDiverged",
        "MetadataUndecided",
        "BrokerZombie",
        "BrokerSilent",
        "BrokerDown",
        "ControllerMissing",
        "ControllerStuck",
    }
)
"""Findings during which the operator reads every broker's whole view, as while a run acts."""


@dataclass(slots=True)
class KeptState:
    """State of one cluster, kept between reconciles. `memory` begins with what the operator before left in status.
    `rotation`: which brokers report their whole view next. `updated_at`: by a clock that cannot be set."""

    memory: DetectorMemory | None = None
    updated_at: float | None = None
    rotation: ViewRotation = field(default_factory=ViewRotation)
    addresses: AddressBook = field(default_factory=dict)
    identities: PodIdentities = field(default_factory=PodIdentities)
    at_rest: AtRest = field(default_factory=AtRest)

    @property
    def paces(self) -> Mapping[str, float]:
        """How fast groups were seen reading, in offsets a second."""
        return {} if self.memory is None else self.memory.paces

    @property
    def growth(self) -> pa.Table | None:
        """How fast each log grows; None: not known yet."""
        return None if self.memory is None else self.memory.growth.found

    def before_observation(
        self, cluster: KafkaCluster, now: float, *, acting: bool, concern: Concern = NOTHING, resting: bool = False
    ) -> None:
        """`acting`: a run is about to change something, and its guards need every view, or at least what the effect
        concerns. `resting`: no run is open. `now`: in seconds by a clock that cannot be set."""
        self.at_rest.resting, self.at_rest.now = resting and not acting, now
        self.identities.eager = acting
        self.rotation.full = cluster.spec.probes.full_views
        self.rotation.concern = concern
        self.rotation.everything = acting or any(f.type in NEED_EVERY_VIEW for f in cluster.status.findings)

    def update(self, cluster: KafkaCluster, snapshot: Snapshot, now: float) -> None:
        before = from_status(cluster.status) if self.memory is None else self.memory
        elapsed = None if self.updated_at is None else now - self.updated_at
        keep = parse_duration(cluster.spec.probes.remember_for)
        self.memory, self.updated_at = remember(before, snapshot, elapsed=elapsed, keep_seconds=keep), now


def from_status(status: KafkaClusterStatus) -> DetectorMemory:
    """The memory as the operator before left it. What it saw of log ends and of groups' progress begins anew."""
    regressions = tuple(
        Regression(r.topic, r.partition, r.before, r.after, r.at, r.epoch_before, r.epoch_after, r.groups, r.topic_id)
        for r in status.log_end_regressions
    )
    leaderless = {
        TopicPartition(o.topic, o.partition): Outage(
            o.topic, o.milliseconds / 1000, o.at, NO_LEADER if o.leader is None else o.leader, o.epoch
        )
        for o in status.leaderless
        if o.partition is not None
    }
    longest = tuple(Outage(o.topic, o.milliseconds / 1000, o.at) for o in status.longest_leaderless)
    recreated = {t.topic: t.at for t in status.recreated_topics}
    return restored(regressions, status.log_end_regressions_dropped or 0, longest, leaderless, recreated)


def status_fields(memory: DetectorMemory, now: datetime) -> dict[str, Any]:
    """The fields of KafkaClusterStatus that hold it."""
    worst = memory.longest_leaderless
    return {
        "longest_leaderless_ms": None if worst is None else _ms(worst.seconds),
        "implied_default_api_timeout_ms": None if worst is None else implied_timeout_ms(worst.seconds),
        "longest_leaderless": tuple(
            LeaderlessStatus(topic=o.topic[:256], milliseconds=_ms(o.seconds), at=_whole(o.at)) for o in memory.longest
        ),
        "leaderless": _leaderless(memory, now),
        "log_end_regressions": tuple(_regression(r) for r in memory.regressions),
        "log_end_regressions_dropped": memory.dropped or None,
        "recreated_topics": tuple(
            RecreatedTopicStatus(topic=topic[:256], at=_whole(at)) for topic, at in memory.recreated.items()
        ),
    }


def _leaderless(memory: DetectorMemory, now: datetime) -> tuple[LeaderlessStatus, ...]:
    if not memory.leaderless.num_rows:
        return ()
    longest = memory.leaderless.sort_by([("seconds", "descending"), ("topic", "ascending"), ("partition", "ascending")])
    return tuple(
        LeaderlessStatus(
            topic=r["topic"][:256],
            partition=r["partition"],
            leader=r["leader"],
            epoch=r["epoch"],
            milliseconds=_ms(r["seconds"]),
            at=_whole(now),
        )
        for r in longest.slice(0, MAX_LEADERLESS).to_pylist()
    )


def _regression(r: Regression) -> LogEndRegressionStatus:
    return LogEndRegressionStatus(
        topic=r.topic[:256],
        partition=r.partition,
        before=r.before,
        after=r.after,
        at=_whole(r.at),
        epoch_before=r.epoch_before,
        epoch_after=r.epoch_after,
        groups=None if r.groups is None else tuple(printable(g)[:256] for g in r.groups),
        topic_id=r.topic_id,
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _whole(moment: datetime) -> datetime:
    return moment - timedelta(microseconds=moment.microsecond)
