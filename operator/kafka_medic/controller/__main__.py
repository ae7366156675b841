"""`python -m kafka_medic.controller`: the operator's process."""

from __future__ import annotations

import argparse
import logging
import os
import socket
import uuid
from collections.abc import Sequence
from pathlib import Path

import kopf

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.kubernetes_api import KubernetesApi
from kafka_medic.clients.librdkafka_canary import LibrdkafkaCanary
from kafka_medic.clients.zookeeper import ZooKeeper
from kafka_medic.controller.events import recorder
from kafka_medic.controller.fleet import Fleet, Key
from kafka_medic.controller.handlers import register
from kafka_medic.controller.lease import ClusterLease, Lease, Starts
from kafka_medic.controller.metrics import Metrics
from kafka_medic.controller.notices import Notices
from kafka_medic.controller.plan_files import PlanFiles
from kafka_medic.controller.roll_call import RollCall
from kafka_medic.controller.store import Store
from kafka_medic.controller.turn import Clients, Turn
from kafka_medic.resources.kafkacluster import KafkaCluster


def identity() -> str:
    """Who holds leases. A container that is restarted within its Pod is the same holder; another Pod is not."""
    pod = os.environ.get("POD_NAME")
    return pod if pod else f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"


def liveness_endpoint(port: int) -> str | None:
    """Where kopf serves /healthz: on the Pod's own address, which is IPv6 in some clusters; on every IPv4 address
    where none is told."""
    address = os.environ.get("POD_IP") or "0.0.0.0"  # noqa: S104
    return f"http://{f'[{address}]' if ':' in address else address}:{port}/healthz" if port else None


def build(
    api: KubernetesApi,
    me: str,
    metrics: Metrics,
    namespaces: Sequence[str],
    notices: Notices | None = None,
    most_at_once: int | None = None,
    plans: Path | None = None,
) -> tuple[Fleet, Store]:
    """The operator's parts, wired to the real outside. `me` holds the leases."""
    where = os.environ.get("KAFKA_MEDIC_NAMESPACE")
    store = Store(api, namespaces)
    record = recorder(api)
    clients = Clients(
        store=store,
        record=notices.recording(record) if notices is not None else record,
        kafka=RealKafka,
        zookeeper=ZooKeeper,
        canary=LibrdkafkaCanary,
        series=metrics,
        most_at_once=most_at_once,
        files=PlanFiles(plans),
        starts=Starts(Lease(api, where, "kafka-medic.starts", me) if where else None),
    )

    def make_turn(key: Key) -> Turn:
        def lease(cluster: KafkaCluster) -> ClusterLease:
            return ClusterLease(api, key[0], key[1], cluster.uid or "", me)

        return Turn(namespace=key[0], name=key[1], clients=clients, lease=lease)

    return Fleet(make_turn), store


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
        "--most-at-once",
        type=_count,
        metavar="N",
        help="KafkaClusters with a run under way at once; default: any number",
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
    parser.add_argument("--log-format", choices=("full", "plain", "json"), default="full", help="default: full")
    return parser.parse_args(argv)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on; leave it out for no limit")
    return int(text)


def main(argv: Sequence[str] | None = None) -> None:
    """Run until ended by a signal."""
    options = arguments(argv)
    formats = {"full": kopf.LogFormat.FULL, "plain": kopf.LogFormat.PLAIN, "json": kopf.LogFormat.JSON}
    kopf.configure(log_format=formats[options.log_format])
    # The kubelet asks every few seconds; what it asks and that all is well is not worth a line each time.
    for noisy in ("aiohttp.access", "kopf.activities.probe", "kopf.objects"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # It names the address of a request that fails, and there may be a secret in that.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    me = identity()
    api = KubernetesApi()
    metrics = Metrics(lambda: api.skew)
    notices = Notices(options.webhook_directory) if options.webhook_directory else None
    if notices is not None:
        notices.start()
    namespaces = [n.strip() for n in options.watch_namespaces.split(",") if n.strip()]
    fleet, store = build(api, me, metrics, namespaces, notices, options.most_at_once, options.plans)
    roll_call = RollCall(store.cluster_names, fleet)
    registry = kopf.OperatorRegistry()
    register(registry, fleet, store, roll_call)
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


if __name__ == "__main__":
    main()
