"""The operator in a process of its own: its real workers and clients, and an API server in memory.

    python -m tests.hostile.operator_process < CLUSTERS.json

CLUSTERS.json: by name, the spec of each KafkaCluster, and under `secret` what its Secret has, if any. Each is in a
namespace of its own. Once a second it writes a line of JSON: resident megabytes now and at most, those of its
children at most, and of each
KafkaCluster how often it was observed, the seconds since, the longest time between two observations, and whether it is
Reachable. It ends at the end of its input.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import resource
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafka_medic.clients.apart import CanaryApart
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.kafka_link import observations_of
from kafka_medic.clients.zookeeper import ZooKeeper
from kafka_medic.controller.__main__ import OBSERVATION_SECONDS
from kafka_medic.controller.clients import Clients
from kafka_medic.controller.events import recorder
from kafka_medic.controller.fleet import Fleet
from kafka_medic.controller.lease import ClusterLease
from kafka_medic.controller.metrics import Metrics
from kafka_medic.controller.reconciler import Reconciler
from kafka_medic.controller.store import Store
from tests.simulation.api import SimApi
from tests.simulation.world import API_VERSION, BASE

PAGE = os.sysconf("SC_PAGE_SIZE")


class Observations(Metrics):
    """When each cluster was observed."""

    def __init__(self) -> None:
        super().__init__()
        self.at: dict[Any, list[float]] = {}

    def observed(self, key: Any, snapshot: Any) -> None:
        super().observed(key, snapshot)
        self.at.setdefault(key, []).append(time.monotonic())


def _children() -> float:
    """Megabytes that belong to the processes below this one, their share of what they have in common included."""
    below, found = {os.getpid()}, 0.0
    for entry in sorted(Path("/proc").glob("[0-9]*"), key=lambda e: int(e.name)):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in below:
                below.add(int(entry.name))
                rollup = (entry / "smaps_rollup").read_text()
                found += int(rollup.partition("Pss:")[2].split()[0]) * 1024 / 1e6
        except (OSError, IndexError):
            continue  # it has ended
    return found


def main() -> None:
    pa.set_memory_pool(pa.system_memory_pool())  # as in the operator's process
    observations_of(OBSERVATION_SECONDS)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    clusters = json.loads(sys.stdin.readline())
    api: Any = SimApi()
    for name, spec in clusters.items():
        if (held := spec.pop("secret", None)) is not None:
            data = {key: base64.b64encode(text.encode()).decode() for key, text in held.items()}
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "user"}, "data": data}
            api.put(f"/api/v1/namespaces/{name}/secrets", body)
        meta = {"name": "kafka", "namespace": name}
        body = {"apiVersion": API_VERSION, "kind": "KafkaCluster", "metadata": meta, "spec": spec}
        api.put(f"{BASE}/namespaces/{name}/kafkaclusters", body)
    series = Observations()
    clients = Clients(Store(api), recorder(api), RealKafka, ZooKeeper, CanaryApart, series=series)

    def reconciler_of(key: Any) -> Reconciler:
        return Reconciler(key[0], key[1], clients, lambda c: ClusterLease(api, key[0], key[1], c.uid or "", "me"))

    fleet = Fleet(reconciler_of)
    began, children = time.monotonic(), 0.0
    for name in clusters:
        fleet.present((name, "kafka"), 1)
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    while not over.wait(1.0):
        now = time.monotonic()
        told: dict[str, Any] = {"seconds": round(now - began, 1)}
        told["megabytes"] = round(int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6, 1)
        told["most"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1)
        children = max(children, _children())
        told["children"] = round(children, 1)
        told["threads"] = threading.active_count()
        for name in clusters:
            times = series.at.get((name, "kafka"), [])
            stamps = [began, *times, now]
            body = api.get(f"{BASE}/namespaces/{name}/kafkaclusters/kafka")
            reach = next((c for c in body.get("status", {}).get("conditions", ()) if c["type"] == "Reachable"), {})
            gap = max(b - a for a, b in pairwise(stamps))
            told[name] = [len(times), round(now - stamps[-2], 1), round(gap, 1), reach.get("message")]
        print(json.dumps(told), flush=True)
    os._exit(0)  # a client that hangs is what some of this is about


if __name__ == "__main__":
    main()
