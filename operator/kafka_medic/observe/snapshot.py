"""Read everything once and put it together.

Each source is read on its own: when it fails, that source is Unknown with the reason, what depends on it is None, and
the others are still read. Only when the cluster does not answer at all are its other sources not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol, TypeVar

import pyarrow as pa

from kafka_medic.clients.ports import (
    BrokerView,
    ClusterDescription,
    GroupOffsets,
    KafkaReads,
    PartitionState,
    ReadFailed,
    Reassignment,
)
from kafka_medic.clients.zookeeper import Registrations
from kafka_medic.cluster.snapshot import (
    CONFIGS_SCHEMA,
    GROUPS_SCHEMA,
    LEADERS_SCHEMA,
    PARTITIONS_SCHEMA,
    ClusterInfo,
    ConfigValue,
    Controller,
    Mode,
    Pod,
    Quorum,
    Rollout,
    Snapshot,
    Source,
    SourceState,
    TopicPartition,
    View,
)
from kafka_medic.observe.brokers import Sighting, brokers_of, software_version
from kafka_medic.observe.metrics import BrokerSigns, named_failures

T = TypeVar("T")

TOPIC_CONFIGS = (
    "min.insync.replicas",
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
BROKER_CONFIGS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "inter.broker.protocol.version",
    "auto.leader.rebalance.enable",
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
)
"""The settings that decisions rest on; everything else a broker is configured with is left out of the snapshot."""


SOURCES_OF_KAFKA = ("views", "reassignments", "log-dirs", "configs", "groups", "log-ends")
"""What is read from the brokers once the cluster has answered at all."""


class ZooKeeperReads(Protocol):
    """What a ZooKeeper-backed cluster's ensemble answers; `clients.zookeeper.ZooKeeper` is the real one."""

    def registrations(self) -> Registrations: ...

    def ensemble(self) -> Quorum: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _Readings:
    """The sources so far. `attempt` is the only way in, so that no failure goes unrecorded."""

    now: Callable[[], datetime]
    sources: list[Source] = field(default_factory=list)

    def attempt(self, name: str, read: Callable[[], T]) -> T | None:
        began = self.now()
        try:
            value = read()
        except ReadFailed as problem:
            self.fail(name, str(problem), began)
            return None
        ended = self.now()
        self.sources.append(Source(name, ended, SourceState.KNOWN, None, _milliseconds(began, ended)))
        return value

    def partly(self, name: str, error: str | None) -> None:
        """The source of that name is known as a whole, and this is what it could not tell."""
        self.sources = [replace(s, error=error) if s.name == name else s for s in self.sources]

    def fail(self, name: str, error: str, began: datetime | None = None) -> None:
        ended = self.now()
        took = None if began is None else _milliseconds(began, ended)
        self.sources.append(Source(name, ended, SourceState.UNKNOWN, error, took))

    def skip(self, names: Sequence[str], why: str) -> None:
        for name in names:
            self.fail(name, f"not tried: {why}")


MetricsAnswer = Mapping[int, BrokerSigns | ReadFailed]


class MetricsReads(Protocol):
    """The brokers' exporters; `observe.metrics.MetricsProbe` is the real one."""

    def begin(self, hosts: Mapping[int, str]) -> Callable[[], MetricsAnswer]: ...


def _milliseconds(began: datetime, ended: datetime) -> int:
    """Never negative, whatever the clock was set to in between."""
    return max(0, round((ended - began).total_seconds() * 1000))


@dataclass(frozen=True, slots=True)
class ClusterReaders:
    """The places one cluster is read from. Without `zookeeper` the cluster is KRaft; without `pods` and `rollouts`
    there is no Kubernetes (the command line on a laptop), which is not the same as Kubernetes not answering; without
    `metrics` no exporter has been named, without `canary` there is none."""

    kafka: KafkaReads
    zookeeper: ZooKeeperReads | None = None
    pods: Callable[[], Mapping[int, Pod]] | None = None
    rollouts: Callable[[], Sequence[Rollout]] | None = None
    metrics: MetricsReads | None = None
    canary: Callable[[], pa.Table] | None = None


def utc_now() -> datetime:
    return datetime.now(UTC)


def observe_cluster(name: str, readers: ClusterReaders, now: Callable[[], datetime] = utc_now) -> Snapshot:
    """One snapshot. Never raises for what the cluster does; a source that fails is Unknown."""
    seen = _Readings(now)
    taken_at = now()
    mode = Mode.ZOOKEEPER if readers.zookeeper else Mode.KRAFT
    pods = seen.attempt("kubernetes", readers.pods) if readers.pods else None
    rollouts = seen.attempt("rollouts", readers.rollouts) if readers.rollouts else None
    rollouts = None if rollouts is None else tuple(rollouts)
    canary = seen.attempt("canary", readers.canary) if readers.canary else None
    registered: Registrations | None = None
    quorum: Quorum | None = None
    if readers.zookeeper:
        registered = seen.attempt("zookeeper", readers.zookeeper.registrations)
        quorum = seen.attempt("ensemble", readers.zookeeper.ensemble)
    described = seen.attempt("kafka", readers.kafka.describe_cluster)
    # Begun here and waited for at the end, so that pages of many megabytes cost the turn no time of its own.
    measured = readers.metrics.begin(_hosts(described, pods)) if readers.metrics else None
    if described is None:
        seen.skip(SOURCES_OF_KAFKA, "the cluster did not answer")
        if mode is Mode.KRAFT:
            seen.fail("quorum", "not tried: the cluster did not answer")
        signs = _metrics(seen, measured)
        brokers = brokers_of(Sighting(mode, None, registered, None, None, pods, signs))
        return Snapshot(
            ClusterInfo(name, mode=mode), taken_at, tuple(seen.sources), brokers=brokers, quorum=quorum,
            controller=registered.controller if registered else None, rollouts=rollouts, canary=canary,
        )  # fmt: skip
    kafka = readers.kafka
    ids = sorted({n.id for n in described.nodes} | set(registered.brokers if registered else ()))
    answers = seen.attempt("views", lambda: _some_view(kafka.views(ids)))
    if mode is Mode.KRAFT:
        quorum = seen.attempt("quorum", kafka.quorum)
    controller = registered.controller if registered else None
    if mode is Mode.KRAFT and quorum is not None:
        controller = Controller(quorum.leader)
    authority = _authority(answers, controller, registered)
    moving = seen.attempt("reassignments", kafka.reassignments)
    answering = [b for b, view in (answers or {}).items() if isinstance(view, BrokerView)]
    if authority is None:
        seen.skip(("log-dirs", "configs", "log-ends"), "no broker told its own view")
    sizes = seen.attempt("log-dirs", lambda: kafka.log_sizes(answering)) if authority else None
    topics = sorted({p.topic for p in authority.partitions}) if authority else []
    topic_configs, broker_configs = None, None
    if authority:
        read = seen.attempt("configs", lambda: (kafka.topic_configs(topics), kafka.broker_configs(answering)))
        topic_configs, broker_configs = read if read else (None, None)
    # Committed offsets first, log ends after: the other way round lag goes negative by race alone.
    groups = seen.attempt("groups", kafka.groups)
    led = [TopicPartition(p.topic, p.partition) for p in authority.partitions if p.leader >= 0] if authority else []
    bounds = seen.attempt("log-ends", lambda: kafka.log_bounds(led)) if authority else None
    version = seen.attempt("version", kafka.version)
    signs = _metrics(seen, measured)
    return Snapshot(
        cluster=ClusterInfo(name, described.cluster_id, mode, software_version(version, signs)),
        taken_at=taken_at,
        sources=tuple(seen.sources),
        brokers=brokers_of(Sighting(mode, described, registered, answers, authority, pods, signs)),
        controller=controller,
        quorum=quorum,
        views=None if answers is None else tuple(_view(b, a, mode) for b, a in sorted(answers.items())),
        partitions=_partitions(authority, moving, sizes, bounds, topic_configs),
        groups=None if groups is None else _groups(groups),
        configs=_configs(topic_configs, broker_configs),
        rollouts=rollouts,
        canary=canary,
    )


def _hosts(described: ClusterDescription | None, pods: Mapping[int, Pod] | None) -> dict[int, str]:
    """Where each broker's exporter is: at its Pod, which is there before the broker registers, else at its host."""
    hosts = {n.id: n.host for n in described.nodes} if described else {}
    return hosts | {b: pod.ip for b, pod in (pods or {}).items() if pod.ip}


def _metrics(seen: _Readings, measured: Callable[[], MetricsAnswer] | None) -> MetricsAnswer | None:
    signs = seen.attempt("metrics", measured) if measured else None
    if signs is not None:
        seen.partly("metrics", named_failures(signs))
    return signs


def unread_cluster(name: str, error: str, now: datetime) -> Snapshot:
    """The snapshot of a cluster that could not even be asked: a Secret is missing, say."""
    seen = _Readings(lambda: now)
    seen.fail("kafka", error)
    seen.skip(SOURCES_OF_KAFKA, "the cluster could not be asked")
    return Snapshot(ClusterInfo(name), now, tuple(seen.sources))


def _some_view(answers: Mapping[int, BrokerView | ReadFailed]) -> Mapping[int, BrokerView | ReadFailed]:
    """The answers, if any broker gave one."""
    failures = [answer for answer in answers.values() if isinstance(answer, ReadFailed)]
    if failures and len(failures) == len(answers):
        raise failures[0]
    return answers


def _authority(
    answers: Mapping[int, BrokerView | ReadFailed] | None,
    controller: Controller | None,
    registered: Registrations | None,
) -> BrokerView | None:
    """What stands for the cluster: of each partition the row with the newest leader epoch that any registered broker
    told, since one broker may lag behind. Of rows of the same epoch the active controller's own counts, else the one
    with the smallest ISR. Where the views differ is for the detectors to say, from `views`."""
    members = None if registered is None else set(registered.brokers)
    known = {
        b: view
        for b, view in (answers or {}).items()
        if isinstance(view, BrokerView) and (members is None or b in members)
    }
    if not known:
        return None
    first = known.get(controller.id) if controller is not None and controller.id is not None else None
    views = [first] if first is not None else []
    views += sorted((v for v in known.values() if v is not first), key=lambda v: v.broker)
    best = {TopicPartition(p.topic, p.partition): p for p in views[0].partitions}
    for view in views[1:]:
        for row in view.partitions:
            tp = TopicPartition(row.topic, row.partition)
            held = best.get(tp)
            if held is None:
                if first is None:  # the controller knows which topics there are; nobody else does for sure
                    best[tp] = row
            elif _rank(row) > _rank(held) or (
                first is None and _rank(row) == _rank(held) and len(row.isr) < len(held.isr)
            ):
                best[tp] = row
    return BrokerView(views[0].broker, views[0].members, views[0].controller, tuple(best[tp] for tp in sorted(best)))


def _rank(row: PartitionState) -> int:
    return -1 if row.leader_epoch is None else row.leader_epoch


def _view(broker: int, answer: BrokerView | ReadFailed, mode: Mode) -> View:
    if isinstance(answer, ReadFailed):
        return View(broker)
    columns = [
        [getattr(p, name) for p in answer.partitions] for name in ("topic", "partition", "leader", "leader_epoch")
    ]
    # KRaft brokers put a random live broker there: comparing it would be comparing noise.
    controller = answer.controller if mode is Mode.ZOOKEEPER else None
    return View(broker, answer.members, controller, pa.table(columns, schema=LEADERS_SCHEMA))


def _partitions(
    authority: BrokerView | None,
    moving: Mapping[TopicPartition, Reassignment] | None,
    sizes: Mapping[int, Mapping[TopicPartition, int]] | None,
    bounds: Mapping[TopicPartition, tuple[int, int]] | None,
    configs: Mapping[str, Mapping[str, ConfigValue]] | None,
) -> pa.Table | None:
    if authority is None:
        return None
    rows = authority.partitions
    keys = [TopicPartition(p.topic, p.partition) for p in rows]
    none: tuple[int, ...] = ()

    def size(tp: TopicPartition, leader: int, replicas: tuple[int, ...]) -> int | None:
        if sizes is None:
            return None
        if tp in sizes.get(leader, {}):
            return sizes[leader][tp]
        return max((sizes[b][tp] for b in replicas if tp in sizes.get(b, {})), default=None)

    def min_isr(topic: str) -> int | None:
        value = (configs or {}).get(topic, {}).get("min.insync.replicas")
        return int(value.value) if value and value.value and value.value.isdigit() else None

    columns: dict[str, list[object]] = {
        "topic": [p.topic for p in rows],
        "partition": [p.partition for p in rows],
        "leader": [p.leader for p in rows],
        "leaderEpoch": [p.leader_epoch for p in rows],
        # The controller's word on what is in flight is newer than a broker's metadata of the same partition.
        "replicas": [
            moving[tp].replicas if moving and tp in moving else p.replicas for tp, p in zip(keys, rows, strict=True)
        ],
        "isr": [p.isr for p in rows],
        "adding": [None if moving is None else (moving[tp].adding if tp in moving else none) for tp in keys],
        "removing": [None if moving is None else (moving[tp].removing if tp in moving else none) for tp in keys],
        "logStart": [(bounds or {}).get(tp, (None, None))[0] for tp in keys],
        "logEnd": [(bounds or {}).get(tp, (None, None))[1] for tp in keys],
        "sizeBytes": [size(tp, p.leader, p.replicas) for tp, p in zip(keys, rows, strict=True)],
        "minIsr": [min_isr(p.topic) for p in rows],
    }
    return pa.table(columns, schema=PARTITIONS_SCHEMA)


def _groups(groups: Sequence[GroupOffsets]) -> pa.Table:
    rows = [
        {
            "group": g.group,
            "state": g.state,
            "topic": tp.topic,
            "partition": tp.partition,
            "committed": offset,
        }
        for g in groups
        for tp, offset in sorted(g.committed.items())
    ]
    return pa.Table.from_pylist(rows, schema=GROUPS_SCHEMA)


def _configs(
    topics: Mapping[str, Mapping[str, ConfigValue]] | None,
    brokers: Mapping[int, Mapping[str, ConfigValue]] | None,
) -> pa.Table | None:
    if topics is None or brokers is None:
        return None
    wanted = [("TOPIC", t, n, values.get(n)) for t, values in sorted(topics.items()) for n in TOPIC_CONFIGS]
    wanted += [("BROKER", str(b), n, values.get(n)) for b, values in sorted(brokers.items()) for n in BROKER_CONFIGS]
    rows = [
        {"resourceType": kind, "resource": resource, "name": name, "value": v.value, "dynamic": v.dynamic}
        for kind, resource, name, v in wanted
        if v is not None and v.value is not None
    ]
    return pa.Table.from_pylist(rows, schema=CONFIGS_SCHEMA)
