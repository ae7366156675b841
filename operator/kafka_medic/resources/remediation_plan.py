"""Remediation.status.plan: what exactly would be done, and what it costs.

A plan is its header and the parts that its actions need. In the document the fields of all stand side by side.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
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
Replicas = Annotated[tuple[BrokerId, ...], Field(max_length=32)]


class PartitionChange(Model):
    """One partition's replicas, before and after."""

    topic: TopicName = Field(description="The topic.")
    partition: Count = Field(description="The partition.")
    replicas_before: Replicas = Field(description="Broker ids that hold it now, the preferred leader first.")
    replicas: Replicas = Field(description="Broker ids that would hold it: the old ones first, in order.")
    wave: Count = Field(default=0, description="Which wave it moves in, from 0.")
    size_bytes: BigCount | None = Field(default=None, description="Its size. Absent: unknown.")


class Artifact(Model):
    """Where a plan too large for the object lies."""

    uri: Uri = Field(description="Where it lies.")
    sha256: Annotated[str, StringConstraints(min_length=64, max_length=64, pattern=r"^[a-f0-9]{64}$")] = Field(
        description="SHA-256 of its bytes."
    )


MAX_LOADS = 1000
"""Brokers whose load a plan shows."""
Loads = Annotated[tuple[Count, ...], Field(max_length=MAX_LOADS)]


class BrokerLoads(Model):
    """What each broker holds before and after, over the whole cluster. All lists are of the same length."""

    brokers: Annotated[tuple[BrokerId, ...], Field(max_length=MAX_LOADS)] = Field(description="Brokers, by id.")
    racks: Annotated[tuple[RackName, ...], Field(max_length=MAX_LOADS)] = Field(
        description="The rack of each. Empty: not known."
    )
    replicas_before: Loads = Field(description="Replicas that each holds now.")
    replicas_after: Loads = Field(description="Replicas that each would hold.")
    leaders_before: Loads = Field(description="Partitions whose first replica each is now.")
    leaders_after: Loads = Field(description="Partitions whose first replica each would be.")


class ReplicaMoves(Part):
    """Partitions that get replicas, and how fast they are copied."""

    replication_factor: Annotated[int, Field(ge=1, le=32, strict=True)] | None = Field(
        default=None, description="Replicas that each partition would have."
    )
    lower_bound_moves: Count | None = Field(default=None, description="The fewest copies with which it can be done.")
    bytes_to_move: BigCount | None = Field(default=None, description="Bytes that would be copied. Absent: unknown.")
    throttle_bytes_per_second: BigCount | None = Field(
        default=None, description="The bound on each broker's replication traffic while it runs."
    )
    waves: Count | None = Field(default=None, description="How many batches it runs in.")
    changes: Annotated[tuple[PartitionChange, ...], Field(max_length=MAX_INLINE_CHANGES)] = Field(
        default=(), description="Partitions that would change. Empty when there is an artifact."
    )
    artifact: Artifact | None = Field(default=None, description="Where the changes lie when they are too many.")
    loads: BrokerLoads | None = Field(
        default=None, description="What each broker holds before and after. Absent: more than 1,000 brokers."
    )

    digested: ClassVar = Digested(
        always=paths(
            "replicationFactor throttleBytesPerSecond changes.topic changes.partition changes.replicasBefore "
            "changes.replicas changes.wave artifact.sha256"
        ),
        left_out=paths(
            # Totals: nothing is done by them.
            "lowerBoundMoves bytesToMove waves "
            "loads.brokers loads.racks loads.replicasBefore loads.replicasAfter loads.leadersBefore loads.leadersAfter "
            # The hash decides what the file holds.
            "artifact.uri"
        ),
        where_any=paths("changes.sizeBytes loads"),
        left_out_before=paths("changes.sizeBytes"),
        shapes={"artifact": lambda artifact: artifact.sha256},
    )

    def topics(self) -> Iterator[str]:
        yield from (c.topic for c in self.changes)

    def touched(self) -> Iterator[tuple[str, int]]:
        yield from ((c.topic, c.partition) for c in self.changes)


class Reorders(Part):
    """Partitions whose replicas change places."""

    reorders: Annotated[tuple[PartitionChange, ...], Field(max_length=MAX_INLINE_CHANGES)] = Field(
        default=(), description="Partitions whose replicas would stand in another order, and nothing else change."
    )

    digested: ClassVar = Digested(
        always=paths("reorders.topic reorders.partition reorders.replicasBefore reorders.replicas"),
        # No data moves with a new order, so neither is used.
        left_out=paths("reorders.wave reorders.sizeBytes"),
    )

    def topics(self) -> Iterator[str]:
        yield from (c.topic for c in self.reorders)

    def touched(self) -> Iterator[tuple[str, int]]:
        yield from ((c.topic, c.partition) for c in self.reorders)


class PreferredElection(Model):
    """Partitions of one topic that one broker, their first replica, is to lead again."""

    broker: BrokerId = Field(description="The broker that would lead them.")
    topic: TopicName = Field(description="The topic.")
    partitions: Annotated[tuple[Count, ...], Field(max_length=MAX_ELECTED)] = Field(description="The partitions.")


class Elections(Part):
    """Leaderships that go to the preferred replica."""

    elections: Annotated[tuple[PreferredElection, ...], Field(max_length=MAX_INLINE_CHANGES)] = Field(
        default=(), description="Leaderships that would go to the preferred replica, in this order."
    )

    digested: ClassVar = Digested(
        always=paths("elections.broker elections.topic elections.partitions"),
    )

    def topics(self) -> Iterator[str]:
        yield from (e.topic for e in self.elections)

    def touched(self) -> Iterator[tuple[str, int]]:
        yield from ((e.topic, number) for e in self.elections for number in e.partitions)


class ConfigResourceType(StrEnum):
    """Whose configuration changes."""

    TOPIC = "TOPIC"
    BROKER = "BROKER"


class ConfigChange(Model):
    """One configuration value, before and after."""

    resource_type: ConfigResourceType = Field(description="Whose configuration.")
    resource_name: Annotated[str, StringConstraints(max_length=249)] = Field(
        description="The topic, the broker's id, or nothing for the default of all brokers."
    )
    name: ConfigName = Field(description="The configuration's name.")
    before: ConfigValue | None = Field(default=None, description="The value set now. Absent: none is set.")
    after: ConfigValue | None = Field(default=None, description="The value that would be set. Absent: it is removed.")


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


class EditedBy(StrEnum):
    """Who pauses, edits and resumes an object that describes a topic."""

    OPERATOR = "Operator"
    PERSON = "Person"


class OwnerEdit(Model):
    """One value of such an object, before and after."""

    name: ConfigName = Field(description="`replicas`, or the name of the setting.")
    before: ConfigValue | None = Field(default=None, description="What the object says now. Absent: nothing.")
    after: ConfigValue = Field(description="What it is to say when its operator acts on it again.")


class OwnedTopic(Model):
    """A topic of the plan that an object of another operator describes. That operator is kept off the topic until the
    object says what the plan makes of it."""

    topic: TopicName = Field(description="The topic.")
    kind: ShortText = Field(description="The object's kind.")
    name: ObjectName = Field(description="The object's name.")
    uid: Uid = Field(description="Its uid. Another object of the same name is not touched.")
    by: EditedBy = Field(description="Who pauses, edits and resumes it.")
    paused: Flag = Field(default=False, description="Whether it was paused before, and stays so.")
    reason: LineText = Field(default="", description="Why a person has to do it.")
    edits: Annotated[tuple[OwnerEdit, ...], Field(max_length=8)] = Field(
        default=(), description="What the object does not say yet."
    )


class OwnedTopics(Part):
    """Topics that others describe."""

    owned_topics: Annotated[tuple[OwnedTopic, ...], Field(max_length=MAX_INLINE_CHANGES)] | None = Field(
        default=None,
        description="Topics of the plan that objects of other operators describe, and the edit of each. Absent: none.",
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


class BrokerRestart(Model):
    """One broker to be restarted: the very Pod that it runs in now, and no other."""

    broker: BrokerId = Field(description="The broker's id.")
    pod: ObjectName = Field(description="The Pod that it runs in.")
    pod_uid: Uid = Field(description="That Pod's uid. Another Pod of the same name is not restarted.")
    node: ObjectName | None = Field(default=None, description="The node under the Pod.")
    stale: Flag = Field(
        default=False, description="Whether its view of the cluster is the one that the restart is to cure."
    )
    reason: LineText = Field(default="", description="Why it stands at this place in the order, and what to expect.")


class StaticSetting(Model):
    """A setting that brokers read from their configuration when they start, and at no other time. Whoever owns that
    configuration changes it; the restart makes the brokers read it."""

    name: ConfigName = Field(description="The setting's name.")
    before: ConfigValue = Field(description="What these brokers have read.")
    after: ConfigValue = Field(description="The least that they are to read when they are restarted.")
    brokers: Annotated[tuple[BrokerId, ...], Field(max_length=MAX_RESTARTS)] = Field(description="The brokers.")


class Drain(Model):
    """Partitions of one topic that a broker leads, and their order of replicas while it is restarted. Afterwards it is
    the one before again. The first of each order is elected once the order is there."""

    broker: BrokerId = Field(description="The broker that leads them, and that would be restarted without them.")
    topic: TopicName = Field(description="The topic.")
    partitions: Annotated[tuple[Count, ...], Field(max_length=MAX_ELECTED_AT_ONCE)] = Field(
        description="The partitions."
    )
    replicas_before: Replicas = Field(description="The order now and after the restart; the first leads afterwards.")
    replicas: Replicas = Field(description="The order during the restart; the first takes over.")


class Restarts(Part):
    """Brokers that are restarted, what they are to read then, and who leads meanwhile."""

    restarts: Annotated[tuple[BrokerRestart, ...], Field(max_length=MAX_RESTARTS)] = Field(
        default=(), description="Brokers that would be restarted, in this order, the active controller last."
    )
    static_settings: Annotated[tuple[StaticSetting, ...], Field(max_length=MAX_STATIC)] = Field(
        default=(),
        description="What has to be changed in brokers' configuration before their restart, by whoever owns it.",
    )
    drains: Annotated[tuple[Drain, ...], Field(max_length=MAX_INLINE_CHANGES)] = Field(
        default=(), description="What brokers would not lead while they are restarted, and who would."
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
    """Records that only a stale broker's own log holds, and that its restart would throw away."""

    broker: BrokerId = Field(description="The stale broker.")
    topic: TopicName = Field(description="The topic.")
    partition: Count = Field(description="The partition.")
    epoch: Count = Field(description="The leader epoch under which the broker still takes itself for the leader.")
    from_offset: BigCount = Field(description="Where its log parts from the cluster's.")
    to_offset: BigCount = Field(description="Where its log ended when the plan was made.")


class Rescues(Part):
    """Records that are saved before a restart throws them away."""

    rescues: Annotated[tuple[Rescue, ...], Field(max_length=MAX_INLINE_CHANGES)] = Field(
        default=(), description="Records that are saved before the brokers that hold them are restarted."
    )
    rescue_topic: TopicName | None = Field(default=None, description="The topic that they are saved in.")

    digested: ClassVar = Digested(
        always=paths("rescueTopic rescues.broker rescues.topic rescues.partition rescues.epoch rescues.fromOffset"),
        # A broker's log may grow until the records are saved: all of them are.
        left_out=paths("rescues.toOffset"),
        names={"rescues.fromOffset": "from"},
    )


class Resignation(Model):
    """A ZooKeeper cluster's controller that gives way to another broker, without a restart of anything."""

    broker: BrokerId = Field(description="Who is registered as controller.")
    epoch: Count = Field(description="The controller epoch. A later one is another controller's, which is left alone.")


class Resignations(Part):
    """The controller that gives way without a restart."""

    resignations: Annotated[tuple[Resignation, ...], Field(max_length=1)] = Field(
        default=(), description="The controller that would give way to another broker."
    )

    digested: ClassVar = Digested(
        always=paths("resignations.broker resignations.epoch"),
        where_any=paths("resignations"),
        shapes={"resignations": lambda resignations: [[r.broker, r.epoch] for r in resignations]},
    )

    def touched(self) -> Iterator[tuple[str, int]]:
        yield from (("", r.broker) for r in self.resignations)


class OffsetChange(Model):
    """One committed offset, before and after. What is before is the backup: it is written down here before anything is
    changed, and a run of undo-offset-reset puts exactly that back."""

    group: GroupName = Field(description="The consumer group.")
    topic: TopicName = Field(description="The topic.")
    partition: Count = Field(description="The partition.")
    topic_id: ShortText | None = Field(default=None, description="The topic's id (KIP-516). Absent: not known.")
    before: BigCount = Field(description="The offset committed now.")
    before_epoch: Count | None = Field(default=None, description="The leader epoch committed with it. Absent: none.")
    before_metadata: CommitMetadata = Field(default="", description="The metadata committed with it.")
    after: BigCount = Field(description="The offset that would be committed.")
    after_epoch: Count | None = Field(default=None, description="The leader epoch committed with that. Absent: none.")
    after_metadata: CommitMetadata = Field(default="", description="The metadata committed with that.")
    log_start: BigCount | None = Field(default=None, description="Where the log began. Absent: not known.")
    log_end: BigCount | None = Field(default=None, description="Where the log ended. Absent: not known.")
    skipped: BigCount = Field(default=0, description="Offsets that can be read and that the group would not read.")
    read_again: BigCount = Field(default=0, description="Offsets that the group would read a second time, at most.")
    reason: LineText = Field(default="", description="What decided the offset.")


class OffsetChanges(Part):
    """Committed offsets that change. Each names the id of its topic itself."""

    offsets: Annotated[tuple[OffsetChange, ...], Field(max_length=MAX_INLINE_CHANGES)] = Field(
        default=(), description="Committed offsets that would change, and what they were before, group by group."
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
    """What is scaled to 0 before the offsets are set, and back afterwards, however the run ends."""

    kind: WorkloadKind = Field(description="Deployment or StatefulSet, in the Remediation's namespace.")
    name: ObjectName = Field(description="Its name.")
    uid: Uid = Field(description="Its uid. Another one of the same name is not touched.")
    replicas: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(
        description="How many replicas it is to have, before and afterwards."
    )


class StoppedConsumers(Part):
    """What consumes, and is stopped meanwhile."""

    workload: StoppedWorkload | None = Field(
        default=None, description="What is stopped while the offsets are set. Absent: nothing."
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
)
PARTS: tuple[type[Part], ...] = get_args(AnyPart)
PartOfKind = TypeVar("PartOfKind", bound=Part)


class PlanStep(Model):
    """What one step of the playbook would do."""

    name: StepName = Field(description="The step's name in the playbook.")
    action: ActionName = Field(description="The step's action.")
    description: LineText = Field(default="", description="What it would do here, in a sentence.")


class PlannedTopic(Model):
    """A topic that the plan changes. One of the same name with another id is another topic, and is not touched."""

    topic: TopicName = Field(description="The topic.")
    id: ShortText = Field(description="Its id (KIP-516).")


class Precondition(Model):
    """Something that was observed when the plan was made, and must still be so when it runs."""

    name: ShortText = Field(description="What was observed.")
    value: LineText = Field(description="What it was.")


class PlanHeader(Model):
    """What every plan has, whatever it does."""

    digest: Digest = Field(description="What an approval names. It covers everything that decides what is done.")
    proposed_at: Timestamp = Field(description="When the plan was proposed.")
    expires_at: Timestamp = Field(description="After this moment no approval of it counts.")
    summary: SummaryText = Field(default="", description="The plan in words, for the person who approves it.")
    partitions: Count | None = Field(default=None, description="Partitions that would change.")
    moves: Count | None = Field(default=None, description="Replicas that would be copied.")
    estimated_seconds: BigCount | None = Field(default=None, description="How long it should take. Absent: unknown.")
    steps: Annotated[tuple[PlanStep, ...], Field(max_length=20)] = Field(
        default=(), description="What each step of the playbook would do."
    )
    topics: Annotated[tuple[PlannedTopic, ...], Field(max_length=MAX_INLINE_CHANGES)] = Field(
        default=(), description="The topics that would change, by id, as far as brokers report ids."
    )
    preconditions: Annotated[tuple[Precondition, ...], Field(max_length=20)] = Field(
        default=(), description="What was observed, and must still be so."
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
    """What exactly would be done. The digest stands for all of it."""

    parts: tuple[AnyPart, ...] = Field(default=(), description="Those that hold something, one of a kind at most.")

    def part(self, kind: type[PartOfKind]) -> PartOfKind:
        """The part of that kind, empty where the plan has none."""
        return next((part for part in self.parts if isinstance(part, kind)), _empty(kind))

    def with_parts(self, *parts: AnyPart) -> Self:
        """The plan with these in place of those of the same kinds."""
        held: dict[type[Part], Part] = {type(part): part for part in (*self.parts, *parts)}
        return self.model_copy(update={"parts": _holding(held)})

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
