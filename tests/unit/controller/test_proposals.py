"""Which finding becomes which Remediation, and which never again by itself."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from kafka_medic.controller.proposals import due
from kafka_medic.diagnose.finding import Finding
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import TERMINAL_PHASES, Phase
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.vocabulary import FindingState, Severity
from tests.simulation.world import API_VERSION, PLAYBOOK_FILE, shipped_playbook

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PLAYBOOK = shipped_playbook()
FOUND = Finding(
    id="ReplicationFactorLow/topics", type="ReplicationFactorLow", severity=Severity.WARNING, message="low",
    affected=("t",), evidence=(), since=NOW - timedelta(minutes=5), state=FindingState.FIRING, playbook=PLAYBOOK.name,
)  # fmt: skip


def cluster(uid="c-uid", **remediation):
    meta = {"name": "c", "namespace": "ns", "uid": uid}
    spec = {"bootstrapServers": "k:1", "remediation": remediation}
    return KafkaCluster.parse({"apiVersion": API_VERSION, "kind": "KafkaCluster", "metadata": meta, "spec": spec})


def asked(findings=(FOUND,), runs=(), of=None, playbooks=None):
    books = {PLAYBOOK.name: PLAYBOOK} if playbooks is None else playbooks
    return due(of or cluster(), findings, books, runs, NOW)


def run(phase, created=NOW, name="r", **other):
    body = copy.deepcopy(asked(**other)[0])
    body["metadata"] |= {"name": name, "uid": f"uid-{name}", "creationTimestamp": created.isoformat()}
    found = Remediation.parse(body)
    return found.model_copy(update={"status": found.status.model_copy(update={"phase": phase})})


def test_a_firing_finding_becomes_a_remediation_that_pins_all_that_matters():
    (body,) = asked()
    made = Remediation.parse(body)
    assert made.spec.cluster_ref.uid == "c-uid"
    assert made.spec.playbook.digest == PLAYBOOK.digest()
    assert made.spec.cause is not None
    assert made.spec.cause.finding_id == FOUND.id
    assert body["metadata"]["ownerReferences"][0]["uid"] == "c-uid"
    assert asked() == [body], "the same question has the same name, so it cannot be created twice"


@pytest.mark.parametrize(
    "finding",
    [
        replace(FOUND, state=FindingState.PENDING),
        replace(FOUND, since=NOW - timedelta(seconds=29)),  # the playbook's `for` is 30s
        replace(FOUND, since=None),
        replace(FOUND, playbook=None),
        replace(FOUND, type="RackSpreadLow"),
    ],
)
def test_what_does_not_call_for_it_proposes_nothing(finding):
    assert asked([finding]) == []


def test_observe_proposes_nothing_and_one_playbook_can_differ():
    assert asked(of=cluster(mode="Observe")) == []
    override = [{"name": PLAYBOOK.name, "mode": "Observe"}]
    assert asked(of=cluster(playbooks=override)) == []
    parameters = [{"name": PLAYBOOK.name, "mode": "Approve", "parameters": {"throttleBytesPerSecond": 7000000}}]
    (body,) = asked(of=cluster(mode="Observe", playbooks=parameters))
    assert body["spec"]["parameters"] == {"throttleBytesPerSecond": "7000000"}


def test_several_findings_of_one_kind_have_one_cure():
    assert len(asked([FOUND, replace(FOUND, id="ReplicationFactorLow/defaults")])) == 1


@pytest.mark.parametrize("phase", [None, *Phase])
def test_while_one_is_open_and_after_a_person_has_seen_it_there_is_no_other(phase):
    again = asked(runs=[run(phase)])
    declined = phase in (Phase.REJECTED, Phase.EXPIRED, Phase.FAILED, Phase.ABORTED)
    assert bool(again) == (phase in TERMINAL_PHASES and not declined)
    if again:
        assert again[0]["metadata"]["name"] != asked()[0]["metadata"]["name"]


def test_a_finding_that_came_back_later_is_another_matter():
    old = run(Phase.REJECTED, created=NOW - timedelta(hours=1))
    assert len(asked(runs=[old])) == 1


def test_a_later_cluster_of_the_same_name_owes_nothing_to_the_older_ones_runs():
    old = run(Phase.REJECTED, of=cluster("older"))
    assert len(asked(runs=[old])) == 1


def test_a_playbook_that_is_refused_is_never_proposed():
    raw = yaml.safe_load(PLAYBOOK_FILE.read_text())
    raw["spec"]["steps"][1]["with"] = {"shell": "rm"}
    bad = Playbook.parse(raw)
    assert asked(playbooks={bad.name: bad}) == []
    assert asked(playbooks={}) == []
