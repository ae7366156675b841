"""One snapshot for the command line: no Kubernetes needed, credentials from files."""

from __future__ import annotations

from pathlib import Path

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import FailureKind, ReadFailed
from kafka_medic.clients.zookeeper import ZooKeeper
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.observe.connect import connection
from kafka_medic.observe.metrics import MetricsProbe
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from kafka_medic.resources.kafkacluster import KafkaCluster


def take_snapshot(cluster: KafkaCluster, secrets_dir: Path | None = None) -> Snapshot:
    """What the KafkaCluster describes, observed once. A Secret `name` with `key` is the file `secrets_dir/name/key`.
    Raises ReadFailed for a missing one; what the cluster does not answer is Unknown in the snapshot, not an error."""

    def secret(name: str, key: str) -> str:
        if secrets_dir is None:
            raise ReadFailed(FailureKind.OTHER, f"Secret {name} is needed: give --secrets-dir with {name}/{key} in it")
        try:
            return (secrets_dir / name / key).read_text().rstrip("\n")
        except (OSError, UnicodeDecodeError) as problem:
            raise ReadFailed(FailureKind.OTHER, f"{secrets_dir / name / key}: {type(problem).__name__}") from None

    wanted = connection(cluster, secret)
    ensemble = cluster.spec.metadata.zookeeper
    kafka = RealKafka(wanted)
    zookeeper = ZooKeeper(ensemble.connect, wanted.timeout_seconds) if ensemble else None
    port = cluster.spec.probes.metrics_port
    metrics = MetricsProbe(port, wanted.timeout_seconds) if port else None
    try:
        groups = cluster.spec.probes.consumer_groups.wanted()
        return observe_cluster(cluster.name, ClusterReaders(kafka, zookeeper, metrics=metrics, groups=groups))
    finally:
        kafka.close()
        if zookeeper is not None:
            zookeeper.close()
