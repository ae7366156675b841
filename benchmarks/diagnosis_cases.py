"""How long diagnosis takes for a saved snapshot and for each published incident made of it, and its JSON document.

python -m benchmarks.diagnosis_cases --snapshot FILE --case quiet
"""

from __future__ import annotations

import argparse
import json
import pickle
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_medic.cluster.document import from_document, to_document
from kafka_medic.cluster.snapshot import Broker, Snapshot
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.memory import DetectorMemory, remember

QUIET, JSON = "quiet", "json"
INCIDENTS = (
    "I1 views differ",
    "I1b logs shorter",
    "I2 unreachable",
    "I3 leaders gone",
    "I3 controller stuck",
    "I4 factor one",
)


def put(table: pa.Table, name: str, values: Any) -> pa.Table:
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(name), pa.array(values, table.schema.field(name).type))


def after(quiet: Snapshot, case: str) -> Snapshot:
    """The next snapshot, with one broker of fifty down or one leadership of fifty changed."""
    p, brokers, later = quiet.partitions, quiet.brokers, quiet.taken_at + timedelta(seconds=15)
    assert p is not None
    assert brokers is not None
    assert quiet.views is not None
    leader, down = p["leader"].to_numpy(), max(1, len(brokers) // 50)
    now = replace(quiet, taken_at=later)
    gone: tuple[Broker, ...] = tuple(
        replace(b, registered=False, reachable=None) if b.id < down else b for b in brokers
    )
    match case:
        case "I1 views differ":
            (told, *_) = (v.leaders for v in quiet.views if v.leaders is not None)
            old = told["epoch"].to_numpy()
            stale = put(told, "epoch", np.where(told["leader"].to_numpy() % 50 == 0, old - 1, old).astype(np.int32))
            return replace(
                now,
                views=tuple(
                    replace(v, leaders=stale) if v.leaders is not None and v.broker % 2 else v for v in quiet.views
                ),
            )
        case "I1b logs shorter":
            ends = p["logEnd"].to_numpy()
            return replace(now, partitions=put(p, "logEnd", np.where(leader < down, ends - 100, ends)))
        case "I2 unreachable":
            return Snapshot(quiet.cluster, later, quiet.sources, brokers=gone[:down])
        case "I3 leaders gone":
            moved = np.where(leader % 2 == 0, (leader + 1) % len(brokers), leader).astype(np.int32)
            return replace(now, partitions=put(p, "leader", moved))
        case "I3 controller stuck":
            return replace(now, brokers=gone)
        case "I4 factor one":
            none = np.where(leader < down, -1, leader).astype(np.int32)
            alone = pa.ListArray.from_arrays(pa.array(np.arange(len(leader) + 1, dtype=np.int32)), pa.array(leader))
            few = put(put(put(p, "replicas", alone), "isr", alone), "leader", none)
            return replace(now, partitions=few, brokers=gone)
    return now


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    began, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - used


def measured(case: str, quiet: Snapshot) -> tuple[float, float]:
    """Seconds on the clock, and of the processor."""
    if case == JSON:
        return timed(lambda: from_document(json.loads(json.dumps(to_document(quiet)))))
    now, memory = after(quiet, case), remember(DetectorMemory(), quiet)
    return timed(lambda: diagnose(now, previous=quiet, memory=remember(memory, now)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snapshot", type=Path, required=True)
    parser.add_argument("--case", choices=(QUIET, JSON, *INCIDENTS), required=True)
    args = parser.parse_args()
    wall, processor = measured(args.case, pickle.loads(args.snapshot.read_bytes()))
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"wall": wall, "processor": processor, "megabytes": megabytes}))


if __name__ == "__main__":
    main()
