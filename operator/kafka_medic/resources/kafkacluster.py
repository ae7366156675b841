"""KafkaCluster: which cluster to watch, what is expected of it, and how far the operator may go."""

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
    """Kafka's `sasl.mechanism`, the ones that need no file on the operator's disk."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class BrokerIdSource(StrEnum):
    """Where a Pod's broker id is read from."""

    ORDINAL = "Ordinal"
    LABEL = "Label"
    ANNOTATION = "Annotation"
    ANSWER = "Answer"


class SignKind(StrEnum):
    """Where a sign of maintenance stands."""

    TAINT = "Taint"
    CONDITION = "Condition"
    LABEL = "Label"
    ANNOTATION = "Annotation"


STRIMZI_CLUSTER = "strimzi.io/cluster"
"""Label of everything that Strimzi makes for a Kafka resource; its value is that resource's name."""
STRIMZI_ROLL = "strimzi.io/manual-rolling-update"
"""Strimzi restarts a Pod that carries this annotation when it next reconciles. The new Pod does not carry it."""


class RestartMethod(StrEnum):
    """How a broker is restarted."""

    DELETE_POD = "DeletePod"
    STRIMZI_ANNOTATION = "StrimziAnnotation"


class CaSecretRef(Model):
    """The Secret with the certificates to trust."""

    name: ObjectName = Field(description="The Secret's name.")
    key: SecretKey = Field(
        default="ca.crt",
        description="The key that holds the PEM certificates to trust. With ca.crt, those of Strimzi's former CAs in "
        "the same Secret are trusted too.",
    )


class CertSecretRef(Model):
    """The Secret with the operator's own certificate. Without keys it is read as its type has them."""

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
    username_key: SecretKey = Field(default="username", description="The key that holds the user's name.")
    password_key: SecretKey = Field(default="password", description="The key that holds the password.")


class Sasl(Model):
    """Who the operator is to the brokers."""

    mechanism: SaslMechanism = Field(description="Kafka's sasl.mechanism.")
    username: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = Field(
        default=None,
        description="The user's name where the Secret does not have it, as the Secret of Strimzi's KafkaUser.",
    )
    secret_ref: SaslSecretRef = Field(
        description=(
            "Secret with the keys username and password; for OAUTHBEARER tokenEndpoint, clientId, clientSecret and, if"
            " needed, scope and ca.crt (the certificates to trust at the token endpoint)."
        )
    )


class Tls(Model):
    """Whom the operator trusts, and with which certificate it shows itself."""

    ca_secret_ref: CaSecretRef | None = Field(
        default=None, description="Certificates to trust. Absent: the operator image's system certificates."
    )
    cert_secret_ref: CertSecretRef | None = Field(
        default=None,
        description=(
            "Secret for mutual TLS: of type kubernetes.io/tls (tls.crt, tls.key), or of a KafkaUser of Strimzi's "
            "(user.crt, user.key)."
        ),
    )


_SENT_READABLE = (
    "protocol SASL_PLAINTEXT with mechanism PLAIN sends the password readable; that needs allowPlaintextPassword: true"
)


class Security(Model):
    """How the operator's clients connect."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule(
                "self.protocol.startsWith('SASL_') == has(self.sasl)",
                "sasl is needed with the protocols SASL_PLAINTEXT and SASL_SSL, and only with them",
                field_path=".sasl",
            ),
            rule(
                "!has(self.tls) || self.protocol.endsWith('SSL')",
                "tls is only possible with the protocols SSL and SASL_SSL",
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
    sasl: Sasl | None = Field(default=None, description="Credentials, for the SASL protocols.")
    tls: Tls | None = Field(default=None, description="Certificates, for the SSL protocols.")
    allow_plaintext_password: Flag = Field(
        default=False,
        description="Whether the password of PLAIN may cross the network readable, as it does with SASL_PLAINTEXT.",
    )
    labelled_secrets_only: Flag = Field(
        default=False,
        description=(
            "Whether only Secrets with the label kafkamedic.dev/credentials: 'true' are read. The author of this "
            "KafkaCluster then need not be allowed to get them."
        ),
    )

    @model_validator(mode="after")
    def _password_is_not_readable(self) -> Self:
        plain = self.sasl is not None and self.sasl.mechanism is SaslMechanism.PLAIN
        if plain and self.protocol is SecurityProtocol.SASL_PLAINTEXT and not self.allow_plaintext_password:
            raise ValueError(f"{_SENT_READABLE}; use SASL_SSL or SCRAM-SHA-512, or set allowPlaintextPassword")
        return self

    @model_validator(mode="after")
    def _fits_the_protocol(self) -> Self:
        if self.protocol.value.startswith("SASL_") != (self.sasl is not None):
            raise ValueError(
                "sasl is needed with the protocols SASL_PLAINTEXT and SASL_SSL, and only with them; "
                "add or remove sasl, or change protocol"
            )
        if self.tls is not None and not self.protocol.value.endswith("SSL"):
            raise ValueError("tls is only possible with the protocols SSL and SASL_SSL; remove tls, or change protocol")
        return self


class ZooKeeperMetadata(Model):
    """The ensemble that a cluster before Kafka 4 keeps its metadata in."""

    connect: ZooKeeperConnect = Field(
        description=("The brokers' zookeeper.connect: host:port, more after commas, and the chroot if there is one.")
    )
    tls: Tls | None = Field(default=None, description="Certificates for an ensemble that speaks TLS.")


class ClusterMetadata(Model):
    """Who keeps the cluster's metadata."""

    zookeeper: ZooKeeperMetadata | None = Field(default=None, description="The ensemble. Absent: a KRaft cluster.")


class MaintenanceSign(Model):
    """What says, in this Kubernetes, that a node or a Pod is about to be taken away."""

    kind: SignKind = Field(description="A taint or condition of the node or the Pod, or a label or annotation of it.")
    key: LabelKey = Field(description="The taint's, label's or annotation's key, or the condition's type.")
    value: Annotated[str, StringConstraints(max_length=256)] | None = Field(
        default=None, description="Its value, or the condition's status. Absent: any value; a condition that is True."
    )


class Brokers(Model):
    """Which Pods the brokers are, and how one is restarted."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule(
                "(self.idFrom in ['Label', 'Annotation']) == has(self.idKey)",
                "idKey is needed with idFrom Label and Annotation, and only with them",
                field_path=".idKey",
            )
        )
    )

    pod_selector: LabelSelector = Field(description="Labels of the brokers' Pods, in the KafkaCluster's namespace.")
    id_from: BrokerIdSource = Field(
        default=BrokerIdSource.ORDINAL,
        description=(
            "Where a Pod's broker id is read from: the number at the end of its name, a label, an annotation, or what"
            " answers at the Pod's own address."
        ),
    )
    id_key: LabelKey | None = Field(default=None, description="The label or annotation that holds the broker id.")
    id_offset: Annotated[int, Field(ge=-1_000_000, le=1_000_000, strict=True)] = Field(
        default=0, description="Added to the Pod's ordinal to get the broker id."
    )
    maintenance_signs: Annotated[tuple[MaintenanceSign, ...], Field(max_length=32)] = Field(
        default=(),
        description=(
            "Signs on a node or Pod that the broker is about to go, besides those of Kubernetes and of the well-known "
            "clouds and autoscalers."
        ),
    )
    restart: RestartMethod = Field(
        default=RestartMethod.DELETE_POD,
        description=("How a broker is restarted: by deleting its Pod, or by the annotation that Strimzi acts on."),
    )

    @model_validator(mode="after")
    def _key_fits_the_source(self) -> Self:
        if (self.id_from in (BrokerIdSource.LABEL, BrokerIdSource.ANNOTATION)) != (self.id_key is not None):
            raise ValueError(
                "idKey is needed with idFrom Label and Annotation, and only with them; add or remove idKey"
            )
        return self


_BELOW_THE_FACTOR = "must be below replicationFactor, else one broker down stops every acks=all writer"


class TopicExpectation(Model):
    """What differs for some topics. The first pattern that matches a topic's whole name counts."""

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

    pattern: NamePattern = Field(description="Regular expression over the whole topic name.")
    replication_factor: ReplicationFactor | None = Field(default=None, description="Replicas that each partition has.")
    min_in_sync_replicas: ReplicationFactor | None = Field(default=None, description="The topic's min.insync.replicas.")
    exempt: Flag = Field(default=False, description="Nothing is expected of these topics, and nothing is done to them.")

    @model_validator(mode="after")
    def _min_isr_below_factor(self) -> Self:
        if self.replication_factor is not None and self.min_in_sync_replicas is not None:
            _check_min_isr(self.replication_factor, self.min_in_sync_replicas)
        return self


def _check_min_isr(replication_factor: int, min_in_sync_replicas: int) -> None:
    if replication_factor != 1 and min_in_sync_replicas >= replication_factor:
        raise ValueError(f"minInSyncReplicas {_BELOW_THE_FACTOR}; lower it, or raise replicationFactor")


class Expectations(Model):
    """What a healthy cluster looks like."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule(
                "self.replicationFactor == 1 || self.minInSyncReplicas < self.replicationFactor",
                _BELOW_THE_FACTOR,
                field_path=".minInSyncReplicas",
            )
        )
    )

    replication_factor: ReplicationFactor = Field(default=3, description="Replicas that each partition has.")
    min_in_sync_replicas: ReplicationFactor = Field(default=2, description="min.insync.replicas of each topic.")
    rack_aware: Flag = Field(default=True, description="Replicas of a partition are on as many racks as possible.")
    topics: Annotated[tuple[TopicExpectation, ...], Field(max_length=64)] = Field(
        default=(), description="What differs for some topics; the first matching pattern counts."
    )
    minimum_version: KafkaVersion | None = Field(default=None, description="The oldest Kafka version that is fine.")

    @model_validator(mode="after")
    def _min_isr_below_factor(self) -> Self:
        _check_min_isr(self.replication_factor, self.min_in_sync_replicas)
        return self


class Canary(Model):
    """Records that the operator writes and reads back through every broker."""

    enabled: Flag = Field(
        default=False,
        description="Whether the operator makes and keeps the canary's topic, and writes records to it and reads them.",
    )
    topic: TopicName = Field(
        default="kafka-medic-canary", description="The canary's own topic. One that somebody else made is left alone."
    )
    timeout: Annotated[Duration, Between("1s", "5m")] = Field(
        default="10s", description="How long a record may take from send to read; at most 80 % of the interval counts."
    )


class ConsumerGroups(Model):
    """Which consumer groups are looked at."""

    include: Annotated[tuple[NamePattern, ...], Field(max_length=32)] = Field(
        default=(), description="Regular expressions over whole group names. Empty: every group."
    )
    exclude: Annotated[tuple[NamePattern, ...], Field(max_length=32)] = Field(
        default=(), description="Groups that are left out even if included."
    )

    def wanted(self) -> NameFilter:
        """Whether a group of that name is looked at."""
        return NameFilter(self.include, self.exclude)


class Probes(Model):
    """How the cluster is observed."""

    interval: Annotated[Duration, Between("1s", "1h")] = Field(
        default="15s", description="Time between two observations."
    )
    timeout: Annotated[Duration, Between("1s", "5m")] = Field(
        default="10s", description="How long one question to one broker may take."
    )
    canary: Canary = Field(default_factory=Canary, description="End-to-end check of each broker.")
    consumer_groups: ConsumerGroups = Field(
        default_factory=ConsumerGroups, description="Which consumer groups' offsets are looked at."
    )
    full_views: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(
        default=5,
        description=(
            "How many brokers tell their whole view of the partitions in one observation, in turn, while nothing "
            "is odd; in a cluster of no more than that, all do."
        ),
    )
    remember_for: Annotated[Duration, Between("1h", "8760h")] = Field(
        default="168h",
        description="How long a log that became shorter, and the longest time without a leader, are remembered.",
    )
    metrics_port: Port | None = Field(
        default=None,
        description="Port of the brokers' Prometheus exporter. Absent: its metrics stay unknown.",
    )


_WHERE = "bootstrapServers is needed, or strimzi with the name of a Kafka resource"


class StrimziCluster(Model):
    """The Kafka resource of Strimzi, in this namespace, that the rest is read from."""

    cluster: ObjectName = Field(description="The name of the Kafka resource.")
    listener: Annotated[str, StringConstraints(max_length=11, pattern=r"^[a-z0-9]+$")] | None = Field(
        default=None,
        description="The listener to connect to. Absent: an internal one that fits the user, with TLS if there is one.",
    )
    user: ObjectName | None = Field(
        default=None,
        description="The KafkaUser to connect as. Absent: a listener without authentication is needed.",
    )


class KafkaClusterSpec(Model):
    """What the person who runs the cluster says about it."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule("has(self.bootstrapServers) || has(self.strimzi)", _WHERE, field_path=".bootstrapServers")
        )
    )

    strimzi: StrimziCluster | None = Field(
        default=None,
        description=(
            "Take bootstrapServers, security, brokers and controllers from a Kafka resource of Strimzi. Those that are "
            "set here count instead."
        ),
    )
    bootstrap_servers: BootstrapServers | None = Field(
        default=None, description="host:port of brokers to start from, more after commas. Needed without strimzi."
    )
    security: Security | None = Field(
        default=None, description="How the operator's clients connect. Absent, and without strimzi: in plain text."
    )
    metadata: ClusterMetadata = Field(
        default_factory=ClusterMetadata, description="Who keeps the cluster's metadata. Absent: KRaft."
    )
    controllers: Brokers | None = Field(
        default=None,
        description="Which Pods the KRaft controllers are, where they are no brokers. Absent: none is restarted.",
    )
    brokers: Brokers | None = Field(
        default=None,
        description="Which Pods the brokers are. Absent: no playbook that restarts a broker can run.",
    )
    expectations: Expectations = Field(default_factory=Expectations, description="What a healthy cluster looks like.")
    probes: Probes = Field(default_factory=Probes, description="How the cluster is observed.")
    remediation: RemediationPolicy = Field(
        default_factory=RemediationPolicy, description="How far the operator may go, and when."
    )

    @model_validator(mode="after")
    def _says_where(self) -> Self:
        if self.bootstrap_servers is None and self.strimzi is None:
            raise ValueError(_WHERE)
        return self


class KafkaCluster(Resource):
    """One Apache Kafka cluster to watch and, with approval, to heal."""

    KIND: ClassVar[str] = "KafkaCluster"
    PLURAL: ClassVar[str] = "kafkaclusters"

    api_version: Literal["kafkamedic.dev/v1alpha1"] = API_VERSION
    kind: Literal["KafkaCluster"] = "KafkaCluster"
    metadata: LabelNamedMeta
    spec: KafkaClusterSpec
    status: KafkaClusterStatus = Field(default_factory=KafkaClusterStatus)
