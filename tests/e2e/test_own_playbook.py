"""The worked example of docs/playbooks.md on a real API server and a real Kafka: a team's own Playbook is proposed by
its own trigger, in the KafkaCluster of its own label, and gives the leaders back after a maintenance."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import yaml

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection
from tests.e2e.conftest import Case
from tests.incident import operator
from tests.testbed import get, kubectl, wait_for

ROOT = Path(__file__).parents[2]
EXAMPLE = yaml.safe_load((ROOT / "examples" / "playbook-leaders-back.yaml").read_text())
SHIPPED_DRAIN = ROOT / "playbooks" / "drain-broker.yaml"
HOME = 1
WRONG = "leaders-back-wrong"


def own_drain() -> dict[str, Any]:
    """As the shipped one, which these tests keep from being proposed at once, and for the same clusters."""
    drain = yaml.safe_load(SHIPPED_DRAIN.read_text())
    clusters = EXAMPLE["spec"]["trigger"]["clusters"]
    drain["metadata"] = {"name": "drain-of-a-team"}
    drain["spec"]["trigger"] = {"finding": "NodeMaintenance", "for": "0s", "clusters": clusters}
    return dict(drain)


def misspelt() -> dict[str, Any]:
    """With a guard that nobody would ask before such a step."""
    wrong = yaml.safe_load((ROOT / "examples" / "playbook-leaders-back.yaml").read_text())
    wrong["metadata"]["name"] = WRONG
    wrong["spec"]["steps"][0]["guards"] = ["GroupEmpty"]
    return dict(wrong)


def accepted(name: str) -> tuple[str, str]:
    """(status, message) of its condition; empty while there is none."""
    conditions = get("playbooks", name).get("status", {}).get("conditions", [])
    return next(((c["status"], c["message"]) for c in conditions if c["type"] == "Accepted"), ("", ""))


def is_accepted(name: str) -> bool:
    return accepted(name)[0] == "True"


def is_refused() -> bool:
    return accepted(WRONG)[0] == "False"


def approved(case: Case, playbook: str) -> operator.Object:
    run = operator.wait_for_run(case.namespace, "AwaitingApproval", 120, cluster=case.name, playbook=playbook)
    assert run["spec"]["cause"]["findingType"] == "NodeMaintenance", "proposed, and not asked for"
    assert operator.approve(run, "alice").returncode == 0
    return operator.wait_for_run(case.namespace, "Succeeded", 180, cluster=case.name, playbook=playbook)


def partitions(kafka: RealKafka, topic: str) -> list[tuple[int, list[int], int]]:
    view = kafka.views([0])[0]
    assert isinstance(view, BrokerView)
    return sorted((p.partition, list(p.replicas), p.leader) for p in view.partitions if p.topic == topic)


def test_a_team_gets_its_leaders_back_by_its_own_playbook(case: Case) -> None:
    kafka = RealKafka(Connection(case.boot))
    books = [EXAMPLE, own_drain(), misspelt()]
    before = [[0, HOME, 2], [HOME, 0, 2], [HOME, 2, 0], [2, HOME, 0]]
    topic = case.topic(*before, config={"min.insync.replicas": "2"})
    node = case.kafka.node_of(HOME)
    try:
        operator.apply(books)
        for name in (EXAMPLE["metadata"]["name"], "drain-of-a-team"):
            wait_for(f"{name} to be accepted", partial(is_accepted, name), 30)
        wait_for("the wrong one to be refused", is_refused, 30)
        told = accepted(WRONG)[1]
        assert "spec.steps[0].guards" in told
        assert "GroupEmpty is not a guard of ReorderReplicas" in told
        case.watch()
        case.condition("Reachable", "True")
        kubectl("label", "kafkacluster", case.name, "-n", case.namespace, "team=orders")
        kubectl("cordon", node)
        approved(case, "drain-of-a-team")
        assert HOME not in [leader for _, _, leader in partitions(kafka, topic)]
        kubectl("uncordon", node)
        done = approved(case, EXAMPLE["metadata"]["name"])
        assert [s["phase"] for s in done["status"]["steps"]] == ["Succeeded", "Succeeded"]
        names = [r["spec"]["playbook"]["name"] for r in case.runs()]
        assert names == ["drain-of-a-team", EXAMPLE["metadata"]["name"]], "one for each, and none of the shipped"
    finally:
        kubectl("uncordon", node)
        kubectl("delete", "playbook", *(b["metadata"]["name"] for b in books), "--ignore-not-found")
    assert partitions(kafka, topic) == [(n, replicas, replicas[0]) for n, replicas in enumerate(before)]
    kafka.close()
