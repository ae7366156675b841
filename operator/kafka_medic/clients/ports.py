"""What the shell needs of a Kafka cluster, free of any client library.

Every read answers in full, with a `ReadFailed` in the place of each element that could not be read, or raises one. An
adapter never turns an error into an empty list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from kafka_medic.clients.answers import Groups, LogDirs
from kafka_medic.clients.destinations import Destinations
from kafka_medic.clients.failures import ReadFailed
from kafka_medic.cluster.groups import Committed, GroupMember
from kafka_medic.cluster.snapshot import STATES_SCHEMA, ConfigValue, Quorum, TopicPartition

LONGEST_TIMEOUT = 60.0
"""Seconds for one answer at most, whatever `probes.timeout` allows."""


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """Whom to trust and what to show of oneself, as PEM text. Without `ca`, the system's certificates are trusted."""

    ca: str | None = field(default=None, repr=False)
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """Where tokens come from: the client credentials grant of RFC 6749, section 4.4."""

    token_endpoint: str
    client_id: str = field(repr=False)
    client_secret: str = field(repr=False)
    scope: str | None = None
    ca: str | None = field(default=None, repr=False)
    destinations: Destinations | None = None


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach a cluster. Secrets stay out of repr and so out of logs and tracebacks. Two are equal only if their
    secrets are, so a rotated one makes another Connection."""

    bootstrap_servers: str
    protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    sasl_username: str | None = field(default=None, repr=False)
    sasl_password: str | None = field(default=None, repr=False)
    oauth: OAuthClient | None = None
    tls: TlsMaterial = TlsMaterial()
    timeout_seconds: float = 5.0
    destinations: Destinations | None = None
    """Where it may lead; None: anywhere, as for a person's own command."""

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")


@dataclass(frozen=True, slots=True)
class EnsembleConnection:
    """How to reach a ZooKeeper ensemble. `connect`: host:port,host:port[/chroot]. No `tls`: in the clear."""

    connect: str
    tls: TlsMaterial | None = None
    timeout_seconds: float = 5.0
    destinations: Destinations | None = None


Address = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True)
class Node:
    """A registered broker, as the cluster announces it."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """Who is registered. `controller` is only meaningful with ZooKeeper: KRaft brokers answer a random live broker."""

    cluster_id: str | None
    nodes: tuple[Node, ...]
    controller: int | None


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition as one broker sees it; `leader` -1 when it sees none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    topic_id: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BrokerView:
    """One broker's own answer to a metadata request. `states`, with STATES_SCHEMA, is None when not asked for.
    `covers`: the topics that it was asked about, None for all; rows of `states` outside them are not its words."""

    broker: int
    members: tuple[int, ...]
    controller: int | None
    states: pa.Table | None = None
    covers: frozenset[str] | None = None

    @classmethod
    def of(
        cls, broker: int, members: Iterable[int], controller: int | None, partitions: Iterable[PartitionState]
    ) -> BrokerView:
        """From single partitions."""
        rows = tuple(partitions)
        names = ("topic", "partition", "leader", "leader_epoch", "replicas", "isr", "topic_id")
        columns = [[getattr(row, name) for row in rows] for name in names]
        return cls(broker, tuple(members), controller, pa.table(columns, schema=STATES_SCHEMA))

    @property
    def partitions(self) -> Iterator[PartitionState]:
        """Single partitions, for those who look at a handful."""
        for row in self.states.to_pylist() if self.states is not None else ():
            topic, number, leader, epoch, replicas, isr, topic_id = row.values()
            yield PartitionState(topic, number, leader, epoch, tuple(replicas), tuple(isr), topic_id)


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment in flight. `replicas` is the whole set at the moment, additions and removals included."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """Set `name` on a TOPIC, a BROKER or, without a resource's name, all BROKERs; None deletes the dynamic value."""

    resource_type: str
    resource: str
    name: str
    value: str | None


MaySend = Callable[[], bool]
"""Asked right before each request of a write that needs several."""


def always() -> bool:
    """For who writes alone."""
    return True


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be made, with the replicas of each partition, the preferred leader first."""

    name: str
    assignment: tuple[tuple[int, ...], ...]
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record as it stands in a log. `timestamp_ms`: as the record has it, -1 when it has none."""

    tp: TopicPartition
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class OwnRecord:
    """A record for a topic of our own."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class PodAddress:
    """Where to ask which broker a Pod runs. `hosts`: names by which brokers advertise themselves, the likeliest first;
    with TLS the Pod's certificate has to be for one of them, since it is hardly ever for its IP."""

    ip: str
    ports: tuple[int, ...]
    hosts: tuple[str, ...]


class KafkaReads(Protocol):
    """Reading. Each method has the connection's timeout as its deadline, however many brokers it asks and however many
    of them hang, and raises ReadFailed. Several may be called at the same time."""

    def describe_cluster(self) -> ClusterDescription: ...

    def views(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        """Ask each broker alone; the answer of one never stands for another."""

    def memberships(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        """The same without partitions: small however many there are."""

    def slices(self, topics: Mapping[int, Sequence[str]]) -> Mapping[int, BrokerView | ReadFailed]:
        """By broker, its own answer about these topics. A topic that it does not know has no rows, and is not made."""

    def unnamed_views(self, brokers: Mapping[int, Sequence[Address]]) -> Mapping[int, BrokerView | ReadFailed]:
        """The view of brokers that the cluster does not name, each looked for at these addresses and among the
        bootstrap servers. Whoever answers has shown that it is that broker; `own_log_ends` then knows it too."""

    def identities(self, pods: Mapping[int, PodAddress], ids: Sequence[int]) -> Mapping[int, int | ReadFailed]:
        """Which broker or KRaft controller answers at the own address of each Pod; the key is the id that the Pod is
        said to have, or a number below 0 where nothing says it. `ids`: all there are. One that answers has shown that
        it is that one. Takes a short time at most, and a Pod that does not answer fails alone."""

    def reassignments(self) -> Mapping[TopicPartition, Reassignment]: ...

    def topic_configs(
        self, topics: Sequence[str], among: Sequence[int] | None = None, names: Sequence[str] | None = None
    ) -> Mapping[str, Mapping[str, ConfigValue] | ReadFailed]:
        """As one of the brokers in `among` (None: any) has them. A stale broker has old values, also of topics that are
        gone. `names`: which settings; None: all, of which each topic has some 30."""

    def broker_configs(
        self, brokers: Sequence[int], names: Sequence[str] | None = None
    ) -> Mapping[int, Mapping[str, ConfigValue] | ReadFailed]: ...

    def cluster_configs(self, among: Sequence[int] | None = None) -> Mapping[str, ConfigValue]:
        """What is set at run time for all brokers (KIP-226), as one of these has it."""

    def log_dirs(self, brokers: Sequence[int]) -> Mapping[int, LogDirs | ReadFailed]: ...

    def log_bounds(self, led: pa.Table) -> Mapping[int, pa.Table | ReadFailed]:
        """BOUNDS_SCHEMA, by leader, from these leaders themselves: a library finds leaders by any broker, which may be
        stale. `led` has LED_SCHEMA, with one row a partition at most. A partition that its leader does not serve (yet)
        is left out, as is one that the leader leads under another epoch than in `led`: then it is stale, or the caller
        is."""

    def own_log_ends(self, broker: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Of that very broker's own replicas, past the high watermark, whoever leads; those that it can report."""

    def epoch_ends(self, broker: int, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Where that epoch ends in the log of `broker`, which has to lead (KIP-101); those that it can tell."""

    def read_log(self, broker: int, tp: TopicPartition, start: int, end: int) -> tuple[Sequence[LogRecord], int]:
        """Some records of that very broker's own log from `start` up to `end`, past the high watermark too, and the
        offset to go on from, which is past `start`."""

    def read_topic(self, topic: str, partition: int) -> Iterable[LogRecord]:
        """A whole partition, as its leader has it."""

    def groups(self, wanted: Callable[[str], bool], brokers: Sequence[int] | None = None) -> Groups:
        """State and committed offsets of the groups whose name is `wanted`, each from the broker that lists it.
        `brokers`: whose groups; None: of all that the cluster names."""

    def group_members(self, groups: Sequence[str]) -> Mapping[str, Sequence[GroupMember]]:
        """Who is in them, by either protocol (KIP-848). A group that cannot tell it is left out."""

    def unsettled(self, group: str) -> Sequence[TopicPartition]:
        """Partitions of which an open transaction is to commit another offset for the group (KIP-447)."""

    def offsets_at(self, partitions: Sequence[TopicPartition], ms: int) -> Mapping[TopicPartition, int | None]:
        """The first offset written at that time (milliseconds since 1970) or later; None where nothing was. What could
        not be read is left out."""

    def quorum(self) -> Quorum: ...

    def version(self) -> str | None: ...


class KafkaWrites(Protocol):
    """Writing. Every method is idempotent: sent twice, it ends as sent once. Raises WriteFailed."""

    def append(self, topic: str, partition: int, records: Iterable[OwnRecord]) -> int:
        """Written and acknowledged by all in sync; how many. Alone not idempotent: ask first what is there."""

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, str]:
        """Start (or, with None, cancel) reassignments. Answers the refused ones with the broker's reason."""

    def alter_log_dirs(self, broker: int, targets: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, str]:
        """Have the broker move its replicas of these partitions to these log directories (KIP-113). A replica that is
        there stays, and one that is being moved elsewhere stays where it is. Answers the refused ones with the broker's
        reason."""

    def alter_configs(self, changes: Sequence[ConfigChange], may_send: MaySend = always) -> None:
        """One request for all topics and one for each broker; what is left when `may_send` says no is not sent."""

    def create_topic(self, topic: NewTopic) -> None:
        """A topic of that name that is there already is left as it is, whatever it looks like."""

    def add_partitions(self, topic: str, total: int, assignment: Sequence[Sequence[int]]) -> None:
        """Raise the number of partitions to `total`, the new ones with these replicas; what has as many is left."""

    def elect_preferred(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, str]:
        """Make each partition's first replica its leader. Answers those not elected with the broker's reason."""

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> Mapping[TopicPartition, str]:
        """Commit for a group without members, which its coordinator insists on. Answers the refused ones and why."""


class Kafka(KafkaReads, KafkaWrites, Protocol):
    """Both sides, as the real adapter and the tests' fake offer them."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Delivered:
    """The delivery report of a record that every in-sync replica has."""

    partition: int
    value: bytes
    offset: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Undelivered:
    """The delivery report of a record that was given up on; whether it was written is not known. `refused`: the broker
    answered that the operator has no right to write."""

    partition: int
    value: bytes
    error: str
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Returned:
    """A committed record, read back."""

    partition: int
    offset: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Unread:
    """A partition is not read any more until it is followed anew. `refused`: the operator has no right to read."""

    partition: int
    error: str
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Broken:
    """The client will send nothing more (librdkafka: a fatal error). Close it and make another."""

    error: str


CanaryEvent = Delivered | Undelivered | Returned | Unread | Broken


class CanaryClient(Protocol):
    """A producer and a reader of one topic. Not shared between threads."""

    def send(self, partition: int, value: bytes) -> bool:
        """Queue one record; exactly one delivery report follows in time. False: the queue is full, it was not taken."""

    def follow(self, partition: int, offset: int) -> None:
        """Read the partition from that offset on."""

    def forget(self, partition: int) -> None:
        """Read the partition no more."""

    def poll(self, seconds: float) -> Sequence[CanaryEvent]:
        """What has happened; waits so long at most, and less once a record came back."""

    def close(self) -> None:
        """Give up what is queued, and every thread and connection."""
