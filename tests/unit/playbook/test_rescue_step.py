"""Which brokers the records are saved on that only a stale one holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_medic.playbook.effects import RescueRecords
from kafka_medic.playbook.report import StepState
from kafka_medic.playbook.restart.rescue_step import assess
from kafka_medic.resources.remediation_plan import BrokerRestart, Plan, Rescue, Rescues, Restarts
from tests.unit.cluster import worlds

SAVED = Rescue.model_construct(broker=1, topic="orders", partition=0, epoch=5, from_offset=10)


def step(cordoned: tuple[int, ...], ids: tuple[int, ...] = worlds.IDS, stale: tuple[int, ...] = (1,)) -> Any:
    """Broker 1 is the stale one; the nodes of some others are cordoned."""
    brokers = []
    for number in ids:
        broker = worlds.broker(number)
        assert broker.pod is not None
        brokers.append(replace(broker, pod=replace(broker.pod, cordoned=number in cordoned)))
    rows = [worlds.partition("orders", 0, ids)]
    snapshot = worlds.healthy(
        brokers=tuple(brokers), rows=rows, views=tuple(worlds.view(n, rows, members=ids) for n in ids)
    )
    restarts = tuple(BrokerRestart.model_construct(broker=n, stale=n in stale) for n in ids)
    rescues = Rescues.model_construct(rescues=(SAVED,), rescue_topic="saved")
    plan = Plan.model_construct().with_parts(rescues, Restarts.model_construct(restarts=restarts))
    return assess("rescue-records", plan, {}, snapshot)


def test_they_are_saved_on_all_that_are_fit():
    report = step(())
    assert report.state is StepState.ACT
    assert isinstance(report.intent, RescueRecords)
    assert report.intent.replicas == (2, 3)


def test_a_second_copy_is_waited_for():
    """A topic with one replica would stand against every restart of its broker, in this very run too."""
    report = step((3,))
    assert (report.state, report.intent) == (StepState.WAIT, None)
    assert report.message == "only broker 2 is fit to hold the copies (required: 2 brokers)"


@pytest.mark.parametrize("cordoned", [(2,), (2, 3)])
def test_nobody_is_fit(cordoned: tuple[int, ...]):
    report = step((*cordoned, 1), ids=(1, *cordoned))
    assert (report.state, report.intent) == (StepState.UNKNOWN, None)


def test_where_there_is_one_other_broker_one_copy_has_to_do():
    report = step((), ids=(1, 2))
    assert report.intent is not None
    assert report.intent.replicas == (2,)


def test_a_broker_that_only_this_run_cures_is_not_waited_for():
    """It is stale as well, and is restarted after the records are saved."""
    report = step((3,), stale=(1, 3))
    assert report.intent is not None
    assert report.intent.replicas == (2,)
