"""`kafka-medic report --plan DIR`: the page of a plan, made again from its folder."""

from __future__ import annotations

import json
import re

import pytest

from kafka_medic.cli import main as cli
from kafka_medic.cli.plan_report import about_plan


@pytest.fixture
def plan(tmp_path):
    rows = [{"topic": f"t{n % 5}", "partition": n // 5, "replicas": [n % 3], "sizeBytes": 10**9} for n in range(40)]
    snapshot = {
        "apiVersion": "kafkamedic.dev/v1alpha1", "kind": "Snapshot",
        "cluster": {"name": "orders", "id": "7Qz0", "mode": "KRaft", "version": "4.1"},
        "takenAt": "2026-01-31T08:00:00Z", "sources": [],
        "brokers": [{"id": n, "rack": "abc"[n % 3], "registered": True, "reachable": True} for n in range(6)],
        "partitions": [row | {"adding": [], "removing": []} for row in rows],
    }  # fmt: skip
    (tmp_path / "snapshot.json").write_text(json.dumps(snapshot))
    line = ["plan", "raise-replication-factor", "--partitions", str(tmp_path / "snapshot.json")]
    line += ["--replication-factor", "2", "--throttle", "1000000", "--output", str(tmp_path / "plan")]
    assert cli.main(line) == 0
    return tmp_path / "plan"


def test_a_page_names_its_cluster_its_requester_and_its_digest(plan):
    page = (plan / "report.html").read_text("utf-8")
    for needed in ("Raise replication factor: orders", "orders (id 7Qz0)", "2026-01-31 08:00:00 UTC", "Requested by"):
        assert needed in page


def test_the_page_made_again_is_the_same_page(plan, tmp_path):
    first = (plan / "report.html").read_text("utf-8")
    assert cli.main(["report", "--plan", str(plan), "--output", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_text("utf-8") == first
    assert cli.main(["report", "--plan", str(plan)]) == 0
    assert (plan / "report.html").read_text("utf-8") == first


def test_a_plan_of_an_earlier_version_has_a_page_without_what_it_lacks(plan, tmp_path):
    (plan / "report.json").unlink()
    assert cli.main(["report", "--plan", str(plan), "--output", str(tmp_path / "again.html")]) == 0
    page = (tmp_path / "again.html").read_text("utf-8")
    assert "No figures per broker were written with this plan." in page
    assert re.search(r"40 partitions", page)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("missing", "has no summary.json"),
        ("text", "not readable"),
        ("list", "no JSON object"),
        ("other", "is no summary of a plan"),
        ("parquet", "cannot be read"),
    ],
)
def test_a_folder_that_holds_no_plan_is_named(plan, capsys, broken, message):
    summary = plan / "summary.json"
    match broken:
        case "missing":
            summary.unlink()
        case "text":
            summary.write_text("{")
        case "list":
            summary.write_text("[]")
        case "other":
            summary.write_text("{}")
        case "parquet":
            (plan / "plan.parquet").write_bytes(b"PAR1")
    before = (plan / "report.html").read_bytes()
    assert cli.main(["report", "--plan", str(plan)]) == 4
    error = capsys.readouterr().err
    assert message in error
    assert str(plan) in error
    assert (plan / "report.html").read_bytes() == before


def test_a_plan_and_a_run_at_once_or_neither_are_refused(capsys):
    assert cli.main(["report"]) == 4
    assert cli.main(["report", "run", "--plan", "plan"]) == 4
    assert "not allowed with" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["", "[]", '{"kind": "Other", "cluster": {"name": "x"}}', '{"kind": "Snapshot", "cluster": 3']
)
def test_of_what_is_no_snapshot_no_cluster_is_claimed(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    found = about_plan(tmp_path / "p.json")
    assert (found.cluster, found.observed_at) == ("", "")
    assert found.planned_at is not None
    assert about_plan("s3a://bucket/p").cluster == ""
