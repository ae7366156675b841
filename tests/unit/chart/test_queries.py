"""Alerts and dashboards ask for series that the operator exposes, by the names and labels that they have."""

from __future__ import annotations

import re

import pytest

from kafka_medic.guard.breaker import BreakerState
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.vocabulary import FindingState, Severity
from tests.unit.chart.series import SCRAPED, alerts, dashboards, exposed, panels, queries, variables
from tests.unit.resources.sources import ROOT

WORDS = {
    ("kafka_medic_findings", "severity"): set(Severity),
    ("kafka_medic_findings", "state"): set(FindingState),
    ("kafka_medic_remediations", "phase"): {*Phase, "New"},
    ("kafka_medic_remediation_phase", "phase"): {*Phase, "New"},
    ("kafka_medic_breaker_state", "state"): {state.value for state in BreakerState},
    ("kafka_medic_effects_total", "outcome"): {"sent", "failed"},
}


@pytest.fixture(scope="module")
def samples():
    return exposed()


def test_every_series_and_label_that_is_asked_for_is_exposed(samples):
    asked = [(q.place, q.expr) for q in queries()] + [
        (place, f"{found}@{label}") for place, found, label in variables()
    ]
    assert len(asked) > 60
    for place, expr in asked:
        named = re.findall(r"\b((?:kafka_medic|process)_\w+)(?:\{([^}]*)\})?", expr)
        assert named, place
        for name, selectors in named:
            assert name in samples, f"{place}: the operator exposes no {name}"
            labels = set().union(*(one for one, _ in samples[name])) | SCRAPED
            for label, value in re.findall(r'(\w+)=~?"([^"]*)"', selectors):
                assert label in labels, f"{place}: {name} has no label {label}"
                for word in value.split("|"):
                    assert word in WORDS.get((name, label), {word}), f"{place}: {label} is never {word}"
        every = set().union(*(one for name, _ in named for one, _ in samples[name])) | SCRAPED
        grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", expr) + re.findall(r"@(\w+)$", expr)
        for label in (part.strip() for group in grouped for part in group.split(",")):
            assert label in every, f"{place}: no series of it has a label {label}"


def test_every_metric_of_our_own_is_on_a_dashboard_or_said_to_be_on_none(samples):
    shown = {name for q in queries() for name in re.findall(r"\bkafka_medic_\w+", q.expr)}
    ours = {re.sub(r"_(bucket|count|sum)$", "", n) if "seconds_" in n else n for n in samples if n.startswith("kafka_")}
    left_out = {"kafka_medic_reconciles_total", "kafka_medic_groups_left_out", "kafka_medic_group_lag_sum"}
    assert ours - {re.sub(r"_bucket$", "", name) for name in shown} == left_out


def test_every_alert_has_a_severity_a_summary_and_a_runbook_that_exists():
    text = (ROOT / "docs" / "alerts.md").read_text()
    headings = re.findall(r"^## (\w+)$", text, re.MULTILINE)
    assert headings == [alert["alert"] for alert in alerts()]
    rows = re.findall(r"^\| `(\w+)`[^|]*\| ([^|]*) \|$", text, re.MULTILINE)
    told = {name: severity for severity, cell in rows for name in cell.split(", ")}
    assert told == {alert["alert"]: alert["labels"]["severity"] for alert in alerts()}
    for alert in alerts():
        notes = alert["annotations"]
        assert alert["labels"]["severity"] in ("critical", "warning")
        assert notes["summary"]
        assert notes["description"]
        assert notes["runbook_url"] == f"RUNBOOKS#{alert['alert'].lower()}"


def test_dashboards_can_be_told_apart_and_every_panel_says_what_it_shows():
    boards = dashboards()
    assert {name: board["uid"] for name, board in boards.items()} == {
        n: f"kafka-medic-{n}" for n in ("cluster", "fleet", "run")
    }
    for name, board in boards.items():
        ids = [panel["id"] for panel in board["panels"]]
        assert len(set(ids)) == len(ids), name
        titles = [panel["title"] for panel in panels(board)]
        assert len(set(titles)) == len(titles), name
        for panel in panels(board):
            where = f"{name}, {panel['title']}"
            assert panel["description"].endswith("."), where
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, where
            place = panel["gridPos"]
            assert place["x"] + place["w"] <= 24, where


def test_no_two_panels_lie_on_one_another():
    for name, board in dashboards().items():
        taken: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken, f"{name}, {panel['title']}"
            taken |= cells
