"""A stuck controller of a ZooKeeper cluster gives way; on KRaft, or where nobody waits for it, nothing of the kind."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from kafka_medic.cluster.snapshot import Controller, Mode, Snapshot
from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.plan_digest import plan_digest
from kafka_medic.playbook.planning import propose
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.playbook.report import StepState
from kafka_medic.playbook.restart import resign_step
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Cause
from kafka_medic.resources.remediation_plan import Plan, Resignation, Resignations, Restarts
from tests.unit.cluster import worlds
from tests.unit.playbook.test_restart_plan import CLUSTER, ROOT, RUN

PLAYBOOK = Playbook.parse(yaml.safe_load((ROOT / "playbooks" / "restart-controller.yaml").read_text()))
FOUND = RUN.model_copy(
    update={
        "spec": RUN.spec.model_copy(
            update={"cause": Cause(finding_id="ControllerStuck", finding_type="ControllerStuck"), "requested_by": None}
        )
    }
)


def stuck(mode: Mode = Mode.ZOOKEEPER, **changes: object) -> Snapshot:
    """Broker 3 went, and still leads a partition; broker 1 is the controller, epoch 7."""
    rows = [worlds.partition("orders", 0, (3, 2, 1)), worlds.partition("orders", 1, (1, 2, 3))]
    gone = {"registered": False, "reachable": False, "pod": replace(worlds.pod(3), ready=False)}
    return replace(worlds.healthy(mode, rows=rows, brokers=worlds.brokers(b3=gone)), **changes)


def elected(epoch: int = 8) -> Snapshot:
    rows = [worlds.partition("orders", 0, (3, 2, 1), isr=[2, 1], leader=2), worlds.partition("orders", 1, (1, 2, 3))]
    return replace(stuck(), partitions=worlds.partitions(rows), controller=Controller(2, epoch))


def planned(snapshot: Snapshot, run: object = FOUND) -> Plan | Refusal:
    return propose(PlanRequest(run, CLUSTER, PLAYBOOK, snapshot, worlds.NOW))


@pytest.fixture
def plan() -> Plan:
    found = planned(stuck())
    assert isinstance(found, Plan), found
    return found


def test_it_gives_way_and_nothing_is_restarted(plan):
    assert plan.part(Resignations).resignations == (Resignation(broker=1, epoch=7),)
    assert plan.part(Restarts).restarts == ()
    assert "broker 1 resigns as controller (epoch 7)" in plan.summary
    assert "orders-0" in plan.summary
    other = plan.with_parts(Resignations(resignations=(Resignation(broker=1, epoch=8),)))
    assert plan_digest(FOUND, other) != plan.digest, "what is approved is this controller and no later one"


def test_where_nobody_waits_nothing_is_to_do():
    refused = planned(worlds.healthy(Mode.ZOOKEEPER))
    assert isinstance(refused, Refusal)
    assert refused.nothing_to_do


@pytest.mark.parametrize(("mode", "run"), [(Mode.KRAFT, FOUND), (Mode.ZOOKEEPER, RUN)])
def test_a_quorum_elects_by_itself_and_who_asks_for_a_restart_gets_one(mode, run):
    snapshot = stuck(mode)
    found = planned(replace(snapshot, views=tuple(replace(v, diverged=()) for v in snapshot.views or ())), run)
    assert isinstance(found, Refusal) or found.part(Restarts).restarts


def test_it_is_due_until_another_controller_is_there_and_over_when_nobody_waits(plan):
    due = resign_step.assess("s", plan, {}, stuck())
    assert due.state is StepState.ACT
    assert (due.intent.broker, due.intent.epoch) == (1, 7)
    assert resign_step.assess("s", plan, {}, stuck(controller=Controller(None, None))).state is StepState.WAIT
    assert resign_step.assess("s", plan, {}, stuck(controller=Controller(2, 8))).state is StepState.WAIT, "none elected"
    assert resign_step.assess("s", plan, {}, elected()).state is StepState.REACHED
    unread = replace(stuck(), sources=worlds.sources(Mode.ZOOKEEPER, zookeeper="refused"))
    assert resign_step.assess("s", plan, {}, unread).state is StepState.UNKNOWN


@pytest.mark.parametrize(
    ("changes", "guard", "verdict"),
    [
        ({"sources": worlds.sources(Mode.ZOOKEEPER, zookeeper="refused")}, "SourcesFresh", Verdict.UNKNOWN),
        ({"partitions": None}, "PreconditionsHold", Verdict.UNKNOWN),
        ({"quorum": None}, "QuorumKeepsMajority", Verdict.UNKNOWN),
        ({"partitions": elected().partitions}, "PreconditionsHold", Verdict.DENY),
    ],
)
def test_what_stands_against_it(plan, changes, guard, verdict):
    against = [r for r in resign_step.reasons(plan, stuck(**changes), worlds.NOW) if r.verdict is not Verdict.ALLOW]
    assert [(r.guard, r.verdict) for r in against] == [(guard, verdict)]
    assert all(r.verdict is Verdict.ALLOW for r in resign_step.reasons(plan, stuck(), worlds.NOW))


def test_nobody_gives_way_when_nobody_could_take_over(plan):
    silent = {"reachable": False}
    gone = {"registered": False, "reachable": False}
    alone = stuck(brokers=worlds.brokers(b2=silent, b3=gone))
    against = [r for r in resign_step.reasons(plan, alone, worlds.NOW) if r.verdict is not Verdict.ALLOW]
    assert ("NoOtherBrokerDisturbed", Verdict.WAIT) in [(r.guard, r.verdict) for r in against]
