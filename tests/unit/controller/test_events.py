"""One event for each change, also when there is more than status can hold."""

from __future__ import annotations

from dataclasses import replace

from kafka_medic.controller.events import finding_notes
from kafka_medic.resources.kafkacluster_status import MAX_FINDINGS
from kafka_medic.resources.vocabulary import FindingState, Severity
from tests.unit.controller.test_status import finding, status


def many(count):
    return [finding("BrokerDown", ident=f"BrokerDown/{n:03}") for n in range(count)]


def kinds(notes):
    return [n[1] for n in notes]


def test_said_once_when_it_fires_and_once_when_it_has_gone():
    (one,) = many(1)
    assert finding_notes((), [replace(one, state=FindingState.PENDING)]) == []
    assert kinds(finding_notes((), [one])) == ["BrokerDown"]
    before = status(findings=[one]).findings
    assert finding_notes(before, [one]) == []
    assert kinds(finding_notes(before, [])) == ["BrokerDownGone"]


def test_that_a_broker_is_away_which_a_run_restarts_wakes_nobody():
    def notes(affected, restarting, kind="QuorumDegraded"):
        return finding_notes((), [replace(finding(kind), affected=affected)], restarting)

    run = {2: "Remediation roll"}
    ((kind, _, message),) = notes(("voter-2",), run)
    assert kind == "Normal"
    assert message.endswith("; Remediation roll is restarting it")
    assert notes(("broker-2",), run, "NodeMaintenance")[0][0] == "Normal"
    assert notes(("broker-2",), run, "BrokerDown")[0][0] == "Warning"
    assert notes(("voter-2", "voter-3"), run)[0][0] == "Warning"
    assert notes(("voter-3",), run)[0][0] == "Warning"
    assert notes(("voter-2",), {})[0][0] == "Warning"
    cut = replace(finding("QuorumDegraded"), affected=("broker-2",), counted=40)
    assert finding_notes((), [cut], run)[0][0] == "Warning"


def test_a_name_that_only_looks_as_if_it_ended_in_a_number_is_announced():
    named = replace(finding("ClientStalled"), affected=("orders-²", "orders-" + "9" * 5000))
    assert kinds(finding_notes((), [named])) == ["ClientStalled"]
    assert kinds(finding_notes((), [replace(named, type="QuorumDegraded")])) == ["QuorumDegraded"]


def test_more_than_status_holds_is_announced_once():
    found = many(MAX_FINDINGS + 10)
    assert len(finding_notes((), found)) == MAX_FINDINGS
    assert finding_notes(status(findings=found).findings, found) == []


def test_what_lost_its_place_to_something_worse_has_not_gone():
    found = many(MAX_FINDINGS)
    worse = replace(finding("ViewDiverged"), severity=Severity.CRITICAL)
    notes = finding_notes(status(findings=found).findings, [*found, worse])
    assert kinds(notes) == ["ViewDiverged"]
    assert status(findings=[*found, worse]).findings[0].type == "ViewDiverged"
