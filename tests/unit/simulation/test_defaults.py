"""The oracle notices what raise-defaults must never do, were a check of its own missing."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_medic.playbook.restart import restart_step, static_settings
from kafka_medic.playbook.settings import defaults_plan, defaults_step
from tests.simulation.grounds import Violated
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.stage import Stage
from tests.thorough import thorough


def played(reconciles: int, silent: str = "", thin: str = "") -> Stage:
    """`silent`: the phase from which on people say nothing. `thin`: a topic of two replicas that falls back on the
    brokers' minimum."""
    stage = SCENARIOS["defaults"]()
    if thin:
        stage.kafka.topic(thin, [0, 1])
    stage.oracle.begin()
    stage.start("one")
    stage.later(1.0, "people")
    stage.later(0.1, "produce")
    while stage.reconciles < reconciles and not stage.quiet():
        stage.next()
        if any((r.get("status") or {}).get("phase") == silent for r in stage.runs()):
            stage.willing = False
    return stage


@thorough
def test_undisturbed_it_ends_well_and_with_nobody_to_say_so_it_waits():
    assert {r["status"]["phase"] for r in played(60).runs()} == {"Succeeded"}
    waits = played(40, "Paused")
    assert [r["status"]["phase"] for r in waits.runs()] == ["Paused"]
    assert waits.oracle.effects == ["evict 1", "evict 2"]


@pytest.mark.parametrize(
    ("module", "name", "instead", "words"),
    [
        (restart_step, "_misread", lambda *_: None, "has come back with its old configuration"),
        (static_settings, "approved_again", lambda *_: True, "nobody has said so since"),
    ],
)
def test_a_missing_check_is_noticed(monkeypatch: Any, module: Any, name: str, instead: Any, words: str) -> None:
    monkeypatch.setattr(module, name, instead)
    with pytest.raises(Violated, match=words):
        played(60, "Paused" if name == "approved_again" else "")


@thorough
def test_a_minimum_that_would_stop_producers_is_noticed(monkeypatch: Any) -> None:
    nothing = defaults_step.Fallback((), (), (), (), ())
    for module in (defaults_plan, defaults_step):
        monkeypatch.setattr(module, "fallback", lambda *_: nothing)
    with pytest.raises(Violated, match="with no replica to spare"):
        played(60, thin="kafka-medic.born")
