"""The closed vocabularies of the resources. Another word is rejected with the path of the bad field."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

GROUP = "kafkamedic.dev"
VERSION = "v1alpha1"
API_VERSION: Final = "kafkamedic.dev/v1alpha1"
CATEGORY = "kafka-medic"

APPROVE_VERB = "approve"
"""The RBAC verb on `remediations` that makes an approval count."""
USE_VERB = "use"
"""The RBAC verb on `playbooks` that allows requests for runs of a playbook, and on `playbooks/PARAMETER` that allows
setting that parameter (`playbooks/*`: any)."""
CREDENTIALS_LABEL = f"{GROUP}/credentials"
"""A Secret labelled `true` may be sent to any Kafka cluster that a KafkaCluster in its namespace names."""
RESTORE_FINALIZER = f"{GROUP}/restore"
"""On a Remediation while its `status.restoreOwed` is true, and on its KafkaCluster as long: neither is deleted before
the run has reverted its temporary changes."""


class FindingType(StrEnum):
    """Type of a finding."""

    VIEW_DIVERGED = "ViewDiverged"
    METADATA_UNDECIDED = "MetadataUndecided"
    BROKER_ZOMBIE = "BrokerZombie"
    BROKER_SILENT = "BrokerSilent"
    BROKER_DOWN = "BrokerDown"
    CONTROLLER_MISSING = "ControllerMissing"
    CONTROLLER_STUCK = "ControllerStuck"
    QUORUM_DEGRADED = "QuorumDegraded"
    PARTITION_LEADERLESS = "PartitionLeaderless"
    PARTITION_UNDER_REPLICATED = "PartitionUnderReplicated"
    PARTITION_UNDER_MIN_ISR = "PartitionUnderMinIsr"
    REPLICATION_FACTOR_LOW = "ReplicationFactorLow"
    MIN_INSYNC_REPLICAS_LOW = "MinInsyncReplicasLow"
    BROKER_CONFIG_DIFFERS = "BrokerConfigDiffers"
    RACK_SPREAD_LOW = "RackSpreadLow"
    LOG_DIR_FAILED = "LogDirFailed"
    DISK_FILLING = "DiskFilling"
    CERTIFICATE_EXPIRING = "CertificateExpiring"
    LEADERS_IMBALANCED = "LeadersImbalanced"
    LOAD_UNEVEN = "LoadUneven"
    NODE_MAINTENANCE = "NodeMaintenance"
    POD_IDENTITY_MISMATCH = "PodIdentityMismatch"
    OFFSET_BEYOND_LOG_END = "OffsetBeyondLogEnd"
    LOG_END_REGRESSED = "LogEndRegressed"
    CLIENT_STALLED = "ClientStalled"
    CANARY_FAILING = "CanaryFailing"
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    OPERATOR_ISOLATED = "OperatorIsolated"
    VERSION_ADVISORY = "VersionAdvisory"
    LEFTOVER_THROTTLE = "LeftoverThrottle"
    FOREIGN_REASSIGNMENT = "ForeignReassignment"
    TOPIC_OWNED_ELSEWHERE = "TopicOwnedElsewhere"


class FindingState(StrEnum):
    """Pending until the finding has lasted for its `for`."""

    PENDING = "Pending"
    FIRING = "Firing"


class Severity(StrEnum):
    """Severity of a finding."""

    INFO = "Info"
    WARNING = "Warning"
    CRITICAL = "Critical"


class Risk(StrEnum):
    """Risk to the cluster while a playbook runs."""

    LOW = "Low"
    MEDIUM = "Medium"
    HIGH = "High"


class RemediationMode(StrEnum):
    """What the operator may do by itself."""

    OBSERVE = "Observe"
    APPROVE = "Approve"
    AUTO = "Auto"


class ClusterMode(StrEnum):
    """Where the cluster keeps its metadata."""

    KRAFT = "KRaft"
    ZOOKEEPER = "ZooKeeper"


class ActionName(StrEnum):
    """Actions of a playbook's steps: a closed list, never code."""

    REASSIGN_PARTITIONS = "ReassignPartitions"
    SET_MIN_INSYNC_REPLICAS = "SetMinInsyncReplicas"
    RESTART_BROKERS = "RestartBrokers"
    RESCUE_RECORDS = "RescueRecords"
    ELECT_PREFERRED_LEADERS = "ElectPreferredLeaders"
    REORDER_REPLICAS = "ReorderReplicas"
    RESET_OFFSETS = "ResetOffsets"
    RESTORE_OFFSETS = "RestoreOffsets"
    REMOVE_THROTTLES = "RemoveThrottles"
    STOP_CONSUMERS = "StopConsumers"
    START_CONSUMERS = "StartConsumers"
    SET_CLUSTER_DEFAULTS = "SetClusterDefaults"
    PAUSE_OWNERS = "PauseOwners"
    RETURN_TO_OWNERS = "ReturnToOwners"
    REMOVE_REPLICAS = "RemoveReplicas"
    ALTER_REPLICA_LOG_DIRS = "AlterReplicaLogDirs"


class WorkloadKind(StrEnum):
    """Kinds of workloads with consumers that the operator can scale."""

    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"


class Guard(StrEnum):
    """A check right before each effect of a step."""

    SOURCES_FRESH = "SourcesFresh"
    CLUSTER_REACHABLE = "ClusterReachable"
    ENOUGH_LIVE_BROKERS = "EnoughLiveBrokers"
    NO_FOREIGN_REASSIGNMENT = "NoForeignReassignment"
    TARGETS_ALIVE = "TargetsAlive"
    NO_OTHER_REMEDIATION = "NoOtherRemediation"
    NO_OTHER_KAFKA_CLUSTER = "NoOtherKafkaCluster"
    BROKERS_STABLE = "BrokersStable"
    WITHIN_WINDOW = "WithinWindow"
    WITHIN_LIMITS = "WithinLimits"
    NOT_PAUSED = "NotPaused"
    APPROVAL_VALID = "ApprovalValid"
    PRECONDITIONS_HOLD = "PreconditionsHold"
    LEASE_HELD = "LeaseHeld"
    TARGET_MAY_BE_TOUCHED = "TargetMayBeTouched"
    VIEWS_AGREE = "ViewsAgree"
    ISR_STAYS_ABOVE_MIN = "IsrStaysAboveMin"
    NO_REASSIGNMENT = "NoReassignment"
    QUORUM_KEEPS_MAJORITY = "QuorumKeepsMajority"
    CONTROLLER_LAST = "ControllerLast"
    NO_OTHER_BROKER_DISTURBED = "NoOtherBrokerDisturbed"
    PODS_READY_NODE_SCHEDULABLE = "PodsReadyNodeSchedulable"
    NO_FOREIGN_ROLLOUT = "NoForeignRollout"
    POD_IS_THAT_BROKER = "PodIsThatBroker"
    PARTITIONS_KNOWN = "PartitionsKnown"
    CONTROLLER_ACTIVE = "ControllerActive"
    PREFERRED_IN_ISR = "PreferredInIsr"
    FIT_TO_RECEIVE = "FitToReceive"
    PREFERRED_CAUGHT_UP = "PreferredCaughtUp"
    NOT_REASSIGNING = "NotReassigning"
    GROUP_EMPTY = "GroupEmpty"
    PARTITIONS_LED = "PartitionsLed"
    TARGET_WITHIN_LOG = "TargetWithinLog"
    PREVIOUS_OFFSETS_KNOWN = "PreviousOffsetsKnown"
    OWNERS_PAUSED = "OwnersPaused"
    REPLACED_BROKERS_DOWN = "ReplacedBrokersDown"
    REPLACEMENTS_IN_SYNC = "ReplacementsInSync"
    DISK_HAS_ROOM = "DiskHasRoom"
    LOG_DIRS_ONLINE = "LogDirsOnline"


class Verdict(StrEnum):
    """Verdict of a guard. Unknown never permits."""

    ALLOW = "Allow"
    DENY = "Deny"
    WAIT = "Wait"
    UNKNOWN = "Unknown"


class VerifyProbe(StrEnum):
    """Observation that verifies a step."""

    TARGET_REPLICAS_IN_SYNC = "TargetReplicasInSync"
    MIN_INSYNC_REPLICAS_SET = "MinInsyncReplicasSet"
    BROKERS_RECOVERED = "BrokersRecovered"
    RECORDS_RESCUED = "RecordsRescued"
    REPLICAS_REORDERED = "ReplicasReordered"
    PREFERRED_LEADERS_SERVE = "PreferredLeadersServe"
    OFFSETS_COMMITTED = "OffsetsCommitted"
    THROTTLES_REMOVED = "ThrottlesRemoved"
    CONSUMERS_STOPPED = "ConsumersStopped"
    CONSUMERS_STARTED = "ConsumersStarted"
    CLUSTER_DEFAULTS_SET = "ClusterDefaultsSet"
    OWNERS_KEPT_OFF = "OwnersKeptOff"
    OWNERS_AGREE = "OwnersAgree"
    REPLICAS_REMOVED = "ReplicasRemoved"
    REPLICAS_IN_LOG_DIRS = "ReplicasInLogDirs"
    FINDING_GONE = "FindingGone"


class OnFailure(StrEnum):
    """What the run does when a step fails or is not verified in time."""

    ABORT = "Abort"
    PAUSE = "Pause"


class Decision(StrEnum):
    """A person's decision on a plan."""

    APPROVE = "Approve"
    REJECT = "Reject"
