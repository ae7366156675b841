"""KafkaCluster.status: what the operator sees, and why it believes it."""

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
MAX_OUTAGES = 10
MAX_LEADERLESS = 20
MAX_POOLS = 32
MAX_POOL_IDS = 250

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
    """One thing that is wrong with the cluster."""

    id: FindingId = Field(description="Stays the same while the finding lasts.")
    type: CamelWord = Field(description="What kind of finding.")
    severity: Severity = Field(description="How bad it is.")
    state: FindingState = Field(description="Pending until it has held long enough, then Firing.")
    since: Timestamp = Field(description="When it was first seen.")
    message: LineText = Field(default="", description="A sentence for people.")
    affected: Annotated[tuple[ShortText, ...], Field(max_length=MAX_AFFECTED)] = Field(
        default=(),
        description="What it is about: topics, brokers, partitions, groups. Cut off; see affectedCount.",
    )
    affected_count: Count = Field(default=0, description="How many there are in all.")
    evidence: Annotated[tuple[LineText, ...], Field(max_length=MAX_EVIDENCE)] = Field(
        default=(), description="Who said what, and when."
    )
    playbook: ObjectName | None = Field(default=None, description="The playbook that treats it, if there is one.")
    remediation: ObjectName | None = Field(default=None, description="The Remediation that is treating it.")


class BrokerCounts(Model):
    """How many brokers there should be and are. Absent: unknown."""

    expected: Count | None = Field(default=None, description="Pods, or StatefulSet replicas, that should be brokers.")
    registered: Count | None = Field(default=None, description="Brokers that the cluster's authority knows.")
    reachable: Count | None = Field(default=None, description="Brokers that answered the operator.")


class LogEndRegressionStatus(Model):
    """A log that became shorter. Kept here because nothing in the present shows it once new writes have passed it."""

    topic: ShortText = Field(description="The topic.")
    partition: Count = Field(description="The partition.")
    before: BigCount = Field(description="The log end that was seen before.")
    after: BigCount = Field(description="The lower log end that was seen afterwards.")
    at: Timestamp = Field(description="When it was noticed.")
    epoch_before: Count | None = Field(default=None, description="The leader epoch before.")
    epoch_after: Count | None = Field(default=None, description="The leader epoch afterwards.")
    groups: Annotated[tuple[ShortText, ...], Field(max_length=10)] | None = Field(
        default=None, description="Groups that had committed beyond it by then. Absent: not known."
    )


class LeaderlessStatus(Model):
    """How long a partition of a topic had no leader."""

    topic: ShortText = Field(description="The topic.")
    milliseconds: BigCount = Field(description="How long.")
    at: Timestamp = Field(description="When it was last seen so, or seen to be over.")
    partition: Count | None = Field(default=None, description="The partition, while it has no leader.")
    leader: Annotated[int, Field(ge=-1, le=2**31 - 1, strict=True)] | None = Field(
        default=None, description="The leader that it names and that is gone; -1 for none."
    )
    epoch: Count | None = Field(default=None, description="Its leader epoch.")


class NodePoolStatus(Model):
    """A KafkaNodePool of Strimzi."""

    name: ObjectName = Field(description="The KafkaNodePool's name.")
    roles: Annotated[tuple[ShortText, ...], Field(max_length=4)] = Field(default=(), description="What its nodes are.")
    ids: Annotated[tuple[Count, ...], Field(max_length=MAX_POOL_IDS)] = Field(
        default=(), description="Its nodes' ids, the smallest first. Cut off."
    )


class StrimziStatus(Model):
    """What was read from Strimzi's resources in place of fields of spec."""

    cluster: ObjectName = Field(description="The Kafka resource.")
    listener: ShortText | None = Field(default=None, description="Its listener that the operator connects to.")
    bootstrap_servers: ShortText | None = Field(default=None, description="The listener's addresses.")
    protocol: ShortText | None = Field(default=None, description="Kafka's security.protocol there.")
    secrets: Annotated[tuple[ObjectName, ...], Field(max_length=4)] = Field(
        default=(), description="The Secrets that are used: the cluster's CA, the user's."
    )
    pools: Annotated[tuple[NodePoolStatus, ...], Field(max_length=MAX_POOLS)] = Field(
        default=(), description="The cluster's KafkaNodePools. Cut off."
    )
    rack_key: ShortText | None = Field(default=None, description="The nodes' label that racks are named after.")
    set_by_hand: Annotated[tuple[CamelWord, ...], Field(max_length=4)] = Field(
        default=(), description="Fields of spec that count in place of what Strimzi has."
    )


class KafkaClusterStatus(Model):
    """What the operator sees. Everything that is unknown is absent, never 0."""

    observed_generation: BigCount | None = Field(
        default=None, description="The metadata.generation that this status was computed from."
    )
    conditions: Conditions = Field(
        default=(), description="Reachable, MetadataConsistent, Replicated and so on; Ready sums them up."
    )
    findings: Annotated[
        tuple[FindingStatus, ...],
        Field(
            max_length=MAX_FINDINGS,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]},
        ),
    ] = Field(default=(), description="What is wrong, the worst first. Cut off; see findingsTotal.")
    findings_total: Count | None = Field(default=None, description="How many findings there are in all.")
    brokers: BrokerCounts | None = Field(default=None, description="How many brokers there should be and are.")
    controller: Count | None = Field(
        default=None, description="The active controller; in KRaft, the quorum's leader. Absent: none, or unknown."
    )
    metadata: ClusterMode | None = Field(default=None, description="Who keeps the metadata, as observed.")
    strimzi: StrimziStatus | None = Field(
        default=None, description="What spec.strimzi was resolved to. Absent without spec.strimzi."
    )
    version: ShortText | None = Field(default=None, description="The Kafka version, as observed.")
    cluster_id: ShortText | None = Field(default=None, description="Kafka's own cluster id.")
    last_observed_at: Timestamp | None = Field(default=None, description="When the cluster was last observed.")
    longest_leaderless_ms: BigCount | None = Field(
        default=None,
        description="The longest time within spec.probes.rememberFor that a partition was seen without a leader.",
    )
    implied_default_api_timeout_ms: BigCount | None = Field(
        default=None, description="The clients' default.api.timeout.ms that would have outlasted it, with a margin."
    )
    longest_leaderless: Annotated[tuple[LeaderlessStatus, ...], Field(max_length=MAX_OUTAGES)] = Field(
        default=(), description="The topics that were without a leader for longest, the longest first."
    )
    leaderless: Annotated[tuple[LeaderlessStatus, ...], Field(max_length=MAX_LEADERLESS)] = Field(
        default=(), description="Partitions that have no leader now, the longest first. Cut off."
    )
    log_end_regressions: Annotated[tuple[LogEndRegressionStatus, ...], Field(max_length=MAX_REGRESSIONS)] = Field(
        default=(), description="Logs that became shorter, the worst first. Cut off; see logEndRegressionsDropped."
    )
    log_end_regressions_dropped: Count | None = Field(
        default=None, description="How many there was no room for. Absent: none."
    )
