"""`kafka-medic snapshot`: look at a cluster once and write down what is there."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kafka_medic.cli import exits, output
from kafka_medic.cli.command_config import CommandConfig, Held, read_command_config
from kafka_medic.cli.documents import read_cluster
from kafka_medic.cli.exits import UnusableInputError
from kafka_medic.cluster.document import timestamp, to_document
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster

_EXAMPLES = """\
examples:
  kafka-medic snapshot --bootstrap-servers kafka-0:9092,kafka-1:9092 -o json > now.json
  kafka-medic snapshot --bootstrap-servers kafka:9092 --zookeeper zk:2181/kafka -o json
  kafka-medic snapshot --bootstrap-servers kafka:9093 --command-config client.properties -o json
  kafka-medic snapshot --cluster kafkacluster.yaml --secrets-dir ./secrets -o yaml

What could not be read is null, and its source says why. Exit code 0 when a snapshot was taken, 4 when none could be.
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "snapshot",
        help="observe a cluster once",
        description="Observe a cluster once. Only reads; needs no Kubernetes.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--bootstrap-servers", metavar="HOST:PORT,...", help="brokers to start from")
    where.add_argument("--cluster", metavar="FILE", help="a KafkaCluster that says where and how to connect")
    parser.add_argument("--zookeeper", metavar="HOST:PORT,...", help="the ensemble, for a cluster that has one")
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="security settings in the properties format of Kafka's own tools, certificates as PEM",
    )
    parser.add_argument("--name", default="cluster", help="what to call the cluster (default: cluster)")
    parser.add_argument(
        "--secrets-dir", type=Path, metavar="DIR", help="a Secret NAME with KEY is the file DIR/NAME/KEY"
    )
    parser.add_argument("-o", "--output", choices=output.FORMATS, default="table", help="default: table")


def run(args: argparse.Namespace) -> int:
    if args.cluster:
        if args.zookeeper:
            way_out = "write it as spec.metadata.zookeeper.connect into the file"
            raise UnusableInputError("--zookeeper", "goes with --bootstrap-servers only", way_out)
        if args.command_config:
            way_out = "write it as spec.security into the file, and give its Secrets with --secrets-dir"
            raise UnusableInputError("--command-config", "goes with --bootstrap-servers only", way_out)
        cluster, held = read_cluster(args.cluster), None
    else:
        config = read_command_config(args.command_config) if args.command_config else None
        cluster, held = _cluster_of(args, config), config.secrets if config else None
    snapshot = _take(cluster, held if held is not None else args.secrets_dir, args.cluster or args.bootstrap_servers)
    output.note_unknown(snapshot)
    if args.output == "table":
        output.put(_readable(snapshot))
    else:
        output.write(to_document(snapshot), args.output)
    return exits.OK


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


def _take(cluster: KafkaCluster, secrets: Path | Held | None, where: str) -> Snapshot:
    # Imported here: the clients' libraries take a while to load, and no other subcommand needs them.
    from kafka_medic.clients.ports import ClientFailure, FailureKind  # noqa: PLC0415
    from kafka_medic.observe.command import take_snapshot  # noqa: PLC0415

    try:
        return take_snapshot(cluster, secrets)
    except ClientFailure as problem:
        told = problem.message if problem.kind in (FailureKind.OTHER, FailureKind.CREDENTIALS) else str(problem)
        raise UnusableInputError(where, told) from None
    except OSError as problem:
        raise UnusableInputError(where, str(problem)) from None


def _readable(snapshot: Snapshot) -> str:
    cluster = snapshot.cluster
    mode = cluster.mode.value if cluster.mode else "mode not known"
    title = f"cluster {cluster.name} ({mode}, version {cluster.version or 'not known'})"
    text = f"{title} at {timestamp(snapshot.taken_at)}\n\n"
    sources = [(s.name, s.state.value, s.error or "") for s in snapshot.sources]
    text += output.table(("SOURCE", "STATE", "WHY"), sources) + "\n"
    if snapshot.brokers is None:
        text += "brokers: not known\n"
    else:
        brokers = [
            (str(b.id), b.rack or "-", _yes(b.registered), _yes(b.reachable), b.pod.name if b.pod else "-")
            for b in snapshot.brokers
        ]
        text += output.table(("BROKER", "RACK", "REGISTERED", "REACHABLE", "POD"), brokers)
    partitions = "not known" if snapshot.partitions is None else str(snapshot.partitions.num_rows)
    groups = "not known" if snapshot.groups is None else str(len(set(snapshot.groups["group"].to_pylist())))
    return text + f"\npartitions: {partitions}\ngroups: {groups}\n"


def _yes(value: bool | None) -> str:
    return {True: "yes", False: "no", None: "not known"}[value]
