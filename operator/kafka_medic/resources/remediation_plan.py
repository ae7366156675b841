"""Remediation.status.plan: what the run would do, and what that costs.

A plan is its header and the parts that its actions need. In the document the fields of all stand side by side.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Self, TypeAlias, TypeVar, cast, get_args

from pydantic import Field, GetCoreSchemaHandler, StringConstraints, create_model
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from .base import Model
from .remediation_plan_part import Digested, Part, paths
from .scalars import (
    BigCount,
    BrokerId,
    ConfigName,
    ConfigValue,
    Count,
    Digest,
    Flag,
    LineText,
    ObjectName,
    ShortText,
    StepName,
    SummaryText,
    Timestamp,
    TopicName,
    Uid,
    Uri,
)
from .vocabulary import ActionName, WorkloadKind

MAX_INLINE_CHANGES = 500
"""Past this many changes a plan carries an artifact instead."""
MAX_RESTARTS = 180
"""Of one run: its journal holds 200 entries, one for each restart."""
MAX_STATIC = 200
"""Lines that say which setting of which brokers is to be changed in their configuration."""
MAX_ELECTED = 20_000
"""Partitions whose leader one plan would change."""
MAX_ELECTED_AT_ONCE = 5_000
"""In one request: half of the records that a KRaft controller writes in one go."""
MAX_METADATA = 4096
"""Characters that one commit may carry: Kafka's own `offset.metadata.max.bytes`."""
MAX_ALL_METADATA = 200_000
"""Of all commits that one plan would overwrite, and so holds."""
RackName = Annotated[str, StringConstraints(max_length=64)]
GroupName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
CommitMetadata = Annotated[str, StringConstraints(max_length=MAX_METADATA)]
LogDirPath = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Replicas = Annotated[tuple[BrokerId, ...], Field(max_length=32)]


class PartitionChange(Model):
    """Replicas of one partition, before and after."""

    topic: TopicName = Field(description="The topic.")
    partition: Count = Field(description="The partition.")
    replicas_before: Replicas = Field(description="Broker ids of the replicas now, the preferred leader first.")
    replicas: Replicas = Field(description="Broker ids of the replicas after the run, the preferred leader first.")
    wave: Count = Field(default=0, description="Number of the wave that copies the partition, from 0.")
    size_bytes: BigCount | None = Field(default=None, description="Size of the partition, in bytes. Absent: unknown.")


class Artifact(Model):
    """File of a plan that is too large for the object."""

    uri: Uri = Field(description="URI of the file.")
    sha256: Annotated[str, StringConstraints(min_length=64, max_length=64, pattern=r"^[a-f0-9]{64}$")] = Field(
        description="SHA-256 of the file."
    )


MAX_REPLACED = 16
"""Brokers that one plan replaces."""
MAX_LOADS = 1000
"""Brokers whose load a plan shows."""
Loads = Annotated[tuple[Count, ...], Field(max_length=MAX_LOADS)]


class BrokerLoads(Model):
    """Replicas and leaders of each broker before and after, over the whole cluster. All lists have the same length."""

    brokers: Annotated[tuple[BrokerId, ...], Field(max_length=MAX_LOADS)] = Field(description="Broker ids.")
    racks: Annotated[tuple[RackName, ...], Field(max_length=MAX_LOADS)] = Field(
        description="Rack of each broker. Empty: unknown."
    )
    replicas_before: Loads = Field(description="Number of replicas on each broker now.")
    replicas_after: Loads = Field(description="Number of replicas on each broker after the run.")
    leaders_before: Loads = Field(description="Number of partitions with each broker as first replica now.")
    leaders_after: Loads = Field(description="Number of partitions with each broker as first replica after the run.")


class ReplicaMoves(Part):
    """Partitions that get replicas, and the throttle of the copies."""

    replication_factor: Annotated[int, Field(ge=1, le=32, strict=True)] | None = Field(
        default=None, description="Replicas of each changed partition after the run."
    )
    lower_bound_moves: Count | None = Field(default=None, description="Lower bound of replicas to copy, for any plan.")
    bytes_to_move: BigCount | None = Field(
        default=None, description="Number of bytes that would be copied. Absent: unknown."
    )
    throttle_bytes_per_second: BigCount | None = Field(
        default=None, description="Limit on each broker's replication traffic during the run, in bytes per second."
    )
    waves: Count | None = Field(default=None, description="Number of waves, that is batches of copies.")
    changes: Annotated[tuple[PartitionChange, ...], Field(max_length=MAX_INLINE_CHANGES)] = Field(
        default=(), description="Partitions that would change. Empty if `artifact` is set."
    )
    artifact: Artifact | None = Field(
        default=None, description="File with the changes, if they are too many for the object. Absent: see `changes`."
    )
    loads: BrokerLoads | None = Field(
        default=None,
        description="Replicas and leaders of each broker before and after. Absent: more than 1,000 brokers.",
    )
    replaced_brokers: Annotated[tuple[BrokerId, ...], Field(max_length=MAX_REPLACED)] | None = Field(
        default=None,
        description="Brokers that are down and lose their replicas of the changed partitions. Absent: no replica is "
        "removed.",
    )

    digested: ClassVar = Digested(
        always=paths(
            "replicationFactor throttleBytesPerSecond changes.topic changes.partition changes.replicasBefore "
            "changes.replicas changes.wave artifact.sha256"
        ),
        left_out=paths(
            # Totals: nothing is done by them. Other racks than these only hold effects back.
            "lowerBoundMoves bytesToMove waves "
            "loads.brokers loads.racks loads.replicasBefore loads.replicasAfter loads.leadersBefore loads.leadersAfter "
            # The hash decides what the file holds.
            "artifact.uri"
        ),
        where_any=paths("changes.sizeBytes loads replacedBrokers"),
        left_out_before=paths("changes.sizeBytes"),
        shapes={"artifact": lambda artifact: artifact.sha256},
    )

    @property
    def replaced(self) -> tuple[BrokerId, ...]:
        return self.replaced_brokers or ()

    def topics(self) -> Iterator[str]:
        yield from (c.topic for c in self.changes)

    def touched(self) -> Iterator[tuple[str, int]]:
        yield from ((c.topic, c.partition) for c in self.changes)

    def without(self, topics: Collection[str]) -> Self:
        return self.model_copy(update={"changes": tuple(c for c in self.changes if c.topic not in topics)})


class ReplicaRemovals(Part):
    """Partitions that lose replicas once others have taken their place."""

    removals: Annotated[tuple[PartitionChange, ...], Field(max_length=MAX_INLINE_CHANGES)] | None = Field(
        default=None,
        description="Partitions that lose replicas once every replica that remains is in sync. Absent: none.",
    )
    emptied_brokers: Annotated[tuple[BrokerId, ...], Field(max_length=MAX_REPLACED)] | None = Field(
        default=None,
        description="Brokers that are to hold no replica afterwards. While the Remediation exists, the operator "
        "proposes no run that fills them. Absent: none.",
    )

    digested: ClassVar = Digested(
        always=paths("removals.topic removals.partition removals.replicasBefore removals.replicas removals.wave"),
        left_out=paths("removals.sizeBytes"),
        where_any=paths("removals emptiedBrokers"),
    )

    def each(self) -> tuple[PartitionChange, ...]:
        return self.removals or ()

    @property
    def emptied(self) -> tuple[BrokerId, ...]:
        return self.emptied_brokers or ()

    def topics(self) -> Iterator[str]:
        yield from (c.topic for c in self.each())

    def touched(self) -> Iterator[tuple[str, int]]:
        yield from ((c.topic, c.partition) for c in self.each())

    def without(self, topics: Collection[str]) -> Self:
        return self.model_copy(
            update={"removals": tuple(c for c in self.removals or () if c.topic not in topics) or None}
        )


class LogDirMove(Model):
    """A replica that moves to another log directory of its broker."""

    broker: BrokerId = Field(description="Broker of the replica.")
    topic: TopicName = Field(description="The topic.")
    partition: Count = Field(description="The partition.")
    source: LogDirPath = Field(description="Log directory of the replica now.")
    target: LogDirPath = Field(description="Log directory of the replica after the run.")
    batch: Count = Field(description="Number of the batch that moves the replica, from 0.")
    size_bytes: BigCount = Field(description="Size of the replica, in bytes.")


class LogDirMoves(Part):
    """Replicas that move between the log directories of their brokers, and the throttle of the copies."""

    log_dir_moves: Annotated[tuple[LogDirMove, ...], Field(max_length=MAX_INLINE_CHANGES)] | None = Field(
        default=None, description="Replicas that move to another log directory of their broker. Absent: none."
    )
    log_dir_throttle_bytes_per_second: BigCount | None = Field(
        default=None,
        description="Limit on what each broker copies between its log directories, in bytes per second. Absent: none.",
    )

    digested: ClassVar = Digested(
        always=paths(
            "logDirMoves.broker logDirMoves.topic logDirMoves.partition logDirMoves.source logDirMoves.target "
            "logDirMoves.batch logDirMoves.sizeBytes"
        ),
        where_any=paths("logDirMoves logDirThrottleBytesPerSecond"),
    )

    def each(self) -> tuple[LogDirMove, ...]:
        return self.log_dir_moves or ()

    @property
    def brokers(self) -> tuple[BrokerId, ...]:
        return tuple(sorted({m.broker for m in self.each()}))

    def topics(self) -> Iterator[str]:
        yield from (m.topic for m in self.each())

    def touched(self) -> Iterator[tuple[str, int]]:
        yield from ((m.topic, m.partition) for m in self.each())

    def without(self, topics: Collection[str]) -> Self:
        return self.model_copy(
            update={"log_dir_moves": tuple(c for c in self.log_dir_moves or () if c.topic not in topics) or None}
        )


class Reorders(Part):
    """Partitions whose replicas change their order."""

    reorders: Annotated[tuple[PartitionChange, ...], Field(max_length=MAX_INLINE_CHANGES)] = Field(
        default=(), description="Partitions whose replicas would change only their order."
    )
    reordered_for_good: Flag | None = Field(
        default=None,
        description="True: the new orders are to stay. Absent: undrain-broker returns them once maintenance is over.",
    )

    digested: ClassVar = Digested(
        always=paths("reorders.topic reorders.partition reorders.replicasBefore reorders.replicas"),
        where_any=paths("reorderedForGood"),
        # No data moves with a new order, so neither is used.
        left_out=paths("reorders.wave reorders.sizeBytes"),
    )

    def topics(self) -> Iterator[str]:
        yield from (c.topic for c in self.reorders)

    def touched(self) -> Iterator[tuple[str, int]]:
        yield from ((c.topic, c.partition) for c in self.reorders)

    def without(self, topics: Collection[str]) -> Self:
        return self.model_copy(update={"reorders": tuple(c for c in self.reorders if c.topic not in topics)})


class PreferredElection(Model):
    """Partitions of one topic that their first replica would lead again."""

    broker: BrokerId = Field(description="Broker that would lead the partitions.")
    topic: TopicName = Field(description="The topic.")
    partitions: Annotated[tuple[Count, ...], Field(max_length=MAX_ELECTED)] = Field(description="The partitions.")


class Elections(Part):
    """Elections of preferred leaders."""

    elections: Annotated[tuple[PreferredElection, ...], Field(max_length=MAX_INLINE_CHANGES)] = Field(
        default=(), description="Elections of preferred leaders, in this order."
    )

    digested: ClassVar = Digested(
        always=paths("elections.broker elections.topic elections.partitions"),
    )

    def topics(self) -> Iterator[str]:
        yield from (e.topic for e in self.elections if e.topic)

    def touched(self) -> Iterator[tuple[str, int]]:
        yield from ((e.topic, number) for e in self.elections if e.topic for number in e.partitions)

    def without(self, topics: Collection[str]) -> Self:
        """Under no topic, so that each partition keeps its place: the journal names elections by their places."""
        left = (e.model_copy(update={"topic": ""}) if e.topic in topics else e for e in self.elections)
        return self.model_copy(update={"elections": tuple(left)})


class ConfigResourceType(StrEnum):
    """Type of the resource whose configuration changes."""

    TOPIC = "TOPIC"
    BROKER = "BROKER"


class ConfigChange(Model):
    """One configuration value, before and after."""

    resource_type: ConfigResourceType = Field(description="Type of the resource whose configuration changes.")
    resource_name: Annotated[str, StringConstraints(max_length=249)] = Field(
        description="Topic name or broker id. Empty: the default of all brokers."
    )
    name: ConfigName = Field(description="Name of the setting.")
    before: ConfigValue | None = Field(default=None, description="Value now. Absent: not set.")
    after: ConfigValue | None = Field(
        default=None, description="Value after the run. Absent: the run removes the setting."
    )


class SettingChanges(Part):
    """Settings that change at run time."""

    config_changes: Annotated[tuple[ConfigChange, ...], Field(max_length=MAX_INLINE_CHANGES)] = Field(
        default=(), description="Configuration values that would change."
    )

    digested: ClassVar = Digested(
        always=paths(
            "configChanges.resourceType configChanges.resourceName configChanges.name configChanges.before "
            "configChanges.after"
        ),
    )

    def topics(self) -> Iterator[str]:
        yield from (c.resource_name for c in self.config_changes if c.resource_type is ConfigResourceType.TOPIC)

    def touched(self) -> Iterator[tuple[str, int]]:
        yield from ((f"{c.name} of {c.resource_type.value} {c.resource_name}", 0) for c in self.config_changes)

    def without(self, topics: Collection[str]) -> Self:
        left = (
            c
            for c in self.config_changes
            if c.resource_type is not ConfigResourceType.TOPIC or c.resource_name not in topics
        )
        return self.model_copy(update={"config_changes": tuple(left)})


class EditedBy(StrEnum):
    """Who pauses, edits and resumes an object that describes a topic."""

    OPERATOR = "Operator"
    PERSON = "Person"


class OwnerEdit(Model):
    """One value of the owner's object, before and after."""

    name: ConfigName = Field(description="`replicas`, or the name of a setting.")
    before: ConfigValue | None = Field(default=None, description="Value in the object now. Absent: not set.")
    after: ConfigValue = Field(
        description="Value that the object must have before its own operator reconciles it again."
    )


class OwnedTopic(Model):
    """A topic of the plan that an object of another operator describes. The object stays paused until it matches the
    plan."""

    topic: TopicName = Field(description="The topic.")
    kind: ShortText = Field(description="Kind of the object.")
    name: ObjectName = Field(description="Name of the object.")
    uid: Uid = Field(description="uid of the object. The run does not touch another object of the same name.")
    by: EditedBy = Field(description="Who pauses, edits and resumes the object.")
    paused: Flag = Field(
        default=False, description="Whether the object was paused before the run. It then stays paused."
    )
    reason: LineText = Field(default="", description="Why a person must edit the object.")
    edits: Annotated[tuple[OwnerEdit, ...], Field(max_length=8)] = Field(
        default=(), description="Edits that make the object match the plan."
    )


class OwnedTopics(Part):
    """Topics that objects of other operators describe."""

    owned_topics: Annotated[tuple[OwnedTopic, ...], Field(max_length=MAX_INLINE_CHANGES)] | None = Field(
        default=None,
        description="Topics of the plan that objects of other operators describe, with the edits. Absent: none.",
    )

    digested: ClassVar = Digested(
        always=paths(
            "ownedTopics.topic ownedTopics.kind ownedTopics.name ownedTopics.uid ownedTopics.by ownedTopics.paused "
            "ownedTopics.edits.name ownedTopics.edits.before ownedTopics.edits.after"
        ),
        # Prose.
        left_out=paths("ownedTopics.reason"),
        where_any=paths("ownedTopics"),
    )

    def each(self) -> tuple[OwnedTopic, ...]:
        return self.owned_topics or ()

    def without(self, topics: Collection[str]) -> Self:
        """An object that was paused is to be resumed all the same."""
        left = (o.model_copy(update={"edits": ()}) if o.topic in topics else o for o in self.each())
        return self.model_copy(update={"owned_topics": tuple(left) or None})


class BrokerRestart(Model):
    """Restart of one broker, in exactly the Pod where it runs now."""

    broker: BrokerId = Field(description="Id of the broker.")
    pod: ObjectName = Field(description="Name of the broker's Pod.")
    pod_uid: Uid = Field(description="uid of the Pod. The run does not restart another Pod of the same name.")
    node: ObjectName | None = Field(default=None, description="Name of the Pod's node. Absent: unknown.")
    stale: Flag = Field(
        default=False,
        description="Whether the broker's view of the cluster is stale, and the restart must renew it.",
    )
    reason: LineText = Field(default="", description="Why the broker has this place in the order, and what to expect.")


class StaticSetting(Model):
    """A setting that brokers read only at start. The owner of their configuration changes it; the restart makes the
    brokers read it."""

    name: ConfigName = Field(description="Name of the setting.")
    before: ConfigValue = Field(description="Value that these brokers use now.")
    after: ConfigValue = Field(description="Lowest value that these brokers must read at their restart.")
    brokers: Annotated[tuple[BrokerId, ...], Field(max_length=MAX_RESTARTS)] = Field(description="Ids of the brokers.")


class Drain(Model):
    """Partitions of one topic that a broker leads, with their replica order during its restart. After the restart the
    run restores the earlier order. The first replica of each order becomes leader."""

    broker: BrokerId = Field(description="Broker that leads the partitions now, and not during its restart.")
    topic: TopicName = Field(description="The topic.")
    partitions: Annotated[tuple[Count, ...], Field(max_length=MAX_ELECTED_AT_ONCE)] = Field(
        description="The partitions."
    )
    replicas_before: Replicas = Field(
        description="Replica order now and after the restart. The first replica leads afterwards."
    )
    replicas: Replicas = Field(description="Replica order during the restart. The first replica takes over.")


class Restarts(Part):
    """Brokers that restart, the settings that they read then, and the leaders meanwhile."""

    restarts: Annotated[tuple[BrokerRestart, ...], Field(max_length=MAX_RESTARTS)] = Field(
        default=(), description="Brokers that the run would restart, in this order, the active controller last."
    )
    static_settings: Annotated[tuple[StaticSetting, ...], Field(max_length=MAX_STATIC)] = Field(
        default=(),
        description="Settings that the owner of the brokers' configuration must change before the restarts.",
    )
    drains: Annotated[tuple[Drain, ...], Field(max_length=MAX_INLINE_CHANGES)] = Field(
        default=(), description="Partitions that get another leader while their own leader restarts."
    )

    digested: ClassVar = Digested(
        always=paths(
            "restarts.broker restarts.pod restarts.podUid restarts.stale "
            "staticSettings.name staticSettings.before staticSettings.after staticSettings.brokers "
            "drains.broker drains.topic drains.partitions drains.replicasBefore drains.replicas"
        ),
        # Prose, and where the Pod runs: nothing is done by them.
        left_out=paths("restarts.node restarts.reason"),
        where_any=paths("staticSettings drains"),
    )

    def topics(self) -> Iterator[str]:
        yield from (d.topic for d in self.drains)

    def touched(self) -> Iterator[tuple[str, int]]:
        yield from (("", r.broker) for r in self.restarts)


class Rescue(Model):
    """Records that only a stale broker's log holds, and that its restart would discard."""

    broker: BrokerId = Field(description="Id of the stale broker.")
    topic: TopicName = Field(description="The topic.")
    partition: Count = Field(description="The partition.")
    epoch: Count = Field(description="Leader epoch in which the stale broker considers itself the leader.")
    from_offset: BigCount = Field(description="Offset at which the broker's log diverges from the cluster's log.")
    to_offset: BigCount = Field(description="Log end offset of the broker when the operator made the plan.")


class Rescues(Part):
    """Records that the run saves before a restart discards them."""

    rescues: Annotated[tuple[Rescue, ...], Field(max_length=MAX_INLINE_CHANGES)] = Field(
        default=(), description="Records that the run saves before it restarts the brokers that hold them."
    )
    rescue_topic: TopicName | None = Field(
        default=None, description="Topic that receives the saved records. Absent: no records to save."
    )

    digested: ClassVar = Digested(
        always=paths("rescueTopic rescues.broker rescues.topic rescues.partition rescues.epoch rescues.fromOffset"),
        # A broker's log may grow until the records are saved: all of them are.
        left_out=paths("rescues.toOffset"),
        names={"rescues.fromOffset": "from"},
    )


class Resignation(Model):
    """Move of a ZooKeeper cluster's controller to another broker, without a restart."""

    broker: BrokerId = Field(description="Id of the broker that is registered as controller.")
    epoch: Count = Field(description="Controller epoch. The run does not touch a controller with a later epoch.")


class Resignations(Part):
    """The controller that moves without a restart."""

    resignations: Annotated[tuple[Resignation, ...], Field(max_length=1)] = Field(
        default=(), description="Controller that would move to another broker."
    )

    digested: ClassVar = Digested(
        always=paths("resignations.broker resignations.epoch"),
        where_any=paths("resignations"),
        shapes={"resignations": lambda resignations: [[r.broker, r.epoch] for r in resignations]},
    )

    def touched(self) -> Iterator[tuple[str, int]]:
        yield from (("", r.broker) for r in self.resignations)


class OffsetChange(Model):
    """One committed offset, before and after. The values before are the backup: undo-offset-reset restores exactly
    them."""

    group: GroupName = Field(description="The consumer group.")
    topic: TopicName = Field(description="The topic.")
    partition: Count = Field(description="The partition.")
    topic_id: ShortText | None = Field(default=None, description="Id of the topic (KIP-516). Absent: unknown.")
    before: BigCount = Field(description="Committed offset now.")
    before_epoch: Count | None = Field(default=None, description="Leader epoch of the commit now. Absent: none.")
    before_metadata: CommitMetadata = Field(default="", description="Metadata of the commit now.")
    after: BigCount = Field(description="Committed offset after the run.")
    after_epoch: Count | None = Field(
        default=None, description="Leader epoch of the commit after the run. Absent: none."
    )
    after_metadata: CommitMetadata = Field(default="", description="Metadata of the commit after the run.")
    log_start: BigCount | None = Field(default=None, description="Log start offset. Absent: unknown.")
    log_end: BigCount | None = Field(default=None, description="Log end offset. Absent: unknown.")
    skipped: BigCount = Field(default=0, description="Number of readable offsets that the group would skip.")
    read_again: BigCount = Field(default=0, description="Upper bound of offsets that the group would read again.")
    reason: LineText = Field(default="", description="Why the plan chose this offset.")


class OffsetChanges(Part):
    """Committed offsets that change. Each names the id of its topic itself."""

    offsets: Annotated[tuple[OffsetChange, ...], Field(max_length=MAX_INLINE_CHANGES)] = Field(
        default=(), description="Committed offsets that would change, before and after, group by group."
    )

    digested: ClassVar = Digested(
        always=paths(
            "offsets.group offsets.topic offsets.partition offsets.before offsets.beforeMetadata offsets.after "
            "offsets.afterMetadata offsets.skipped offsets.readAgain offsets.reason"
        ),
        where_any=paths("offsets.topicId offsets.beforeEpoch offsets.afterEpoch offsets.logStart offsets.logEnd"),
    )

    def touched(self) -> Iterator[tuple[str, int]]:
        yield from ((f"{o.group} in {o.topic}", o.partition) for o in self.offsets)


class StoppedWorkload(Model):
    """A workload that the run scales to 0 before it sets offsets, and scales back however the run ends."""

    kind: WorkloadKind = Field(description="Kind of the workload, in the Remediation's namespace.")
    name: ObjectName = Field(description="Name of the workload.")
    uid: Uid = Field(description="uid of the workload. The run does not touch another workload of the same name.")
    replicas: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(
        description="Number of replicas before the stop and after the start."
    )


class StoppedConsumers(Part):
    """The consumers that the run stops meanwhile."""

    workload: StoppedWorkload | None = Field(
        default=None, description="Workload that the run stops while it sets the offsets. Absent: none."
    )

    digested: ClassVar = Digested(
        always=paths("workload.kind workload.name workload.uid workload.replicas"),
        where_any=paths("workload"),
    )


AnyPart: TypeAlias = (
    ReplicaMoves
    | Reorders
    | Elections
    | SettingChanges
    | Restarts
    | Rescues
    | Resignations
    | OffsetChanges
    | StoppedConsumers
    | OwnedTopics
    | ReplicaRemovals
    | LogDirMoves
)
PARTS: tuple[type[Part], ...] = get_args(AnyPart)
PartOfKind = TypeVar("PartOfKind", bound=Part)


class PlanStep(Model):
    """What one step of the playbook would do."""

    name: StepName = Field(description="The step's name in the playbook.")
    action: ActionName = Field(description="The step's action.")
    description: LineText = Field(default="", description="What the step would do in this run, in one sentence.")


class PlannedTopic(Model):
    """A topic that the plan changes. The run does not touch a topic of the same name with another id."""

    topic: TopicName = Field(description="The topic.")
    id: ShortText = Field(description="Id of the topic (KIP-516).")


class Precondition(Model):
    """An observation from planning that must still hold when the plan runs."""

    name: ShortText = Field(description="Name of the observation.")
    value: LineText = Field(description="Observed value.")


class PlanHeader(Model):
    """The fields that every plan has."""

    digest: Digest = Field(
        description="Digest that an approval names. It covers everything that decides what the run does."
    )
    proposed_at: Timestamp = Field(description="Time when the operator proposed the plan.")
    expires_at: Timestamp = Field(description="Time after which no approval of the plan counts.")
    summary: SummaryText = Field(default="", description="The plan in words, for its approvers.")
    partitions: Count | None = Field(default=None, description="Number of partitions that would change.")
    moves: Count | None = Field(default=None, description="Number of replicas that would be copied.")
    estimated_seconds: BigCount | None = Field(
        default=None, description="Estimated duration, in seconds. Absent: unknown."
    )
    steps: Annotated[tuple[PlanStep, ...], Field(max_length=20)] = Field(
        default=(), description="What each step of the playbook would do."
    )
    topics: Annotated[tuple[PlannedTopic, ...], Field(max_length=MAX_INLINE_CHANGES)] = Field(
        default=(), description="Ids of the topics that would change, as far as brokers report ids."
    )
    preconditions: Annotated[tuple[Precondition, ...], Field(max_length=20)] = Field(
        default=(), description="Observations from planning that must still hold when the plan runs."
    )

    digested: ClassVar = Digested(
        always=paths("steps.name steps.action topics.topic topics.id preconditions.name preconditions.value"),
        # Times, prose and totals: nothing is done by them.
        left_out=paths("digest proposedAt expiresAt summary partitions moves estimatedSeconds steps.description"),
        where_any=paths("topics"),
        shapes={"topics": lambda topics: {t.topic: t.id for t in topics}},
    )


_ORDER = (
    "digest",
    "proposed_at",
    "expires_at",
    "summary",
    "replication_factor",
    "partitions",
    "moves",
    "lower_bound_moves",
    "bytes_to_move",
    "estimated_seconds",
    "throttle_bytes_per_second",
    "waves",
    "steps",
    "changes",
    "config_changes",
    "restarts",
    "static_settings",
    "rescues",
    "reorders",
    "elections",
    "offsets",
    "workload",
    "drains",
    "resignations",
    "rescue_topic",
    "artifact",
    "loads",
    "topics",
    "preconditions",
)
"""In which the document has its fields. Later ones follow in the order of their classes."""


def _document() -> type[Model]:
    """The document's model: the fields of the header and of every part side by side."""
    kinds: tuple[type[Model], ...] = (PlanHeader, *PARTS)
    fields = {name: info for kind in kinds for name, info in kind.model_fields.items()}
    if len(fields) != sum(len(kind.model_fields) for kind in kinds):
        raise TypeError("two parts of a plan have a field of the same name")
    named: dict[str, Any] = {
        name: (fields[name].annotation, fields[name]) for name in dict.fromkeys((*_ORDER, *fields))
    }
    return create_model("PlanDocument", __base__=Model, **named)


_DOCUMENT = _document()


@functools.cache
def _empty(kind: type[PartOfKind]) -> PartOfKind:
    return kind()


def _holding(held: Mapping[type[Part], Part]) -> tuple[Part, ...]:
    return tuple(held[kind] for kind in PARTS if kind in held and held[kind] != _empty(kind))


def _in_parts(checked: tuple[dict[str, Any], Any, set[str]]) -> tuple[dict[str, Any], Any, set[str]]:
    """The document's fields, all of them checked, as the header and its parts."""
    fields, extra, given = checked
    held = {kind: kind.model_construct(**{name: fields[name] for name in kind.model_fields}) for kind in PARTS}
    header = {name: fields[name] for name in PlanHeader.model_fields}
    return header | {"parts": _holding(held)}, extra, given & header.keys() | {"parts"}


def _side_by_side(plan: Plan) -> Model:
    fields = {name: getattr(plan, name) for name in PlanHeader.model_fields}
    for kind in PARTS:
        part = plan.part(kind)
        fields |= {name: getattr(part, name) for name in kind.model_fields}
    return _DOCUMENT.model_construct(**fields)


class Plan(PlanHeader):
    """What the run would do. The digest covers all of it."""

    parts: tuple[AnyPart, ...] = Field(default=(), description="Those that hold something, one of a kind at most.")

    def part(self, kind: type[PartOfKind]) -> PartOfKind:
        """The part of that kind, empty where the plan has none."""
        return next((part for part in self.parts if isinstance(part, kind)), _empty(kind))

    def with_parts(self, *parts: AnyPart) -> Self:
        """The plan with these in place of those of the same kinds."""
        held: dict[type[Part], Part] = {type(part): part for part in (*self.parts, *parts)}
        return self.model_copy(update={"parts": _holding(held)})

    def drained(self) -> tuple[PartitionChange, ...]:
        """Orders of replicas that it changes for the time of a piece of maintenance. Those that come with added
        replicas, or for the sake of traffic, are to stay."""
        orders = self.part(Reorders)
        return () if orders.reordered_for_good or self.part(ReplicaMoves).changes else orders.reorders

    def holders(self) -> frozenset[int]:
        """Brokers that have a replica of some topic of the plan before or after its moves."""
        moves = (*self.part(ReplicaMoves).changes, *self.part(ReplicaRemovals).each(), *self.part(Reorders).reorders)
        return frozenset(broker for c in moves for broker in (*c.replicas_before, *c.replicas))

    def changed_topics(self) -> frozenset[str]:
        """Topics that any of its parts changes."""
        return frozenset(topic for part in self.parts for topic in part.topics())

    def without(self, topics: Collection[str]) -> Self:
        """What is left of the plan once these topics are deleted. Whatever has their names is not the plan's."""
        held = _holding({type(part): part.without(topics) for part in self.parts})
        left = self.model_copy(update={"parts": held})
        named = left.changed_topics()
        kept = tuple(t for t in self.topics if t.topic in named or t.topic not in topics)
        return left.model_copy(update={"topics": kept})

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """For the header and for `with_parts`: pydantic would take a part's field here, and lose it without a word."""
        if strangers := (update or {}).keys() - type(self).model_fields.keys():
            raise TypeError(f"no fields of a plan's header: {sorted(strangers)}")
        return super().model_copy(update=update, deep=deep)

    @classmethod
    def document_fields(cls) -> Mapping[str, FieldInfo]:
        return _DOCUMENT.model_fields

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[Any], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read and written as the document. A plan has its parts only after every field has been checked."""
        reference = handler.generate_schema(_DOCUMENT)
        schema: Any = handler.resolve_ref_schema(reference)
        fields = core_schema.no_info_after_validator_function(_in_parts, schema["schema"])
        written = core_schema.plain_serializer_function_ser_schema(_side_by_side, return_schema=reference)
        own = {key: value for key, value in schema.items() if key != "ref"}
        return cast("CoreSchema", {**own, "cls": cls, "schema": fields, "serialization": written})
