"""One honest picture of a cluster at one moment.

Everything a decision may rest on is in a `Snapshot`. What could not be read is `None` and its source says why: an
unread list is never an empty list, an unread number never zero. Partitions, groups and configs are Arrow tables, so
that hundreds of thousands of rows cost columns and not objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.certificates import CertificateChain

NO_LEADER = -1
"""Kafka's own value for a partition that nobody leads (as opposed to null: not known)."""

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
"""Topics that Kafka creates for itself and whose loss takes groups or transactions with it."""


STORAGE_ERROR = "KAFKA_STORAGE_ERROR"
"""Kafka's own code for a log directory that is offline until its broker starts again (KIP-112)."""


class Mode(StrEnum):
    """Where the cluster keeps its metadata."""

    KRAFT = "KRaft"
    ZOOKEEPER = "ZooKeeper"


class TopicPartition(NamedTuple):
    """A partition's address."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def _field(name: str, kind: pa.DataType, nullable: bool = True) -> pa.Field[pa.DataType]:
    return pa.field(name, kind, nullable=nullable)


PARTITIONS_SCHEMA: pa.Schema = pa.schema(
    [
        _field("topic", pa.string(), nullable=False),
        _field("partition", pa.int32(), nullable=False),
        _field("leader", pa.int32()),
        _field("leaderEpoch", pa.int32()),
        _field("replicas", pa.list_(pa.int32())),
        _field("isr", pa.list_(pa.int32())),
        _field("adding", pa.list_(pa.int32())),
        _field("removing", pa.list_(pa.int32())),
        _field("logStart", pa.int64()),
        _field("logEnd", pa.int64()),
        _field("sizeBytes", pa.int64()),
        _field("minIsr", pa.int32()),
        _field("topicId", pa.string()),
    ]
)
"""One row a partition. `leader` -1 is leaderless; `adding`/`removing` are empty when no reassignment is in flight
and null when that is not known; `sizeBytes` is the leader replica's size on disk. `topicId` (KIP-516) tells a topic
from an earlier one of the same name."""

STATES_SCHEMA: pa.Schema = pa.schema(
    [PARTITIONS_SCHEMA.field(n) for n in ("topic", "partition", "leader", "leaderEpoch", "replicas", "isr", "topicId")]
)
"""What the metadata of one broker, or the decided metadata (`authority`), holds of each partition."""

LEADERS_SCHEMA: pa.Schema = pa.schema(
    [
        _field("topic", pa.string(), nullable=False),
        _field("partition", pa.int32(), nullable=False),
        _field("leader", pa.int32()),
        _field("epoch", pa.int32()),
        _field("topicId", pa.string()),
    ]
)
"""What one broker, asked alone, reports of each partition's leader."""

CONFIGS_SCHEMA: pa.Schema = pa.schema(
    [
        _field("resourceType", pa.string(), nullable=False),
        _field("resource", pa.string(), nullable=False),
        _field("name", pa.string(), nullable=False),
        _field("value", pa.string()),
        _field("dynamic", pa.bool_()),
    ]
)
"""The settings that decisions rest on: replication defaults, min.insync.replicas and replication throttles.
`resourceType` is TOPIC or BROKER; a BROKER without a name is what is set at run time for all of them (KIP-226).
`dynamic` tells a value set on this very resource at run time from a static one or a default, since only the former is
ours to restore."""


CANARY_SCHEMA: pa.Schema = pa.schema(
    [
        _field("topic", pa.string(), nullable=False),
        _field("partition", pa.int32(), nullable=False),
        _field("leader", pa.int32()),
        _field("lastOkAt", pa.string()),
        _field("produceMs", pa.int32()),
        _field("consumeMs", pa.int32()),
        _field("consecutiveFailures", pa.int32()),
        _field("lastError", pa.string()),
    ]
)
"""How the canary's last record to each of its partitions fared. `leader` led when it was sent; `produceMs` is from
send to acknowledgement, `consumeMs` from send to read; all are null until measured. `lastOkAt` is RFC 3339."""


class SourceState(StrEnum):
    """Whether a source answered."""

    KNOWN = "Known"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Source:
    """One place the snapshot was read from: when, and if not, why not. `duration_ms`: None when it was not tried."""

    name: str
    observed_at: datetime | None
    state: SourceState
    error: str | None = None
    duration_ms: int | None = None

    @property
    def known(self) -> bool:
        return self.state is SourceState.KNOWN


@dataclass(frozen=True, slots=True)
class Pod:
    """The Pod behind a broker, as Kubernetes tells it. `deleting`: it has been told to go. `maintenance` are the signs
    that the Pod or its node is about to be taken away, a phrase each; empty when there is none. `ports`: the TCP ports
    that its containers declare. `answers_as`: the id of the broker that has answered at this Pod's own address; None
    while none has. `restart_asked`: it carries the annotation by which Strimzi is asked to restart it. `hindrance`: why
    it cannot be restarted the way that the KafkaCluster says."""

    name: str
    uid: str | None = None
    ready: bool | None = None
    node: str | None = None
    cordoned: bool | None = None
    ip: str | None = None
    deleting: bool | None = None
    node_ready: bool | None = None
    maintenance: tuple[str, ...] | None = None
    ports: tuple[int, ...] | None = None
    answers_as: int | None = None
    restart_asked: bool | None = None
    hindrance: str | None = None


@dataclass(frozen=True, slots=True)
class Rollout:
    """A change that somebody else is rolling out over the brokers' Pods; `reason` says what shows it."""

    kind: str
    name: str
    reason: str

    def __str__(self) -> str:
        state = "is in progress" if self.kind == "KafkaRebalance" else "is being rolled out"
        return f"{self.kind} {self.name} {state}"


@dataclass(frozen=True, slots=True)
class ClientSoftware:
    """A client library that is connected to a broker, as it names itself (KIP-511)."""

    name: str
    version: str
    connections: int | None = None


class Element(NamedTuple):
    """One element of a source: the settings of a topic or a broker, a group, a broker's groups or directories."""

    source: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Directory:
    """A log directory as its broker reports it. `error`: why it could not be read, STORAGE_ERROR when it failed;
    `total`, `usable`: bytes of its volume (KIP-827). `moving`: replicas that are being moved there from another
    directory (KIP-113); None where that is not known."""

    path: str
    error: str | None = None
    total: int | None = None
    usable: int | None = None
    moving: int | None = None

    @property
    def failed(self) -> bool:
        return self.error == STORAGE_ERROR


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that is registered, or that some partition still names as a replica. `bytes_in_rate`: what clients send
    it, in bytes per second. `remaining_logs`, `remaining_segments`: what is left to recover (KIP-831). `version`: its
    software's own word for itself, with any vendor's suffix. `clients`: what is connected to it. `disk_free`: bytes,
    the least of its `directories`. `offline_replicas`: on its failed directories; None when that is not known.
    `unknown_topics`: of replicas that its log directories list, those that are not in the metadata: they were deleted,
    or the operator may not see them (DescribeLogDirs lists every replica). None when a directory could not be read."""

    id: int
    rack: str | None = None
    host: str | None = None
    port: int | None = None
    registered: bool | None = None
    reachable: bool | None = None
    recovering: bool | None = None
    bytes_in_rate: float | None = None
    pod: Pod | None = None
    remaining_logs: int | None = None
    remaining_segments: int | None = None
    version: str | None = None
    clients: tuple[ClientSoftware, ...] | None = None
    disk_free: int | None = None
    directories: tuple[Directory, ...] | None = None
    offline_replicas: tuple[TopicPartition, ...] | None = None
    unknown_topics: tuple[str, ...] | None = None

    @property
    def live(self) -> bool:
        """Registered with the authority and answering, both known to be so."""
        return self.registered is True and self.reachable is True

    @property
    def own_pod(self) -> Pod | None:
        """The Pod that is said to run it; None, too, where that Pod has answered as another broker."""
        return self.pod if self.pod is not None and self.in_its_pod == self.id else None

    @property
    def in_its_pod(self) -> int:
        """The broker that its Pod's fate concerns: the one that has answered there, else the one it is said to be."""
        return self.id if self.pod is None or self.pod.answers_as is None else self.pod.answers_as


@dataclass(frozen=True, slots=True)
class Controller:
    """The active controller. `epoch` rises with every change of controller."""

    id: int | None
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Voter:
    """A voter of the KRaft quorum, or a server of the ZooKeeper ensemble (lag 0 when serving, None when not). `pod`: of
    a KRaft controller that is no broker, where the KafkaCluster says which Pods those are."""

    id: int
    lag: int | None = None
    last_caught_up_ms: int | None = None
    pod: Pod | None = None


@dataclass(frozen=True, slots=True)
class Quorum:
    """Who keeps the metadata. `leader` is None when nobody is known to lead."""

    leader: int | None
    voters: tuple[Voter, ...] = ()


@dataclass(frozen=True, slots=True)
class DivergedLog:
    """A partition that a stale broker still takes itself for the leader of, under `epoch`: where its own log ends, and
    up to where the cluster's log is the same. None where that was not told."""

    topic: str
    partition: int
    epoch: int
    log_end: int | None
    shared_end: int | None

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def records(self) -> int | None:
        """Offsets that only the stale broker's log has; None when it cannot be told."""
        if self.log_end is None or self.shared_end is None:
            return None
        return max(0, self.log_end - self.shared_end)


@dataclass(frozen=True, slots=True)
class View:
    """What one broker, asked alone, believes, and when it said so. Any part that it did not answer, or was not asked
    for in this look, is None. `diverged`: the partitions that it leads by a stale belief; empty when there are none.
    `covers`: the topics that it was asked about, None for all; rows of `leaders` outside them are not its words."""

    broker: int
    members: tuple[int, ...] | None = None
    controller: int | None = None
    leaders: pa.Table | None = None
    diverged: tuple[DivergedLog, ...] | None = None
    observed_at: datetime | None = None
    covers: frozenset[str] | None = None

    def covers_topic(self, topic: str) -> bool:
        return self.covers is None or topic in self.covers


class OwnerState(StrEnum):
    """What the operator of a topic's owner says of it."""

    READY = "Ready"
    NOT_READY = "NotReady"
    PAUSED = "Paused"


@dataclass(frozen=True, slots=True)
class TopicOwner:
    """An object of somebody else's operator that describes a topic: a KafkaTopic of Strimzi's. factor, min_isr: what it
    says, None where it says nothing or no number. min_isr_text: what it says, where that is another text than the
    number's. acts: whether its operator puts the topic back to that; not while it is paused.
    kept_by: who puts the object itself back to what Git has. uid: of the object. paused: whether the object asks its
    operator to leave the topic alone. state: what its operator last said of the object as it is now; None where it has
    not yet said anything of it. message: why it is not ready. changing: whether its operator is changing the number of
    replicas. hindrance: why kafka-medic may not edit the object; None where nothing is known against it."""

    topic: str
    kind: str
    name: str
    acts: bool
    factor: int | None = None
    min_isr: int | None = None
    min_isr_text: str | None = None
    kept_by: str | None = None
    uid: str | None = None
    paused: bool = False
    state: OwnerState | None = None
    message: str | None = None
    changing: bool = False
    hindrance: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """Which cluster this is. namespace: of its Pods and of the objects that describe its topics; None outside
    Kubernetes."""

    name: str
    id: str | None = None
    mode: Mode | None = None
    version: str | None = None
    namespace: str | None = None

    @property
    def in_commands(self) -> str:
        """The namespace that a command on its objects names. If it is not known, a word that no API server takes."""
        return self.namespace or "NAMESPACE"


_OF_A_ROW = tuple(name for name in PARTITIONS_SCHEMA.names if name != "topicId")
"""The columns that a PartitionRow is made of, in the order of its fields."""
FEW = 64
"""So many rows are sooner made than filtered."""


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition, for the code that looks at a handful of them."""

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...] | None
    isr: tuple[int, ...] | None
    adding: tuple[int, ...] | None
    removing: tuple[int, ...] | None
    log_start: int | None = None
    log_end: int | None = None
    size_bytes: int | None = None
    min_isr: int | None = None

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def reassigning(self) -> bool | None:
        """None when it is not known whether a reassignment is in flight."""
        if self.adding is None or self.removing is None:
            return None
        return bool(self.adding or self.removing)


ConfigKey = tuple[Literal["TOPIC", "BROKER"] | str, str, str]


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One setting: `dynamic` when it was set at run time on this very resource."""

    value: str | None
    dynamic: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster at `taken_at`. Fields are None where their source did not answer; see the module's docstring."""

    cluster: ClusterInfo
    taken_at: datetime
    sources: tuple[Source, ...] = ()
    brokers: tuple[Broker, ...] | None = None
    controller: Controller | None = None
    quorum: Quorum | None = None
    views: tuple[View, ...] | None = None
    partitions: pa.Table | None = None
    groups: pa.Table | None = None
    configs: pa.Table | None = None
    rollouts: tuple[Rollout, ...] | None = None
    canary: pa.Table | None = None
    owners: tuple[TopicOwner, ...] | None = None
    """Objects of others that describe topics. None too where nobody was asked: see `acting_owners`."""
    certificates: tuple[CertificateChain, ...] | None = None
    """None too where no connection uses TLS. What could not be read is in `unread`."""
    unplaced: tuple[Pod, ...] = ()
    """Pods of brokers that have not yet answered which broker they run, so each may run any."""
    unplaced_controllers: tuple[Pod, ...] = ()
    """The same of the Pods that are selected as controllers. Their listener often never lets the operator in."""
    unread: Mapping[Element, str] = field(default_factory=dict)
    """What a known source could not report, and why: see `elements`."""
    worked_out: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What several readers would otherwise work out anew from the same, immutable snapshot."""
    _config_index: dict[ConfigKey, ConfigValue] = field(default_factory=dict, init=False, repr=False, compare=False)

    def source(self, name: str) -> Source | None:
        """The source of that name, or None if the snapshot does not speak of it."""
        return next((s for s in self.sources if s.name == name), None)

    def broker(self, broker_id: int) -> Broker | None:
        return next((b for b in self.brokers or () if b.id == broker_id), None)

    def controllers_apart(self) -> tuple[Voter, ...]:
        """KRaft controllers that are no brokers; empty while it is not known who the brokers are."""
        if self.cluster.mode is not Mode.KRAFT or self.quorum is None or self.brokers is None:
            return ()
        return tuple(v for v in self.quorum.voters if self.broker(v.id) is None)

    def pod_of(self, node: int) -> Pod | None:
        """The Pod of a broker, or of a controller that is none."""
        broker = self.broker(node)
        if broker is not None:
            return broker.pod
        return next((v.pod for v in self.controllers_apart() if v.id == node), None)

    def every_pod(self) -> Iterator[Pod]:
        """Of the brokers, of the controllers that are none, and those that have not answered which of them they run."""
        yield from (b.pod for b in self.brokers or () if b.pod is not None)
        yield from (v.pod for v in self.controllers_apart() if v.pod is not None)
        yield from (*self.unplaced, *self.unplaced_controllers)

    def without_pod(self, node: int) -> bool:
        """Whether no Pod runs the broker, or the controller that is none; False, too, while that is not known."""
        source = self.source("kubernetes")
        return (source is None or source.known) and not self.unplaced and self.pod_of(node) is None

    def rows(self, wanted: set[TopicPartition] | None = None) -> Iterator[PartitionRow]:
        """Partitions as rows: all of them, or only `wanted`. Nothing when partitions are not known."""
        if self.partitions is None:
            return
        table = self.partitions
        if wanted is not None and table.num_rows > FEW:
            topics = pa.array(sorted({tp.topic for tp in wanted}), pa.string())
            table = table.filter(pc.is_in(table["topic"], value_set=topics))
            numbers = pa.array(sorted({tp.partition for tp in wanted}), pa.int32())
            table = table.filter(pc.is_in(table["partition"], value_set=numbers))
        columns: list[list[Any]] = [table[name].to_pylist() for name in _OF_A_ROW]
        for row in zip(*columns, strict=True):
            if wanted is None or row[:2] in wanted:
                yield PartitionRow(*row[:4], *map(_ids, row[4:8]), *row[8:])

    def config(self, resource_type: str, resource: str, name: str) -> ConfigValue | None:
        """One setting, or None when it is not set (or was not read: ask `elements.settings_unread` first)."""
        if not self._config_index and self.configs is not None:
            # A cache of what the immutable table already says; filled once, never observable from outside.
            self._config_index.update(
                ((r["resourceType"], r["resource"], r["name"]), ConfigValue(r["value"], bool(r["dynamic"])))
                for r in self.configs.to_pylist()
            )
        return self._config_index.get((resource_type, resource, name))


def _ids(values: list[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)
