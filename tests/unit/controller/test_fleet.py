"""A stalled worker is told from one with a long interval, and from one whose API server refuses everything."""

from __future__ import annotations

import threading

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller import fleet
from kafka_medic.controller.fleet import ALONE_SECONDS, STALLED_SECONDS, Worker


class FakeReconciler:
    def __init__(self, *answers):
        self.answers, self.taken, self.done = list(answers), 0, threading.Event()

    def reconcile(self):
        self.taken += 1
        answer = self.answers.pop(0) if self.answers else 0.0
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self):
        self.done.set()


def worker(*answers, share=1.0) -> Worker:
    return Worker(("ns", "c"), FakeReconciler(*answers), share=lambda: share)  # type: ignore[arg-type]


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(fleet.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def test_a_long_interval_is_waited_for(clock):
    patient = worker(3600.0)
    patient._once()
    assert patient.stalled(clock.now + 3600) is None
    assert patient.stalled(clock.now + 3600 + STALLED_SECONDS + 1) is not None


def test_a_hung_reconcile_is_stalled_whatever_the_interval(clock):
    found = []

    class Hanging(FakeReconciler):
        def reconcile(self):
            found.append((one.stalled(clock.now + STALLED_SECONDS), one.stalled(clock.now + STALLED_SECONDS + 1)))
            return 3600.0

    one = Worker(("ns", "c"), Hanging())  # type: ignore[arg-type]
    one._once()
    clock.now += 3600
    one._once()
    assert [(a is None, b is None) for a, b in found] == [(True, False), (True, False)]


def test_workers_that_begin_together_do_not_stay_together(clock):
    pauses = []
    for share in (0.2, 0.9):
        one = worker(15.0, 15.0, share=share)
        for _ in range(2):
            one._once()
            pauses.append(one.pause)
    assert pauses == [3.0, 15.0, 13.5, 15.0]


def test_workers_that_an_api_server_has_refused_do_not_stay_together(clock):
    one = worker(15.0, ApiFailure(0, "no answer"), 15.0, 15.0, share=0.2)
    pauses = []
    for _ in range(4):
        one._once()
        pauses.append(one.pause)
    assert pauses == [3.0, fleet.RETRY_SECONDS, 3.0, 15.0]


@pytest.mark.parametrize("status", [0, 403, 404, 409, 500])
def test_a_refusing_api_server_is_heard(status, clock):
    one = worker(*[ApiFailure(status, "no")] * 3)
    for _ in range(3):
        one._once()
        assert one.stalled(clock.now) is None
        clock.now += STALLED_SECONDS


def test_a_lasting_fault_of_ours_is_a_stall(clock):
    one = worker(3600.0, ValueError("a bug"), ValueError("a bug"), 1.0, ValueError("a bug"))
    one._once()
    clock.now += 3600
    one._once()
    assert one.stalled(clock.now) is None, "one fault after a long pause"
    clock.now += STALLED_SECONDS + 1
    one._once()
    assert "fault" in (one.stalled(clock.now) or "")
    one._once()
    assert one.stalled(clock.now) is None
    one._once()
    assert one.stalled(clock.now) is None


def test_a_refusal_ends_a_row_of_faults(clock):
    one = worker(ValueError("a bug"), ApiFailure(403, "no"), ValueError("a bug"))
    for _ in range(3):
        one._once()
        clock.now += STALLED_SECONDS - 1
    assert one.stalled(clock.now) is None


def test_the_fleet_knows_what_it_watches():
    crew = fleet.Fleet(lambda key: FakeReconciler(*[60.0] * 9))  # type: ignore[arg-type, return-value]
    crew.present(("ns", "c"), 1)
    assert (crew.knows("ns", "c"), crew.knows("ns", "d"), crew.knows("other", "c")) == (True, False, False)
    assert crew.stalled() == []
    crew.gone(("ns", "c"))
    assert not crew.knows("ns", "c")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_ended_by_itself_is_stalled():
    class Fatal(BaseException):
        pass

    class Dying(FakeReconciler):
        def reconcile(self):
            raise SystemExit

    one = Worker(("ns", "c"), Dying())  # type: ignore[arg-type]
    one.start()
    assert one.thread is not None
    one.thread.join(10)
    assert one.stalled(one.active_at) == "its thread has ended"
    assert one.reconciler.done.is_set(), "its Lease is not renewed for nobody"  # type: ignore[attr-defined]
    other = worker(0.01)
    other.start()
    other.stop()
    assert other.stalled(other.active_at) is None
    assert other.reconciler.done.is_set()  # type: ignore[attr-defined]


def fleet_of(count: int) -> fleet.Fleet:
    """Each has just begun a reconcile."""
    crew = fleet.Fleet(lambda key: FakeReconciler())  # type: ignore[arg-type, return-value]
    for n in range(count):
        key = "ns", f"c{n}"
        crew._workers[key] = Worker(key, FakeReconciler(), active_at=1000.0, running=True)  # type: ignore[arg-type]
    return crew


@pytest.mark.parametrize(("hang", "of"), [(1, 1), (3, 3), (4, 100)])
def test_all_clusters_or_many_that_hang_have_the_process_restarted(clock, hang, of):
    crew = fleet_of(of)
    clock.now = 1000.0 + STALLED_SECONDS
    assert crew.stalled() == []
    for worker in list(crew._workers.values())[hang:]:
        worker.active_at = clock.now
    clock.now += 1
    assert len(crew.stalled()) == hang
    assert "reconcile running for 301 s (limit 300 s)" in crew.stalled()[0]


@pytest.mark.parametrize(("hang", "of"), [(1, 2), (3, 100)])
def test_a_few_that_hang_do_not_end_the_watch_of_the_others(clock, hang, of, caplog):
    crew = fleet_of(of)
    clock.now = 1000.0 + ALONE_SECONDS
    for worker in list(crew._workers.values())[hang:]:
        worker.active_at = clock.now
    assert crew.stalled() == crew.stalled() == []
    assert [r.getMessage() for r in caplog.records] == [
        f"ns/c{n} is no longer reconciled: reconcile running for 3600 s (limit 300 s)" for n in range(hang)
    ], "said once"
    clock.now += 1
    assert len(crew.stalled()) == hang, "in the end nothing else cures it"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ended_is_not_waited_for(clock):
    crew = fleet_of(3)
    one = crew._workers["ns", "c0"]
    one.thread = threading.Thread(target=lambda: None)
    one.thread.start()
    one.thread.join(10)
    clock.now = 1001.0
    assert crew.stalled() == ["ns/c0: its thread has ended"]
