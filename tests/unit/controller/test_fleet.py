"""A worker that is deaf is told from one that is patient, and from one that hears nothing but refusals."""

from __future__ import annotations

import threading

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller import fleet
from kafka_medic.controller.fleet import DEAF_SECONDS, Worker


class Turns:
    def __init__(self, *answers):
        self.answers, self.taken, self.done = list(answers), 0, threading.Event()

    def run(self):
        self.taken += 1
        answer = self.answers.pop(0) if self.answers else 0.0
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self):
        self.done.set()


def worker(*answers) -> Worker:
    return Worker(("ns", "c"), Turns(*answers))  # type: ignore[arg-type]


def test_a_long_interval_is_patience():
    patient = worker()
    patient.pause = 3600.0
    assert not patient.deaf(patient.last_good + 3600)
    assert patient.deaf(patient.last_good + 3600 + DEAF_SECONDS + 1)


@pytest.mark.parametrize("status", [0, 403, 404, 409, 500])
def test_a_refusing_api_server_is_heard(status, monkeypatch):
    one = worker(ApiFailure(status, "no"))
    one.last_good -= 10 * DEAF_SECONDS
    one._once()
    assert not one.deaf(fleet.time.monotonic())


def test_a_fault_of_ours_that_lasts_is_deafness():
    one = worker(ValueError("a bug"))
    one.last_good -= 10 * DEAF_SECONDS
    one._once()
    assert one.deaf(fleet.time.monotonic())


def test_a_worker_that_ended_by_itself_is_deaf_and_a_stopped_one_is_not():
    class Fatal(BaseException):
        pass

    class Dying(Turns):
        def run(self):
            raise SystemExit

    one = Worker(("ns", "c"), Dying())  # type: ignore[arg-type]
    one.start()
    assert one.thread is not None
    one.thread.join(10)
    assert one.deaf(one.last_good)
    other = worker(0.01)
    other.start()
    other.stop()
    assert not other.deaf(other.last_good)
    assert other.turn.done.is_set()  # type: ignore[attr-defined]
