"""Which cluster, and how to connect to it: the options of every subcommand that speaks to one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kafka_medic.cli.command_config import CommandConfig, Held, read_command_config
from kafka_medic.cli.documents import read_cluster
from kafka_medic.cli.exits import NoAnswerError, UnusableInputError
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster


def described(args: argparse.Namespace) -> tuple[KafkaCluster, Path | Held | None, str]:
    """The cluster, where its Secrets are, and what to call it in a message. Raises UnusableInputError."""
    if args.cluster:
        if args.zookeeper:
            way_out = "set spec.metadata.zookeeper.connect in the file"
            raise UnusableInputError("--zookeeper", "goes with --bootstrap-servers only", way_out)
        if args.command_config:
            way_out = "set spec.security in the file, and give its Secrets with --secrets-dir"
            raise UnusableInputError("--command-config", "goes with --bootstrap-servers only", way_out)
        return read_cluster(args.cluster), args.secrets_dir, args.cluster
    config = read_command_config(args.command_config) if args.command_config else None
    return _cluster_of(args, config), config.secrets if config else args.secrets_dir, args.bootstrap_servers


def _cluster_of(args: argparse.Namespace, config: CommandConfig | None) -> KafkaCluster:
    metadata: dict[str, Any] = {"zookeeper": {"connect": args.zookeeper}} if args.zookeeper else {}
    if config and config.zookeeper_tls is not None and metadata:
        metadata["zookeeper"]["tls"] = config.zookeeper_tls
    raw = {
        "apiVersion": "kafkamedic.dev/v1alpha1",
        "kind": "KafkaCluster",
        "metadata": {"name": args.name},
        "spec": {"bootstrapServers": args.bootstrap_servers, "metadata": metadata}
        | ({"security": config.security} if config else {}),
    }
    options = {
        "spec.bootstrapServers": "--bootstrap-servers",
        "spec.metadata.zookeeper.connect": "--zookeeper",
        "metadata.name": "--name",
    }
    try:
        return KafkaCluster.parse(raw)
    except ResourceError as problem:
        first = problem.problems[0]
        where = options.get(first.path, first.path)
        if first.path.startswith("spec.security"):
            where = f"{args.command_config}: {first.path.removeprefix('spec.')}"
        raise UnusableInputError(where, first.message, first.way_out) from None


def unanswered(snapshot: Snapshot, cluster: KafkaCluster) -> NoAnswerError | None:
    """What is said, once and with the addresses, where no broker answered."""
    kafka = next((s for s in snapshot.sources if s.name == "kafka"), None)
    if snapshot.cluster.id is not None or snapshot.brokers is not None or kafka is None or kafka.known:
        return None
    servers = cluster.spec.bootstrap_servers or "the Kafka resource's addresses"
    way_out = "check the address, that a broker listens there, and the security settings (--command-config)"
    return NoAnswerError(f"Kafka at {servers} did not answer: {kafka.error or 'no reason given'}", way_out)
