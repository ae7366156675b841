"""One snapshot for the command line: no Kubernetes needed, credentials from files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Kafka
from kafka_medic.clients.zookeeper import ZooKeeper
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.observe.certificates import CertificateReader
from kafka_medic.observe.connect import connection, ensemble_connection, held_certificates
from kafka_medic.observe.metrics import MetricsProbe
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from kafka_medic.resources.kafkacluster import KafkaCluster

Secrets = Path | Mapping[str, Mapping[str, bytes]] | None
"""Name and key of each, or the folder in which they are files, name/key."""


def take_snapshot(cluster: KafkaCluster, secrets: Secrets = None) -> Snapshot:
    """What the KafkaCluster describes, observed once. Raises ReadFailed for a Secret that is missing; what the cluster
    does not answer is Unknown in the snapshot, not an error."""
    with opened(cluster, secrets, certificates=True) as (_, readers):
        return observe_cluster(cluster.name, readers)


@contextmanager
def opened(
    cluster: KafkaCluster, secrets: Secrets = None, *, certificates: bool = False
) -> Iterator[tuple[Kafka, ClusterReaders]]:
    """The cluster's Kafka, and all that it is read from; its certificates only where they are wanted, since each broker
    is connected to once more for them. Raises ReadFailed for a Secret that is missing."""

    def secret(name: str) -> Mapping[str, bytes]:
        if isinstance(secrets, Mapping):
            return secrets[name]
        if secrets is None:
            message = f"Secret {name} is needed: give --secrets-dir with a folder {name} in it, a file for each key"
            raise ReadFailed(FailureKind.CREDENTIALS, message)
        try:
            return {file.name: _read(file) for file in sorted((secrets / name).iterdir()) if file.is_file()}
        except OSError as problem:
            message = f"{problem.filename or secrets / name}: {type(problem).__name__}"
            raise ReadFailed(FailureKind.CREDENTIALS, message) from None

    wanted, ensemble = connection(cluster, secret), ensemble_connection(cluster, secret)
    kafka = RealKafka(wanted)
    zookeeper = ZooKeeper(ensemble) if ensemble else None
    port = cluster.spec.probes.metrics_port
    metrics = MetricsProbe(port, wanted.timeout_seconds) if port else None
    try:
        groups = cluster.spec.probes.consumer_groups.wanted()
        held = held_certificates(cluster, secret) if certificates else ()
        reads = partial(CertificateReader(at_once=None).read, wanted, held)
        of_certificates = reads if certificates and (wanted.uses_tls or held) else None
        yield kafka, ClusterReaders(kafka, zookeeper, metrics=metrics, groups=groups, certificates=of_certificates)
    finally:
        kafka.close()
        if zookeeper is not None:
            zookeeper.close()


def _read(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(1024 * 1024)  # what a Secret holds at most
