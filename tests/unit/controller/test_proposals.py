"""Which finding becomes which Remediation, and which never again by itself."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from kafka_medic.controller.proposals import ROOM_AFTER, due, in_order, is_that_proposal, renamed
from kafka_medic.diagnose.finding import Finding
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import ACTING_PHASES, TERMINAL_PHASES, Phase
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import LogDirMove, PartitionChange, Plan
from kafka_medic.resources.remediation_status import Cure, IntentState, JournalEntry
from kafka_medic.resources.vocabulary import FindingState, Severity
from tests.simulation.world import API_VERSION, PLAYBOOK_FILE, shipped_playbook, shipped_playbooks

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


def run(phase, ended=NOW, name="r", ahead=0, **other):
    """`ahead`: seconds by which the API server's clock, which dates its creation, is ahead of the operator's."""
    body = copy.deepcopy(asked(**other)[0])
    created = (ended + timedelta(seconds=ahead)).isoformat()
    body["metadata"] |= {"name": name, "uid": f"uid-{name}", "creationTimestamp": created}
    found = Remediation.parse(body)
    finished = ended if phase in TERMINAL_PHASES else None
    return found.model_copy(
        update={"status": found.status.model_copy(update={"phase": phase, "finished_at": finished})}
    )


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
    worse = replace(FOUND, id="ReplicationFactorLow/defaults", severity=Severity.CRITICAL)
    for findings in ([FOUND, worse], [worse, FOUND]):
        (body,) = asked(findings)
        assert body["spec"]["cause"]["findingId"] == worse.id, "the gravest is the cause"


def test_the_cure_of_the_gravest_finding_is_proposed_first_then_that_of_the_oldest():
    books = {p["metadata"]["name"]: Playbook.parse(p) for p in shipped_playbooks()}
    old = NOW - timedelta(hours=1)

    def found(kind, playbook, severity, since):
        return replace(FOUND, id=f"{kind}/x", type=kind, playbook=playbook, severity=severity, since=since)

    light = found("LeadersImbalanced", "elect-preferred-leaders", Severity.WARNING, old)
    older = replace(FOUND, since=old - timedelta(hours=1))
    grave = found("ViewDiverged", "rolling-restart", Severity.CRITICAL, NOW - timedelta(minutes=5))
    bodies = asked([light, older, grave], playbooks=books)
    assert [b["spec"]["cause"]["findingId"] for b in bodies] == [grave.id, older.id, light.id]


def test_runs_are_decided_by_whether_they_have_begun_then_by_severity_then_by_age():
    def told(name, phase, severity):
        found = run(phase, name=name)
        cures = Cure(finding_id=FOUND.id, severity=severity)
        return found.model_copy(update={"status": found.status.model_copy(update={"cures": cures})})

    runs = [
        told("old-light", Phase.APPROVED, Severity.WARNING),
        told("light", Phase.APPROVED, Severity.WARNING),
        told("ended", Phase.SUCCEEDED, Severity.CRITICAL),
        told("grave", Phase.APPROVED, Severity.CRITICAL),
        told("begun", Phase.BLOCKED, Severity.INFO),
    ]
    assert [r.name for r in in_order(runs)] == ["begun", "grave", "old-light", "light"]


@pytest.mark.parametrize("phase", [None, *Phase])
def test_while_one_is_open_and_after_a_person_has_seen_it_there_is_no_other(phase):
    again = asked(runs=[run(phase)])
    declined = phase in (Phase.REJECTED, Phase.EXPIRED, Phase.FAILED, Phase.ABORTED)
    assert bool(again) == (phase in TERMINAL_PHASES and not declined)
    if again:
        assert again[0]["metadata"]["name"] != asked()[0]["metadata"]["name"]


@pytest.mark.parametrize("phase", [None, *Phase])
def test_what_a_person_asked_for_holds_it_up_only_while_it_acts(phase):
    mine = run(phase, name="by-mallory")
    spec = mine.spec.model_copy(update={"cause": None, "requested_by": "mallory"})
    assert bool(asked(runs=[mine.model_copy(update={"spec": spec})])) == (phase not in ACTING_PHASES)


def test_a_name_that_is_taken_leads_to_one_that_nobody_could_know():
    (body,) = asked()
    first, second = renamed(body, "uid-of-theirs"), renamed(body, "uid-of-another")
    assert first == renamed(body, "uid-of-theirs")
    assert len({b["metadata"]["name"] for b in (body, first, second, renamed(first, "uid-of-theirs"))}) == 4
    assert (first["spec"], first["metadata"]["ownerReferences"]) == (body["spec"], body["metadata"]["ownerReferences"])


@pytest.mark.parametrize(
    ("change", "own"),
    [
        ({}, True),
        ({"spec": {"requestedBy": "mallory"}}, False),
        ({"spec": {"parameters": {"throttleBytesPerSecond": "1"}}}, False),
        ({"spec": {"clusterRef": {"name": "nobody", "uid": "c-uid"}}}, False),
        ({"spec": 7}, False),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False),
        ({"metadata": {"ownerReferences": None}}, False),
    ],
)
def test_what_is_found_under_a_name_is_read_before_it_is_taken_for_a_proposal(change, own):
    (body,) = asked()
    found = copy.deepcopy(body)
    for part, value in change.items():
        found[part] = {**found[part], **value} if isinstance(value, dict) else value
    assert is_that_proposal(found, body) == own


@pytest.mark.parametrize("request_of", ["the operator", "admin"])
def test_room_that_kafka_has_not_made_yet_is_not_asked_for_twice(request_of):
    """Kafka deletes the files of a removed replica after file.delete.delay.ms, a minute by default. Two brokers are
    relieved by one run, whoever has asked for it."""
    books = {p.name: p for p in map(Playbook.parse, shipped_playbooks())}
    full = replace(FOUND, type="DiskFilling", playbook="relieve-disk", since=NOW - timedelta(hours=1))
    changes = [PartitionChange(topic="t", partition=n, replicas_before=(n, 2), replicas=(3, 2)) for n in (0, 1)]

    def proposed(broker, seconds, kind="DropReplicas"):
        at = NOW - timedelta(seconds=seconds)
        done = run(Phase.SUCCEEDED, ended=at, findings=[replace(full, id="DiskFilling/broker-0")], playbooks=books)
        entry = JournalEntry(id="s/0", step="s", kind=kind, state=IntentState.DONE, intended_at=at, done_at=at)
        plan = Plan(digest="sha256:" + "0" * 64, proposed_at=at, expires_at=at, removals=changes)
        status = done.status.model_copy(update={"plan": plan, "journal": (entry,)})
        spec = done.spec if request_of == "the operator" else done.spec.model_copy(update={"cause": None})
        done = done.model_copy(update={"spec": spec, "status": status})
        return len(asked([replace(full, id=f"DiskFilling/broker-{broker}")], [done], playbooks=books))

    for relieved in (0, 1):
        assert proposed(relieved, 1) == proposed(relieved, ROOM_AFTER - 1) == 0
        assert proposed(relieved, ROOM_AFTER) == 1, "it was not enough"
    assert proposed(2, 1) == 1, "it has lost nothing"
    assert proposed(0, 1, kind="Reassign") == 1, "nothing was removed"


def test_files_that_a_broker_deletes_later_are_waited_for_longer():
    """By its own setting. One that is not known is as slow as the slowest of the others, and as Kafka's default."""
    books = {p.name: p for p in map(Playbook.parse, shipped_playbooks())}
    full = replace(FOUND, type="DiskFilling", playbook="relieve-disk", since=NOW - timedelta(hours=1))
    change = PartitionChange(topic="t", partition=0, replicas_before=(0, 2), replicas=(3, 2))

    def proposed(seconds, delays):
        at = NOW - timedelta(seconds=seconds)
        done = run(Phase.SUCCEEDED, ended=at, findings=[replace(full, id="DiskFilling/broker-0")], playbooks=books)
        entry = JournalEntry(
            id="s/0", step="s", kind="DropReplicas", state=IntentState.DONE, intended_at=at, done_at=at
        )
        plan = Plan(digest="sha256:" + "0" * 64, proposed_at=at, expires_at=at, removals=(change,))
        done = done.model_copy(update={"status": done.status.model_copy(update={"plan": plan, "journal": (entry,)})})
        found = [replace(full, id="DiskFilling/broker-0")]
        return len(due(cluster(), found, books, [done], NOW, delays))

    for delays, seconds in (({"0": 600.0}, 720), ({"1": 600.0}, 720), ({"0": 1.0}, 121), ({"1": 1.0}, ROOM_AFTER)):
        assert (proposed(seconds - 1, delays), proposed(seconds, delays)) == (0, 1)


def test_room_that_comes_after_a_move_to_another_log_directory_is_not_asked_for_twice():
    """Kafka puts the copy in place first, and deletes the files in the old directory a minute later."""
    books = {p.name: p for p in map(Playbook.parse, shipped_playbooks())}
    full = replace(FOUND, type="DiskFilling", playbook="relieve-disk", since=NOW - timedelta(hours=1))
    move = LogDirMove(broker=0, topic="t", partition=0, source="/a", target="/b", batch=0, size_bytes=1)

    def proposed(broker, seconds):
        at = NOW - timedelta(seconds=seconds)
        done = run(Phase.SUCCEEDED, ended=at, findings=[replace(full, id="DiskFilling/broker-0")], playbooks=books)
        plan = Plan(digest="sha256:" + "0" * 64, proposed_at=at, expires_at=at, log_dir_moves=(move,))
        done = done.model_copy(update={"status": done.status.model_copy(update={"plan": plan})})
        return len(asked([replace(full, id=f"DiskFilling/broker-{broker}")], [done], playbooks=books))

    assert (proposed(0, 1), proposed(0, ROOM_AFTER - 1), proposed(0, ROOM_AFTER), proposed(1, 1)) == (0, 0, 1, 1)


def test_a_finding_that_came_back_later_is_another_matter():
    old = run(Phase.REJECTED, ended=NOW - timedelta(hours=1))
    assert len(asked(runs=[old])) == 1


@pytest.mark.parametrize("ahead", [-3600, -60, 60, 3600])
def test_the_api_servers_clock_need_not_be_the_operators(ahead):
    """A person rejected it four minutes after the finding came, and an older one an hour before."""
    assert FOUND.since is not None
    since_it_came = run(Phase.REJECTED, ended=FOUND.since + timedelta(minutes=4), ahead=ahead)
    assert asked(runs=[since_it_came]) == []
    before_it_came = run(Phase.REJECTED, ended=FOUND.since - timedelta(hours=1), ahead=ahead)
    assert len(asked(runs=[before_it_came])) == 1


def test_a_later_cluster_of_the_same_name_owes_nothing_to_the_older_ones_runs():
    old = run(Phase.REJECTED, of=cluster("older"))
    assert len(asked(runs=[old])) == 1


def test_a_playbook_that_is_refused_is_never_proposed():
    raw = yaml.safe_load(PLAYBOOK_FILE.read_text())
    raw["spec"]["steps"][1]["with"] = {"shell": "rm"}
    bad = Playbook.parse(raw)
    assert asked(playbooks={bad.name: bad}) == []
    assert asked(playbooks={}) == []
