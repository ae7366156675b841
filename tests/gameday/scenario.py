"""One thing that goes wrong on a real cluster, what the operator is to say of it, and how it is put right."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from tests.incident import operator
from tests.testbed import KafkaDeployment, get, kubectl, wait_for

INTERVAL = 3.0
"""Seconds between two probes of the KafkaClusters here."""
TIMEOUT = 5.0
"""Of one read. A look at a cluster of which a part does not answer lasts that much longer."""
LOOKS = 2
"""A finding fires in the second look at the latest that begins after its `for` is over."""
LIMIT = LOOKS * (INTERVAL + TIMEOUT) + 20.0
"""Seconds that these may take after `for`, each waiting for something that does not answer, on a loaded machine."""
ALWAYS = frozenset({"VersionAdvisory"})
"""Kafka 3.9 is past its support, which is true all the while."""
SHARED = frozenset({"NodeMaintenance"})
"""The nodes are everybody's: a scenario on the other deployment may have one of them cordoned."""

Finding = dict[str, Any]


@dataclass(frozen=True)
class Expected:
    """A finding that has to fire, by its id, with each of `words` in what it says, no later than two probes after
    `lasts`, its `for`."""

    id: str
    lasts: float
    words: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        return self.id.partition("/")[0]


@dataclass(frozen=True)
class Scenario:
    """Everything in `expected` fires, and besides it only types in `also`, which follow from it. Once cured, all of it
    goes. `settle`: seconds that the fault takes to show. `keep`: seconds that it is left so after it was found; what
    fires goes on firing."""

    name: str
    expected: tuple[Expected, ...]
    fault: Callable[[], None]
    cure: Callable[[], None]
    also: frozenset[str] = frozenset()
    settle: float = 0.0
    keep: float = 0.0
    clears_within: float = 90.0


@dataclass(frozen=True)
class Twin:
    """Looks alike and is none: for `seconds` after `act` began nothing fires but what is in `may`."""

    name: str
    act: Callable[[], None]
    undo: Callable[[], None] = lambda: None
    seconds: float = 45.0
    may: frozenset[str] = frozenset()


@dataclass
class Scene:
    """A deployment and the KafkaCluster that watches it, in mode Observe."""

    kafka: KafkaDeployment
    name: str
    table: list[str] = field(default_factory=list)

    @property
    def boot(self) -> str:
        return self.kafka.bootstrap

    @contextlib.contextmanager
    def client(self) -> Iterator[RealKafka]:
        found = RealKafka(Connection(self.boot, timeout_seconds=30.0))
        try:
            yield found
        finally:
            found.close()

    def watch(self, **spec: Any) -> None:
        probes = {"interval": f"{INTERVAL:.0f}s", "timeout": f"{TIMEOUT:.0f}s"}
        body = operator.kafka_cluster(self.kafka, self.name, remediation={"mode": "Observe"}, probes=probes, **spec)
        operator.apply([body])
        wait_for("the first look", lambda: "lastObservedAt" in self.status(), 60)

    def status(self) -> dict[str, Any]:
        found = get("kafkaclusters", self.name, namespace=self.kafka.namespace)
        return dict(found.get("status", {}))

    def findings(self) -> list[Finding]:
        return _judged(self.status())

    def firing(self) -> dict[str, Finding]:
        return _firing(self.findings())

    def events(self) -> Counter[str]:
        """How often each reason was told of this KafkaCluster."""
        return Counter(reason for reason, _ in operator.events(self.kafka.namespace, self.name))

    def quiet(self, seconds: float = 120.0) -> float:
        """Until nothing is said at all, pending or firing."""
        begun = time.monotonic()
        while left := [f for f in self.findings() if f["type"] not in SHARED]:
            if time.monotonic() - begun > seconds:
                raise AssertionError(f"still said after {seconds:.0f} s: {_told(left)}")
            time.sleep(0.5)
        return time.monotonic() - begun

    def play(self, scenario: Scenario) -> None:
        self.quiet()
        before, seen = self.events(), set[str]()
        after: dict[str, float] = {}
        with _cured(scenario.cure) as cure:
            scenario.fault()
            begun, begun_at = time.monotonic(), datetime.now(UTC)
            waiting = {e.id: e for e in scenario.expected}
            looks = set[datetime]()
            while waiting:
                status = self.status()
                firing = _firing(_judged(status))
                passed = time.monotonic() - begun
                looks.add(datetime.fromisoformat(status["lastObservedAt"]))
                seen |= firing.keys()
                self._no_stranger(scenario, firing)
                for expected in [e for e in waiting.values() if e.id in firing]:
                    said = _words(firing[expected.id])
                    if all(w in said for w in expected.words):  # else a look that learnt less than the next one will
                        after[expected.id] = passed
                        del waiting[expected.id]
                due = [e for e in waiting.values() if _late(scenario.settle + e.lasts, passed, begun_at, looks)]
                late = [(e.id, *e.words) for e in due]
                assert not late, f"{late} not within {passed:.0f} s; said: {_told(_judged(status))}"
                time.sleep(0.5)
            end = time.monotonic() + scenario.keep
            while time.monotonic() < end:
                firing = self.firing()
                seen |= firing.keys()
                self._no_stranger(scenario, firing)
                gone = [e.id for e in scenario.expected if e.id not in firing]
                assert not gone, f"{gone} stopped firing while the fault lasted; said: {_told(self.findings())}"
                time.sleep(1)
            cure()
        cleared = self.quiet(scenario.clears_within)
        self._told_once(scenario, seen, before)
        for e in scenario.expected:
            self._row(f"{scenario.name:<40}", f"{e.id:<32} for {e.lasts:4.0f} s, fired after {after[e.id]:5.1f} s, "
                      f"gone {cleared:5.1f} s after the cure")  # fmt: skip

    def hold(self, twin: Twin) -> None:
        self.quiet()
        with _cured(twin.undo) as undo, ThreadPoolExecutor(1) as pool:
            acting, begun = pool.submit(twin.act), time.monotonic()
            while not acting.done() or time.monotonic() - begun < twin.seconds:
                firing = self.firing()
                wrong = [f for f in firing.values() if f["type"] not in twin.may | SHARED]
                assert not wrong, f"fired: {_told(wrong)}"
                time.sleep(1)
            acting.result()
            undo()
        self._row(f"twin: {twin.name:<34}", f"silent for {time.monotonic() - begun:5.1f} s")

    def _no_stranger(self, scenario: Scenario, firing: dict[str, Finding]) -> None:
        ids = {e.id for e in scenario.expected}
        strangers = [f for f in firing.values() if f["id"] not in ids and f["type"] not in scenario.also | SHARED]
        assert not strangers, f"fired as well: {_told(strangers)}"

    def _told_once(self, scenario: Scenario, seen: set[str], before: Counter[str]) -> None:
        """One event when it began to fire and one when it was gone, for each finding."""

        def told() -> Counter[str]:
            return self.events() - before

        for type_ in {e.type for e in scenario.expected} - SHARED:
            wanted = sum(i.partition("/")[0] == type_ for i in seen)
            wait_for(f"the events of {type_}", lambda t=type_, n=wanted: told()[f"{t}Gone"] >= n, 15)  # type: ignore[misc]
            counts = told()[type_], told()[f"{type_}Gone"]
            assert counts == (wanted, wanted), f"{type_}: {wanted} fired, events (fired, gone) {counts}"

    def _row(self, name: str, told: str) -> None:
        self.table.append(f"{name} {self.kafka.shape:<10} {told}")
        print(self.table[-1], flush=True)


Act = Scenario | Twin


def run(scenes: Iterable[Scene], acts: Callable[[Scene], Iterator[Act]], restore: Callable[[Scene], None]) -> None:
    """Everything on each deployment, one after the other; the deployments side by side. All that failed is told. The
    operator itself lives through all of it."""
    restarts = _restarts()

    def one(scene: Scene) -> list[str]:
        failed = []
        for act in acts(scene):
            begun = time.monotonic()
            try:
                scene.play(act) if isinstance(act, Scenario) else scene.hold(act)
            except Exception as problem:  # noqa: BLE001
                failed.append(f"{scene.kafka.shape}: {act.name}, after {time.monotonic() - begun:.0f} s: {problem}")
                print("FAILED", failed[-1], flush=True)
                restore(scene)
        return failed

    with ThreadPoolExecutor() as pool:
        problems = [line for failed in pool.map(one, scenes) for line in failed]
    if (again := _restarts() - restarts) > 0:
        problems.append(f"the operator was started {again} times again; its last words before: {_last_words()}")
    assert not problems, "\n".join(problems)


def patch(scene: Scene, spec: str) -> None:
    kubectl("patch", "kafkacluster", scene.name, "-n", scene.kafka.namespace, "--type=merge", "-p", spec)


def _restarts() -> int:
    (pod,) = get("pods", namespace=operator.NAMESPACE, selector="app.kubernetes.io/name=kafka-medic")["items"]
    return sum(int(c["restartCount"]) for c in pod["status"]["containerStatuses"])


def _last_words() -> str:
    log = ("logs", f"deployment/{operator.RELEASE}", "-n", operator.NAMESPACE, "--previous", "--tail=5")
    return kubectl(*log, check=False).stdout


def _late(due: float, passed: float, begun_at: datetime, looks: Collection[datetime]) -> bool:
    """Whether what was due so many seconds after it began has had its looks, or all the time they may take."""
    after = sum(look > begun_at + timedelta(seconds=due) for look in looks)
    return after > LOOKS or passed > due + LIMIT


def _judged(status: Mapping[str, Any]) -> list[Finding]:
    return [f for f in status.get("findings", []) if f["type"] not in ALWAYS]


def _firing(findings: Iterable[Finding]) -> dict[str, Finding]:
    return {f["id"]: f for f in findings if f["state"] == "Firing"}


def _words(finding: Finding) -> str:
    return " | ".join([finding["message"], *finding.get("evidence", ()), *finding.get("affected", ())])


def _told(findings: Iterable[Finding]) -> list[str]:
    return [f"{f['id']} {f['state']}: {_words(f)[:500]}" for f in findings]


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
