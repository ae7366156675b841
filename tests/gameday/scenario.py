"""One thing that goes wrong on a real cluster, what the operator is to say of it, and how it is put right."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.incident import operator
from tests.testbed import KafkaDeployment, get

INTERVAL = 3.0
"""Seconds between two probes of the KafkaClusters here."""
SLACK = 6.0
"""For a loaded machine, and for reading the status itself."""
ALWAYS = frozenset({"VersionAdvisory"})
"""Kafka 3.9 is past its support, which is true all the while."""
SHARED = frozenset({"NodeMaintenance"})
"""The nodes are everybody's: a scenario on the other deployment may have one of them cordoned."""


@dataclass(frozen=True)
class Scenario:
    """`finding` fires, with `words` in its evidence, no later than two probes after its `for`; besides it only what is
    in `also`, which follows from it. Once cured, all of it goes. `settle`: seconds that the fault itself takes to show
    (a session that has to end)."""

    name: str
    finding: str
    lasts: float
    fault: Callable[[], None]
    cure: Callable[[], None]
    words: str = ""
    also: frozenset[str] = frozenset()
    settle: float = 0.0
    clears_within: float = 90.0


@dataclass(frozen=True)
class Twin:
    """Looks alike and is none: for `seconds` nothing fires but what is in `may`."""

    name: str
    act: Callable[[], None]
    undo: Callable[[], None]
    seconds: float = 45.0
    may: frozenset[str] = frozenset()


@dataclass
class Scene:
    """A deployment and the KafkaCluster that watches it, in mode Observe."""

    kafka: KafkaDeployment
    name: str
    table: list[tuple[str, str, str, float, float, float]] = field(default_factory=list)

    def watch(self, **spec: Any) -> None:
        body = operator.kafka_cluster(
            self.kafka,
            self.name,
            remediation={"mode": "Observe"},
            probes={"interval": f"{INTERVAL:.0f}s", "timeout": "5s"},
            **spec,
        )
        operator.apply([body])

    def findings(self) -> list[dict[str, Any]]:
        found = get("kafkaclusters.kafkamedic.dev", self.name, "-n", self.kafka.namespace)
        return [f for f in found.get("status", {}).get("findings", []) if f["type"] not in ALWAYS]

    def firing(self) -> dict[str, dict[str, Any]]:
        return {f["type"]: f for f in self.findings() if f["state"] == "Firing"}

    def quiet(self, seconds: float = 120.0) -> float:
        """Until nothing is said at all, pending or firing."""
        begun = time.monotonic()
        while left := self.findings():
            if time.monotonic() - begun > seconds:
                raise AssertionError(f"still said after {seconds:.0f} s: {[(f['id'], f['message']) for f in left]}")
            time.sleep(0.5)
        return time.monotonic() - begun

    def play(self, scenario: Scenario) -> None:
        self.quiet()
        bound = scenario.settle + scenario.lasts + 2 * INTERVAL + SLACK
        with _cured(scenario.cure) as cure:
            scenario.fault()
            begun = time.monotonic()
            while scenario.finding not in (firing := self.firing()):
                assert time.monotonic() - begun < bound, f"not within {bound:.0f} s; said: {self.findings()}"
                time.sleep(0.5)
            after = time.monotonic() - begun
            said = firing[scenario.finding]
            told = " ".join([said["message"], *said.get("evidence", ()), *said.get("affected", ())])
            assert scenario.words in told, told
            strangers = set(firing) - {scenario.finding} - scenario.also - SHARED
            assert not strangers, {t: firing[t]["message"] for t in strangers}
            cure()
        cleared = self.quiet(scenario.clears_within)
        self.table.append(
            (scenario.name, self.kafka.shape, scenario.finding, scenario.lasts, round(after, 1), round(cleared, 1))
        )

    def hold(self, twin: Twin) -> None:
        self.quiet()
        with _cured(twin.undo) as undo:
            twin.act()
            end = time.monotonic() + twin.seconds
            while time.monotonic() < end:
                wrong = set(self.firing()) - twin.may - SHARED
                assert not wrong, {t: self.firing()[t]["message"] for t in wrong if t in self.firing()}
                time.sleep(1)
            undo()
        self.table.append((f"twin: {twin.name}", self.kafka.shape, "silence", twin.seconds, 0.0, 0.0))


@contextlib.contextmanager
def _cured(cure: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """The cure is done once, also when the scenario fails."""
    done = False

    def once() -> None:
        nonlocal done
        if not done:
            done = True
            cure()

    try:
        yield once
    finally:
        once()
