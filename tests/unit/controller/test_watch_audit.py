"""A watch that has fallen silent is found out, though every worker goes on."""

from __future__ import annotations

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller import watch_audit
from kafka_medic.controller.fleet import STALLED_SECONDS
from kafka_medic.controller.watch_audit import EVERY_SECONDS, MISSED_SECONDS, WatchAudit

A, B = ("ns", "a"), ("ns", "b")


class Watched:
    def __init__(self, **heard):
        self.heard = {("ns", name): generation for name, generation in heard.items()}

    def known_generations(self):
        return dict(self.heard)


class Stage:
    def __init__(self, monkeypatch, listed, heard):
        self.now, self.listed, self.fleet = 1000.0, listed, Watched(**heard)
        monkeypatch.setattr(watch_audit.time, "monotonic", lambda: self.now)
        self.calls = WatchAudit(self.answer, self.fleet)

    def answer(self):
        if isinstance(self.listed, Exception):
            raise self.listed
        return self.listed

    def after(self, seconds):
        """What is missed once this time has passed, with the calls that fall due in it."""
        end = self.now + seconds
        while self.now < end:
            self.calls.compare()
            self.now += EVERY_SECONDS
        return self.calls.missed()


@pytest.mark.parametrize(
    ("listed", "heard", "said"),
    [
        ({A: 1, B: 1}, {"a": 1}, "ns/b is missing in the watch"),
        ({A: 1}, {"a": 1, "b": 1}, "ns/b was deleted without a watch event"),
        ({A: 2}, {"a": 1}, "ns/a has generation 2 without a watch event"),
    ],
)
def test_a_watch_that_misses_objects_is_stalled_after_a_while(monkeypatch, listed, heard, said):
    stage = Stage(monkeypatch, listed, heard)
    assert stage.after(MISSED_SECONDS) == []
    (missed,) = stage.after(2 * EVERY_SECONDS)
    assert said in missed
    stage.fleet.heard = dict(listed)
    assert stage.after(EVERY_SECONDS) == []


def test_a_late_watch_is_not_stalled(monkeypatch):
    stage = Stage(monkeypatch, {A: 1}, {"a": 1})
    for generation in range(2, 30):
        stage.listed = {A: generation}  # edited again and again, and told of each time a little later
        assert stage.after(EVERY_SECONDS) == []
        stage.fleet.heard = dict(stage.listed)


def test_an_api_server_that_refuses_says_nothing_about_the_watch(monkeypatch):
    stage = Stage(monkeypatch, ApiFailure(500, "no"), {"a": 1})
    assert stage.after(10 * MISSED_SECONDS) == []


def test_a_list_that_hangs_is_reported(monkeypatch):
    stage = Stage(monkeypatch, {A: 1}, {"a": 1})
    stage.calls.start()
    stage.calls.compare()
    stage.now += STALLED_SECONDS + 1
    assert "were not listed" in stage.calls.missed()[0]
    stage.calls.stop()
