"""Snapshots of one KafkaCluster, over connections that stay open from one observation to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

import pyarrow as pa

from kafka_medic.clients.destinations import Destinations
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.own_rights import OwnRights
from kafka_medic.clients.ports import Address, Connection, EnsembleConnection, Kafka
from kafka_medic.clients.zookeeper import ZooKeeper
from kafka_medic.cluster.snapshot import ClusterInfo, Rollout, Snapshot, TopicOwner
from kafka_medic.controller.clients import Clients
from kafka_medic.controller.former_certificate import FormerCertificate
from kafka_medic.controller.kept_state import KeptState
from kafka_medic.observe.certificates import CertificateReader, CertificatesFound
from kafka_medic.observe.connect import HeldText, connection, ensemble_connection, held_certificates, secured
from kafka_medic.observe.pods import BrokerPods
from kafka_medic.observe.snapshot import ClusterReaders, MetricsReads, observe_cluster, unread_cluster
from kafka_medic.observe.topic_owners import kind_of, topic_owners
from kafka_medic.resources.kafkacluster import Brokers, KafkaCluster


@dataclass(slots=True)
class Observer:
    """`canary`: the reader of the cluster's canary, None where it has none."""

    namespace: str
    name: str
    clients: Clients
    canary: Callable[[KafkaCluster], Callable[[], pa.Table] | None]
    kept_state: KeptState = field(default_factory=KeptState)
    _connected: tuple[Connection, Kafka] | None = None
    _zookeeper: tuple[object, ZooKeeper] | None = None
    _metrics: tuple[object, MetricsReads] | None = None
    _rights: OwnRights | None = None
    _former: FormerCertificate = field(init=False)
    _certificates: CertificateReader = field(init=False)
    _held: tuple[HeldText, ...] = ()
    """Certificates, as the Secrets have them now."""
    _brokers: tuple[tuple[str, int], ...] = ()
    """Addresses, as the last observation had them."""

    def __post_init__(self) -> None:
        clients = self.clients
        self._former = FormerCertificate(clients.monotonic)
        self._certificates = CertificateReader(clients.served_chains, clients.now, clients.monotonic)

    @property
    def connected(self) -> tuple[Connection, Kafka] | None:
        return self._connected

    @property
    def kafka(self) -> Kafka | None:
        return None if self._connected is None else self._connected[1]

    @property
    def zookeeper(self) -> ZooKeeper | None:
        return None if self._zookeeper is None else self._zookeeper[1]

    def observe(self, cluster: KafkaCluster) -> Snapshot:
        """A snapshot. If the connection cannot be made, it says why for every source."""
        try:
            ensemble = self._connect_kafka(cluster)
        except ReadFailed as problem:
            info = ClusterInfo(cluster.name, namespace=self.namespace)
            return unread_cluster(info, str(problem), self.clients.now(), secured=secured(cluster))
        self._connect_zookeeper(ensemble)
        readers = self._readers(cluster, has_ensemble=ensemble is not None)
        kept = self.kept_state
        passed_on = (kept.rotation, kept.addresses, kept.identities, kept.at_rest)
        snapshot = observe_cluster(cluster.name, readers, self.clients.now, *passed_on)
        self._brokers = tuple((b.host, b.port) for b in snapshot.brokers or () if b.host and b.port) or self._brokers
        self.clients.series.observed((self.namespace, self.name), snapshot)
        return snapshot

    def close(self) -> None:
        if self._connected is not None:
            self._connected[1].close()
        if self._zookeeper is not None:
            self._zookeeper[1].close()

    def _connect_kafka(self, cluster: KafkaCluster) -> EnsembleConnection | None:
        """Returns how to reach the ensemble, if there is one. Secrets are read each time: a rotated password or
        certificate takes effect at the next observation, a client certificate once every broker takes it. Raises
        ReadFailed."""

        @cache
        def secret(name: str) -> Mapping[str, bytes]:
            return self.clients.store.secret(cluster, name)

        bounds = self._destinations
        wanted, ensemble = connection(cluster, secret, bounds), ensemble_connection(cluster, secret, bounds)
        self._held = held_certificates(cluster, secret)
        wanted = self._with_certificate(cluster, wanted)
        if self._connected is None or self._connected[0] != wanted:
            if self._connected is not None:
                self._connected[1].close()
                self._connected = None
            self._connected = (wanted, self.clients.kafka(wanted))
        return ensemble

    def _with_certificate(self, cluster: KafkaCluster, wanted: Connection) -> Connection:
        before = self._former.problem
        now = self._connected[0] if self._connected is not None else None
        chosen = self._former.choose(wanted, now, self._brokers, self.clients.ask_by_certificate)
        if before is None and (problem := self._former.problem) is not None:
            meanwhile = "the operator uses the previous client certificate until brokers accept the new one"
            kind = "Warning" if problem.kind is FailureKind.CREDENTIALS else "Normal"
            self.clients.record(cluster, (kind, "CertificateNotTrustedYet", f"{problem.message}; {meanwhile}"))
        return chosen

    def _connect_zookeeper(self, ensemble: EnsembleConnection | None) -> None:
        if ensemble is not None and (self._zookeeper is None or self._zookeeper[0] != ensemble):
            if self._zookeeper is not None:
                self._zookeeper[1].close()
            self._zookeeper = (ensemble, self.clients.zookeeper(ensemble))

    def _readers(self, cluster: KafkaCluster, *, has_ensemble: bool) -> ClusterReaders:
        assert self._connected is not None
        api, brokers, controllers = self.clients.store.api, cluster.spec.brokers, cluster.spec.controllers
        self._rights = rights = self._rights or OwnRights(api, self.namespace)
        known = self.kept_state.identities

        def of(selected: Brokers | None, field: str) -> BrokerPods | None:
            if selected is None:
                return None
            return BrokerPods(api, self.namespace, selected, rights.rules, field, known.of)

        pods, apart = of(brokers, "brokers"), of(controllers, "controllers")
        return ClusterReaders(
            kafka=self._connected[1],
            zookeeper=self.zookeeper if has_ensemble else None,
            pods=pods.pods if pods else None,
            rollouts=(lambda: _all_rollouts(pods, apart)) if pods else None,
            controllers=apart.pods if apart else None,
            metrics=self._metrics_of(cluster, self._connected[0].timeout_seconds),
            canary=self.canary(cluster),
            owners=self._owners(brokers),
            certificates=self._certificates_of(self._connected[0]),
            unidentified=pods.unidentified if pods else tuple,
            unidentified_controllers=apart.unidentified if apart else tuple,
            groups=cluster.spec.probes.consumer_groups.wanted(),
            namespace=self.namespace,
        )

    def _owners(self, brokers: Brokers | None) -> Callable[[], Sequence[TopicOwner]] | None:
        """None where the brokers' selector names no operator that is known to own topics."""
        labels = brokers.pod_selector.match_labels if brokers else {}
        if kind_of(labels) is None:
            return None
        assert self._rights is not None
        return partial(topic_owners, self.clients.store.api, self.namespace, labels, self._rights.may)

    def _certificates_of(
        self, connected: Connection
    ) -> Callable[[Mapping[int, Address] | None], CertificatesFound] | None:
        """None where there are none to be read."""
        if not connected.uses_tls and not self._held:
            return None
        return partial(self._certificates.read, connected, self._held)

    def _metrics_of(self, cluster: KafkaCluster, seconds: float) -> MetricsReads | None:
        """The probe of the exporters, kept from one observation to the next: a rate needs the page before."""
        port = cluster.spec.probes.metrics_port
        if port is None:
            self._metrics = None
        elif self._metrics is None or self._metrics[0] != (port, seconds):
            self._metrics = ((port, seconds), self.clients.metrics(port, seconds, self._destinations))
        return self._metrics[1] if self._metrics else None

    @property
    def _destinations(self) -> Destinations | None:
        return self.clients.destinations(self.namespace)


def _all_rollouts(pods: BrokerPods, apart: BrokerPods | None) -> tuple[Rollout, ...]:
    """What is rolled out over brokers and controllers alike is named once."""
    return tuple(dict.fromkeys((*pods.rollouts(), *(apart.rollouts() if apart else ()))))
