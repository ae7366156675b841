"""Read everything once and put it together.

Each source is read on its own: when it fails, that source is Unknown with the reason, what depends on it is None, and
the others are still read. Only when the cluster does not answer at all are its other sources not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

import pyarrow as pa

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import Address, BrokerView, ClusterDescription, KafkaReads
from kafka_medic.clients.zookeeper import Registrations
from kafka_medic.cluster.accounts import TopicRecord
from kafka_medic.cluster.certificates import SOURCE as CERTIFICATES
from kafka_medic.cluster.owners import SOURCE as OWNERS
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
    TopicOwner,
    View,
)
from kafka_medic.observe import checks
from kafka_medic.observe.at_rest import AtRest
from kafka_medic.observe.brokers import Sighting, brokers_of, members_of, named_by, software_version
from kafka_medic.observe.certificates import CertificatesFound
from kafka_medic.observe.contents import Contents
from kafka_medic.observe.divergence import diverged_logs, stale_leaderships
from kafka_medic.observe.identities import PodIdentities, identified, identify, numbered, placed
from kafka_medic.observe.metrics import BrokerSigns, named_failures
from kafka_medic.observe.sources import Reading, Readings, SideBySide, value_of
from kafka_medic.observe.unnamed import AddressBook, unnamed_views
from kafka_medic.observe.view_reads import Answers, ViewRotation, decided, read_views

SOURCES_OF_KAFKA = ("views", "reassignments", "log-dirs", "configs", "groups", "log-ends")
"""What is read from the brokers once the cluster has answered at all."""


class ZooKeeperReads(Protocol):
    """What a ZooKeeper-backed cluster's ensemble answers; `clients.zookeeper.ZooKeeper` is the real one."""

    def registrations(self) -> Registrations: ...

    def ensemble(self) -> Quorum: ...

    def topics(self, names: Sequence[str]) -> Mapping[str, TopicRecord | None]:
        """The records of these topics; None for one that does not exist."""

    def close(self) -> None: ...


MetricsAnswer = Mapping[int, BrokerSigns | ReadFailed]


class MetricsReads(Protocol):
    """The brokers' exporters; `observe.metrics.MetricsProbe` is the real one."""

    def begin(self, hosts: Mapping[int, str]) -> Callable[[], MetricsAnswer]: ...


def every_group(_: str) -> bool:
    """No group is left out."""
    return True


@dataclass(frozen=True, slots=True)
class ClusterReaders:
    """The places one cluster is read from. Without `zookeeper` the cluster is KRaft; without `pods` and `rollouts`
    there is no Kubernetes (the command line on a laptop), which is not the same as Kubernetes not answering; without
    `controllers` no Pods of KRaft controllers that are no brokers are known, without `metrics` no exporter has been
    named, without `canary` there is none, without `owners` no objects of others describe topics, without `certificates`
    no connection uses TLS.
    `unidentified` and `unidentified_controllers`: of the Pods that `pods` and `controllers` listed last, those whose id
    only their own answer can tell. `groups`: which consumer groups are read, by name. `namespace`: of the Pods and
    owners, None outside Kubernetes."""

    kafka: KafkaReads
    zookeeper: ZooKeeperReads | None = None
    pods: Callable[[], Mapping[int, Pod]] | None = None
    rollouts: Callable[[], Sequence[Rollout]] | None = None
    controllers: Callable[[], Mapping[int, Pod]] | None = None
    metrics: MetricsReads | None = None
    canary: Callable[[], pa.Table] | None = None
    owners: Callable[[], Sequence[TopicOwner]] | None = None
    certificates: Callable[[Mapping[int, Address] | None], CertificatesFound] | None = None
    unidentified: Callable[[], Sequence[Pod]] = tuple
    unidentified_controllers: Callable[[], Sequence[Pod]] = tuple
    groups: Callable[[str], bool] = every_group
    namespace: str | None = None

    @property
    def without_claim(self) -> tuple[Callable[[], Sequence[Pod]], Callable[[], Sequence[Pod]]]:
        return self.unidentified, self.unidentified_controllers


def utc_now() -> datetime:
    return datetime.now(UTC)


def observe_cluster(
    name: str,
    readers: ClusterReaders,
    now: Callable[[], datetime] = utc_now,
    rotation: ViewRotation | None = None,
    book: AddressBook | None = None,
    known: PodIdentities | None = None,
    at_rest: AtRest | None = None,
) -> Snapshot:
    """One snapshot. Never raises for what the cluster does; a source that fails is Unknown. `rotation`, `book`, `known`
    and `at_rest` are kept from look to look; without the first, every broker's whole view is read. All that does not
    need another's answer is read side by side: first who is there, then what each broker says of itself, which shows
    who hangs, then the rest, of which nothing is asked of a broker that has just not answered."""
    taken_at, known = now(), known or PodIdentities()
    mode = Mode.ZOOKEEPER if readers.zookeeper else Mode.KRAFT
    with SideBySide() as pool:
        seen = Readings(now, pool)
        pods = seen.begin("kubernetes", readers.pods) if readers.pods else None
        apart = seen.begin("controllers", readers.controllers) if readers.controllers else None
        rollouts = _rollouts(seen, (pods, apart), readers)
        canary = seen.begin("canary", readers.canary) if readers.canary else None
        owners = seen.begin(OWNERS, readers.owners) if readers.owners else None
        zookeeper = seen.begin("zookeeper", readers.zookeeper.registrations) if readers.zookeeper else None
        quorum = seen.begin("ensemble", readers.zookeeper.ensemble) if readers.zookeeper else None
        described = seen.begin("kafka", lambda: checks.description(readers.kafka.describe_cluster())).value()
        certificates = _certificates(seen, readers, described)
        # Waited for at the end, so that pages of many megabytes cost the look no time of their own.
        metrics = _metrics(seen, readers.metrics, described, pods, known) if readers.metrics else None
        found = Snapshot(ClusterInfo(name, mode=mode, namespace=readers.namespace), taken_at, ())
        if described is None:
            found = _unanswered(seen, found, mode, value_of(zookeeper), value_of(pods), value_of(metrics))
            seen.skip(("pod-identity",) if pods else (), "the cluster did not answer")
        else:
            if quorum is None:
                quorum = seen.begin("quorum", readers.kafka.quorum)
            identity = None
            if pods is not None:
                voters = quorum if mode is Mode.KRAFT else None
                read = partial(_identities, readers, known, described, pods, apart, voters)
                identity = seen.begin("pod-identity", read, lambda gaps: gaps)
            context = _Context(
                mode,
                described,
                value_of(zookeeper),
                quorum,
                rotation or ViewRotation(everything=True, alone=True),
                book,
                at_rest or AtRest(),
            )
            found = _answered(seen, found, readers, context, pods, metrics)
            value_of(identity)
        unclaimed, controllers = (read() if pods is not None else () for read in readers.without_claim)
        rolling, owned, served = value_of(rollouts), value_of(owners), value_of(certificates)
        found = replace(
            found,
            quorum=_with_pods(value_of(quorum), value_of(apart)),
            rollouts=None if rolling is None else tuple(rolling),
            canary=value_of(canary),
            owners=None if owned is None else tuple(owned),
            certificates=None if served is None else served.chains,
            unread=found.unread if served is None else {**found.unread, **served.unread},
        )
    return replace(identified(placed(found, known, unclaimed, controllers), known), sources=seen.sources)


def _identities(
    readers: ClusterReaders,
    known: PodIdentities,
    described: ClusterDescription,
    pods: Reading[Mapping[int, Pod]],
    apart: Reading[Mapping[int, Pod]] | None,
    quorum: Reading[Quorum] | None,
) -> str | None:
    """What each Pod runs goes into `known`; answered is what could not be found out."""
    listed, controllers, voters = pods.value(), value_of(apart), value_of(quorum)
    if listed is None:
        raise ReadFailed(FailureKind.OTHER, "not tried: the Pods could not be listed")

    def again() -> Mapping[int, Pod]:
        assert readers.pods is not None
        there = {**(readers.controllers() if readers.controllers else {}), **readers.pods()}
        return {**there, **unclaimed()}

    def unclaimed() -> Mapping[int, Pod]:
        return numbered(pod for read in readers.without_claim for pod in read())

    every = {**(controllers or {}), **listed, **unclaimed()}
    return identify(readers.kafka, known, every, again, described, [v.id for v in voters.voters] if voters else ())


def _unanswered(
    seen: Readings,
    found: Snapshot,
    mode: Mode,
    registered: Registrations | None,
    pods: Mapping[int, Pod] | None,
    signs: MetricsAnswer | None,
) -> Snapshot:
    """What is known of a cluster of which nobody answers."""
    seen.skip(SOURCES_OF_KAFKA, "the cluster did not answer")
    if mode is Mode.KRAFT:
        seen.fail("quorum", "not tried: the cluster did not answer")
    members = members_of(mode, None, registered, None, None)
    brokers = brokers_of(Sighting(None, members, None, None, pods, signs))
    return replace(found, brokers=brokers, controller=registered.controller if registered else None)


@dataclass(frozen=True, slots=True)
class _Context:
    """What is known of the cluster before its brokers are read one by one."""

    mode: Mode
    described: ClusterDescription
    registered: Registrations | None
    quorum: Reading[Quorum]
    rotation: ViewRotation
    book: AddressBook | None
    at_rest: AtRest


def _answered(
    seen: Readings,
    found: Snapshot,
    readers: ClusterReaders,
    context: _Context,
    pods: Reading[Mapping[int, Pod]] | None,
    metrics: Reading[MetricsAnswer] | None,
) -> Snapshot:
    kafka, mode, described, registered = readers.kafka, context.mode, context.described, context.registered
    version = seen.begin("version", kafka.version)
    ids = sorted({n.id for n in described.nodes} | set(registered.brokers if registered else ()))
    reading = seen.begin("views", lambda: read_views(kafka, ids, context.rotation, registered))
    moving = seen.begin("reassignments", lambda: checks.reassignments(kafka.reassignments()))
    answers: Answers | None = reading.value()
    for broker, answer in sorted((answers or {}).items()):
        if isinstance(answer, checks.BadAnswer):
            seen.fail(f"view-{broker}", str(answer))
    controller = registered.controller if registered else None
    if mode is Mode.KRAFT and (quorum := context.quorum.value()) is not None:
        controller = Controller(quorum.leader)
    active = controller.id if controller else None
    members = members_of(mode, described, registered, answers, active)
    voters = frozenset(ids) if members is None else members.ids | members.unsure
    records = partial(_topic_records, seen, readers.zookeeper) if readers.zookeeper else None
    states = decided(answers, active, voters, context.rotation, records)
    contents = Contents(seen, kafka, readers.groups, states, answers or {}, described, moving, context.at_rest)
    contents.begin()
    unnamed = _unnamed(seen, kafka, {} if context.book is None else context.book, described, states, value_of(pods))
    if answers is not None:
        answers = {**answers, **{b: a for b, a in unnamed.items() if isinstance(a, BrokerView)}}
    every_answer = None if answers is None else {**unnamed, **answers}
    views = None
    if answers is not None:
        in_order = context.rotation.as_decided
        views = _views(seen, kafka, answers, states, contents.silent, reading.observed_at, mode, in_order)
    signs = value_of(metrics)
    contents.keep()
    return replace(
        found,
        cluster=replace(found.cluster, id=described.cluster_id, version=software_version(version.value(), signs)),
        brokers=brokers_of(
            Sighting(
                described,
                members,
                every_answer,
                states,
                value_of(pods),
                signs,
                contents.log_dirs(),
                contents.offline_replicas(),
                contents.unknown_topics(),
            )
        ),
        controller=controller,
        views=views,
        partitions=contents.partitions(),
        groups=contents.groups(),
        configs=contents.configs(),
        unread=contents.unread(),
    )


def _topic_records(
    seen: Readings, zookeeper: ZooKeeperReads, topics: Sequence[str]
) -> Mapping[str, TopicRecord | None]:
    """ZooKeeper's records of disputed topics. Where they cannot be read, the brokers' accounts have to do."""
    reading = seen.begin("zookeeper-topics", lambda: zookeeper.topics(topics))
    return reading.value() or {}


def _with_pods(quorum: Quorum | None, pods: Mapping[int, Pod] | None) -> Quorum | None:
    """The quorum, with the Pods of the controllers that are no brokers."""
    if quorum is None or not pods:
        return quorum
    return replace(quorum, voters=tuple(replace(v, pod=pods.get(v.id)) for v in quorum.voters))


def _rollouts(
    seen: Readings, pods: Sequence[Reading[Mapping[int, Pod]] | None], readers: ClusterReaders
) -> Reading[Sequence[Rollout]] | None:
    """Of the Pods that were listed."""
    read = readers.rollouts
    if read is None:
        return None

    def after_pods() -> Sequence[Rollout]:
        for listed in pods:
            value_of(listed)
        return read()

    return seen.begin("rollouts", after_pods)


def _certificates(
    seen: Readings, readers: ClusterReaders, described: ClusterDescription | None
) -> Reading[CertificatesFound] | None:
    read = readers.certificates
    if read is None:
        return None
    brokers = None if described is None else {n.id: (n.host, n.port) for n in described.nodes}
    return seen.begin(CERTIFICATES, lambda: read(brokers), lambda found: found.gaps)


def _metrics(
    seen: Readings,
    exporters: MetricsReads,
    described: ClusterDescription | None,
    pods: Reading[Mapping[int, Pod]] | None,
    known: PodIdentities,
) -> Reading[MetricsAnswer]:
    def after_pods() -> MetricsAnswer:
        return exporters.begin(_hosts(described, known.by_what_runs(value_of(pods) or {})))()

    return seen.begin("metrics", after_pods, named_failures)


def _hosts(described: ClusterDescription | None, pods: Mapping[int, Pod]) -> dict[int, str]:
    """Where each broker's exporter is: at its Pod, which is there before the broker registers, else at its host."""
    hosts = {n.id: n.host for n in described.nodes} if described else {}
    return hosts | {b: pod.ip for b, pod in pods.items() if pod.ip}


def unread_cluster(cluster: ClusterInfo, error: str, now: datetime, *, secured: bool = False) -> Snapshot:
    """The snapshot of a cluster that could not even be asked: a Secret is missing, say. `secured`: it has certificates
    that would have been read."""
    names = (*SOURCES_OF_KAFKA, CERTIFICATES) if secured else SOURCES_OF_KAFKA
    left = [(source, "not tried: the cluster could not be reached") for source in names]
    sources = (Source(source, now, SourceState.UNKNOWN, why) for source, why in (("kafka", error), *left))
    return Snapshot(cluster, now, tuple(sources))


def _unnamed(
    seen: Readings,
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
    looking = seen.begin("unnamed-brokers", lambda: unnamed_views(kafka, book, described, expected, pods))
    return looking.value() or {}


def _views(
    seen: Readings,
    kafka: KafkaReads,
    answers: Answers,
    states: pa.Table | None,
    silent: Mapping[int, ReadFailed],
    read_at: datetime | None,
    mode: Mode,
    in_order: Callable[[pa.Table], pa.Table],
) -> tuple[View, ...]:
    """Every view, with what only its broker's log holds where it is a stale leader."""
    stale = {} if states is None else stale_leaderships(answers, states)
    logs = {
        broker: seen.begin(f"stale-log-{broker}", partial(diverged_logs, kafka, broker, beliefs, silent))
        for broker, beliefs in stale.items()
    }
    found = []
    for view in _plain_views(answers, read_at, mode, in_order):
        unread = view.leaders is None or states is None
        diverged: tuple[DivergedLog, ...] | None = None if unread else ()
        if not unread and view.broker in logs:
            # Of a stale leader that gave no whole view, more may be stale than is known.
            diverged = logs[view.broker].value() if view.covers is None else None
        found.append(replace(view, diverged=diverged))
    return tuple(found)


def _plain_views(
    answers: Answers, read_at: datetime | None, mode: Mode, in_order: Callable[[pa.Table], pa.Table]
) -> Iterator[View]:
    """Views that are equal share their columns, also with what stands for the cluster (`in_order`)."""
    leaders: dict[int, pa.Table] = {}
    for broker, answer in sorted(answers.items()):
        if isinstance(answer, ReadFailed):
            yield View(broker, observed_at=read_at)
            continue
        table = None
        if answer.states is not None:
            table = leaders.get(id(answer.states))
            if table is None:
                states = in_order(answer.states)
                columns = [states[name] for name in ("topic", "partition", "leader", "leaderEpoch", "topicId")]
                table = leaders[id(answer.states)] = pa.table(columns, schema=LEADERS_SCHEMA)
        # KRaft brokers put a random live broker there: comparing it would be comparing noise.
        controller = answer.controller if mode is Mode.ZOOKEEPER else None
        yield View(broker, answer.members, controller, table, observed_at=read_at, covers=answer.covers)
