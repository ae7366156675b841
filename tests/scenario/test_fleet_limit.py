"""A limit over all KafkaClusters: a start waits, what has begun is finished, and no two starts pass each other."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller.__main__ import arguments
from kafka_medic.controller.lease import DURATION_SECONDS, Lease, Starts
from kafka_medic.resources.phases import ACTING_PHASES, Phase
from tests.simulation.api import SimApi
from tests.simulation.world import API_VERSION, BASE, World, factor_one_cluster


def limited(at_once: int) -> World:
    world = World(factor_one_cluster())
    world.install()
    world.operator().clients.most_at_once = at_once
    world.approve(world.until_phase("AwaitingApproval"))
    return world


def elsewhere(world: World, name: str, phase: str) -> None:
    like = world.api.get(f"{BASE}/namespaces/ns/remediations/{world.run().name}")
    spec = like["spec"] | {"clusterRef": {"name": name, "uid": f"{name}-uid"}}
    meta = {"name": f"run-{name}", "namespace": "other"}
    body = {"apiVersion": API_VERSION, "kind": "Remediation", "metadata": meta, "spec": spec}
    world.api.put(f"{BASE}/namespaces/other/remediations", body | {"status": {"phase": phase}})


def steps(world: World, count: int = 4) -> None:
    for _ in range(count):
        world.step()


def test_a_start_waits_for_named_other_clusters() -> None:
    world = limited(1)
    elsewhere(world, "payments", "Running")
    for phase in sorted(ACTING_PHASES):
        world.api.touch(f"{BASE}/namespaces/other/remediations/run-payments")["status"]["phase"] = phase.value
        steps(world, 2)
        run = world.run()
        assert run.status.phase is Phase.APPROVED
        assert "other/payments" in run.status.message
        assert "limit is 1" in run.status.message
    assert world.kafka.writes == []
    world.api.touch(f"{BASE}/namespaces/other/remediations/run-payments")["status"]["phase"] = "Succeeded"
    world.until_phase("Running")


def test_runs_up_to_the_limit_are_concurrent() -> None:
    """Up to the limit, clusters run at the same time. A run that waits does not count."""
    world = limited(2)
    elsewhere(world, "a", "Running")
    elsewhere(world, "b", "AwaitingApproval")
    elsewhere(world, "c", "Approved")
    world.until_phase("Running")


def test_a_started_run_ends_whatever_starts_elsewhere() -> None:
    world = limited(1)
    world.until_phase("Running")
    elsewhere(world, "payments", "Running")
    world.until(lambda: len(world.kafka.writes) >= 2)


class Unread:
    def __init__(self, api: Any) -> None:
        self._api = api

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def list(self, path: str, query: Any = None) -> Any:
        if path == f"{BASE}/remediations":
            raise ApiFailure(500, "away")
        return self._api.list(path, query)


def test_nothing_starts_while_other_runs_are_unreadable() -> None:
    world = World(factor_one_cluster(), wrap_api=Unread)
    world.install()
    world.operator().clients.most_at_once = 1
    world.approve(world.until_phase("AwaitingApproval"))
    steps(world)
    assert world.run().status.phase is Phase.APPROVED
    assert "could not be read" in world.run().status.message
    assert world.kafka.writes == []


class Watched:
    """Whether the lock was held when the start was written, and whenever the others were read for one."""

    def __init__(self, api: Any) -> None:
        self._api, self.lock, self.seen = api, None, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def list(self, path: str, query: Any = None) -> Any:
        if path == f"{BASE}/remediations":
            self.seen.append(("read", self.lock.locked()))
        return self._api.list(path, query)

    def replace(self, path: str, body: Any) -> Any:
        if (body.get("status") or {}).get("phase") == "Running" and not body["status"].get("journal"):
            self.seen.append(("start", self.lock.locked()))
        return self._api.replace(path, body)


def test_starts_do_not_pass_each_other() -> None:
    made: list[Watched] = []
    world = World(factor_one_cluster(), wrap_api=lambda api: made.append(Watched(api)) or made[-1])
    world.install()
    clients = world.operator().clients
    clients.most_at_once, made[-1].lock = 1, clients.starts.lock
    world.approve(world.until_phase("AwaitingApproval"))
    world.until_phase("Running")
    seen = made[-1].seen
    assert ("read", True) in seen
    assert ("start", True) in seen
    assert all(held for _, held in seen)
    assert not clients.starts.lock.locked()


def test_a_start_waits_for_another_processs_start() -> None:
    api, now = SimApi(), [0.0]

    def process(name: str) -> Starts:
        return Starts(Lease(api, "operators", "kafka-medic.starts", name, lambda: now[0]))

    one, two = process("one"), process("two")
    with one.passing() as first, two.passing() as second:
        assert (first, second) == (True, False)
    with two.passing() as second:
        assert second, "the other gave it back"
        now[0] += DURATION_SECONDS
        with one.passing() as first:
            assert not first, "seen for the first time"
        now[0] += DURATION_SECONDS
        with one.passing() as first:
            assert first, "what stands still for so long has died"


def test_a_start_without_the_lease_is_not_written() -> None:
    """The look at the others took longer than the Lease lasts."""
    world, still = limited(1), [0.0]
    assert world.reconciler is not None
    mine = Lease(world.api, "operators", "kafka-medic.starts", "me", lambda: world._monotonic() + still[0])
    world.reconciler.clients.starts = Starts(mine)
    acting = world.reconciler.clients.store.acting_elsewhere

    def slowly(*of: str) -> list[str] | None:
        still[0] += DURATION_SECONDS
        return acting(*of)

    world.reconciler.clients.store.acting_elsewhere = slowly  # type: ignore[method-assign]
    steps(world)
    assert still[0] > 0
    assert world.run().status.phase is Phase.APPROVED
    del world.reconciler.clients.store.acting_elsewhere
    world.until_phase("Running")


def test_a_run_that_may_not_start_is_unchanged() -> None:
    world = limited(1)
    run = world.until_phase("Approved")
    away = Lease(world.api, "operators", "kafka-medic.starts", "another", world._monotonic)
    assert away.hold()
    world.operator().clients.most_at_once = 1
    assert world.reconciler is not None
    world.reconciler.clients.starts = Starts(
        Lease(world.api, "operators", "kafka-medic.starts", "me", world._monotonic)
    )
    world.step(1)
    assert world.run().status.phase is run.status.phase is Phase.APPROVED
    away.release()
    world.until_phase("Running")


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_a_limit_below_one_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(["--most-at-once", text])
    assert "--most-at-once" in capsys.readouterr().err
    assert arguments([]).most_at_once is None
    assert arguments(["--most-at-once", "3"]).most_at_once == 3
