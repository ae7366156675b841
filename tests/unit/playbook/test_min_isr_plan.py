"""The plan that raises min.insync.replicas alone: what it names, how much of it one run holds, when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.plan_digest import plan_digest
from kafka_medic.playbook.planning import propose
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.playbook.settings.min_isr_plan import MAX_TOPICS, minimum_change
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan, ReplicaMoves, SettingChanges
from tests.unit.cluster import worlds

MIN_ISR = "min.insync.replicas"
PLAYBOOK = Playbook.parse(
    yaml.safe_load((Path(__file__).parents[3] / "playbooks" / "raise-min-insync-replicas.yaml").read_text())
)
API = {"apiVersion": "kafkamedic.dev/v1alpha1"}
CLUSTER = KafkaCluster.parse(
    API
    | {
        "kind": "KafkaCluster",
        "metadata": {"name": "demo", "namespace": "ns", "uid": "uid-demo"},
        "spec": {"bootstrapServers": "kafka:9092"},
    }
)
RUN = Remediation.parse(
    API
    | {
        "kind": "Remediation",
        "metadata": {"name": "minimums", "namespace": "ns", "uid": "uid-run"},
        "spec": {
            "clusterRef": {"name": "demo", "uid": "uid-demo"},
            "playbook": {"name": PLAYBOOK.name, "digest": PLAYBOOK.digest()},
            "cause": {"findingId": "MinInsyncReplicasLow", "findingType": "MinInsyncReplicasLow"},
        },
    }
)


def proposed(topics: list[str], partition=None, **changes) -> Plan | Refusal:
    """partition: of the first topic one more, and what is different about it."""
    rows = [worlds.partition(topic, 0, minIsr=1) for topic in topics]
    rows += [{**worlds.partition(topics[0], 1, minIsr=1), **partition}] if partition else []
    settings = worlds.configs(*(("TOPIC", topic, MIN_ISR, "1", True) for topic in topics))
    snapshot = worlds.healthy(rows=rows, **({"configs": settings} | changes))
    return propose(PlanRequest(RUN, CLUSTER, PLAYBOOK, snapshot, worlds.NOW))


def test_it_names_each_topic_and_moves_nothing():
    plan = proposed(["orders", "audit"])
    assert isinstance(plan, Plan)
    assert [(c.resource_name, c.name, c.before, c.after) for c in plan.part(SettingChanges).config_changes] == [
        ("audit", MIN_ISR, "1", "2"),
        ("orders", MIN_ISR, "1", "2"),
    ]
    assert (plan.part(ReplicaMoves).changes, plan.moves) == ((), 0)
    assert plan.digest == plan_digest(RUN, plan)
    assert "set min.insync.replicas on 2 topics: audit, orders" in plan.summary
    assert "refuses acks=all while fewer are in sync" in plan.summary


def test_more_topics_than_a_journal_entry_holds_are_left_for_the_next_plan():
    plan = proposed([f"topic-{n:03}".ljust(249, "x") for n in range(MAX_TOPICS + 5)])
    assert isinstance(plan, Plan)
    assert len(plan.part(SettingChanges).config_changes) == MAX_TOPICS
    assert "5 more topics in a later plan" in plan.summary


def test_nothing_to_do_is_not_the_same_as_not_known():
    nothing = proposed([])
    assert isinstance(nothing, Refusal)
    assert nothing.nothing_to_do
    for unread in (
        {"configs": None},
        {"partitions": None},
        {"partition": {"adding": None}},
        {"partition": {"replicas": None}},
    ):
        refused = proposed(["orders"], **unread)
        assert isinstance(refused, Refusal)
        assert not refused.nothing_to_do
        assert [reason.verdict for reason in refused.reasons] == [Verdict.UNKNOWN]


@pytest.mark.parametrize("isr", [[1, 2], None], ids=["behind", "not known"])
def test_a_topic_with_a_replica_out_of_sync_is_left_for_later_and_alone_it_is_waited_for(isr):
    plan = proposed(["orders", "audit"], {"isr": isr})
    assert isinstance(plan, Plan)
    assert [c.resource_name for c in plan.part(SettingChanges).config_changes] == ["audit"]
    assert "left for a later plan, because a replica is not in sync: orders" in plan.summary
    refused = proposed(["orders"], {"isr": isr})
    assert isinstance(refused, Refusal)
    assert not refused.nothing_to_do
    assert [reason.verdict for reason in refused.reasons] == [Verdict.WAIT]
    assert "orders-1" in refused.message


@pytest.mark.parametrize(("told", "due"), [("222", False), ("212", True), ("1", True), ("2", False), ("", False)])
def test_a_topic_without_a_value_of_its_own_is_there_when_every_broker_has_as_much(told, due):
    """The broker that answered for the topic shows its own default, 1."""
    shown = ("TOPIC", "orders", MIN_ISR, "1", False)
    brokers = (("BROKER", str(b), MIN_ISR, value, False) for b, value in enumerate(told, 1))
    change = minimum_change(worlds.healthy(configs=worlds.configs(shown, *brokers)), "orders", 2)
    assert (change is not None) == due
    assert change is None or (change.before, change.after) == (None, "2")
