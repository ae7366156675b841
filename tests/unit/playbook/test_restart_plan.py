"""What stands against a plan of restarts is judged for each as things will stand when its turn comes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from kafka_medic.cluster.snapshot import Mode, Quorum, Snapshot, Voter
from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook.propose import propose
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan
from tests.unit.cluster import worlds

ROOT = Path(__file__).parents[3]
API = "kafkamedic.dev/v1alpha1"
PLAYBOOK = Playbook.parse(yaml.safe_load((ROOT / "playbooks" / "rolling-restart.yaml").read_text()))
CLUSTER = KafkaCluster.parse(
    {
        "apiVersion": API,
        "kind": "KafkaCluster",
        "metadata": {"name": "demo", "namespace": "ns", "uid": "uid-demo"},
        "spec": {"bootstrapServers": "kafka:9092", "brokers": {"podSelector": {"matchLabels": {"app": "kafka"}}}},
    }
)
RUN = Remediation.parse(
    {
        "apiVersion": API,
        "kind": "Remediation",
        "metadata": {"name": "roll", "namespace": "ns", "uid": "uid-roll"},
        "spec": {
            "clusterRef": {"name": "demo", "uid": "uid-demo"},
            "playbook": {"name": "rolling-restart", "digest": PLAYBOOK.digest()},
            "requestedBy": "carol",
        },
    }
)


def planned(snapshot: Snapshot, pending: frozenset[str] = frozenset()) -> Plan | Refusal:
    return propose(RUN, CLUSTER, PLAYBOOK, snapshot, worlds.NOW, pending=pending)


def cut_off(mode: Mode) -> Snapshot:
    """Broker 3 answers and is not registered: the others took it out of their ISRs, and it does not know."""
    rows = [worlds.partition("orders", 0, (1, 2, 3), isr=[1, 2]), worlds.partition("orders", 1, (2, 3, 1), isr=[2, 1])]
    views = [replace(worlds.view(n, rows, members=(1, 2)), diverged=()) for n in (1, 2)]
    views.append(replace(worlds.view(3, rows), diverged=()))
    quorum = Quorum(1, (Voter(1, 0, 0), Voter(2, 0, 0), Voter(3, 400, 60_000)))
    brokers = worlds.brokers(b3={"registered": False, "recovering": None})
    changes = {"quorum": quorum} if mode is Mode.KRAFT else {}
    return worlds.healthy(mode, rows=rows, brokers=brokers, views=tuple(views), **changes)


@pytest.mark.parametrize("mode", list(Mode))
def test_one_that_is_cut_off_goes_first_and_does_not_stand_against_those_after_it(mode):
    plan = planned(cut_off(mode))
    assert isinstance(plan, Plan), plan
    assert [(r.broker, r.stale) for r in plan.restarts] == [(3, True), (2, False), (1, False)]


@pytest.mark.parametrize("finding", ["BrokerZombie", "ViewDiverged"])
def test_a_view_that_is_stale_for_a_moment_is_no_reason_to_save_anything(finding):
    refused = planned(cut_off(Mode.ZOOKEEPER), frozenset({f"{finding}/broker-3"}))
    assert isinstance(refused, Refusal)
    assert [r.verdict for r in refused.reasons] == [Verdict.WAIT], refused
    assert not refused.permanent
    assert isinstance(planned(cut_off(Mode.ZOOKEEPER), frozenset({f"{finding}/broker-1"})), Plan), "not of that broker"


def test_a_voter_that_is_behind_and_not_restarted_stands_against_it():
    quorum = Quorum(1, (Voter(1, 0, 0), Voter(2, 0, 0), Voter(3, 0, 0), Voter(4, 9, 60_000), Voter(5, 9, 60_000)))
    refused = planned(worlds.healthy(quorum=quorum))
    assert isinstance(refused, Refusal)
    assert "voters are caught up and 3 are needed" in refused.message
