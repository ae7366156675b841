"""KafkaCluster.status: what the operator observed, with the evidence."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from .base import Model
from .conditions import Conditions
from .scalars import BigCount, CamelWord, Count, LineText, ObjectName, ShortText, Timestamp
from .vocabulary import ClusterMode, FindingState, Severity

FindingId = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$")]
MAX_FINDINGS = 50
MAX_AFFECTED = 100
MAX_EVIDENCE = 20
MAX_REGRESSIONS = 100
MAX_RECREATED = 50
MAX_OUTAGES = 10
MAX_LEADERLESS = 20
MAX_POOLS = 32
MAX_POOL_IDS = 250
MAX_DEPARTED = 100

CONDITION_TYPES = (
    "Reachable",
    "MetadataConsistent",
    "Replicated",
    "LeadersBalanced",
    "OffsetsConsistent",
    "CanaryHealthy",
    "VersionsSupported",
    "RestartsPossible",
    "RemediationAllowed",
    "Ready",
)
"""The conditions of a KafkaCluster, in the order in which they are read."""


class FindingStatus(Model):
    """One problem of the cluster."""

    id: FindingId = Field(description="Id of the finding, the same while the finding lasts.")
    type: CamelWord = Field(description="Type of the finding.")
    severity: Severity = Field(description="Severity of the finding.")
    state: FindingState = Field(description="Pending until the finding has lasted long enough, then Firing.")
    since: Timestamp = Field(description="Time when the finding was first observed.")
    message: LineText = Field(default="", description="The finding in one sentence.")
    affected: Annotated[tuple[ShortText, ...], Field(max_length=MAX_AFFECTED)] = Field(
        default=(),
        description="Affected topics, brokers, partitions or groups. Truncated; affectedCount has the total.",
    )
    affected_count: Count = Field(
        default=0, description="Total number of affected topics, brokers, partitions or groups."
    )
    evidence: Annotated[tuple[LineText, ...], Field(max_length=MAX_EVIDENCE)] = Field(
        default=(), description="What each source reported, and when. Truncated."
    )
    playbook: ObjectName | None = Field(
        default=None, description="Name of the playbook that treats the finding. Absent: none."
    )
    remediation: ObjectName | None = Field(
        default=None, description="Name of the Remediation that treats the finding now. Absent: none."
    )


class BrokerCounts(Model):
    """Numbers of expected, registered and reachable brokers. Absent: unknown."""

    expected: Count | None = Field(default=None, description="Number of broker Pods. Absent: unknown.")
    registered: Count | None = Field(
        default=None, description="Number of brokers that are registered in the cluster. Absent: unknown."
    )
    reachable: Count | None = Field(
        default=None, description="Number of brokers that answer the operator. Absent: unknown."
    )


class LogEndRegressionStatus(Model):
    """A log whose end went back. Status keeps it, because new writes hide it."""

    topic: ShortText = Field(description="The topic.")
    partition: Count = Field(description="The partition.")
    before: BigCount = Field(description="Log end offset before.")
    after: BigCount = Field(description="Lower log end offset afterwards.")
    at: Timestamp = Field(description="Time when the regression was observed.")
    epoch_before: Count | None = Field(default=None, description="Leader epoch of `before`. Absent: unknown.")
    epoch_after: Count | None = Field(default=None, description="Leader epoch of `after`. Absent: unknown.")
    groups: Annotated[tuple[ShortText, ...], Field(max_length=10)] | None = Field(
        default=None,
        description="Groups whose committed offset was above `after` at that time, at most 10. Absent: unknown.",
    )
    topic_id: ShortText | None = Field(default=None, description="Kafka's id of the topic. Absent: unknown.")


class RecreatedTopicStatus(Model):
    """A topic that was deleted and recreated. Status keeps it, because committed offsets may be of the topic before."""

    topic: ShortText = Field(description="The topic.")
    at: Timestamp = Field(description="Time when that was observed.")


class LeaderlessStatus(Model):
    """Time that a partition of a topic had no leader."""

    topic: ShortText = Field(description="The topic.")
    milliseconds: BigCount = Field(description="Time without a leader, in milliseconds.")
    at: Timestamp = Field(
        description="Time of the last observation without a leader, or of the first one with a leader again."
    )
    partition: Count | None = Field(
        default=None, description="The partition, while it has no leader. Absent: it has a leader again."
    )
    leader: Annotated[int, Field(ge=-1, le=2**31 - 1, strict=True)] | None = Field(
        default=None, description="Broker id of the leader that the metadata names and that is gone. -1: no leader."
    )
    epoch: Count | None = Field(default=None, description="Leader epoch of the partition.")


class NodePoolStatus(Model):
    """A KafkaNodePool of Strimzi."""

    name: ObjectName = Field(description="The KafkaNodePool's name.")
    roles: Annotated[tuple[ShortText, ...], Field(max_length=4)] = Field(
        default=(), description="Roles of the pool's nodes: broker, controller."
    )
    ids: Annotated[tuple[Count, ...], Field(max_length=MAX_POOL_IDS)] = Field(
        default=(), description="Ids of the pool's nodes, the smallest first. Truncated."
    )
    leaving: Annotated[tuple[Count, ...], Field(max_length=MAX_POOL_IDS)] = Field(
        default=(), description="Ids of the nodes that the pool is to lose, because it is scaled down. Truncated."
    )


class DepartedBrokerStatus(Model):
    """A broker that a Remediation has emptied, and that has been gone since."""

    broker: Count = Field(description="Id of the broker.")
    remediation: ShortText = Field(description="metadata.uid of the Remediation that emptied the broker.")
    since: Timestamp = Field(description="Time since which the broker has had neither a registration nor a Pod.")
    for_good: bool = Field(
        default=False,
        description="Whether it was gone for a day. A broker that comes back under the id then counts as a new one.",
    )


class StrimziStatus(Model):
    """Values from Strimzi's resources for fields that spec does not set."""

    cluster: ObjectName = Field(description="Name of the Kafka resource.")
    listener: ShortText | None = Field(default=None, description="Name of the listener to which the operator connects.")
    bootstrap_servers: ShortText | None = Field(default=None, description="Addresses of the listener.")
    protocol: ShortText | None = Field(default=None, description="security.protocol of the listener.")
    secrets: Annotated[tuple[ObjectName, ...], Field(max_length=4)] = Field(
        default=(),
        description="Names of the Secrets that the operator uses, such as the cluster CA and the user's Secret.",
    )
    pools: Annotated[tuple[NodePoolStatus, ...], Field(max_length=MAX_POOLS)] = Field(
        default=(), description="The cluster's KafkaNodePools. Truncated."
    )
    rack_key: ShortText | None = Field(default=None, description="Node label that holds the rack. Absent: no racks.")
    set_by_hand: Annotated[tuple[CamelWord, ...], Field(max_length=4)] = Field(
        default=(), description="Fields of spec that override Strimzi's values."
    )


class KafkaClusterStatus(Model):
    """What the operator observed. An unknown value is absent, never 0."""

    observed_generation: BigCount | None = Field(
        default=None, description="metadata.generation from which the operator computed this status."
    )
    conditions: Conditions = Field(
        default=(), description="Reachable, MetadataConsistent, Replicated and others. Ready summarizes them."
    )
    findings: Annotated[
        tuple[FindingStatus, ...],
        Field(
            max_length=MAX_FINDINGS,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]},
        ),
    ] = Field(default=(), description="Findings, the most severe first. Truncated; findingsTotal has the total.")
    findings_total: Count | None = Field(default=None, description="Total number of findings.")
    brokers: BrokerCounts | None = Field(
        default=None, description="Numbers of expected, registered and reachable brokers."
    )
    controller: Count | None = Field(
        default=None, description="Id of the active controller, in KRaft the quorum's leader. Absent: none, or unknown."
    )
    metadata: ClusterMode | None = Field(default=None, description="Where the cluster keeps its metadata, as observed.")
    strimzi: StrimziStatus | None = Field(
        default=None, description="Values that the operator took from spec.strimzi. Absent: no spec.strimzi."
    )
    departed_brokers: Annotated[tuple[DepartedBrokerStatus, ...], Field(max_length=MAX_DEPARTED)] = Field(
        default=(), description="Brokers that a Remediation has emptied, and that have been gone since. Truncated."
    )
    version: ShortText | None = Field(default=None, description="Kafka version, as observed.")
    cluster_id: ShortText | None = Field(default=None, description="Kafka's own cluster id.")
    last_observed_at: Timestamp | None = Field(default=None, description="Time of the last observation.")
    longest_leaderless_ms: BigCount | None = Field(
        default=None,
        description="Longest time that a partition had no leader, in milliseconds, within spec.probes.rememberFor.",
    )
    implied_default_api_timeout_ms: BigCount | None = Field(
        default=None,
        description="Value of the clients' default.api.timeout.ms that outlasts longestLeaderlessMs, with a margin.",
    )
    longest_leaderless: Annotated[tuple[LeaderlessStatus, ...], Field(max_length=MAX_OUTAGES)] = Field(
        default=(), description="Topics with the longest times without a leader, the longest first."
    )
    leaderless: Annotated[tuple[LeaderlessStatus, ...], Field(max_length=MAX_LEADERLESS)] = Field(
        default=(), description="Partitions that have no leader now, the longest time first. Truncated."
    )
    log_end_regressions: Annotated[tuple[LogEndRegressionStatus, ...], Field(max_length=MAX_REGRESSIONS)] = Field(
        default=(),
        description="Logs whose end went back, the worst first. Truncated; logEndRegressionsDropped has the rest.",
    )
    log_end_regressions_dropped: Count | None = Field(
        default=None, description="Number of log end regressions left out. Absent: none."
    )
    recreated_topics: Annotated[tuple[RecreatedTopicStatus, ...], Field(max_length=MAX_RECREATED)] = Field(
        default=(),
        description="Topics that were deleted and recreated within spec.probes.rememberFor, the last ones. Truncated.",
    )
