"""How soon the operator names a broker with a stale view, on stub brokers and a real API server.

    make bench-stale                                                    # 30 x 20,000 and 500 x 200,000
    python3 -m tests.testbed run .venv/bin/python -m benchmarks.stale --sizes 30x20000 --runs 1

Two cases for each size. `before`: the broker missed a leader change before the operator started, and nothing changes
afterwards. The time starts with the operator's first observation. `while`: the broker stops hearing of changes, then
one partition changes its leader. The time starts with that change. The stale broker is another one in each run.

Columns: `named` is the time until the KafkaCluster's status has a ViewDiverged finding of that broker, `firing` until
that finding is Firing, both the median and the longest of --runs. `others` counts findings of other brokers.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.large import NAMESPACE, PORTS, chart
from benchmarks.large_runs import Large, operators
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from kafka_medic.cluster.snapshot import TopicPartition
from tests.integration.operated_cluster import Person
from tests.stub_cluster import Size, StubProcess
from tests.testbed import own_state

SIZES = (Size(30, 20_000), Size(500, 200_000))
BOUNDS = {SIZES[0]: 60.0, SIZES[1]: 300.0}
"""Seconds within which a stale broker has to be named."""
INTERVAL, POLLED = 15.0, 0.5
SETTLED = 60.0
"""Seconds of observations before a change in the case `while`."""
GIVE_UP = 900.0


@dataclass(frozen=True)
class Found:
    named: float
    firing: float
    others: int


@dataclass
class Watched:
    """One stub cluster that two operators watch."""

    place: Large
    admin: Person

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.admin.get(self.place.path("kafkaclusters", self.place.name)).get("status") or {}
        return found

    def until_observed(self) -> None:
        end = time.monotonic() + GIVE_UP
        while not self.status():
            if time.monotonic() > end:
                raise SystemExit(f"no observation within {GIVE_UP:.0f} s")
            time.sleep(POLLED)

    def found(self, broker: int, since: float) -> Found:
        """`since`: by the monotonic clock."""
        named: float | None = None
        while time.monotonic() < since + GIVE_UP:
            findings = [f for f in self.status().get("findings", ()) if f["id"].startswith("ViewDiverged/")]
            mine = [f for f in findings if f["id"] == f"ViewDiverged/broker-{broker}"]
            if mine and named is None:
                named = time.monotonic() - since
            if named is not None and any(f["state"] == "Firing" for f in mine):
                return Found(named, time.monotonic() - since, len(findings) - len(mine))
            time.sleep(POLLED)
        raise SystemExit(f"broker {broker} is stale and not firing within {GIVE_UP:.0f} s")


@contextmanager
def watched(stub: StubProcess) -> Iterator[Watched]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        admin = Person.named(own_state().kubeconfig("admin"))
        place = Large(admin, NAMESPACE, stub.place.bootstrap, INTERVAL)
        stack.callback(place.leave)
        stack.enter_context(operators(folder, NAMESPACE, PORTS))
        yield Watched(place, admin)


def before(size: Size, broker: int) -> Found:
    with StubProcess(size, stale=[broker]) as stub, watched(stub) as seen:
        seen.until_observed()
        return seen.found(broker, time.monotonic())


def meanwhile(size: Size, broker: int) -> Found:
    with StubProcess(size) as stub, watched(stub) as seen:
        seen.until_observed()
        time.sleep(SETTLED)
        kafka = RealKafka(Connection(stub.place.bootstrap, timeout_seconds=30.0))
        try:
            tp, leader, replicas = led_by_others(kafka, broker)
            stub.make_deaf(broker)
            after = replicas.index(leader) + 1
            kafka.alter_reassignments({tp: (*replicas[after:], *replicas[:after])})
            kafka.elect_preferred([tp])
            return seen.found(broker, time.monotonic())
        finally:
            kafka.close()


def led_by_others(kafka: RealKafka, broker: int) -> tuple[TopicPartition, int, tuple[int, ...]]:
    """A partition of which the broker holds no replica, its leader and its replicas."""
    view = kafka.views([broker])[broker]
    rows = view.states.slice(0, 1000).to_pylist()  # type: ignore[union-attr]
    row = next(row for row in rows if broker not in row["replicas"])
    return TopicPartition(row["topic"], row["partition"]), row["leader"], tuple(row["replicas"])


CASES = {"before": before, "while": meanwhile}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=_sizes, default=SIZES, help="as 30x20000,500x200000 (default)")
    parser.add_argument("--runs", type=int, default=3, help="of each case and size (default: 3)")
    args = parser.parse_args()
    print(f"machine {platform.machine()}, {os.cpu_count()} CPUs; medians of {args.runs}, and the longest")
    print(f"{'size':>10} {'case':<7} {'named':>13} {'firing':>13} {'others':>7}")
    fits = True
    with chart():
        for size in args.sizes:
            for name, case in CASES.items():
                # Neither the first that is asked nor the last.
                found = [case(size, (n + 1) * size.brokers // (args.runs + 1)) for n in range(args.runs)]
                named, firing, others = (
                    [f.named for f in found],
                    [f.firing for f in found],
                    sum(f.others for f in found),
                )
                print(f"{size!s:>10} {name:<7} {_pair(named):>13} {_pair(firing):>13} {others:7}", flush=True)
                fits = fits and max(named) <= BOUNDS.get(size, 300.0) and not others
    print(f"within bounds: {fits}", file=sys.stderr)
    return 0 if fits else 1


def _pair(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.0f} / {max(seconds):.0f} s"


def _sizes(text: str) -> tuple[Size, ...]:
    return tuple(Size(*map(int, part.split("x"))) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
