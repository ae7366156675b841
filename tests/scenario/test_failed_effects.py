"""A failed effect is tried again for ever, after pauses of its own run that grow up to a bound."""

from __future__ import annotations

import pytest

from kafka_medic.clients.failures import FailureKind, WriteFailed
from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller.backoff import LONGEST, Backoff, pause_after
from tests.scenario.test_restarts import approved, rolling
from tests.simulation.world import World, factor_one_cluster

RESTORE, EARLIER, LATER = ("uid-1", "add/restore"), ("uid-1", "roll/restart-1"), ("uid-2", "roll/restart-1")


def test_pauses_grow_up_to_a_bound():
    assert [pause_after(n) for n in (1, 2, 3, 8, 9)] == [2.0, 4.0, 8.0, 256.0, LONGEST]
    assert pause_after(100_000) == LONGEST


def test_a_failed_effect_is_retried_after_its_pause():
    backoff = Backoff()
    assert backoff.left(RESTORE, 10.0) == 0.0
    assert backoff.failed(RESTORE, 10.0) == 1
    assert backoff.left(RESTORE, 10.5) == 1.5
    assert backoff.left(RESTORE, 12.0) == 0.0
    assert backoff.left(EARLIER, 10.5) == 0.0
    assert backoff.failed(RESTORE, 12.0) == 2
    assert backoff.left(RESTORE, 12.0) == 4.0
    backoff.succeeded(RESTORE)
    assert (backoff.left(RESTORE, 12.0), backoff.failed(RESTORE, 12.0)) == (0.0, 1)


def test_a_run_does_not_wait_for_another_runs_failure():
    backoff = Backoff()
    for _ in range(2000):
        backoff.failed(EARLIER, 0.0)
    assert backoff.left(EARLIER, 1.0) == LONGEST - 1
    assert backoff.left(LATER, 1.0) == 0.0
    backoff.forget_but({"uid-2"})
    assert backoff.left(EARLIER, 1.0) == 0.0


def test_a_restore_is_retried_for_ever(caplog: pytest.LogCaptureFixture):
    kafka = factor_one_cluster()
    world = World(kafka)
    world.install(remediation={"limits": {"cooldown": "0s"}})
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    world.until(lambda: any("throttled" in key[2] for key in kafka.dynamic))
    tried: list[float] = []

    def fails(*_: object) -> None:
        tried.append(world.now.timestamp())
        raise WriteFailed(FailureKind.UNREACHABLE, "no answer")

    kafka.alter_configs = kafka.alter_reassignments = fails  # type: ignore[method-assign,assignment]
    world.approve(run, decision="Reject")
    world.until(lambda: bool(tried))
    assert world.reconciler is not None
    key = (run.uid or "", next(iter(world.reconciler.backoff.waiting))[1])
    for _ in range(2000):
        world.reconciler.backoff.failed(key, world.now.timestamp())
    before = len(tried)
    for _ in range(5):
        world.step(LONGEST)
    assert len(tried) >= before + 4
    assert "internal fault" not in caplog.text
    del kafka.alter_configs, kafka.alter_reassignments
    world.until_phase("Aborted", seconds=LONGEST)
    assert not any("throttled" in key[2] for key in kafka.dynamic)


def test_a_new_run_starts_without_the_old_backoff():
    """The next run of the same playbook does not inherit the pauses of the last run."""
    world = approved(rolling())
    assert world.pods is not None
    refused: list[float] = []

    def evict(name: str) -> None:
        refused.append(world.now.timestamp())
        raise ApiFailure(500, "not now")

    granted, world.api.evicted = world.api.evicted, evict
    world.until(lambda: len(refused) == 9, reconciles=200)
    assert refused[-1] - refused[-2] >= 256
    world.approve(world.run(), decision="Reject")
    world.until_phase("Aborted")
    world.api.evicted = granted
    world.ask("rolling-restart")
    world.approve(world.until_phase("AwaitingApproval"))
    began = world.now
    world.until(lambda: world.pods is not None and bool(world.pods.restarts))
    assert (world.now - began).total_seconds() <= 90, "as any run begins"
