"""KafkaCluster: the connection to a cluster, its expectations and the remediation policy."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from .base import LabelNamedMeta, Model, Resource
from .cel import rule, validations
from .kafkacluster_remediation import RemediationPolicy
from .kafkacluster_status import KafkaClusterStatus
from .name_patterns import NameFilter
from .scalars import (
    Between,
    Duration,
    Flag,
    NamePattern,
    ObjectName,
    SecretKey,
    TopicName,
)
from .selectors import LabelKey, LabelSelector
from .vocabulary import API_VERSION

_HOST_PORT = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}"
BootstrapServers = Annotated[
    str, StringConstraints(min_length=3, max_length=2048, pattern=f"^{_HOST_PORT}(,{_HOST_PORT})*$")
]
ZooKeeperConnect = Annotated[
    str,
    StringConstraints(min_length=3, max_length=2048, pattern=f"^{_HOST_PORT}(,{_HOST_PORT})*(/[A-Za-z0-9._/-]*)?$"),
]
KafkaVersion = Annotated[str, StringConstraints(min_length=1, max_length=32, pattern=r"^[0-9]+(\.[0-9]+){0,3}$")]
ReplicationFactor = Annotated[int, Field(ge=1, le=10, strict=True)]
Port = Annotated[int, Field(ge=1, le=65535, strict=True)]


class SecurityProtocol(StrEnum):
    """Kafka's `security.protocol`."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class SaslMechanism(StrEnum):
    """Those of Kafka's `sasl.mechanism` that need no file on the operator's disk."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class BrokerIdSource(StrEnum):
    """Where the operator reads a Pod's broker id."""

    ORDINAL = "Ordinal"
    LABEL = "Label"
    ANNOTATION = "Annotation"
    ANSWER = "Answer"


class SignKind(StrEnum):
    """Type of a maintenance sign."""

    TAINT = "Taint"
    CONDITION = "Condition"
    LABEL = "Label"
    ANNOTATION = "Annotation"


STRIMZI_CLUSTER = "strimzi.io/cluster"
"""Label of everything that Strimzi makes for a Kafka resource; its value is that resource's name."""
STRIMZI_ROLL = "strimzi.io/manual-rolling-update"
"""Strimzi restarts a Pod that carries this annotation when it next reconciles. The new Pod does not carry it."""


class RestartMethod(StrEnum):
    """How the operator restarts a broker."""

    DELETE_POD = "DeletePod"
    STRIMZI_ANNOTATION = "StrimziAnnotation"


class CaSecretRef(Model):
    """The Secret with the certificates to trust."""

    name: ObjectName = Field(description="The Secret's name.")
    key: SecretKey = Field(
        default="ca.crt",
        description="The key that holds the PEM certificates to trust. With ca.crt, the operator also trusts Strimzi's "
        "former CAs in the same Secret.",
    )


class CertSecretRef(Model):
    """The Secret with the operator's own certificate. The Secret's type decides the default keys."""

    name: ObjectName = Field(description="The Secret's name.")
    certificate: SecretKey | None = Field(
        default=None, description="The key that holds the certificate chain. Absent: tls.crt, else Strimzi's user.crt."
    )
    key: SecretKey | None = Field(
        default=None, description="The key that holds the private key. Absent: tls.key, else Strimzi's user.key."
    )


class SaslSecretRef(Model):
    """The Secret with the operator's credentials."""

    name: ObjectName = Field(description="The Secret's name.")
    username_key: SecretKey = Field(default="username", description="The key that holds the user name.")
    password_key: SecretKey = Field(default="password", description="The key that holds the password.")


class Sasl(Model):
    """How the operator authenticates to the brokers."""

    mechanism: SaslMechanism = Field(description="Kafka's sasl.mechanism.")
    username: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = Field(
        default=None,
        description="User name at the brokers, for Secrets without one, such as those of a Strimzi KafkaUser. Absent: "
        "the Secret's usernameKey.",
    )
    secret_ref: SaslSecretRef = Field(
        description=(
            "Secret with the keys username and password. With OAUTHBEARER the keys are tokenEndpoint, clientId, "
            "clientSecret and optionally scope and ca.crt, the certificates to trust at the token endpoint."
        )
    )


class Tls(Model):
    """The certificates that the operator trusts and presents."""

    ca_secret_ref: CaSecretRef | None = Field(
        default=None,
        description="Secret with the certificates to trust. Absent: the operator image's system certificates.",
    )
    cert_secret_ref: CertSecretRef | None = Field(
        default=None,
        description=(
            "Secret for mutual TLS, of type kubernetes.io/tls (tls.crt, tls.key) or of a Strimzi KafkaUser (user.crt, "
            "user.key). Absent: no client certificate."
        ),
    )


_SENT_READABLE = (
    "protocol SASL_PLAINTEXT with mechanism PLAIN sends the password unencrypted; use SASL_SSL or SCRAM-SHA-512, or "
    "set allowPlaintextPassword: true"
)
_SASL_FITS = (
    "sasl must be set with protocol SASL_PLAINTEXT or SASL_SSL, and only then; add or remove sasl, or change protocol"
)
_TLS_FITS = "tls needs protocol SSL or SASL_SSL; remove tls, or change protocol"


class Security(Model):
    """How the operator's clients connect."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule(
                "self.protocol.startsWith('SASL_') == has(self.sasl)",
                _SASL_FITS,
                field_path=".sasl",
            ),
            rule(
                "!has(self.tls) || self.protocol.endsWith('SSL')",
                _TLS_FITS,
                field_path=".tls",
            ),
            rule(
                "self.allowPlaintextPassword || self.protocol != 'SASL_PLAINTEXT'"
                " || !has(self.sasl) || self.sasl.mechanism != 'PLAIN'",
                _SENT_READABLE,
                field_path=".allowPlaintextPassword",
            ),
        )
    )

    protocol: SecurityProtocol = Field(default=SecurityProtocol.PLAINTEXT, description="Kafka's security.protocol.")
    sasl: Sasl | None = Field(default=None, description="Credentials, for the protocols SASL_PLAINTEXT and SASL_SSL.")
    tls: Tls | None = Field(default=None, description="Certificates, for the protocols SSL and SASL_SSL.")
    allow_plaintext_password: Flag = Field(
        default=False,
        description="Whether SASL_PLAINTEXT with mechanism PLAIN may send the password unencrypted.",
    )
    labelled_secrets_only: Flag = Field(
        default=False,
        description=(
            "Whether the operator reads only Secrets with the label kafkamedic.dev/credentials: 'true'. The author of "
            "this KafkaCluster then needs no right to get them."
        ),
    )

    @model_validator(mode="after")
    def _password_is_not_readable(self) -> Self:
        plain = self.sasl is not None and self.sasl.mechanism is SaslMechanism.PLAIN
        if plain and self.protocol is SecurityProtocol.SASL_PLAINTEXT and not self.allow_plaintext_password:
            raise ValueError(_SENT_READABLE)
        return self

    @model_validator(mode="after")
    def _fits_the_protocol(self) -> Self:
        if self.protocol.value.startswith("SASL_") != (self.sasl is not None):
            raise ValueError(_SASL_FITS)
        if self.tls is not None and not self.protocol.value.endswith("SSL"):
            raise ValueError(_TLS_FITS)
        return self


class ZooKeeperMetadata(Model):
    """The ZooKeeper ensemble of a cluster before Kafka 4."""

    connect: ZooKeeperConnect = Field(
        description="The brokers' zookeeper.connect: host:port, separated by commas, with the chroot if any."
    )
    tls: Tls | None = Field(default=None, description="Certificates for an ensemble with TLS. Absent: plain text.")


class ClusterMetadata(Model):
    """Where the cluster keeps its metadata."""

    zookeeper: ZooKeeperMetadata | None = Field(
        default=None, description="The ZooKeeper ensemble. Absent: a KRaft cluster."
    )


class MaintenanceSign(Model):
    """A sign on a node or a Pod that announces maintenance."""

    kind: SignKind = Field(description="Type of the sign on the node or Pod.")
    key: LabelKey = Field(description="Key of the taint, label or annotation, or type of the condition.")
    value: Annotated[str, StringConstraints(max_length=256)] | None = Field(
        default=None,
        description="Value of the taint, label or annotation, or status of the condition. Absent: any value, for a "
        "condition True.",
    )


_ID_KEY_FITS = "idKey must be set with idFrom Label or Annotation, and only then; add or remove idKey"


class Brokers(Model):
    """The Pods of the brokers or controllers, and how the operator restarts them."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule(
                "(self.idFrom in ['Label', 'Annotation']) == has(self.idKey)",
                _ID_KEY_FITS,
                field_path=".idKey",
            )
        )
    )

    pod_selector: LabelSelector = Field(
        description="Selects the Pods by their labels, in the KafkaCluster's namespace."
    )
    id_from: BrokerIdSource = Field(
        default=BrokerIdSource.ORDINAL,
        description=(
            "Where the operator reads a Pod's broker id. Ordinal: the number at the end of the Pod's name. Answer: the "
            "id that the broker at the Pod's address reports."
        ),
    )
    id_key: LabelKey | None = Field(
        default=None, description="Key of the label or annotation that holds the broker id."
    )
    id_offset: Annotated[int, Field(ge=-1_000_000, le=1_000_000, strict=True)] = Field(
        default=0, description="Number that the operator adds to the Pod's ordinal to get the broker id."
    )
    maintenance_signs: Annotated[tuple[MaintenanceSign, ...], Field(max_length=32)] = Field(
        default=(),
        description=(
            "Signs on a node or Pod that announce maintenance, besides those of Kubernetes and of well-known clouds "
            "and autoscalers."
        ),
    )
    restart: RestartMethod = Field(
        default=RestartMethod.DELETE_POD,
        description=(
            "How the operator restarts a broker. DeletePod: it evicts the Pod. StrimziAnnotation: it annotates the "
            "Pod, and Strimzi restarts the broker."
        ),
    )

    @model_validator(mode="after")
    def _key_fits_the_source(self) -> Self:
        if (self.id_from in (BrokerIdSource.LABEL, BrokerIdSource.ANNOTATION)) != (self.id_key is not None):
            raise ValueError(_ID_KEY_FITS)
        return self


_BELOW_THE_FACTOR = (
    "minInSyncReplicas must be below replicationFactor, else one broker down blocks every acks=all producer; lower "
    "minInSyncReplicas, or raise replicationFactor"
)


class TopicExpectation(Model):
    """Expectations for some topics. The first pattern that matches the whole topic name applies."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule(
                "!has(self.replicationFactor) || !has(self.minInSyncReplicas) || self.replicationFactor == 1"
                " || self.minInSyncReplicas < self.replicationFactor",
                _BELOW_THE_FACTOR,
                field_path=".minInSyncReplicas",
            )
        )
    )

    pattern: NamePattern = Field(description="Regular expression that matches the whole topic name.")
    replication_factor: ReplicationFactor | None = Field(
        default=None, description="Replicas of each partition. Absent: expectations.replicationFactor."
    )
    min_in_sync_replicas: ReplicationFactor | None = Field(
        default=None, description="min.insync.replicas of the topic. Absent: expectations.minInSyncReplicas."
    )
    exempt: Flag = Field(
        default=False,
        description="Whether the operator ignores replicas, racks and min.insync.replicas of these topics: no finding, "
        "no change.",
    )

    @model_validator(mode="after")
    def _min_isr_below_factor(self) -> Self:
        if self.replication_factor is not None and self.min_in_sync_replicas is not None:
            _check_min_isr(self.replication_factor, self.min_in_sync_replicas)
        return self


def _check_min_isr(replication_factor: int, min_in_sync_replicas: int) -> None:
    if replication_factor != 1 and min_in_sync_replicas >= replication_factor:
        raise ValueError(_BELOW_THE_FACTOR)


class Expectations(Model):
    """Expected state of a healthy cluster."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule(
                "self.replicationFactor == 1 || self.minInSyncReplicas < self.replicationFactor",
                _BELOW_THE_FACTOR,
                field_path=".minInSyncReplicas",
            )
        )
    )

    replication_factor: ReplicationFactor = Field(default=3, description="Replicas of each partition.")
    min_in_sync_replicas: ReplicationFactor = Field(default=2, description="min.insync.replicas of each topic.")
    rack_aware: Flag = Field(
        default=True, description="Whether the replicas of a partition must be on as many racks as possible."
    )
    topics: Annotated[tuple[TopicExpectation, ...], Field(max_length=64)] = Field(
        default=(), description="Expectations for some topics. The first matching pattern applies."
    )
    minimum_version: KafkaVersion | None = Field(
        default=None, description="Oldest acceptable Kafka version. Absent: no limit."
    )
    uneven_percent: Annotated[int, Field(ge=0, le=1000, strict=True)] = Field(
        default=20,
        description="Difference from an even share of replicas, bytes or traffic, in percent of the share, above which "
        "LoadUneven names a broker. 0: never.",
    )

    @model_validator(mode="after")
    def _min_isr_below_factor(self) -> Self:
        _check_min_isr(self.replication_factor, self.min_in_sync_replicas)
        return self


class Canary(Model):
    """Records that the operator writes to and reads back from every broker."""

    enabled: Flag = Field(
        default=False,
        description="Whether the operator creates and maintains the canary topic, and writes and reads its records.",
    )
    topic: TopicName = Field(
        default="kafka-medic-canary",
        description="Name of the canary topic. The operator does not touch a topic of this name that it did not "
        "create.",
    )
    timeout: Annotated[Duration, Between("1s", "5m")] = Field(
        default="10s",
        description="Longest time from send to read of a record. The operator uses at most 80 % of probes.interval.",
    )


class ConsumerGroups(Model):
    """Consumer groups that the operator observes."""

    include: Annotated[tuple[NamePattern, ...], Field(max_length=32)] = Field(
        default=(), description="Regular expressions that match whole group names. Empty: every group."
    )
    exclude: Annotated[tuple[NamePattern, ...], Field(max_length=32)] = Field(
        default=(), description="Regular expressions for groups to leave out, even if include matches them."
    )

    def wanted(self) -> NameFilter:
        """Whether the operator observes a group of that name."""
        return NameFilter(self.include, self.exclude)


class Probes(Model):
    """How the operator observes the cluster."""

    interval: Annotated[Duration, Between("1s", "1h")] = Field(
        default="15s", description="Time between two observations."
    )
    timeout: Annotated[Duration, Between("1s", "5m")] = Field(
        default="10s", description="Timeout of one request to one broker."
    )
    canary: Canary = Field(default_factory=Canary, description="End-to-end check of each broker.")
    consumer_groups: ConsumerGroups = Field(
        default_factory=ConsumerGroups, description="Consumer groups whose offsets the operator observes."
    )
    full_views: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(
        default=5,
        description=(
            "How many brokers report their whole view of the partitions in one observation, in rotation. Every broker "
            "does so while a finding or a run needs every view, and in clusters with no more brokers than this."
        ),
    )
    remember_for: Annotated[Duration, Between("1h", "8760h")] = Field(
        default="168h",
        description="How long status keeps log end regressions and the longest time without a leader.",
    )
    metrics_port: Port | None = Field(
        default=None,
        description="Port of the brokers' Prometheus exporter. Absent: the operator reads no broker metrics.",
    )


_WHERE = "bootstrapServers and strimzi are both missing; set one of them"


class StrimziCluster(Model):
    """The Kafka resource of Strimzi, in the same namespace, from which the operator fills in absent fields."""

    cluster: ObjectName = Field(description="Name of the Kafka resource, in the same namespace.")
    listener: Annotated[str, StringConstraints(max_length=11, pattern=r"^[a-z0-9]+$")] | None = Field(
        default=None,
        description="Name of the listener. Absent: an internal listener that fits the user, with TLS if available.",
    )
    user: ObjectName | None = Field(
        default=None,
        description="Name of the KafkaUser. Absent: the operator connects without authentication.",
    )


class KafkaClusterSpec(Model):
    """Connection, expectations and remediation policy of the cluster."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule("has(self.bootstrapServers) || has(self.strimzi)", _WHERE, field_path=".bootstrapServers")
        )
    )

    strimzi: StrimziCluster | None = Field(
        default=None,
        description=(
            "Kafka resource of Strimzi from which the operator fills in bootstrapServers, security, brokers and "
            "controllers where this spec does not set them."
        ),
    )
    bootstrap_servers: BootstrapServers | None = Field(
        default=None, description="Bootstrap brokers as host:port, separated by commas. Required without strimzi."
    )
    security: Security | None = Field(
        default=None, description="How the operator's clients connect. Absent: from strimzi, else PLAINTEXT."
    )
    metadata: ClusterMetadata = Field(
        default_factory=ClusterMetadata, description="Where the cluster keeps its metadata. Absent: KRaft."
    )
    controllers: Brokers | None = Field(
        default=None,
        description="Pods of dedicated KRaft controllers. Absent: from strimzi, else the operator restarts no "
        "dedicated controller.",
    )
    brokers: Brokers | None = Field(
        default=None,
        description="Pods of the brokers. Absent: from strimzi, else no playbook can restart a broker.",
    )
    expectations: Expectations = Field(default_factory=Expectations, description="Expected state of a healthy cluster.")
    probes: Probes = Field(default_factory=Probes, description="How the operator observes the cluster.")
    remediation: RemediationPolicy = Field(
        default_factory=RemediationPolicy,
        description="What the operator may do by itself, when, and with which approvals.",
    )

    @model_validator(mode="after")
    def _says_where(self) -> Self:
        if self.bootstrap_servers is None and self.strimzi is None:
            raise ValueError(_WHERE)
        return self


class KafkaCluster(Resource):
    """One Apache Kafka cluster that the operator watches and, with approval, repairs."""

    KIND: ClassVar[str] = "KafkaCluster"
    PLURAL: ClassVar[str] = "kafkaclusters"

    api_version: Literal["kafkamedic.dev/v1alpha1"] = API_VERSION
    kind: Literal["KafkaCluster"] = "KafkaCluster"
    metadata: LabelNamedMeta
    spec: KafkaClusterSpec
    status: KafkaClusterStatus = Field(default_factory=KafkaClusterStatus)
