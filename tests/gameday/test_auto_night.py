"""A night in mode Auto on real clusters, under load: from each cause to its cure without a person, several causes at
the same time, on clusters of both kinds. Then each thing that stops it: a bound, a window, a pause, mostAtOnce, the
breaker."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import cycle
from typing import Any

import pytest

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, ConfigChange, Connection, PartitionState
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.kafkacluster_remediation import Day
from tests.e2e.conftest import STEADY, Case, tune_playbooks
from tests.gameday.cluster import RATES, Cuts, controller, cut_from_controller, others
from tests.gameday.scenario import Scene
from tests.incident import operator, records
from tests.testbed import Shape, deployed, get, kubectl, wait_for

PLACES: list[tuple[str, Shape, int]] = [
    ("gameday-night-a", "kraft", 9),
    ("gameday-night-b", "zookeeper", 11),
    ("gameday-night-c", "kraft", 12),
]
NIGHT_SECONDS = float(os.environ.get("NIGHT_SECONDS", "0"))
"""The causes begin anew until so much time has passed. Once through them on three clusters took 817 s."""
AWAY = 1
CURED_WITHIN = 240.0
LONGEST_CURE = 120.0
"""Of a throttle left behind; 78 s was seen on two busy cores."""
SOONER = (
    "rolling-restart",
    "reset-consumer-offsets",
    "elect-preferred-leaders",
    "drain-broker",
    "undrain-broker",
    "remove-leftover-throttles",
    "raise-min-insync-replicas",
)
FREE = {
    "limits": {"cooldown": "0s", "perDay": 1000},
    "breaker": {"failures": 100},
    "auto": {"maxRisk": "High"},
    "playbooks": [{"name": "rolling-restart", "parameters": {"brokers": "cause"}}],
}
"""A night of an hour has as many causes as a month: what counts runs is tried on its own, at the end."""


@dataclass
class Night:
    case: Case
    client: RealKafka
    traffic: records.Traffic
    live: str
    cuts: Cuts
    number: int = 0
    times: list[str] = field(default_factory=list)

    def rows(self) -> list[PartitionState]:
        view = self.client.views([0])[0]
        return [p for p in view.partitions if p.topic in self.case.topics] if isinstance(view, BrokerView) else []

    def topic(self, *assignment: list[int], minimum: str) -> str:
        self.number += 1
        return self.case.topic(*assignment, suffix=f"t{self.number}", config={"min.insync.replicas": minimum})

    def rule(self, **remediation: Any) -> None:
        patch = json.dumps({"spec": {"remediation": remediation}})
        kubectl("patch", "kafkacluster", self.case.name, "-n", self.case.namespace, "--type=merge", "-p", patch)

    def done(self) -> Counter[str]:
        return Counter(r["spec"]["playbook"]["name"] for r in self.case.runs() if operator.phase(r) == "Succeeded")


Cause = Callable[[Night], Callable[[], bool]]
"""Brings it about; the answer tells whether it is cured."""


def throttle_left_behind(night: Night) -> Callable[[], bool]:
    night.client.alter_configs([ConfigChange("BROKER", "0", RATES[0], "1000000")])
    wait_for("the throttle", lambda: bool(operator.throttles(night.case.boot)), 30)
    return lambda: operator.throttles(night.case.boot) == []


def topic_with_one_replica(night: Night) -> Callable[[], bool]:
    name = night.topic([0], [1], [2], minimum="1")
    records.write(night.case.boot, name, [uuid.uuid4().hex] * 50)
    return lambda: whole(night, name) and floor(night, name) == "2"


def topic_with_a_low_minimum(night: Night) -> Callable[[], bool]:
    name = night.topic([0, 1, 2], [1, 2, 0], minimum="1")
    return lambda: floor(night, name) == "2"


def broker_without_leaderships(night: Night) -> Callable[[], bool]:
    night.case.kafka.restart_broker(2)
    return lambda: led_as_preferred(night)


def offset_beyond_the_end(night: Night) -> Callable[[], bool]:
    name = night.topic([0, 1, 2], minimum="2")
    records.write(night.case.boot, name, [uuid.uuid4().hex] * 20)
    records.commit_offset(night.case.boot, f"{name}-billing", name, 50)
    return lambda: records.committed(night.case.boot, f"{name}-billing", name) == 20


def broker_from_behind(night: Night) -> Callable[[], bool]:
    """The controller does not reach it, so it has not heard who leads now. It comes back with another address."""
    scene = Scene(night.case.kafka, night.case.name)
    active = controller(scene)
    stale, other = others(active)
    tp = TopicPartition(night.topic([other, active, stale], minimum="2"), 0)
    wait_for("the topic", lambda: leader(night, stale, tp) == other, 30)
    cut_from_controller(scene, stale, night.cuts)
    assert night.client.alter_reassignments({tp: [active, other, stale]}) == {}
    wait_for(
        "the election", lambda: night.client.elect_preferred([tp]) == {} and leader(night, other, tp) == active, 60
    )
    assert leader(night, stale, tp) == other, "it has not heard of it"
    return lambda: leader(night, stale, tp) == active and whole(night, tp.topic)


def leader(night: Night, witness: int, tp: TopicPartition) -> int | None:
    """By that broker's own metadata."""
    view = night.client.views([witness])[witness]
    rows = view.partitions if isinstance(view, BrokerView) else ()
    return next((p.leader for p in rows if (p.topic, p.partition) == tp), None)


def whole(night: Night, name: str) -> bool:
    return all(len(p.isr) == len(p.replicas) == 3 for p in night.rows() if p.topic == name)


def floor(night: Night, name: str) -> str | None:
    """None while it cannot be read."""
    found = night.client.topic_configs([name])[name]
    return None if isinstance(found, ReadFailed) else found["min.insync.replicas"].value


def leads_nothing(night: Night) -> bool:
    found = night.rows()
    return bool(found) and all(p.leader != AWAY for p in found)


def leads_again(night: Night) -> bool:
    """A drained broker is the first replica of nothing, so that every leader is the preferred one there too."""
    return led_as_preferred(night) and any(p.leader == AWAY for p in night.rows())


def led_as_preferred(night: Night) -> bool:
    found = night.rows()
    return bool(found) and all(p.leader == p.replicas[0] for p in found)


ROUNDS: list[list[Cause]] = [
    [throttle_left_behind],
    [topic_with_one_replica],
    [topic_with_a_low_minimum],
    [broker_without_leaderships],
    [topic_with_one_replica, throttle_left_behind],
    [broker_without_leaderships, topic_with_a_low_minimum],
    [topic_with_one_replica, topic_with_a_low_minimum, throttle_left_behind],
    [offset_beyond_the_end],
    [broker_from_behind],
    [offset_beyond_the_end, broker_without_leaderships, topic_with_one_replica],
]
OF_ZOOKEEPER = (broker_from_behind,)
"""A KRaft controller fences a broker that does not hear of it (KIP-631), so that it is away and not stale."""


@pytest.fixture
def nights(installed: None) -> Iterator[list[Night]]:
    settings = STEADY | {"auto.leader.rebalance.enable": "false"}
    tuned("5s")
    with ExitStack() as stack:
        found = [deployed(namespace, shape, settings, slot) for namespace, shape, slot in PLACES]
        yield [stack.enter_context(watched(stack.enter_context(place))) for place in found]
    tune_playbooks()


def tuned(after: str) -> None:
    for playbook in SOONER:
        kubectl("patch", "playbook", playbook, "--type=merge", "-p", json.dumps({"spec": {"trigger": {"for": after}}}))


@contextmanager
def watched(kafka: Any) -> Iterator[Night]:
    operator.people(kafka.namespace)
    case = Case(kafka, f"night-{uuid.uuid4().hex[:4]}")
    live = case.topic([0, 1, 2], [1, 2, 0], [2, 0, 1], suffix="live", config={"min.insync.replicas": "2"})
    case.watch(remediation={"mode": "Auto", **FREE})
    client, cuts = RealKafka(Connection(kafka.bootstrap, timeout_seconds=20.0)), Cuts()
    traffic = records.Traffic(case.boot, live)
    traffic.start()
    try:
        yield Night(case, client, traffic, live, cuts)
    finally:
        cuts.mend()
        traffic.stop()
        client.close()
        case.end()


def test_a_night_in_mode_auto(nights: list[Night]) -> None:
    began = time.monotonic()
    rounds: list[Callable[[], None]] = [partial(everywhere, nights, partial(cured, causes=c)) for c in ROUNDS]
    rounds.append(partial(node_in_maintenance, nights))
    for done, next_causes in enumerate(cycle(rounds), 1):
        next_causes()
        if done >= len(rounds) and time.monotonic() - began >= NIGHT_SECONDS:
            break
    lasted = time.monotonic() - began
    for night in nights:
        runs = night.case.runs()
        assert {r["status"].get("approvedBy") for r in runs if operator.phase(r) == "Succeeded"} == {"policy:Auto"}
        assert all(not r["status"].get("approvals") for r in runs)
        told = Counter(reason for reason, _ in night.case.events())
        print(f"\n{night.case.kafka.shape}: {'; '.join(night.times)}; runs {dict(night.done())}; events {dict(told)}")
        print(f"{night.case.kafka.shape}: {len(night.times)} cures")
    print(f"causes for {len(nights)} clusters in {lasted:.0f} s, nobody was asked")

    first = nights[0]
    stops_at_a_bound(first)
    stops_outside_its_window(first)
    stops_at_a_pause(first)
    stops_where_others_run(first, nights[1])
    stops_at_the_breaker(first)
    for night in nights:
        night.traffic.stop()
        assert (night.traffic.lost, night.traffic.doubled, night.traffic.failed) == (set(), [], [])
        print(f"{night.case.kafka.shape}: {len(night.traffic.acked)} records acknowledged, none lost or doubled")


def everywhere(nights: list[Night], story: Callable[[Night], None]) -> None:
    with ThreadPoolExecutor(len(nights)) as pool:
        list(pool.map(story, nights))


def cured(night: Night, *, causes: list[Cause]) -> None:
    began = time.monotonic()
    mine = [c for c in causes if c not in OF_ZOOKEEPER or night.case.kafka.shape == "zookeeper"]
    for cause, is_cured in [(cause, cause(night)) for cause in mine]:
        try:
            wait_for(f"the cure of {cause.__name__}", is_cured, CURED_WITHIN)
        except Exception as problem:
            told = [(r["metadata"]["name"], r.get("status", {}).get("message")) for r in night.case.runs()]
            raise AssertionError(f"{night.case.kafka.shape}: {cause.__name__} is not cured; {told[-4:]}") from problem
        night.times.append(f"{cause.__name__} {time.monotonic() - began:.0f} s")
    night.cuts.mend()
    at_rest(night)


def at_rest(night: Night) -> None:
    wait_for("every run to end", lambda: acting(night) == [], 120)


def acting(night: Night) -> list[str]:
    ends = ("Succeeded", "Superseded", "Aborted", "Expired", "Failed")
    return [r["metadata"]["name"] for r in night.case.runs() if operator.phase(r) not in ends]


def node_in_maintenance(nights: list[Night]) -> None:
    """The deployments share the node: all of them are drained, and lead there again afterwards."""
    nodes = {night.case.kafka.node_of(AWAY) for night in nights}
    try:
        kubectl("cordon", *nodes)
        for night in nights:
            wait_for("leaderships to leave", partial(leads_nothing, night), CURED_WITHIN)
    finally:
        kubectl("uncordon", *nodes)
    for night in nights:
        wait_for("leaderships to come back", partial(leads_again, night), CURED_WITHIN)
        at_rest(night)
        night.times.append("node in maintenance and back")


def stops_at_a_bound(night: Night) -> None:
    night.rule(auto={"maxPartitions": 2})
    name = night.topic([0], [1], [2], minimum="1")
    asks(night, "raise-replication-factor", "auto.maxPartitions is 2")
    assert not whole(night, name)
    night.rule(auto={"maxPartitions": None})
    wait_for("the cure", lambda: whole(night, name) and floor(night, name) == "2", CURED_WITHIN)
    at_rest(night)


def stops_outside_its_window(night: Night) -> None:
    day = list(Day)[(datetime.now(UTC).weekday() + 3) % 7]
    night.rule(auto={"windows": [{"days": [day.value], "start": "00:00", "end": "00:01"}]})
    night.client.alter_configs([ConfigChange("BROKER", "0", RATES[0], "1000000")])
    asks(night, "remove-leftover-throttles", "spec.remediation.auto.windows")
    assert operator.throttles(night.case.boot)
    night.rule(auto={"windows": None})
    wait_for("the cure", lambda: operator.throttles(night.case.boot) == [], CURED_WITHIN)
    at_rest(night)


def stops_at_a_pause(night: Night) -> None:
    """In the middle of a copy: nothing more is sent, and what was sent ends."""
    name = copying(night)
    night.rule(paused=True)
    night.case.wait_for_guard("NotPaused", 90)
    wait_for("what was sent to end", lambda: not night.client.reassignments(), 120)
    assert any(len(p.replicas) == 1 for p in night.rows() if p.topic == name), "nothing more is sent"
    goes_on(night, name)


def copying(night: Night) -> str:
    """A topic whose replicas are copied slowly, wave by wave."""
    slow = {"throttleBytesPerSecond": 1_000_000, "waveBytesPerBroker": 10_000_000}
    night.rule(playbooks=[{"name": "raise-replication-factor", "parameters": slow}])
    name = night.topic([0], [0], [0], [0], minimum="1")
    for partition in range(4):
        records.write(night.case.boot, name, ["x" * 500_000] * 10, partition)
    wait_for("a copy", lambda: any(tp.topic == name for tp in night.client.reassignments()), 120)
    return name


def goes_on(night: Night, name: str) -> None:
    night.rule(paused=False)
    wait_for("the cure", lambda: whole(night, name) and floor(night, name) == "2", CURED_WITHIN)
    at_rest(night)


def stops_where_others_run(night: Night, other: Night) -> None:
    """With mostAtOnce a run waits for that of another cluster."""
    operator.install("--set", "mostAtOnce=1")
    tuned("5s")
    name = copying(other)
    other.rule(paused=True)
    night.client.alter_configs([ConfigChange("BROKER", "0", RATES[0], "1000000")])
    said = waits(night, "remove-leftover-throttles", "Approved", "the operator's limit is 1")
    assert operator.throttles(night.case.boot), said
    goes_on(other, name)
    wait_for("the cure", lambda: operator.throttles(night.case.boot) == [], CURED_WITHIN)
    at_rest(night)
    operator.install()
    tune_playbooks()
    tuned("5s")


def stops_at_the_breaker(night: Night) -> None:
    """What comes back again and again is not cured again and again."""
    night.rule(breaker={"failures": 2})
    wait_for(
        "the breaker", lambda: said_of(night, "RemediationAllowed").get("reason") == "BreakerOpen" or again(night), 400
    )
    night.client.alter_configs([ConfigChange("BROKER", "0", RATES[0], "1000000")])
    before, began = night.done(), time.monotonic()
    wait_for("the finding", lambda: "LeftoverThrottle" in str(status(night).get("findings")), 60)
    wait_for("longer than a cure took", lambda: time.monotonic() - began > LONGEST_CURE, LONGEST_CURE + 60)
    assert night.done() == before
    assert said_of(night, "RemediationAllowed").get("reason") == "BreakerOpen"
    assert operator.throttles(night.case.boot)
    night.client.alter_configs([ConfigChange("BROKER", "0", RATES[0], None)])


def again(night: Night) -> bool:
    if operator.throttles(night.case.boot) == [] and acting(night) == []:
        night.client.alter_configs([ConfigChange("BROKER", "0", RATES[0], "1000000")])
    return False


def status(night: Night) -> dict[str, Any]:
    found: dict[str, Any] = get("kafkacluster", night.case.name, namespace=night.case.namespace).get("status", {})
    return found


def said_of(night: Night, kind: str) -> dict[str, Any]:
    return next((c for c in status(night).get("conditions", []) if c["type"] == kind), {})


def asks(night: Night, playbook: str, why: str) -> None:
    waits(night, playbook, "AwaitingApproval", why)


def waits(night: Night, playbook: str, phase: str, why: str) -> str:
    found: list[str] = []

    def so() -> bool:
        found[:] = [
            json.dumps(r["status"].get("message", "")) + json.dumps(r["status"].get("waitingFor", []))
            for r in night.case.runs()
            if r["spec"]["playbook"]["name"] == playbook and operator.phase(r) == phase
        ]
        return any(why in text for text in found)

    try:
        wait_for(f"{playbook} in phase {phase}", so, 120)
    except Exception as problem:
        told = [(r["spec"]["playbook"]["name"], r.get("status", {}).get("message")) for r in night.case.runs()]
        raise AssertionError(f"{found}; {told[-4:]}") from problem
    return found[-1]
