"""`python -m kafka_medic.controller`: the operator's process."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import socket
import uuid
from collections.abc import Sequence
from pathlib import Path

import kopf
import pyarrow as pa

from kafka_medic.clients.apart import CanaryApart
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.kafka_bounds import views_of
from kafka_medic.clients.kafka_link import observations_of
from kafka_medic.clients.kubernetes_api import KubernetesApi
from kafka_medic.clients.metadata_columns import MAX_PARTITIONS
from kafka_medic.clients.zookeeper import ZooKeeper
from kafka_medic.controller.clients import Clients
from kafka_medic.controller.events import recorder
from kafka_medic.controller.fleet import Fleet, Key
from kafka_medic.controller.handlers import register
from kafka_medic.controller.history import EVERY, History
from kafka_medic.controller.lease import ClusterLease, Lease, Starts
from kafka_medic.controller.log_lines import one_line
from kafka_medic.controller.metrics import Metrics
from kafka_medic.controller.notices import Notices
from kafka_medic.controller.plan_files import PlanFiles
from kafka_medic.controller.reconciler import Reconciler
from kafka_medic.controller.renewals import Renewals
from kafka_medic.controller.rules import Rules, read_rules
from kafka_medic.controller.store import Store
from kafka_medic.controller.watch_audit import WatchAudit
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster

OBSERVATION_SECONDS = 200.0
"""Below `fleet.STALLED_SECONDS`: a cluster whose servers are slow is no reason to restart the operator."""


def identity() -> str:
    """Who holds leases. A container that is restarted within its Pod is the same holder; another Pod is not."""
    pod = os.environ.get("POD_NAME")
    return pod if pod else f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"


def liveness_endpoint(port: int) -> str | None:
    """Where kopf serves /healthz: on the Pod's own address, which is IPv6 in some clusters; on every IPv4 address
    where POD_IP is not set."""
    address = os.environ.get("POD_IP") or "0.0.0.0"  # noqa: S104  # nosec B104
    return f"http://{f'[{address}]' if ':' in address else address}:{port}/healthz" if port else None


def build(
    api: KubernetesApi,
    me: str,
    metrics: Metrics,
    namespaces: Sequence[str],
    notices: Notices | None = None,
    most_at_once: int | None = None,
    plans: Path | None = None,
    clusters_per_namespace: int | None = None,
    rules: Rules | None = None,
    loopback: bool = False,
    history: History | None = None,
    *,
    leases: KubernetesApi,
    renewals: Renewals,
) -> tuple[Fleet, Store]:
    """The operator's parts, wired to the real outside. `me` holds the leases, which have connections of their own."""
    where = os.environ.get("KAFKA_MEDIC_NAMESPACE")
    rules = rules or Rules()
    store = Store(api, namespaces, rules.policies)
    api_server = api.addresses()
    record = recorder(api)
    clients = Clients(
        store=store,
        record=notices.recording(record) if notices is not None else record,
        kafka=RealKafka,
        zookeeper=ZooKeeper,
        canary=CanaryApart,
        series=metrics,
        most_at_once=most_at_once,
        files=PlanFiles(plans),
        history=history or History(),
        destinations=lambda namespace: rules.destinations_of(namespace, api_server, loopback=loopback),
        starts=Starts(renewals.keep(Lease(leases, where, "kafka-medic.starts", me)) if where else None),
    )

    def make_reconciler(key: Key) -> Reconciler:
        def lease(cluster: KafkaCluster) -> ClusterLease:
            return renewals.keep(ClusterLease(leases, key[0], key[1], cluster.uid or "", me))

        return Reconciler(namespace=key[0], name=key[1], clients=clients, lease=lease)

    return Fleet(make_reconciler, clusters_per_namespace), store


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m kafka_medic.controller", description="The kafka-medic operator.")
    parser.add_argument(
        "--watch-namespaces", default="", help="namespaces to watch, separated by commas; empty: all of them"
    )
    parser.add_argument(
        "--liveness-port", type=int, default=8080, help="port of /healthz; 0 switches it off (default: 8080)"
    )
    parser.add_argument(
        "--metrics-port", type=int, default=8081, help="port of /metrics; 0 switches it off (default: 8081)"
    )
    parser.add_argument(
        "--metrics-consumer-groups",
        action="store_true",
        help="name consumer groups in /metrics, with the lag of each; default: only the lag over all groups",
    )
    parser.add_argument(
        "--most-at-once",
        type=_count,
        metavar="N",
        help="KafkaClusters with a run under way at once; default: any number",
    )
    parser.add_argument(
        "--clusters-per-namespace",
        type=_count,
        metavar="N",
        help="KafkaClusters that are watched of one namespace, the oldest first; default: any number",
    )
    parser.add_argument(
        "--partitions",
        type=_count,
        default=MAX_PARTITIONS,
        metavar="N",
        help="of the largest Kafka cluster that is read (default: %(default)s)",
    )
    parser.add_argument(
        "--webhook-directory",
        type=Path,
        help="a folder with the files url and key: what is told as an event goes there",
    )
    parser.add_argument(
        "--plans",
        type=Path,
        metavar="DIRECTORY",
        help="a volume for plans that are too long for a Remediation (500 partitions); default: none",
    )
    parser.add_argument(
        "--history",
        type=Path,
        metavar="DIRECTORY",
        help="a volume to which snapshots are appended for `kafka-medic fleet`; default: none",
    )
    parser.add_argument(
        "--history-every",
        type=_duration,
        default=EVERY,
        metavar="DURATION",
        help="between two snapshots of a KafkaCluster, such as 30m; default: 6h",
    )
    parser.add_argument(
        "--rules",
        type=_rules,
        metavar="FILE",
        default=Rules(),
        help="what the chart rendered for the operator; default: nothing, and plans are proposed only",
    )
    parser.add_argument(
        "--loopback-destinations",
        action="store_true",
        help="let KafkaClusters name servers on the loopback, for tests on one machine",
    )
    parser.add_argument("--log-format", choices=("full", "plain", "json"), default="full", help="default: full")
    return parser.parse_args(argv)


def _rules(text: str) -> Rules:
    try:
        return read_rules(Path(text))
    except (OSError, ValueError) as problem:
        raise argparse.ArgumentTypeError(f"{text}: {problem}; use a chart of this version") from None


def _duration(text: str) -> float:
    try:
        return parse_duration(text, minimum=60.0)
    except ResourceError as problem:
        raise argparse.ArgumentTypeError(f"{text!r}: {problem}") from None


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on; leave it out for no limit")
    return int(text)


def collect_less() -> None:
    """Python's collector leaves out what the process has loaded so far, all of which stays until the process ends. It
    runs after 2,000 new objects: with 700 it took 1 % of a core for 100 clusters, and with 10,000 they took 512 MB
    instead of 441."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(2_000)


def main(argv: Sequence[str] | None = None) -> None:
    """Run until ended by a signal."""
    options = arguments(argv)
    # Arrow's own allocator keeps what each thread once used: of 100 small clusters, 300 MB.
    pa.set_memory_pool(pa.system_memory_pool())
    formats = {"full": kopf.LogFormat.FULL, "plain": kopf.LogFormat.PLAIN, "json": kopf.LogFormat.JSON}
    kopf.configure(log_format=formats[options.log_format])
    logging.setLogRecordFactory(one_line)
    # The kubelet probes every few seconds, which is not worth a line each time.
    for noisy in ("aiohttp.access", "kopf.activities.probe", "kopf.objects"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # It names the address of a request that fails, and there may be a secret in that.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    views_of(options.partitions)
    observations_of(OBSERVATION_SECONDS)
    me = identity()
    api = KubernetesApi()
    metrics = Metrics(lambda: api.skew, options.metrics_consumer_groups)
    notices = Notices(options.webhook_directory) if options.webhook_directory else None
    if notices is not None:
        notices.start()
    collect_less()
    namespaces = [n.strip() for n in options.watch_namespaces.split(",") if n.strip()]
    limits = (
        options.most_at_once,
        options.plans,
        options.clusters_per_namespace,
        options.rules,
        options.loopback_destinations,
        History(options.history, options.history_every),
    )
    renewals = Renewals()
    renewals.start()
    leases = KubernetesApi(once=True)
    fleet, store = build(api, me, metrics, namespaces, notices, *limits, leases=leases, renewals=renewals)
    watch_audit = WatchAudit(store.cluster_names, fleet)
    registry = kopf.OperatorRegistry()
    register(registry, fleet, store, watch_audit)
    if options.metrics_port:
        metrics.serve(options.metrics_port)
    kopf.run(
        registry=registry,
        standalone=True,
        # kopf would look the user up, and a container's user has no name
        identity=me,  # type: ignore[arg-type]
        clusterwide=not namespaces,
        namespaces=namespaces,
        liveness_endpoint=liveness_endpoint(options.liveness_port),
    )
    renewals.stop()  # after the workers, who have given their leases back


if __name__ == "__main__":
    main()
