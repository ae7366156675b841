"""Carries out scripts on a real cluster and on the simulated one at the same time, and compares them after each step.

`python -m tests.contract.differential.run --kind kraft --scripts 20` prints every difference that is not listed, and
goes on. It needs the testbed's network, or one of its own (`unshare --net`).
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.cluster.snapshot import TopicPartition
from tests.contract.differential import scripts
from tests.contract.differential.answers import Asked, answers, at_times
from tests.contract.differential.differences import ACCEPTED, OWED, Difference, Situation, Unlike, unlike
from tests.contract.differential.scripts import BROKERS, Script
from tests.contract.differential.subjects import UNREACHABLE, RealCluster, SimulatedCluster, Subject, carry_out
from tests.testbed.kafka_settings import Shape
from tests.testbed.steps import granted

SETTLES = 25.0
AGAIN = 0.15


@dataclass
class Found:
    """Differences after one step that nothing covers; `used`: what covered the others."""

    script: Script
    number: int
    unlike: list[Unlike]

    def __str__(self) -> str:
        step = self.script.steps[self.number] if self.number < len(self.script.steps) else "the end"
        told = "\n  ".join(map(str, self.unlike))
        return f"after step {self.number}, {json.dumps(step)}:\n  {told}\nof {json.dumps(self.script.plain())}"


@dataclass
class Comparison:
    """One script on both clusters."""

    script: Script
    real: RealCluster
    settles: float = SETTLES
    known: set[str] = field(default_factory=set)
    """Differences that were found before: they are not waited for again."""
    listed: tuple[Difference, ...] = (*ACCEPTED, *OWED)
    used: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        controller = self.real.controller()
        assert controller is not None, "the cluster is whole"
        least = self.real.least.value if self.real.least else None
        self.simulated = SimulatedCluster(self.script.kind, controller, least)
        self.prefix = f"diff-{time.time_ns():x}-"
        others = [b for b in BROKERS if b != controller]
        self.roles = dict(zip(BROKERS, [controller, *others], strict=True))
        self.names: dict[str, str] = {}
        self.partitions: dict[str, int] = {}
        self.down: set[int] = set()
        self.cut: set[int] = set()
        zookeeper = self.script.kind == "zookeeper"
        self._asked = [Asked({}, {}, {}, set(), zookeeper) for _ in range(2)]
        self._last: tuple[dict[str, Any], dict[str, Any]] = ({}, {})

    def differences(self) -> Iterator[Found]:
        """After each step that shows any."""
        for number, step in enumerate(self.script.steps):
            results = self._carry_out(step, f"{number}")
            if found := self._compare(self._situation(number + 1), results):
                self.known |= set(map(str, found))
                yield Found(self.script, number, found)
        both: list[tuple[Subject, Asked]] = [(self.real, self._asked[0]), (self.simulated, self._asked[1])]
        told = [at_times(subject.kafka, asked, self._served()) for subject, asked in both]
        steps = len(self.script.steps)
        if found := self._uncovered(list(unlike(told[0], told[1], {}, {})), self._situation(steps)):
            yield Found(self.script, steps, found)

    def _situation(self, steps: int) -> Situation:
        return Situation(self.script.kind, tuple(self.script.steps[:steps]), frozenset(self.down), frozenset(self.cut))

    def _carry_out(self, step: list[Any], mark: str) -> tuple[str, str]:
        self._know(step)
        cut = next(iter(self.cut), None)
        told = []
        for subject in (self.real, self.simulated):
            if told == [UNREACHABLE] and self.cut and self.script.kind == "kraft":
                told.append(UNREACHABLE)  # the port chose the cut broker, which carries nothing out
                break
            leader = self._leader(step) if step[0] == "write" else -1
            told.append(carry_out(subject, step, self.names, self.roles, mark, leader, cut))
        match step[0]:
            case "stop" | "kill":
                self.down.add(self.roles[step[1]])
            case "start":
                self.down.discard(self.roles[step[1]])
            case "cut":
                self.cut.add(self.roles[step[1]])
            case "heal":
                self.cut.discard(self.roles[step[1]])
        return told[0], told[1]

    def _know(self, step: list[Any]) -> None:
        match step:
            case ["create", name, replicas, _] | ["recreate", name, replicas]:
                self.names[name] = self.prefix + name
                self.partitions[name] = max(len(replicas), self.partitions.get(name, 0))
            case ["commit", group, *_]:
                self.names[group] = self.prefix + group
        for asked in self._asked:
            asked.names = {self.names[name]: name for name in self.partitions}
            asked.partitions = {self.names[name]: count for name, count in self.partitions.items()}
            asked.groups = {full: name for name, full in self.names.items() if name.startswith("g")}

    def _leader(self, step: list[Any]) -> int:
        """As Kafka's brokers that hear of the controller had it after the last step."""
        hears = next(b for b in BROKERS if b not in self.down | self.cut)
        leader: int = self._last[0].get(f"view/{hears}/{step[1]}-{step[2]}/leader", -1)
        return leader

    def _served(self) -> list[TopicPartition]:
        """Partitions that a broker leads that all others know to lead."""
        if self.cut:
            return []
        hears = next(b for b in BROKERS if b not in self.down)
        path = f"view/{hears}/"
        led = [p for p, leader in self._last[0].items() if p.startswith(path) and p.endswith("/leader") and leader >= 0]
        called = [p.split("/")[2].rpartition("-") for p in led]
        return [TopicPartition(self.names[name], int(number)) for name, _, number in called]

    def _compare(self, situation: Situation, results: tuple[str, str]) -> list[Unlike]:
        """Once both have settled: the real one when it answers as the simulated one, or when time is up."""
        self.simulated.settle()
        end = granted() + self.settles
        while True:
            if (controller := self._controller()) is not None:
                self.simulated.chosen(controller)
            ours = answers(self.simulated.kafka, self._asked[1]) | {"result": results[1]}
            try:
                theirs = answers(self.real.kafka, self._asked[0]) | {"result": results[0]}
            except ReadFailed as problem:
                theirs = {"answers": f"{problem}"}
            found = list(unlike(theirs, ours, *self._last))
            if not (rest := self._uncovered(found, situation)) or granted() > end:
                break
            time.sleep(AGAIN)
        self._last = theirs, ours
        return rest

    def _controller(self) -> int | None:
        try:
            return self.real.controller()
        except ReadFailed:
            return None

    def _uncovered(self, found: list[Unlike], situation: Situation) -> list[Unlike]:
        rest = []
        for each in found:
            covered: Difference | None = next((d for d in self.listed if d.covers(each, situation)), None)
            if covered is None and str(each) not in self.known:
                rest.append(each)
            elif covered is not None:
                self.used[covered.name] += 1
        return rest

    def tidy(self) -> None:
        self.real.tidy(self.prefix)


def compare(script: Script, real: RealCluster, used: Counter[str] | None = None) -> Found | None:
    """The first difference that nothing covers."""
    comparison = Comparison(script, real)
    try:
        return next(comparison.differences(), None)
    finally:
        if used is not None:
            used.update(comparison.used)
        comparison.tidy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("kraft", "zookeeper"), required=True)
    parser.add_argument("--scripts", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--settles", type=float, default=SETTLES, help="seconds until a difference is one")
    parser.add_argument("--kept", action="store_true", help="those of kept.json")
    parser.add_argument("--strict", action="store_true", help="show what is owed too")
    options = parser.parse_args()
    kind: Shape = options.kind
    real = RealCluster(kind)
    try:
        seeds = range(options.seed, options.seed + options.scripts)
        kept = [script for _, script in scripts.kept() if script.kind == kind]
        for script in kept if options.kept else [scripts.of_seed(seed, kind) for seed in seeds]:
            began = time.monotonic()
            comparison = Comparison(
                script, real, options.settles, listed=ACCEPTED if options.strict else (*ACCEPTED, *OWED)
            )
            for found in comparison.differences():
                print(found, flush=True)
            comparison.tidy()
            print(f"{kind} {script.seed}: {len(script.steps)} steps in {time.monotonic() - began:.1f} s", flush=True)
    finally:
        real.close()


if __name__ == "__main__":
    main()
