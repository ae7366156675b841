"""The oracle holds a restart to what each leader enforces with its own configuration."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_medic.guard import replicas
from tests.simulation.brokers import MIN_ISR
from tests.simulation.grounds import Violated
from tests.simulation.oracle import CLUSTER
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.stage import Stage


def played(turns: int, **least: str) -> Stage:
    """A roll of brokers, each of which was started with its own default."""
    stage = SCENARIOS["spared"]()
    stage.kafka.dynamic.pop(("TOPIC", "spared", MIN_ISR))
    stage.api.touch(CLUSTER)["spec"]["expectations"]["minInSyncReplicas"] = 1
    for broker, value in least.items():
        stage.kafka.started_with[int(broker.removeprefix("b"))][MIN_ISR] = value
    stage.oracle.begin()
    stage.start("one")
    stage.later(1.0, "people")
    stage.later(0.1, "produce")
    while stage.turns < turns and not stage.quiet():
        stage.next()
    return stage


def test_nothing_is_restarted_where_one_leader_could_spare_none():
    stage = played(30, b0="1", b1="2", b2="1")
    assert stage.oracle.effects == []
    (run,) = stage.runs()
    assert "spared (2 replicas, min.insync.replicas 2)" in run["status"]["message"]


def test_a_guard_that_believes_the_broker_that_answers_is_noticed(monkeypatch: Any) -> None:
    def shown(snapshot: Any, row: Any, _: Any) -> int:
        return int(snapshot.config("TOPIC", row.topic, MIN_ISR).value)

    monkeypatch.setattr(replicas, "least_to_keep", shown)
    with pytest.raises(Violated, match=r"takes spared-\d below min.insync.replicas 2"):
        played(60, b0="1", b1="2", b2="1")
