"""Read everything once and put it together.

Each source is read on its own: when it fails, that source is Unknown with the reason, what depends on it is None, and
the others are still read. Only when the cluster does not answer at all are its other sources not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Protocol, TypeVar

import pyarrow as pa

from kafka_medic.clients.ports import BrokerView, ClusterDescription, KafkaReads, ReadFailed
from kafka_medic.clients.zookeeper import Registrations
from kafka_medic.cluster.snapshot import (
    LEADERS_SCHEMA,
    ClusterInfo,
    Controller,
    DivergedLog,
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
from kafka_medic.observe import checks, tables
from kafka_medic.observe.brokers import Sighting, brokers_of, named_by, software_version
from kafka_medic.observe.divergence import diverged_logs, stale_leaderships
from kafka_medic.observe.metrics import BrokerSigns, named_failures
from kafka_medic.observe.unnamed import AddressBook, unnamed_views
from kafka_medic.observe.view_reads import Answers, ViewRotation, authority, read_views

T = TypeVar("T")

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


def every_group(_: str) -> bool:
    """No group is left out."""
    return True


@dataclass(frozen=True, slots=True)
class ClusterReaders:
    """The places one cluster is read from. Without `zookeeper` the cluster is KRaft; without `pods` and `rollouts`
    there is no Kubernetes (the command line on a laptop), which is not the same as Kubernetes not answering; without
    `metrics` no exporter has been named, without `canary` there is none. `groups`: which consumer groups are read, by
    name."""

    kafka: KafkaReads
    zookeeper: ZooKeeperReads | None = None
    pods: Callable[[], Mapping[int, Pod]] | None = None
    rollouts: Callable[[], Sequence[Rollout]] | None = None
    metrics: MetricsReads | None = None
    canary: Callable[[], pa.Table] | None = None
    groups: Callable[[str], bool] = every_group


def utc_now() -> datetime:
    return datetime.now(UTC)


def observe_cluster(
    name: str,
    readers: ClusterReaders,
    now: Callable[[], datetime] = utc_now,
    rotation: ViewRotation | None = None,
    book: AddressBook | None = None,
) -> Snapshot:
    """One snapshot. Never raises for what the cluster does; a source that fails is Unknown. `rotation` and `book` are
    kept from look to look; without the first, every broker's whole view is read."""
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
    described = seen.attempt("kafka", lambda: checks.description(readers.kafka.describe_cluster()))
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
    answers = seen.attempt(
        "views", lambda: read_views(kafka, ids, rotation or ViewRotation(everything=True), registered)
    )
    read_at = seen.sources[-1].observed_at
    for broker, answer in sorted((answers or {}).items()):
        if isinstance(answer, checks.BadAnswer):
            seen.fail(f"view-{broker}", str(answer))
    if mode is Mode.KRAFT:
        quorum = seen.attempt("quorum", kafka.quorum)
    controller = registered.controller if registered else None
    if mode is Mode.KRAFT and quorum is not None:
        controller = Controller(quorum.leader)
    states = authority(answers, controller, None if registered is None else set(registered.brokers))
    unnamed = _unnamed(seen, kafka, {} if book is None else book, described, states, pods)
    if answers is not None:
        answers = answers | {b: a for b, a in unnamed.items() if isinstance(a, BrokerView)}
    answering = [b for b, view in (answers or {}).items() if isinstance(view, BrokerView)]
    heard = None if answers is None else {**unnamed, **answers}
    partitions, groups, configs = _contents(seen, readers, states, answering)
    version = seen.attempt("version", kafka.version)
    signs = _metrics(seen, measured)
    return Snapshot(
        cluster=ClusterInfo(name, described.cluster_id, mode, software_version(version, signs)),
        taken_at=taken_at,
        sources=tuple(seen.sources),
        brokers=brokers_of(
            Sighting(mode, described, registered, heard, states, pods, signs, controller.id if controller else None)
        ),
        controller=controller,
        quorum=quorum,
        views=None if answers is None else _views(seen, kafka, answers, states, read_at, mode),
        partitions=partitions,
        groups=groups,
        configs=configs,
        rollouts=rollouts,
        canary=canary,
    )


def _contents(
    seen: _Readings, readers: ClusterReaders, states: pa.Table | None, answering: Sequence[int]
) -> tuple[pa.Table | None, pa.Table | None, pa.Table | None]:
    """Partitions, groups and configs."""
    kafka = readers.kafka
    moving = seen.attempt("reassignments", lambda: checks.reassignments(kafka.reassignments()))
    if states is None:
        seen.skip(("log-dirs", "configs", "log-ends"), "no broker told its own view")
        offsets = seen.attempt("groups", lambda: checks.groups(kafka.groups(readers.groups)))
        return None, None if offsets is None else tables.groups(offsets), None
    keys = tables.addresses(states)
    sizes = seen.attempt("log-dirs", lambda: checks.log_sizes(kafka.log_sizes(answering)))
    topics = sorted({tp.topic for tp in keys})
    settings = seen.attempt("configs", lambda: (kafka.topic_configs(topics), kafka.broker_configs(answering)))
    of_topics, of_brokers = settings or (None, None)
    # States, then committed offsets, and log ends last: the other way round lag goes negative by race alone.
    offsets = seen.attempt("groups", lambda: checks.groups(kafka.groups(readers.groups)))
    leaders: list[int] = checks.numbers(states["leader"]).tolist()
    led = {tp: leader for tp, leader in zip(keys, leaders, strict=True) if leader >= 0}
    bounds = seen.attempt("log-ends", lambda: checks.log_bounds(_bounds(kafka, led)))
    if untold := sorted(set(led) - set(led if bounds is None else bounds)):
        seen.partly("log-ends", f"{len(untold)} partitions whose leader does not know that it leads: {untold[0]}")
    return (
        tables.partitions(states, keys, moving, sizes, bounds, of_topics),
        None if offsets is None else tables.groups(offsets),
        tables.configs(of_topics, of_brokers),
    )


def _bounds(kafka: KafkaReads, led: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, tuple[int, int]]:
    try:
        return kafka.log_bounds(list(led))
    except ReadFailed:
        return kafka.log_bounds_at(led)


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


def _unnamed(
    seen: _Readings,
    kafka: KafkaReads,
    book: AddressBook,
    described: ClusterDescription,
    states: pa.Table | None,
    pods: Mapping[int, Pod] | None,
) -> Answers:
    """The brokers that ought to be there and that the cluster does not name. Only looked for when there are any."""
    expected = named_by(states) | set(pods or ())
    if expected <= {node.id for node in described.nodes}:
        unnamed_views(kafka, book, described, (), None)
        return {}
    return seen.attempt("unnamed-brokers", lambda: unnamed_views(kafka, book, described, expected, pods)) or {}


def _views(
    seen: _Readings,
    kafka: KafkaReads,
    answers: Answers,
    states: pa.Table | None,
    read_at: datetime | None,
    mode: Mode,
) -> tuple[View, ...]:
    """Every view, with what only its broker's log holds where it is a stale leader."""
    stale = {} if states is None else stale_leaderships(answers, states)
    found = []
    for view in _plain_views(answers, read_at, mode):
        logs: tuple[DivergedLog, ...] | None = ()
        if view.leaders is None or states is None:
            logs = None
        elif view.broker in stale:
            belief = stale[view.broker]
            logs = seen.attempt(f"stale-log-{view.broker}", partial(diverged_logs, kafka, view.broker, belief))
        found.append(replace(view, diverged=logs))
    return tuple(found)


def _plain_views(answers: Answers, read_at: datetime | None, mode: Mode) -> Iterator[View]:
    """Views that are equal share their columns."""
    leaders: dict[int, pa.Table] = {}
    for broker, answer in sorted(answers.items()):
        if isinstance(answer, ReadFailed):
            yield View(broker, observed_at=read_at)
            continue
        table = None
        if answer.states is not None:
            told = answer.states.select(["topic", "partition", "leader", "leaderEpoch"])
            table = leaders.setdefault(
                id(answer.states), told.rename_columns(LEADERS_SCHEMA.names).cast(LEADERS_SCHEMA)
            )
        # KRaft brokers put a random live broker there: comparing it would be comparing noise.
        controller = answer.controller if mode is Mode.ZOOKEEPER else None
        yield View(broker, answer.members, controller, table, observed_at=read_at)
