"""What the operator's workers cost that watch many small KafkaClusters, all of one real Kafka."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.controller.clients import Clients
from kafka_medic.controller.events import recorder
from kafka_medic.controller.fleet import Fleet
from kafka_medic.controller.lease import ClusterLease
from kafka_medic.controller.reconciler import Reconciler
from kafka_medic.controller.store import Store
from tests.simulation.api import SimApi
from tests.simulation.world import API_VERSION, BASE

if TYPE_CHECKING:
    from tests.testbed import KafkaDeployment

INTERVAL, SETTLED = 15.0, 20.0
"""Seconds between two reconciles of a cluster, and after the last one's first until the measurement begins."""


def watching(bootstrap: str, clusters: int, seconds: float) -> dict[str, float]:
    """In this process, with the real Kafka clients and an API server in memory."""
    pa.set_memory_pool(pa.system_memory_pool())  # as in the operator's process
    api: Any = SimApi()
    for n in range(clusters):
        meta = {"name": f"c{n}", "namespace": f"ns{n}"}
        spec = {"bootstrapServers": bootstrap, "remediation": {"mode": "Observe"}}
        body = {"apiVersion": API_VERSION, "kind": "KafkaCluster", "metadata": meta, "spec": spec}
        api.put(f"{BASE}/namespaces/ns{n}/kafkaclusters", body)
    unused: Any = None
    clients = Clients(Store(api), recorder(api), RealKafka, unused, unused)

    def reconciler_of(key: Any) -> Reconciler:
        return Reconciler(key[0], key[1], clients, lambda c: ClusterLease(api, key[0], key[1], c.uid or "", "bench"))

    fleet = Fleet(reconciler_of)
    for n in range(clusters):
        fleet.present((f"ns{n}", f"c{n}"), 1)
        time.sleep(INTERVAL / clusters)
    time.sleep(SETTLED)
    began, used = time.monotonic(), time.process_time()
    time.sleep(seconds)
    share = 100 * (time.process_time() - used) / (time.monotonic() - began)
    reachable = sum(
        any(c["type"] == "Reachable" and c["status"] == "True" for c in o.get("status", {}).get("conditions", ()))
        for o in api.list(f"{BASE}/kafkaclusters")
    )
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    threads = len(os.listdir("/proc/self/task"))
    fleet.stop()
    return {"clusters": clusters, "watched": reachable, "megabytes": resident, "core": share, "threads": threads}


def hung(kafka: KafkaDeployment) -> None:
    """How long an observation takes while one of three brokers hangs."""
    from tests.incident.looks import FAULTS, looks_while, told  # noqa: PLC0415 - of the testbed alone

    for fault in FAULTS:
        print(told(kafka, fault, *looks_while(kafka, fault)), flush=True)
        kafka.wait_ready()
