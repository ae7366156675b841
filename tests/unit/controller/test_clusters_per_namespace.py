"""Of a namespace with too many KafkaClusters the oldest are watched, and the others say that they are not."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kafka_medic.controller.fleet import Fleet
from kafka_medic.controller.unwatched import report_unwatched
from tests.simulation.api import SimApi
from tests.simulation.world import API_VERSION, BASE
from tests.unit.controller.test_handlers import handlers


class FakeReconciler:
    def __init__(self, key, running):
        self.key, self.running = key, running
        running.add(key)

    def reconcile(self):
        return 60.0

    def close(self):
        self.running.discard(self.key)


@pytest.fixture
def running():
    return set()


@pytest.fixture
def fleet(running):
    fleet = Fleet(lambda key: FakeReconciler(key, running), most=2)  # type: ignore[arg-type, return-value]
    yield fleet
    fleet.stop()


def wait_for(condition):
    over = threading.Event()
    for _ in range(500):
        if condition():
            return
        over.wait(0.01)
    raise AssertionError("not within 5 s")


def put(api, namespace, name, created):
    meta = {"name": name, "namespace": namespace, "creationTimestamp": created}
    body = {"apiVersion": API_VERSION, "kind": "KafkaCluster", "metadata": meta, "spec": {"bootstrapServers": "k:9092"}}
    return api.put(f"{BASE}/namespaces/{namespace}/kafkaclusters", body)


def test_the_oldest_are_watched_in_whatever_order_they_are_heard_of(fleet, running):
    for name, created in (("third", "2026-01-03"), ("second", "2026-01-02"), ("first", "2026-01-01")):
        fleet.present(("ns", name), 1, created)
    fleet.present(("other", "own"), 1, "2026-02-01")
    wait_for(lambda: running == {("ns", "first"), ("ns", "second"), ("other", "own")})
    assert fleet.unwatched() == {("ns", "third"): 3}
    assert fleet.knows("ns", "third")
    assert ("ns", "third") in fleet.known_generations(), "the watch audit would miss it otherwise"


def test_the_next_one_is_watched_when_an_older_one_goes(fleet, running):
    for name, created in (("third", "2026-01-03"), ("second", "2026-01-02"), ("first", "2026-01-01")):
        fleet.present(("ns", name), 1, created)
    wait_for(lambda: ("ns", "third") not in running)
    wait_for(lambda: fleet.start_due() or not fleet._leaving)
    fleet.gone(("ns", "first"))
    wait_for(lambda: running == {("ns", "second"), ("ns", "third")})
    assert fleet.unwatched() == {}


def test_one_that_hangs_and_gave_way_is_not_watched_twice(running):
    let_go = threading.Event()

    class Hangs(FakeReconciler):
        def reconcile(self):
            let_go.wait(10)
            return 60.0

    fleet = Fleet(lambda key: Hangs(key, running), most=1)  # type: ignore[arg-type, return-value]
    fleet.present(("ns", "young"), 1, "2026-01-02")
    made = fleet._workers["ns", "young"]
    fleet.present(("ns", "old"), 1, "2026-01-01")
    fleet.gone(("ns", "old"))
    assert ("ns", "young") not in fleet._workers, "its first thread has not ended"
    let_go.set()
    made.thread.join(10)
    fleet.start_due()
    assert fleet._workers["ns", "young"] is not made
    fleet.stop()


def test_what_is_not_watched_says_so_with_the_limit(fleet):
    api = SimApi()
    for number in (1, 2, 3):
        put(api, "ns", f"c{number}", f"2026-01-0{number}T00:00:00Z")
        fleet.present(("ns", f"c{number}"), 1, f"2026-01-0{number}T00:00:00Z")
    report_unwatched(api, fleet)
    before = api.status_writes
    report_unwatched(api, fleet)
    assert api.status_writes == before == 1
    (ready,) = api.get(f"{BASE}/namespaces/ns/kafkaclusters/c3")["status"]["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "False", "TooManyInNamespace")
    assert "3 KafkaClusters (limit 2, the oldest first)" in ready["message"]
    assert "limits.clustersPerNamespace" in ready["message"]


def test_the_watch_tells_it(fleet):
    api = SimApi()

    class OfThisApi:
        def __init__(self):
            self.api = api

    heard = handlers(fleet, OfThisApi())["cluster_changed"]
    for number in (1, 2, 3):
        raw = put(api, "ns", f"c{number}", f"2026-01-0{number}T00:00:00Z")
        asyncio.run(heard(type="ADDED", namespace="ns", name=f"c{number}", meta=raw["metadata"]))
    assert (
        api.get(f"{BASE}/namespaces/ns/kafkaclusters/c3")["status"]["conditions"][0]["reason"] == "TooManyInNamespace"
    )
    assert "status" not in api.get(f"{BASE}/namespaces/ns/kafkaclusters/c1")


def test_nothing_begins_after_the_end(fleet, running):
    fleet.present(("ns", "a"), 1, "2026-01-01")
    fleet.stop()
    assert fleet.stalled() == []
    assert running == set()
