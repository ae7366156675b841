"""What takes too long to compute is cut off, reported on the object, and left alone for a while."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.controller import overtime, reconciler, run_reconciler
from kafka_medic.controller.overtime import Overtime, within
from tests.simulation.world import World, factor_one_cluster

LIMIT = 0.5


def forever() -> None:
    while True:
        try:
            sum(range(100))
        except Exception:  # noqa: BLE001 - as a guard's fault is caught
            continue


def test_a_loop_without_end_is_ended() -> None:
    with pytest.raises(Overtime, match=r"the plan exceeded its processor time \(limit 0\.5 s\)"):
        within(LIMIT, "the plan", forever)
    assert within(LIMIT, "the plan", lambda: 7) == 7


def test_a_failure_is_told_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        within(LIMIT, "the plan", lambda: 1 / 0)


def test_waiting_for_others_does_not_count() -> None:
    assert within(LIMIT, "the plan", lambda: time.sleep(3 * LIMIT) or "done") == "done"


def test_only_the_late_one_is_ended() -> None:
    told: dict[int, object] = {}

    def one(number: int) -> None:
        try:
            told[number] = within(LIMIT, "it", forever if number % 2 else lambda: time.sleep(4 * LIMIT) or number)
        except Overtime as problem:
            told[number] = problem

    threads = [threading.Thread(target=one, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [told[n] for n in (0, 2, 4)] == [0, 2, 4]
    assert all(isinstance(told[n], Overtime) for n in (1, 3, 5))


def test_of_many_that_take_long_a_few_go_on(monkeypatch) -> None:
    """So that one namespace with many of them does not take the processor from all others."""
    monkeypatch.setattr(overtime, "LONG_SECONDS", 0.3)
    used: list[float] = []

    def one() -> None:
        began = time.thread_time()
        with pytest.raises(Overtime):
            within(1.5, "it", forever)
        used.append(time.thread_time() - began)

    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(used) == 6
    assert sum(seconds > 1.4 for seconds in used) == 2


def test_other_threads_go_on_beside_one_that_computes() -> None:
    silence, over = [0.0], threading.Event()

    def tick() -> None:
        last = time.monotonic()
        while not over.wait(0.02):
            now = time.monotonic()
            silence[0], last = max(silence[0], now - last), now

    beside = threading.Thread(target=tick)
    beside.start()
    with pytest.raises(Overtime):
        within(1.0, "the plan", forever)
    over.set()
    beside.join(10)
    assert silence[0] < 1.0, "0.05 s on an idle machine"


def test_nothing_is_raised_after_the_end() -> None:
    """At each moment around the limit: what ended in time is never late afterwards."""
    over = time.monotonic() + 3.0
    while time.monotonic() < over:
        with contextlib.suppress(Overtime):
            within(0.2, "it", lambda: [sum(range(1000)) for _ in range(12_000)])
        for _ in range(1000):
            sum(range(10))


@pytest.fixture
def world() -> World:
    world = World(factor_one_cluster())
    world.install(remediation={"mode": "Observe"})
    world.kafka.committed = {"payments": {TopicPartition("__consumer_offsets", 0): 0}}
    world.step()
    return world


def slow(monkeypatch: pytest.MonkeyPatch, world: World, name: str) -> list[float]:
    """That function of the reconcile never ends. When it was begun."""
    begun: list[float] = []

    def never(*_: object, **__: object) -> None:
        begun.append(world.now.timestamp())
        forever()

    monkeypatch.setattr({"decide": run_reconciler, "diagnose": reconciler}[name], name, never)
    world.reconciler.clients.compute_seconds = LIMIT
    return begun


def test_a_plan_that_takes_too_long_is_reported_on_its_run_and_not_repeated_at_once(world, monkeypatch) -> None:
    world.ask("reset-consumer-offsets", user="mallory", to="to-latest", groups=".*", topics=".*")
    world.step()
    begun = slow(monkeypatch, world, "decide")
    for _ in range(3):
        world.step()
    assert len(begun) == 1
    (run,) = world.runs()
    assert "exceeded its processor time" in run.status.message
    assert "the operator retries in 60 s" in run.status.message
    assert "spec.parameters" in run.status.message
    assert world.condition("Reachable")["status"] == "True", "the cluster is still watched"
    assert any(reason == "TookTooLong" for reason, _ in world.api.events)
    assert world.kafka.writes == []


def test_a_diagnosis_that_takes_too_long_is_reported_on_the_cluster(world, monkeypatch) -> None:
    begun = slow(monkeypatch, world, "diagnose")
    world.step()
    assert len(begun) == 1
    ready = world.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "TookTooLong")
    assert "the diagnosis exceeded its processor time" in ready["message"]
    assert world.condition("Reachable")["status"] == "Unknown"
    monkeypatch.undo()
    world.reconciler.clients.compute_seconds = 60.0
    world.step()
    assert world.condition("Ready")["reason"] != "TookTooLong"
