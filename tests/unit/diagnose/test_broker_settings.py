"""Brokers that differ from their peers: a change of configuration that stopped half-way, and a rolling one that did
not."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.finding import FindingState
from kafka_medic.resources.vocabulary import Severity
from tests.unit.cluster import worlds

MIN_ISR = "min.insync.replicas"
ID = f"BrokerConfigDiffers/{MIN_ISR}"


def settings(*values, name=MIN_ISR):
    """Of brokers 1, 2 and so on; None: that broker did not report it."""
    return worlds.configs(*(("BROKER", str(b), name, v, False) for b, v in enumerate(values, 1) if v is not None))


def look(at, *values, brokers=3, **changes):
    listed = tuple(worlds.broker(b) for b in range(1, brokers + 1))
    return worlds.healthy(at=at, configs=settings(*values), brokers=listed, **changes)


def differs(*values, name=MIN_ISR, brokers=3):
    listed = tuple(worlds.broker(b) for b in range(1, brokers + 1))
    snapshot = worlds.healthy(configs=settings(*values, name=name), brokers=listed)
    return next((f for f in diagnose(snapshot) if f.type == "BrokerConfigDiffers"), None)


def test_the_one_that_differs_from_most_is_named_with_every_value():
    finding = differs("2", "1", "2")
    assert (finding.id, finding.severity, finding.affected) == (ID, Severity.WARNING, ("broker-2",))
    assert finding.message == f"{MIN_ISR} differs between brokers: 1 on broker 2; most brokers have 2"
    assert finding.evidence[:2] == (f"{MIN_ISR}=2: broker 1, 3", f"{MIN_ISR}=1: broker 2")
    assert "each leader enforces its own value" in finding.evidence[2]
    assert finding.playbook is None
    assert not finding.firing()


@pytest.mark.parametrize("values", [("2", "1", "3"), ("2", "1", None), ("2", "2", "1", "1")])
def test_without_a_majority_of_all_brokers_every_value_is_named(values):
    finding = differs(*values, brokers=len(values))
    told = [b for b, v in enumerate(values, 1) if v is not None]
    assert finding.affected == tuple(f"broker-{b}" for b in told)
    assert "no value has a majority" in finding.message
    assert ("not reported by broker 3" in finding.evidence) == (None in values)


@pytest.mark.parametrize(
    "name",
    [
        "default.replication.factor",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
        "unclean.leader.election.enable",
        "auto.leader.rebalance.enable",
        "inter.broker.protocol.version",
    ],
)
def test_every_setting_that_matters_is_compared(name):
    assert differs("a", "b", "b", name=name).affected == ("broker-1",)


TWINS = {
    "all the same": ("2", "2", "2"),
    "one is not known": ("2", None, "2"),
    "only one is known": (None, "2", None),
    "nothing is known": (None, None, None),
}


@pytest.mark.parametrize("twin", TWINS)
def test_what_must_not_fire(twin):
    assert differs(*TWINS[twin]) is None


def test_a_throttle_on_some_brokers_is_no_difference():
    name = "leader.replication.throttled.rate"
    rows = (("BROKER", "1", name, "1000", True), ("BROKER", "2", name, "9223372036854775807", False))
    found = diagnose(worlds.healthy(configs=worlds.configs(*rows)))
    assert not [f for f in found if f.type == "BrokerConfigDiffers"]
    assert not [f for f in diagnose(worlds.healthy(configs=None)) if f.type == "BrokerConfigDiffers"]


def played(*looks, minutes):
    """The states of the finding, as the operator sees it in one observation after another."""
    previous, since, fired, states = None, {}, [], []
    for number, values in enumerate(looks):
        now = look(worlds.NOW + timedelta(minutes=minutes * number), *values, brokers=len(values))
        found = diagnose(now, previous=previous, remembered=since, fired=fired)
        since = {f.id: f.since for f in found}
        fired = [f.id for f in found if f.firing()]
        states.append(next((f.state for f in found if f.id == ID), None))
        previous = now
    return states


OLD, NEW, AWAY = "1", "2", None


def test_a_rolling_change_in_good_order_never_fires_however_long_it_takes():
    """Each broker is away for nearly half an hour, and so is the time between two of them."""
    brokers, looks = 6, []
    for done in range(brokers):
        before, after = (NEW,) * done, (OLD,) * (brokers - done - 1)
        looks += [(*before, OLD, *after), (*before, AWAY, *after)]
    looks.append((NEW,) * brokers)
    states = played(*looks, minutes=29)
    assert FindingState.PENDING in states
    assert FindingState.FIRING not in states
    assert states[-1] is None


def test_one_that_stands_still_fires_and_one_that_goes_on_stops_firing():
    half = (NEW, OLD, OLD)
    pending, firing = FindingState.PENDING, FindingState.FIRING
    assert played((OLD, OLD, OLD), half, half, half, half, minutes=10) == [None, pending, pending, pending, firing]
    further = (NEW, AWAY, OLD)
    assert played(half, half, half, half, further, minutes=10)[-2:] == [firing, pending]


def test_a_broker_that_never_comes_back_leaves_it_unfinished():
    assert played((NEW, OLD, OLD), *[(NEW, AWAY, OLD)] * 5, minutes=10)[-1] is FindingState.FIRING


def test_a_restarted_operator_goes_on_from_what_the_status_remembers():
    half = look(worlds.NOW, NEW, OLD, OLD)
    (finding,) = (f for f in diagnose(half, remembered={ID: worlds.later(-1800)}) if f.id == ID)
    assert finding.firing()
