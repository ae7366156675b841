"""The operator's side of the benchmark: a process that observes, diagnoses and builds the status when it is told to.

    python -m benchmarks.observer --bootstrap HOST:PORT --mode quiet

Each line of its input is a command: `observe`, or `save FILE`. One line of JSON answers each.
"""

from __future__ import annotations

import argparse
import json
import pickle
import resource
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from kafka_medic.cluster.concern import NOTHING, Concern
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.controller.kept_state import KeptState
from kafka_medic.controller.status import cluster_status
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.guard.covered import uncovered
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.vocabulary import API_VERSION

QUIET, SUSPICION, ACTING = MODES = ("quiet", "suspicion", "acting")
CLUSTER = {
    "apiVersion": API_VERSION,
    "kind": "KafkaCluster",
    "metadata": {"name": "bench", "namespace": "bench", "generation": 1},
    "spec": {"bootstrapServers": "bench:9092", "remediation": {"mode": "Observe"}},
}
RESTART = Concern(frozenset({1}))
ALLOWED = (False, "ModeObserve", "the mode is Observe")


class Observer:
    """Keeps from observation to observation what the operator keeps."""

    def __init__(self, bootstrap: str, timeout: float, mode: str) -> None:
        pa.set_memory_pool(pa.system_memory_pool())  # as in the operator's process
        self._mode = mode
        self._kafka = RealKafka(Connection(bootstrap, timeout_seconds=timeout))
        self._cluster = KafkaCluster.model_validate(CLUSTER)
        self._kept_state = KeptState()
        self.previous: Snapshot | None = None

    def observe(self) -> dict[str, Any]:
        """One reconcile without the API server. `views`: how many brokers gave their whole view; `slices`: how many
        their word on some topics; `uncovered`: what an effect would lack."""
        seen, rotation = self._kept_state, self._kept_state.rotation
        rotation.everything = self._mode == ACTING
        seen.at_rest.resting, seen.at_rest.now = self._mode == QUIET, time.monotonic()
        rotation.concern = RESTART if self._mode == ACTING else NOTHING
        if self._mode == QUIET and self.previous is not None:  # as some minutes after its start
            rotation.heard = {view.broker for view in self.previous.views or ()}
        if self._mode == SUSPICION:
            rotation.last = -1  # the stale broker is among the first, as when its turn comes
        stamps = [_stamp()]
        snapshot = observe_cluster(
            "bench",
            ClusterReaders(self._kafka),
            rotation=rotation,
            book=seen.addresses,
            known=seen.identities,
            at_rest=seen.at_rest,
        )
        stamps.append(_stamp())
        seen.update(self._cluster, snapshot, time.monotonic())
        findings = diagnose(
            snapshot,
            previous=self.previous,
            expectations=Expectations.from_spec(self._cluster.spec.expectations),
            memory=seen.memory,
        )
        stamps.append(_stamp())
        cluster_status(self._cluster, snapshot, findings, {}, ALLOWED, seen.memory)
        stamps.append(_stamp())
        self.previous = snapshot
        wall, processor = ([after[n] - before[n] for before, after in pairwise(stamps)] for n in (0, 1))
        return {
            "wall": sum(wall),
            "processor": sum(processor),
            "observe": {"wall": wall[0], "processor": processor[0]},
            "diagnose": {"wall": wall[1], "processor": processor[1]},
            "status": {"wall": wall[2], "processor": processor[2]},
            "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "views": sum(view.leaders is not None and view.covers is None for view in snapshot.views or ()),
            "slices": sum(bool(view.covers) for view in snapshot.views or ()),
            "uncovered": uncovered(snapshot, rotation.concern),
            "partitions": 0 if snapshot.partitions is None else snapshot.partitions.num_rows,
            "offsets": 0 if snapshot.groups is None else snapshot.groups.num_rows,
            "sources": {s.name: s.duration_ms for s in snapshot.sources},
            "unknown": {s.name: s.error for s in snapshot.sources if not s.known},
            "partly": {s.name: s.error for s in snapshot.sources if s.known and s.error},
            "findings": sorted({finding.type for finding in findings}),
        }

    def save(self, path: Path) -> None:
        """The last snapshot, for the diagnosis cases. Without what it has cached: that cannot be pickled."""
        assert self.previous is not None
        path.write_bytes(pickle.dumps(replace(self.previous)))


def _stamp() -> tuple[float, float]:
    """Seconds on the clock, and processor seconds of this whole process."""
    return time.perf_counter(), time.process_time()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--timeout", type=float, default=10.0)
    parser.add_argument("--mode", choices=MODES, default=QUIET)
    args = parser.parse_args()
    observer = Observer(args.bootstrap, args.timeout, args.mode)
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        command, _, rest = line.strip().partition(" ")
        answer: dict[str, Any] = {}
        if command == "observe":
            answer = observer.observe()
        elif command == "save":
            observer.save(Path(rest))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
