"""The worked example of docs/playbooks.md: a team's own Playbook, through the operator's own reconciles."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from kafka_medic.playbook import engine
from kafka_medic.playbook.acceptance import check
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.vocabulary import Guard
from tests.scenario.test_drain_broker import ORDERS, cordon, done, leaders, orders, world
from tests.simulation.world import BASE, World

__all__ = ["world"]

ROOT = Path(__file__).parents[2]
EXAMPLE = yaml.safe_load((ROOT / "examples" / "playbook-leaders-back.yaml").read_text())
NAME = EXAMPLE["metadata"]["name"]


def names(world: World) -> list[str]:
    return [r.spec.playbook.name for r in world.runs()]


@pytest.fixture
def drained(world: World) -> World:
    """Of the team; broker 1 is about to go and leads nothing any more."""
    world.api.put(f"{BASE}/playbooks", copy.deepcopy(EXAMPLE))
    cluster = world.cluster()
    cluster["metadata"]["labels"] = {"team": "orders"}
    world.put("kafkaclusters", cluster)
    cordon(world, 1)
    done(world, "drain-broker")
    return world


def test_the_example_can_be_run():
    check(Playbook.parse(EXAMPLE))


def test_it_takes_the_place_of_the_shipped_one(drained: World) -> None:
    cordon(drained, 1, on=False)
    done(drained, NAME)
    assert orders(drained) == [list(o) for o in ORDERS]
    assert leaders(drained) == [o[0] for o in ORDERS]
    for _ in range(10):
        drained.step(60)
    assert names(drained) == ["drain-broker", NAME], "nobody takes the same drain back once more"


def test_it_is_not_proposed_elsewhere(world: World) -> None:
    world.api.put(f"{BASE}/playbooks", copy.deepcopy(EXAMPLE))
    cordon(world, 1)
    done(world, "drain-broker")
    cordon(world, 1, on=False)
    done(world, "undrain-broker")
    assert names(world) == ["drain-broker", "undrain-broker"]


def test_its_guards_are_stricter(drained: World) -> None:
    """A second node that is cordoned keeps no shipped playbook from elections among the other brokers."""
    cordon(drained, 2)
    cordon(drained, 1, on=False)
    drained.until(lambda: any(r.spec.playbook.name == NAME and r.status.plan for r in drained.runs()))
    run = next(r for r in drained.runs() if r.spec.playbook.name == NAME)
    drained.approve(run)
    for _ in range(3):
        drained.step()
    run = next(r for r in drained.runs() if r.spec.playbook.name == NAME)
    assert run.status.phase is Phase.APPROVED
    assert Guard.PODS_READY_NODE_SCHEDULABLE in {w.guard for w in run.status.waiting_for}
    cordon(drained, 2, on=False)
    drained.until(lambda: next(r for r in drained.runs() if r.name == run.name).status.phase is Phase.SUCCEEDED)


def test_rejected_it_leaves_the_drain_to_the_shipped_one(drained: World) -> None:
    cordon(drained, 1, on=False)
    drained.until(lambda: any(r.spec.playbook.name == NAME and r.status.plan for r in drained.runs()))
    drained.approve(next(r for r in drained.runs() if r.spec.playbook.name == NAME), decision="Reject")
    done(drained, "undrain-broker")
    assert names(drained) == ["drain-broker", NAME, "undrain-broker"]


@pytest.mark.parametrize("name", ["ours", "rolling-restart"])
def test_a_plan_that_never_comes_gives_way_to_the_next_playbook(name: str) -> None:
    """An owner's own ends as Expired after a while; a shipped one waits on."""
    started = datetime(2026, 1, 1, tzinfo=UTC)
    raw = {
        "apiVersion": "kafkamedic.dev/v1alpha1",
        "kind": "Remediation",
        "metadata": {"name": "r", "namespace": "ns", "uid": "u", "creationTimestamp": started.isoformat()},
        "spec": {
            "clusterRef": {"name": "c", "uid": "c"},
            "playbook": {"name": name, "digest": "sha256:" + "0" * 64},
            "cause": {"findingId": "BrokerZombie/broker-1", "findingType": "BrokerZombie"},
        },
    }
    run = Remediation.parse(raw)
    assert not engine._outwaited(run, started + timedelta(minutes=14))
    assert engine._outwaited(run, started + timedelta(minutes=15)) is (name == "ours")
