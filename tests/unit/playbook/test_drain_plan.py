"""How much of a broker one plan moves off it."""

from __future__ import annotations

import yaml

from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.leadership import drain_plan
from kafka_medic.playbook.planning import propose
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation_plan import Elections, Plan
from tests.unit.cluster import worlds
from tests.unit.playbook.test_restart_plan import CLUSTER, ROOT, RUN

PLAYBOOK = Playbook.parse(yaml.safe_load((ROOT / "playbooks" / "drain-broker.yaml").read_text()))
ASKED = RUN.model_copy(update={"spec": RUN.spec.model_copy(update={"parameters": {"brokers": "1"}})})


def test_what_one_plan_does_not_hold_is_told_and_left_for_the_next(monkeypatch):
    monkeypatch.setattr(drain_plan, "MAX_INLINE_CHANGES", 10)
    rows = [worlds.partition("orders", n, (1, 2, 3)) for n in range(30)]
    plan = propose(PlanRequest(ASKED, CLUSTER, PLAYBOOK, worlds.healthy(rows=rows), worlds.NOW))
    assert isinstance(plan, Plan), plan
    assert plan.partitions == 10
    assert "20 more need a further run with its own approval" in plan.summary
    assert "keep the Pod until then" in plan.summary


def test_nothing_is_moved_to_a_broker_whose_pod_is_anothers():
    """When its own node goes is not known."""
    pods = {f"b{n}": {"pod": worlds.pod(n, answers_as=other)} for n, other in ((2, 4), (4, 2))}
    rows = [worlds.partition("orders", n, (1, 2, 3, 4)) for n in range(6)]
    four = (*worlds.brokers(b2=pods["b2"]), worlds.broker(4, **pods["b4"]))
    views = tuple(worlds.view(n, rows, members=(1, 2, 3, 4)) for n in (1, 2, 3, 4))
    plan = propose(
        PlanRequest(ASKED, CLUSTER, PLAYBOOK, worlds.healthy(rows=rows, brokers=four, views=views), worlds.NOW)
    )
    assert isinstance(plan, Plan), plan
    assert {e.broker for e in plan.part(Elections).elections} == {3}
