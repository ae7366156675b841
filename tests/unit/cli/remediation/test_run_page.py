"""`report RUN --output FILE`: a page of the run, at any time of its life."""

from __future__ import annotations

import re
from html import unescape

import pytest

from kafka_medic.cli.remediation.access import Access
from kafka_medic.cli.remediation.read_commands import read_plan
from kafka_medic.cli.remediation.report_command import page_of
from kafka_medic.playbook import plan_file
from kafka_medic.report.model import Bars, Facts, PartitionList, Table, Text, Timeline
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.remediation_plan import ReplicaMoves
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World
from tests.unit.cli.remediation.api_of_people import BASE, ApiOfPerson


def page(sim):
    return page_of(sim.run(), KafkaCluster.parse(sim.cluster()), (), None, sim.now)


def blocks(page, section, kind):
    (found,) = [s for s in page.sections if s.id == section]
    return [block for block in found.blocks if isinstance(block, kind)]


def events(page):
    (timeline,) = blocks(page, "timeline", Timeline)
    return [event.what for event in timeline.events]


def figures(page):
    return {row[0]: row[1:] for table in blocks(page, "plan", Table) for row in table.rows}


def test_a_page_before_approval_says_what_is_approved_and_who_may(sim):
    shown = page(sim)
    facts = {fact.name: fact.value for fact in shown.facts}
    assert shown.state == "Awaiting approval"
    assert facts["KafkaCluster"] == "ns/c"
    assert facts["Requested by"] == "the operator"
    assert facts["Plan digest"] == sim.run().status.plan.digest
    assert figures(shown)["Replicas copied"] == ("14", "14", "Best possible: no plan copies fewer.")
    assert figures(shown)["Most replicas on a broker"][:2] == ("7", "7")
    assert figures(shown)["Partitions on fewer racks than possible"][0] == "0"
    charts = {chart.title: chart for chart in blocks(shown, "before-and-after", Bars)}
    assert list(charts) == [
        "Replicas per broker", "Replicas per rack", "Preferred leaders per broker", "Preferred leaders per rack"
    ]  # fmt: skip
    assert (charts["Replicas per broker"].before, charts["Replicas per broker"].after) == ((2, 3, 2), (7, 7, 7))
    assert charts["Replicas per rack"].labels == ["a", "b", "c"]
    (listed,) = blocks(shown, "partitions", PartitionList)
    assert (listed.total, listed.listed) == (7, 7)
    assert [text.lines for text in blocks(shown, "approvals", Text)][-1] == ["No decision yet."]
    assert any(
        "__consumer_offsets has factor 1" in line for text in blocks(shown, "finding", Text) for line in text.lines
    )
    (waits,) = [t for t in blocks(shown, "stands", Table) if t.title == "What it waits for"]
    assert [row[0] for row in waits.rows] == ["ApprovalValid"]


def test_a_page_of_an_ended_run_tells_how_it_went(sim):
    sim.step(600)
    sim.approve(sim.run(), reason="read it")
    sim.until_phase("Succeeded")
    shown = page(sim)
    assert shown.state == "Succeeded"
    assert shown.lead[-1].startswith("It took ")
    (steps,) = blocks(shown, "stands", Table)
    assert steps.rows[0][0] == "add-replicas"
    assert steps.rows[0][1].text == "Succeeded"
    assert "10.0 MB of 10.0 MB" in steps.rows[0]
    assert any(str(cell).endswith("/s") for cell in steps.rows[0])
    told = events(shown)
    assert told.index("Proposed") < told.index("ApprovalValid: Wait") < told.index("Approve") < told.index("Started")
    assert told.index("Started") < told.index("Change settings") < told.index("Reassign") < told.index("Succeeded")
    (timeline,) = blocks(shown, "timeline", Timeline)
    held = next(event for event in timeline.events if event.what == "ApprovalValid: Wait")
    assert re.fullmatch(r"Held for 1\d min( \d+ s)?\.", held.details[-1])
    (approvals,) = blocks(shown, "approvals", Table)
    assert approvals.rows[0][0] == "alice"
    assert approvals.rows[0][-1] == "read it"
    tables = {table.title: table for table in blocks(shown, "changes", Table)}
    changed = {row[0]: tuple(row[1:]) for row in tables["Before and after"].rows}
    assert changed["min.insync.replicas of topic orders"] == ("1", "2")
    saved = next(table for title, table in tables.items() if title.startswith("Settings for the time of the run"))
    assert ("BROKER/0/follower.replication.throttled.rate", "not set") in saved.rows


def test_the_finding_and_its_evidence_outlive_the_cluster_s_own_account(sim):
    before = blocks(page(sim), "finding", Text)
    sim.approve(sim.run())
    sim.until_phase("Succeeded")
    shown = page(sim)
    (facts,) = blocks(shown, "finding", Facts)
    assert {fact.name: fact.value for fact in facts.rows}["State now"] == "gone"
    evidence = [line for text in blocks(shown, "finding", Text) for line in text.lines]
    assert any("__consumer_offsets has factor 1" in line for line in evidence)
    assert before


def test_a_rejected_run_has_no_effect_to_show(sim):
    sim.approve(sim.run(), decision="Reject", reason="not on Friday")
    sim.until_phase("Rejected")
    shown = page(sim)
    assert (shown.state, [s.id for s in shown.sections if s.id == "effect"]) == ("Rejected", [])
    assert "Reject" in events(shown)


@pytest.mark.parametrize(
    ("slowest", "failing", "said"), [(340, 0, "none"), (2100, 2, "2 canary partitions at one time")]
)
def test_what_the_canary_saw_is_told(sim, slowest, failing, said):
    sim.approve(sim.run())
    sim.until_phase("Succeeded")
    status = sim.api.touch(f"{BASE}/remediations/{sim.run().name}")["status"]
    status["canary"] = {"beforeMs": 4, "worstMs": slowest, "at": status["startedAt"], "failing": failing}
    (facts,) = blocks(page(sim), "effect", Facts)
    told = {fact.name: fact.value for fact in facts.rows}
    assert told["Slowest acknowledgement before"] == "4 ms"
    assert told["Slowest acknowledgement during the run"] in ("340 ms", "2.1 s")
    assert told["Failing"] == said


def test_the_command_writes_a_page_and_overwrites_no_other_file(sim, terminal, tmp_path):
    name, path = sim.run().name, tmp_path / "run.html"
    code, out, err = terminal("report", name, "--output", str(path))
    assert (code, out) == (0, "")
    assert f"wrote {path}" in err
    text = path.read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert sim.run().status.plan.digest in text
    assert terminal("report", name, "--output", str(path))[0] == 0, "an earlier page is replaced"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.html"]
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    code, _, err = terminal("report", name, "--output", str(other))
    assert code == 4
    assert "is no report of kafka-medic" in err
    assert other.read_text() == "mine"
    code, _, err = terminal("report", name, "--output", str(tmp_path / "none" / "run.html"))
    assert code == 4
    assert "cannot be written" in err
    code, out, _ = terminal("report", name, "--output", "-")
    assert code == 0
    assert out.startswith("<!doctype html>")


def test_hostile_text_of_a_run_is_shown_and_does_nothing(sim, terminal, tmp_path):
    status = sim.api.touch(f"{BASE}/remediations/{sim.run().name}")["status"]
    status["message"] = "<script>alert(1)</script>\x1b[31m\u202e"
    status["plan"]["summary"] = "<img src=x onerror=alert(1)>\n" * 3
    terminal("report", sim.run().name, "--output", str(tmp_path / "run.html"))
    text = (tmp_path / "run.html").read_text("utf-8")
    assert "<script>alert" not in text
    assert "<img" not in text
    assert not {"\x1b", "\u202e"} & set(text)
    assert "<script>alert(1)</script>" in unescape(text)


def test_a_plan_in_a_file_that_cannot_be_read_is_said_to_lie_there(sim):
    plan = sim.api.touch(f"{BASE}/remediations/{sim.run().name}")["status"]["plan"]
    plan["artifact"] = {"uri": "file:///plans/x.parquet", "sha256": "a" * 64}
    plan["changes"] = []
    (text,) = blocks(page(sim), "partitions", Text)
    assert "7 partitions" in text.lines[0]
    assert "file:///plans/x.parquet" in text.lines[0]


def test_the_partitions_of_a_plan_in_a_file_are_read_from_its_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(plan_file, "MAX_INLINE_CHANGES", 2)
    kafka = SimKafka()
    kafka.topic("orders", *([0],) * 6)
    world = World(kafka, files=tmp_path / "plans")
    world.install()
    world.until_phase("AwaitingApproval")
    run = world.run()
    assert run.status.plan.part(ReplicaMoves).changes == ()
    access = Access(ApiOfPerson(world), "ns", lambda: world.now)
    whole = read_plan(access, run)
    shown = page_of(run, None, (), whole, world.now)
    (listed,) = blocks(shown, "partitions", PartitionList)
    assert (listed.total, listed.sizes) == (6, True)
    assert {row.before for row in listed.first} == {"0"}
    assert figures(shown)["Partitions on fewer racks than possible"][0] == "0"
