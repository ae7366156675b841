"""While a raise copies, somebody else's replica falls behind: the rate is halved on every broker of the plan, and
brought back when all has been well for two minutes. At the end every throttle is as it was, somebody else's too."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import pytest

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, ConfigChange, Connection
from kafka_medic.playbook.reassign.rate import CALM_SECONDS
from tests.conftest import one_of_each_kind
from tests.e2e.conftest import STEADY, Case, at_the_same_time
from tests.gameday.cluster import RATES, REPLICAS
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, Shape, external_kubeconfig, faults, own_state, wait_for
from tests.testbed.kafka_settings import CLIENT_PORT

SLOTS: dict[Shape, int] = {"kraft": 9, "zookeeper": 11}
SETTINGS = STEADY | {"auto.leader.rebalance.enable": "false", "replica.lag.time.max.ms": 6000}
BANDWIDTH = {"bandwidthBytesPerSecond": 4_000_000, "bandwidthSharePercent": 25}
RATE = 1_000_000
"""Its share. Broker 0, which has all there is to copy, sends it twice: for two minutes."""
BYTES, MESSAGES = 500_000, (10, 10, 25, 25, 25, 25)
"""Of each partition. The small ones are done first, which a bar can show."""
PARTITIONS = len(MESSAGES)
BROKERS = (0, 1, 2)
LEADS, FOLLOWS = 1, 2
"""Of the topic beside; what is copied does not pass between these two."""
THEIRS = ("BROKER", "1", RATES[1], "7000000"), ("BROKER", "2", RATES[0], "9000000")


@pytest.fixture
def cases(request: pytest.FixtureRequest, installed: None) -> list[Case]:
    made = one_of_each_kind(request, "gameday-slowed", SETTINGS, SLOTS)
    for kafka in made:
        operator.people(kafka.namespace)
    return [Case(kafka, f"slowed-{uuid.uuid4().hex[:4]}") for kafka in made]


def test_copying_gives_way_and_comes_back(cases: list[Case]) -> None:
    at_the_same_time(gives_way, cases)


def gives_way(case: Case) -> None:
    low = case.topic(*[[0]] * PARTITIONS, config={"min.insync.replicas": "1"})
    beside = case.topic([LEADS, FOLLOWS, 0], suffix="beside")
    for partition, number in enumerate(MESSAGES):
        assert records.write(case.boot, low, ["x" * BYTES] * number, partition) == number
    client = RealKafka(Connection(case.boot, timeout_seconds=30.0))
    theirs = [ConfigChange(*setting) for setting in THEIRS]
    client.alter_configs([*theirs, ConfigChange("TOPIC", low, REPLICAS[0], "9:0"), *listed(beside)])
    before = operator.throttles(case.boot)
    assert len(before) == len(THEIRS) + 3
    overrides = [
        {"name": "raise-replication-factor", "parameters": BANDWIDTH},
        {"name": "remove-leftover-throttles", "mode": "Observe"},
    ]
    case.watch(remediation={"limits": {"cooldown": "0s"}, "playbooks": overrides})
    traffic = records.Traffic(case.boot, beside)
    traffic.start()
    rates = Rates(case.boot)
    try:
        run = case.wait("AwaitingApproval")
        assert "(25 % of the 4.0 MB/s stated)" in run["status"]["plan"]["summary"]
        assert operator.approve(run, "alice").returncode == 0
        with rates.followed(), bars_of(run) as bars:
            wait_for("copying at the plan's rate", lambda: rates.now == {RATE} and bool(client.reassignments()), 60)
            found = client.topic_configs([low])[low]
            leads, follows = (str(found[name].value).split(",") for name in REPLICAS)
            assert sorted(leads) == [*(f"{n}:0" for n in range(PARTITIONS)), "9:0"]
            assert sorted(follows) == [f"{n}:{b}" for n in range(PARTITIONS) for b in (1, 2)]
            with link_down(case.kafka):
                wait_for("a replica that is not ours out of its ISR", lambda: FOLLOWS not in isr(client, beside), 40)
                wait_for("half the rate on every broker", lambda: rates.now == {RATE // 2}, 40)
            wait_for("it is back in its ISR", lambda: FOLLOWS in isr(client, beside), 60)
            begun = time.monotonic()
            wait_for("the plan's rate again", lambda: rates.now == {RATE}, 400)
            calm = time.monotonic() - begun
            done = case.wait("Succeeded", 400)
    finally:
        traffic.stop()
    changes = [e for e in done["status"]["journal"] if e["id"].startswith("add-replicas/rate-")]
    print(
        f"\n{case.kafka.shape}: rates {rates.told()}; back {calm:.0f} s after the replica; {len(traffic.acked)} records"
    )
    assert any(re.search(r"\[#+\.+\] \d/6 partitions, .* of .*, at least .* left", line) for line in bars), bars
    assert all(rate <= RATE for _, seen in rates.seen for rate in seen - {int(s[3]) for s in THEIRS})
    assert f"{beside}-0" in changes[0]["detail"]
    assert "no replica falls behind" in changes[-1]["detail"]
    noted = [text for reason, text in case_events(case, run) if reason == "Effect"]
    assert any("fall behind" in text and f"{beside}-0" in text for text in noted)
    assert any("no replica falls behind" in text for text in noted)
    waited = datetime.fromisoformat(changes[-1]["intendedAt"]) - datetime.fromisoformat(changes[-2]["doneAt"])
    assert waited.total_seconds() >= CALM_SECONDS
    assert operator.throttles(case.boot) == before
    assert case.factors() == {3}
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    client.close()
    case.end()


def listed(topic: str) -> list[ConfigChange]:
    """Somebody throttles a follower of this topic, with no rate of their own on its broker."""
    return [ConfigChange("TOPIC", topic, REPLICAS[0], "*"), ConfigChange("TOPIC", topic, REPLICAS[1], f"0:{FOLLOWS}")]


@contextmanager
def link_down(kafka: KafkaDeployment) -> Iterator[None]:
    """What the follower fetches from the leader beside does not arrive; both answer everybody else."""
    source, destination = (faults.pod_address(kafka.namespace, kafka.pod_name(b)) for b in (FOLLOWS, LEADS))
    faults.cut(source, destination, CLIENT_PORT)
    try:
        yield
    finally:
        faults.rejoin(source, destination, CLIENT_PORT)


@contextmanager
def bars_of(run: operator.Object) -> Iterator[list[str]]:
    """What the command prints meanwhile to somebody who watches."""
    meta, lines = run["metadata"], list[str]()
    words = ["show", meta["name"], "--watch", "-n", meta["namespace"]]
    where = [] if external_kubeconfig() else ["--kubeconfig", str(own_state().kubeconfig("admin"))]
    command = [sys.executable, "-m", "kafka_medic.cli.main", "remediation", *words, *where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reading = threading.Thread(target=lambda: lines.extend(process.stdout or ()), daemon=True)
        reading.start()
        try:
            yield lines
        finally:
            process.terminate()
            reading.join(10)


def isr(client: RealKafka, topic: str) -> Sequence[int]:
    view = client.views([LEADS])[LEADS]
    assert isinstance(view, BrokerView)
    return next(p.isr for p in view.partitions if p.topic == topic)


def case_events(case: Case, run: operator.Object) -> list[tuple[str, str]]:
    return operator.events(case.namespace, run["metadata"]["name"])


@dataclass
class Rates:
    """What the brokers themselves say of their replication rates, as long as it is followed."""

    bootstrap: str
    seen: list[tuple[float, set[int]]] = field(default_factory=list)
    now: set[int] = field(default_factory=set)
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def followed(self) -> Iterator[None]:
        thread = threading.Thread(target=self._follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join(60)

    def told(self) -> str:
        return ", ".join(f"{at:.0f} s {'/'.join(map(str, sorted(rates))) or 'none'}" for at, rates in self.seen)

    def _follow(self) -> None:
        client, begun = RealKafka(Connection(self.bootstrap, timeout_seconds=10.0)), time.monotonic()
        while not self._over.wait(0.5):
            try:
                told = client.broker_configs(BROKERS)
            except ReadFailed:
                continue
            values = [told[b][name] for b in BROKERS for name in RATES if name in told[b]]
            # A broker without a rate of its own counts too: then not all have one.
            found = {int(v.value or -1) if v.dynamic else -1 for v in values}
            self.now = found
            if not self.seen or self.seen[-1][1] != found - {-1}:
                self.seen.append((time.monotonic() - begun, found - {-1}))
        client.close()
