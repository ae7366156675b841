"""Runs on a large stub cluster with two operators, one of which is stopped in each run; and what each run cost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.observing import Report
from benchmarks.stub_pods import LABELS, StubPods
from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.clients.ports import NewTopic
from kafka_medic.resources.phases import TERMINAL_PHASES, Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_status import JournalEntry, RemediationStatus
from tests.incident.operator import kubeconfig
from tests.integration.operated_cluster import Person, Place
from tests.integration.people import RELEASE, RELEASE_NAMESPACE, placed
from tests.stub_cluster import StubProcess
from tests.testbed import kubectl

ROOT = Path(__file__).resolve().parent.parent
CLUSTER, TOPICS = "large", "raise"
"""The KafkaCluster, and how the names of the topics begin whose factor is raised."""
LEASE = 30.0
STOPPED = 45.0
"""Seconds for which an operator is stopped at least: longer than its Lease lasts."""
POLLED = 1.0
NEVER = ("elect-preferred-leaders", "raise-min-insync-replicas", "remove-leftover-throttles", "drain-broker")
"""Playbooks that would propose runs of their own beside those that are measured."""
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
WAVE, EACH = 200_000_000, 100_000_000
"""Bytes that a wave copies out of one broker, and bytes of a partition: two partitions make a wave."""
SENT_AS: Mapping[str, tuple[str, ...]] = {
    "ChangeSettings": ("alter",),
    "Reassign": ("reassign", "cancel"),
    "Reorder": ("reassign",),
    "ElectPreferred": ("elect",),
}
"""By kind of effect: kinds of orders that the stub brokers note."""
STANDS_BY = "Lease held by another operator"
TOO_OLD = "its observation is too old"
HELD_BACK = "held back"
EVICTIONS = re.compile(
    r'apiserver_request_total\{[^}]*code="201"[^}]*resource="pods"[^}]*subresource="eviction"[^}]*\} (\S+)'
)
STAMP = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]")
RECONCILES = re.compile(r"^kafka_medic_reconciles_total\{.*\} (\S+)$", re.MULTILINE)


class GaveUp(Exception):
    """Something took longer than it may."""


@dataclass
class Effect:
    """`due`: seconds from its journal entry until the cluster got it. None: it was never seen there."""

    kind: str
    target: str
    due: float | None


@dataclass
class Run:
    """`seconds`: from the approval to the end. `takeover`: from the stop of the holder until the other one held the
    Lease. `lost`: reconciles that a holder threw away, by why. `waited`: seconds in which a guard was seen to hold the
    run back. `twice`: effects that came twice. `left`: what is left in Kafka afterwards. `evictions`: how many the API
    server granted. `evicted`: the Pods that went."""

    name: str
    phase: str = ""
    message: str = ""
    seconds: float | None = None
    takeover: float | None = None
    reconciles: int | None = None
    effects: list[Effect] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)
    waited: dict[str, float] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    evictions: int = 0
    evicted: list[str] = field(default_factory=list)
    orders: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    requests: int = 0
    error: str | None = None

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Large(Place):
    """The KafkaCluster of the stub brokers."""

    def __init__(self, admin: Person, namespace: str, bootstrap: str, interval: float) -> None:
        self._interval = interval
        super().__init__(admin, namespace, CLUSTER, bootstrap)

    def __post_init__(self) -> None:
        raised = {"pattern": rf"{TOPICS}\..*", "replicationFactor": 3}
        observed = [{"name": name, "mode": "Observe"} for name in NEVER]
        raising = {"name": "raise-replication-factor", "parameters": {"waveBytesPerBroker": WAVE}}
        spec = {
            "bootstrapServers": self.kafka_at,
            "brokers": {"podSelector": {"matchLabels": LABELS}},
            "expectations": {"topics": [raised, {"pattern": ".*", "exempt": True}]},
            "probes": {"interval": f"{self._interval:g}s", "timeout": "30s"},
            "remediation": {"limits": {"cooldown": "0s"}, "playbooks": [*observed, raising]},
        }
        body = placed("KafkaCluster", self.namespace, **spec)
        body["metadata"] = {"name": self.name, "namespace": self.namespace}
        self.uid = str(self.admin.create(self.path("kafkaclusters"), body)["metadata"]["uid"])

    def holder(self) -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/kafka-medic-{self.name}"
        try:
            return str(self.admin.get(path)["spec"].get("holderIdentity") or "")
        except ApiFailure as problem:
            if problem.not_found:
                return ""
            raise

    def proposed(self, playbook: str, known: set[str]) -> str | None:
        """A run that waits for an approval and is none of these."""
        for body in self.admin.list(self.path("remediations")):
            name, waits = body["metadata"]["name"], body.get("status", {}).get("phase") == Phase.AWAITING_APPROVAL
            if waits and name not in known and body["spec"]["playbook"]["name"] == playbook:
                return str(name)
        return None


@dataclass
class Operator:
    name: str
    process: subprocess.Popen[bytes]
    metrics: int
    log: Path

    def stop(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def reconciles(self) -> float:
        """That ended well."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=30) as answer:
            return sum(map(float, RECONCILES.findall(answer.read().decode())))

    def said(self, words: str) -> list[float]:
        """When, in seconds since the epoch."""
        lines = (line for line in self.log.read_text(errors="replace").splitlines() if words in line)
        found = (STAMP.match(line) for line in lines)
        return [
            datetime.strptime(m[1], "%Y-%m-%d %H:%M:%S").astimezone().timestamp() + int(m[2]) / 1000 for m in found if m
        ]


@contextmanager
def operators(folder: Path, namespace: str, ports: int) -> Iterator[dict[str, Operator]]:
    """Two processes with the rights that the chart gives. `ports`: the first of four."""
    path = kubeconfig(folder / "kubeconfig", RELEASE, RELEASE_NAMESPACE)
    found: dict[str, Operator] = {}
    try:
        for number, name in enumerate(("first", "second")):
            environment = os.environ | {"KUBECONFIG": str(path), "POD_NAME": name, "POD_IP": "127.0.0.1"}
            liveness, metrics = ports + 2 * number, ports + 2 * number + 1
            line = [sys.executable, "-m", "kafka_medic.controller", "--watch-namespaces", namespace]
            line += ["--rules", str(path.with_name("rules.json")), "--loopback-destinations"]
            line += ["--liveness-port", str(liveness), "--metrics-port", str(metrics)]
            log = folder / f"{name}.log"
            with log.open("wb") as out:
                process = subprocess.Popen(line, env=environment, stdout=out, stderr=out, cwd=ROOT)
            found[name] = Operator(name, process, metrics, log)
        yield found
    finally:
        for one in found.values():
            one.go_on()
            one.process.terminate()
        for one in found.values():
            try:
                one.process.wait(60)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()


@dataclass
class Stage:
    """Everything that a run needs. `held`: when the Lease was seen to get another holder, and which."""

    place: Large
    people: Mapping[str, Person]
    stub: StubProcess
    kafka: RealKafka
    pods: StubPods
    operators: Mapping[str, Operator]
    give_up: float
    report: Report
    held: list[tuple[float, str]] = field(default_factory=list)
    _waited: Counter[str] = field(default_factory=Counter)
    _run: str | None = None
    _last: str = ""
    _approved: str = ""
    _since: int = 0

    def until(self, what: str, so: Callable[[], bool], seconds: float | None = None) -> None:
        """Polls. Raises GaveUp."""
        end = time.monotonic() + (seconds or self.give_up)
        while True:
            try:
                self._poll()
                if so():
                    return
            except (ApiFailure, ReadFailed) as problem:  # on a busy machine the next poll may be answered
                self.report(f"poll: {problem}")
            if time.monotonic() > end:
                raise GaveUp(f"not within {seconds or self.give_up:.0f} s: {what}")
            if any(one.process.poll() is not None for one in self.operators.values()):
                raise GaveUp("an operator's process ended")
            time.sleep(POLLED)

    def present(self) -> Remediation:
        assert self._run is not None
        return self.place.run(self._run)

    def ended(self) -> bool:
        return self.present().status.phase in TERMINAL_PHASES

    def _poll(self) -> None:
        holder = self.place.holder()
        if not self.held or self.held[-1][1] != holder:
            self.held.append((time.time(), holder))
            self.report(f"Lease held by {holder or 'nobody'}")
        if self._run is None:
            return
        status = self.present().status
        self._approve(status)
        for guard in {w.guard.value for w in status.waiting_for}:
            self._waited[guard] += 1
        told = f"{status.phase}: {(status.message or '').splitlines()[0] if status.message else ''}"[:160]
        if told != self._last:
            self._last = told
            self.report(told)

    def _approve(self, status: RemediationStatus) -> None:
        """Also a plan that was made anew, since the cluster had changed meanwhile."""
        waits = status.phase is Phase.AWAITING_APPROVAL and status.plan is not None
        if waits and status.plan is not None and status.plan.digest != self._approved:
            assert self._run is not None
            self._approved = status.plan.digest
            self.place.say(self.people["alice"], self._run)
            self.report(f"approved {self._run}, {self._approved[:20]}")

    def carried_out(
        self,
        name: str,
        ask: Callable[[], str],
        half_way: Callable[[], None],
        then: Callable[[], None] = lambda: None,
        about: Sequence[str] = (),
    ) -> Run:
        """One run. `ask` answers its name once it awaits approval. Once `half_way` is over, the holder of the Lease is
        stopped, and after `then` the other one has to finish. `about`: topics in which nothing may be left."""
        found = Run(name)
        stopped: Operator | None = None
        self._run, self._waited, self._last, self._approved = None, Counter(), "", ""
        try:
            run = ask()
            orders, evicted = len(self.stub.orders()), _evictions()
            reconciles = sum(one.reconciles() for one in self.operators.values())
            self.stub.reset()
            self.report(f"{name}: {run}")
            self._run, began = run, time.time()
            half_way()
            holder = self.place.holder()
            stopped, at = self.operators[holder], time.time()
            stopped.stop()
            self.report(f"stopped {holder} (SIGSTOP)")
            then()
            self.until("the other operator with the Lease", lambda: self.place.holder() not in ("", holder), 6 * LEASE)
            found.takeover = time.time() - at
            self.until("", lambda: time.time() >= at + STOPPED)
            stopped.go_on()
            self.report(f"continued {holder} (SIGCONT)")
            stopped = None
            self.until("the end of the run", self.ended)
            found.seconds = time.time() - began
            status = self.present().status
            finished = status.finished_at
            if finished is not None:
                found.seconds = finished.timestamp() - began
            found.reconciles = int(sum(one.reconciles() for one in self.operators.values()) - reconciles)
            counts = self.stub.counts()
            found.sent, found.requests = counts["sent"], counts["requests"]
            if counts["refused"]:
                found.error = f"the stub brokers do not answer {counts['refused']}"
            taken = self.stub.orders()[orders:]
            found.orders = dict(Counter(order["kind"] for order in taken))
            gone = {uid: told for uid, told in self.pods.evicted.items() if told[0] >= began}
            found.evicted = [f"broker {broker}, Pod {uid}" for uid, (_, broker) in gone.items()]
            found.effects = _effects(status.journal, taken, gone)
            found.twice = _twice(taken)
            found.evictions = int(_evictions() - evicted)
            if found.evictions > len(gone):
                found.twice.append(f"{found.evictions} evictions of {len(gone)} Pods")
            found.left = self._left(about)
        except (GaveUp, ApiFailure, OSError, ReadFailed) as problem:
            found.error = str(problem) or repr(problem)
            self.report(f"{name}: {found.error}")
        finally:
            if stopped is not None:
                stopped.go_on()
        if self._run is not None:
            status = self.present().status
            found.phase, found.message = str(status.phase), status.message or ""
            found.lost = self._lost(began)
        found.waited = {guard: count * POLLED for guard, count in self._waited.items()}
        if self.pods.problems:
            found.error = "; ".join([*([found.error] if found.error else []), *self.pods.problems])
        return found

    def _lost(self, began: float) -> dict[str, int]:
        """A holder stands by once it has lost the Lease in a reconcile. The one that was stopped does so when it is
        continued, which is the takeover."""
        found: Counter[str] = Counter()
        for (start, name), (end, _) in zip(self.held, [*self.held[1:], (time.time(), "")], strict=True):
            if name in self.operators:
                inside = (max(start, began) + 2 * POLLED, end - 2 * POLLED)
                found["lease"] += sum(inside[0] <= at <= inside[1] for at in self.operators[name].said(STANDS_BY))
        for one in self.operators.values():
            found["freshness"] += sum(at >= began for at in one.said(TOO_OLD))
            found["held back"] += sum(at >= began for at in one.said(HELD_BACK))
        return dict(found)

    def _left(self, topics: Sequence[str]) -> list[str]:
        left = [f"reassignment of {tp}" for tp in self.kafka.reassignments()]
        for topic, settings in self.kafka.topic_configs(list(topics)).items():
            assert not isinstance(settings, ReadFailed), settings
            left += [f"{topic}: {name}" for name, value in settings.items() if "throttled" in name and value.dynamic]
        if topics:
            for broker, settings in self.kafka.broker_configs(range(self.stub.size.brokers), RATES).items():
                if isinstance(settings, ReadFailed):
                    left.append(f"settings of broker {broker}: {settings}")
                else:
                    left += [f"broker {broker}: {name}" for name, value in settings.items() if value.dynamic]
        return left

    # -- the three runs -----------------------------------------------------------------------------

    def roll(self, brokers: Sequence[int]) -> Run:
        """The holder is stopped once the first broker is away."""
        before = len(self.pods.evicted)

        def ask() -> str:
            run = self.place.ask(
                self.people["bob"], "rolling-restart", parameters={"brokers": ",".join(map(str, brokers))}
            )
            waits = lambda: self.place.run(run).status.phase is Phase.AWAITING_APPROVAL  # noqa: E731
            self.until("the plan of the roll", waits)
            return run

        away = lambda: len(self.pods.evicted) > before  # noqa: E731
        return self.carried_out("roll", ask, lambda: self.until("the first eviction", away))

    def raised(self, partitions: int) -> Run:
        """The holder is stopped once the first replicas are on their way."""
        ask, topic = self._raise_of("whole", partitions)
        return self.carried_out("raise", ask, lambda: self._moving(0), about=[topic])

    def aborted(self, partitions: int) -> Run:
        """The holder is stopped, and the plan rejected, once the first wave is over and the second is on its way."""
        ask, topic = self._raise_of("aborted", partitions)

        def half_way() -> None:
            first = self._moving(0)
            self.until("the end of the first wave", lambda: not self.kafka.reassignments())
            self.stub.pace(None, 2.0)  # the second wave lasts until it is cancelled
            self._moving(first)

        def then() -> None:
            assert self._run is not None
            self.place.say(self.people["alice"], self._run, decision="Reject", reason="a benchmark of the clean-up")
            self.report("rejected")

        try:
            return self.carried_out("aborted raise", ask, half_way, then, [topic])
        finally:
            self.stub.pace(5.0, 2.0)

    def _moving(self, before: int) -> int:
        """Once there are more orders to reassign than before: how many."""
        since = self._since
        count = lambda: sum(o["kind"] == "reassign" for o in self.stub.orders()[since:])  # noqa: E731
        self.until("replicas on their way", lambda: count() > before)
        return count()

    def _raise_of(self, name: str, partitions: int) -> tuple[Callable[[], str], str]:
        """A topic with two replicas, all led by one broker, so that it takes several waves."""
        topic = f"{TOPICS}.{name}"

        def ask() -> str:
            known = {body["metadata"]["name"] for body in self.place.admin.list(self.place.path("remediations"))}
            self.kafka.create_topic(NewTopic(topic, ((0, 1),) * partitions, {"min.insync.replicas": "1"}))
            self.stub.fill(topic, EACH)
            self._since = len(self.stub.orders())
            playbook = "raise-replication-factor"
            self.until("the plan of the raise", lambda: self.place.proposed(playbook, known) is not None)
            run = self.place.proposed(playbook, known)
            assert run is not None
            return run

        return ask, topic


def _effects(
    journal: Sequence[JournalEntry], taken: Sequence[Mapping[str, Any]], gone: Mapping[str, tuple[float, int]]
) -> list[Effect]:
    found = []
    for entry in sorted(journal, key=lambda e: e.intended_at):
        at = entry.intended_at.timestamp()
        if entry.target_uid is not None:
            moments = [gone[entry.target_uid][0]] if entry.target_uid in gone else []
        elif entry.kind in SENT_AS:
            until = entry.done_at.timestamp() + 1 if entry.done_at else float("inf")
            moments = [o["at"] for o in taken if o["kind"] in SENT_AS[entry.kind] and at - 1 <= o["at"] <= until]
        else:
            continue
        found.append(Effect(entry.kind, entry.target[:60], max(0.0, min(moments) - at) if moments else None))
    return found


def _twice(taken: Sequence[Mapping[str, Any]]) -> list[str]:
    """Orders that were followed and changed nothing, since the same was ordered before and nothing else since."""
    last: dict[tuple[str, str], str] = {}
    found = []
    for order in taken:
        if order["error"]:
            continue
        kind = "reassign" if order["kind"] == "cancel" else order["kind"]
        key, value = (kind, order["target"]), f"{order['kind']} {order['value']}"
        if last.get(key) == value:
            found.append(f"{order['kind']} {order['target']} {order['value']}")
        last[key] = value
    return found


def _evictions() -> float:
    """That the API server granted so far."""
    return sum(map(float, EVICTIONS.findall(kubectl("get", "--raw", "/metrics").stdout)))
