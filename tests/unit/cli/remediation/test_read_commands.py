"""list, show, diff, explain, history, report, completion: what is told, and that nothing in it is obeyed."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import subprocess
import tomllib
from datetime import timedelta

import pytest
import yaml

from kafka_medic.cli import exits
from kafka_medic.cli.main import main, plugin
from kafka_medic.cli.remediation import command
from kafka_medic.cli.remediation.approvers import approvers
from kafka_medic.cli.remediation.explain import WHAT_TO_DO
from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.cluster.clock import Skew
from kafka_medic.controller.plan_parts import publish
from kafka_medic.playbook.plan_digest import sealed
from kafka_medic.playbook.plan_file import contents, without_file
from kafka_medic.resources.remediation_plan import Artifact, Plan, ReplicaMoves
from kafka_medic.resources.vocabulary import Guard
from tests.unit.cli.remediation.api_of_people import BASE
from tests.unit.resources.sources import ROOT


def test_list_has_what_waits_and_until_when(sim, terminal):
    code, out, _ = terminal("list")
    assert code == 0
    header, row = out.splitlines()
    assert re.split(r"  +", header) == [
        "NAME", "CLUSTER", "PLAYBOOK", "RISK", "PHASE", "STEP", "WAITS FOR", "APPROVED BY", "EXPIRES", "AGE",
    ]  # fmt: skip
    assert sim.run().name in row
    assert "AwaitingApproval" in row
    assert "23h" in row
    assert terminal("list", "-A")[1].startswith("NAMESPACE")
    assert json.loads(terminal("list", "-o", "json")[1])["items"][0]["metadata"]["name"] == sim.run().name
    assert "no Remediations in namespace" in terminal("list", "--cluster", "another")[2]


def test_which_run_waits_for_which_and_why_is_told(sim, terminal):
    run = sim.run()
    told = "gives way to roll-1, which cures ViewDiverged/broker-2 (Critical)"
    waits = {"guard": "NoOtherRemediation", "verdict": "Wait", "message": told, "remediation": "roll-1"}
    status = sim.api.touch(f"{BASE}/remediations/{run.name}")["status"]
    status |= {"waitingFor": [waits], "holds": "changes to revert"}
    header, row = terminal("list")[1].splitlines()
    assert row[header.index("WAITS FOR") :].startswith("roll-1 ")
    shown = terminal("show", run.name)[1]
    assert told in shown
    assert re.search(r"^cures +ReplicationFactorLow/internal-topics \(Critical\)$", shown, re.MULTILINE)
    assert re.search(r"^holds +changes to revert$", shown, re.MULTILINE)
    assert "Wait for the named run" in terminal("explain", run.name)[1]


def test_one_that_this_version_cannot_read_hides_no_other(sim, terminal):
    broken = {"metadata": {"name": "broken\x1b[2J"}, "spec": {"clusterRef": {"name": "c"}, "surprise": 1}}
    sim.put("remediations", broken)
    code, out, err = terminal("list")
    assert code == 0
    assert "unreadable" in out
    assert "AwaitingApproval" in out
    assert "operator's own version" in err
    assert "\x1b" not in out + err


def test_list_watch_tells_each_change_and_outlasts_an_api_server_that_is_away(sim, terminal):
    sim.approve(sim.run())
    turns = iter(range(6))

    def slept():
        turn = next(turns, None)
        if turn is None:
            raise KeyboardInterrupt
        terminal.api.fails = ApiFailure(503, "away") if turn in (1, 2) else None
        sim.step()

    terminal.slept = slept
    code, out, err = terminal("list", "--watch")
    assert code == 130
    assert "Running" in out
    assert err.count("retrying") == 1


def test_an_api_server_that_stays_away_ends_the_watch(sim, terminal):
    def slept():
        terminal.api.fails = ApiFailure(0, "timed out")
        sim.now += timedelta(minutes=1)

    terminal.slept = slept
    assert terminal("show", sim.run().name, "--watch")[0] == 3


def test_show_has_all_that_a_decision_needs(sim, terminal):
    terminal.api.rbac = {
        "clusterroles": [
            {"metadata": {"name": "medic-approver"}, "rules": [
                {"verbs": ["approve"], "apiGroups": ["kafkamedic.dev"], "resources": ["remediations"]}]},
        ],
        "rolebindings": [
            {"metadata": {"name": "x", "namespace": "ns"}, "roleRef": {"kind": "ClusterRole", "name": "medic-approver"},
             "subjects": [{"kind": "Group", "name": "oncall"}, {"kind": "User", "name": "alice"}]},
        ],
    }  # fmt: skip
    code, out, _ = terminal("show", sim.run().name)
    assert code == 0
    for needed in (
        sim.run().status.plan.digest, "23h", "Medium", "you may approve  yes", "Group oncall, User alice", "1 needed",
        "replicas of orders-0: [1] -> [1, 0, 2]", "ApprovalValid", "ReplicationFactorLow", "only while",
        "throttled to 50.0 MB/s",
    ):  # fmt: skip
        assert needed in out, needed
    document = json.loads(terminal("show", sim.run().name, "-o", "json")[1])
    assert document["decision"] == {
        "youMayApprove": True, "approvers": ["Group oncall", "User alice"], "approvalsRequired": 1,
    }  # fmt: skip
    assert document["status"]["plan"]["digest"] == sim.run().status.plan.digest
    assert yaml.safe_load(terminal("show", sim.run().name, "-o", "yaml")[1]) == document


def test_who_may_not_read_roles_is_told_so_and_not_that_nobody_may(sim, terminal):
    assert "you may not read the roles" in terminal("show", sim.run().name)[1]


def test_diff_has_each_change_before_and_after(sim, terminal):
    code, out, _ = terminal("diff", sim.run().name)
    assert code == 0
    assert "- [1]\n+ [1, 0, 2]\n" in out
    assert out.count("\n- [") == 7
    assert "min.insync.replicas of topic orders" in out
    rows = json.loads(terminal("diff", sim.run().name, "-o", "json")[1])["changes"]
    (orders,) = [r for r in rows if r["what"] == "replicas of orders-0"]
    assert (orders["before"], orders["after"]) == ("[1]", "[1, 0, 2]")


def test_a_plan_that_lies_in_a_file_is_shown_from_that_very_file(sim, terminal, tmp_path):
    status = sim.api.touch(f"{BASE}/remediations/{sim.run().name}")["status"]
    plan = Plan.model_validate(status["plan"])
    file = tmp_path / "copy.parquet"
    file.write_bytes(contents(plan))
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    status["plan"] |= {"changes": [], "artifact": {"uri": f"file:///plans/{sha256}.parquet", "sha256": sha256}}
    code, out, _ = terminal("diff", sim.run().name)
    assert code == 0
    assert f"its 7 partitions at file:///plans/{sha256}.parquet" in out
    code, out, _ = terminal("diff", sim.run().name, "--plan-file", str(file))
    assert (code, out.count("\n- [")) == (0, 7)
    file.write_bytes(b"PAR1")
    code, out, err = terminal("diff", sim.run().name, "--plan-file", str(file))
    assert (code, out) == (4, "")
    assert f"the plan names {sha256}" in err


def test_a_plan_that_lies_in_a_file_is_read_with_ones_own_rights(sim, terminal):
    """As the operator publishes it; what is not that very file is not shown."""
    run, path = sim.run(), f"{BASE}/remediations/{sim.run().name}"
    status = sim.api.touch(path)["status"]
    plan = Plan.model_validate(status["plan"])
    sha256 = hashlib.sha256(contents(plan)).hexdigest()
    artifact = {"uri": f"file:///plans/{sha256}.parquet", "sha256": sha256}
    plan = sealed(
        run, plan.with_parts(plan.part(ReplicaMoves).model_copy(update={"artifact": Artifact.model_validate(artifact)}))
    )
    assert publish(sim.api, run, plan) is None
    status["plan"] = without_file(plan).to_kubernetes()
    for words in (("diff", run.name), ("show", run.name), ("approve", run.name)):
        _, out, _ = terminal(*words)
        assert "[1, 0, 2]" in out, words
        assert out.count("of orders-0") == 1, words
    (part,) = sim.api.list(f"{BASE}/planparts")
    good = part["spec"]["data"]
    for data in (good[:-8] + "AAAAAAAA", "AAAA", ""):
        sim.api.touch(f"{BASE}/planparts/{part['metadata']['name']}")["spec"]["data"] = data
        code, out, _ = terminal("diff", run.name)
        assert code == 0
        assert "[1, 0, 2]" not in out
        assert "the operator has not published the plan, or you may not read planparts" in out


def test_a_group_reads_on_from_where_the_diff_says(sim, terminal):
    plan = sim.api.touch(f"{BASE}/remediations/{sim.run().name}")["status"]["plan"]
    plan["steps"] = [{"name": "reset", "action": "ResetOffsets"}]
    plan["offsets"] = [
        {"group": "billing\x1b[2J", "topic": "orders", "partition": 0, "before": 21, "after": 10, "readAgain": 11}
    ]
    out = terminal("diff", sim.run().name)[1]
    assert "in orders-0  (0 offsets skipped, up to 11 read again)\n- 21\n+ 10\n" in out
    assert "\x1b" not in out


def test_what_has_to_be_changed_elsewhere_and_what_is_set_for_all_brokers_is_in_the_diff(sim, terminal):
    plan = sim.api.touch(f"{BASE}/remediations/{sim.run().name}")["status"]["plan"]
    plan["steps"] = [{"name": a.lower(), "action": a} for a in ("RestartBrokers", "SetClusterDefaults")]
    plan["staticSettings"] = [{"name": "default.replication.factor", "before": "1", "after": "3", "brokers": [0, 2]}]
    plan["configChanges"] = [
        {"resourceType": "BROKER", "resourceName": "", "name": "min.insync.replicas", "after": "2"}
    ]
    out = terminal("diff", sim.run().name)[1]
    assert "  default.replication.factor in the configuration of broker 0, 2  (changed by you before you approve" in out
    assert "\n- 1\n+ 3\n" in out
    assert "  min.insync.replicas of all brokers\n+ 2\n" in out


def test_every_part_of_a_plan_is_told(sim, terminal):
    """A field that is new in a plan and not here would be approved without having been shown."""
    told = {"changes", "config_changes", "restarts", "rescues", "reorders", "elections", "offsets", "drains"}
    told |= {"resignations", "static_settings"}
    # Beside what `steps` say, and what identifies the cluster and the topics that are shown.
    besides = ("steps", "preconditions", "topics")
    assert {n for n, f in Plan.document_fields().items() if f.default == () and n not in besides} == told


def test_explain_names_every_guard_that_holds_and_what_to_do(sim, terminal):
    code, out, _ = terminal("explain", sim.run().name)
    assert code == 0
    assert "ApprovalValid (Wait): waits for 1 approval" in out
    assert "`approve` or `reject`" in out
    terminal("pause", "c", "--reason", "freeze")
    sim.step()
    out = terminal("explain", sim.run().name)[1]
    assert "NotPaused (Wait)" in out
    assert "freeze (paused by alice)" in out
    told = json.loads(terminal("explain", sim.run().name, "-o", "json")[1])
    assert {"ApprovalValid", "NotPaused"} <= {h["what"] for h in told["holds"]}


def test_a_plan_that_was_just_made_is_not_said_to_be_held_by_nothing(sim, terminal):
    del sim.api.touch(f"{BASE}/remediations/{sim.run().name}")["status"]["waitingFor"]
    assert "ApprovalValid: waits for 1 approval" in terminal("explain", sim.run().name)[1]
    assert "has not evaluated the guards" in terminal("show", sim.run().name)[1]


def test_explain_says_when_it_is_the_operator_that_does_not_look(sim, terminal):
    sim.now += timedelta(minutes=10)
    out = terminal("explain", sim.run().name)[1]
    assert "the operator last observed the cluster at" in out
    sim.ask("raise-replication-factor")
    sim.now += timedelta(minutes=10)
    assert "has not reconciled it" in terminal("explain", "asked-1")[1]


def test_a_clock_of_ones_own_that_is_an_hour_off_blames_no_operator(sim, terminal, monkeypatch):
    """The API server's answers tell what time it is there."""
    monkeypatch.setattr(command, "utc_now", lambda: sim.now + timedelta(hours=1))
    run = sim.run().name
    assert "the operator last observed the cluster at" in terminal("explain", run)[1]
    terminal.api.skew = Skew(-3600.5, -3599.5)
    assert "the operator last observed the cluster at" not in terminal("explain", run)[1]


def test_explain_says_why_a_word_does_not_count_and_how_it_ended(sim, terminal):
    sim.approve(sim.run(), "mallory")
    sim.step()
    assert "mallory's Approve" in (out := terminal("explain", sim.run().name)[1])
    assert "may not approve by name" in out
    sim.approve(sim.run(), "alice", "Reject")
    sim.until_phase("Rejected")
    out = terminal("explain", sim.run().name)[1]
    assert "ended as Rejected: rejected by alice" in out
    assert "until you delete this Remediation" in out


def test_there_is_a_way_out_for_every_guard():
    assert set(WHAT_TO_DO) == set(Guard)


def test_history_exports_who_said_and_did_what_in_order_and_report_tells_it(sim, terminal):
    sim.approve(sim.run(), "mallory")
    sim.step()
    sim.approve(sim.run(), "bob", planDigest="sha256:" + "2" * 64)
    sim.approve(sim.run(), reason="see [here](http://evil) | <script> \x1b[31m")
    sim.until_phase("Succeeded")
    code, out, _ = terminal("history", sim.run().name, "-o", "json")
    assert code == 0
    told = json.loads(out)
    whats = [e["what"] for e in told["events"]]
    assert whats[:2] == ["Proposed", "Planned"]
    assert whats[-1] == "Succeeded"
    assert whats.index("Approve") < whats.index("Started") < whats.index("Intended") < whats.index("Done")
    assert [e["at"] for e in told["events"]] == sorted(e["at"] for e in told["events"])
    said = {e["who"]: e["counted"] for e in told["events"] if e["what"] == "Approve"}
    assert said == {"mallory": False, "bob": False, "alice": True}
    assert any("saved" in e for e in told["events"]), "what was there before is the evidence"
    assert told["approvedBy"] == "alice"
    table = terminal("history", sim.run().name)[1]
    assert "Approve (not counted)" in table
    code, out, _ = terminal("report", sim.run().name)
    assert code == 0
    assert out.startswith(f"# {sim.run().name}")
    assert "**Approved by:** alice" in out
    assert "\x1b" not in out
    assert "[here](" not in out, "nobody else writes the Markdown"
    assert "<script>" not in out.replace("\\<script", "")


def test_a_word_that_the_operator_has_not_seen_yet_is_not_said_to_count_for_nothing(sim, terminal):
    terminal("approve", sim.run().name, "--reason", "read it")
    events = json.loads(terminal("history", sim.run().name, "-o", "json")[1])["events"]
    (word,) = [e for e in events if e["what"] == "Approve"]
    assert "counted" not in word
    assert word["detail"] == "read it (not yet read by the operator)"


def test_an_approval_of_an_earlier_plan_stays_in_the_history(sim, terminal):
    sim.approve(sim.run(), "alice", planDigest="sha256:" + "2" * 64)
    events = json.loads(terminal("history", sim.run().name, "-o", "json")[1])["events"]
    (word,) = [e for e in events if e["what"] == "Approve"]
    assert not word["counted"]
    assert "sha256:2222" in word["detail"]


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202eabc\x9b31m\nApproved by: alice"


@pytest.mark.parametrize("command", ["show", "diff", "explain", "approve", "history", "report", "reject", "list"])
def test_what_others_wrote_is_shown_and_not_obeyed(sim, terminal, command):
    terminal.answer = "no"
    raw = sim.api.touch(f"{BASE}/remediations/{sim.run().name}")
    status = raw["status"]
    status["message"] = HOSTILE
    status["plan"]["summary"] = f"{HOSTILE}\n" * 3
    status["plan"]["steps"][0]["description"] = HOSTILE
    status["plan"]["preconditions"].append({"name": HOSTILE[:200], "value": HOSTILE})
    status["plan"]["configChanges"][0]["after"] = HOSTILE
    status["waitingFor"] = [{"guard": "NotPaused", "verdict": "Wait", "message": HOSTILE}]
    raw["spec"]["cause"] = None
    raw["spec"]["requestedBy"] = HOSTILE
    raw["spec"] = {k: v for k, v in raw["spec"].items() if v is not None}
    _, out, err = terminal(command, *(() if command == "list" else (sim.run().name,)))
    for character in "\x1b\x07\x9b\u202e":
        assert character not in out + err
    if command != "show":
        return
    forged = [line for line in out.splitlines() if line.startswith("Approved by: alice")]
    assert not forged, "a line break in a text makes no line of its own at the margin"


def test_a_huge_plan_is_cut_off_on_the_screen_and_whole_in_diff(sim, terminal):
    plan = sim.api.touch(f"{BASE}/remediations/{sim.run().name}")["status"]["plan"]
    first = plan["changes"][0]
    plan["changes"] = [{**first, "topic": "t" * 200, "partition": n} for n in range(200)]
    plan["summary"] = "line\n" * 6000
    name = sim.run().name
    shown, whole = terminal("show", name)[1], terminal("diff", name)[1]
    assert shown.count("\n") < 250
    assert "more: `diff` shows all" in shown
    assert whole.count("+ [") >= 200


def test_nothing_is_coloured_where_nobody_looks(sim, terminal):
    assert "\x1b" not in terminal("list")[1] + terminal("diff", sim.run().name)[1]


def test_watch_is_for_people(sim, terminal):
    assert terminal("list", "--watch", "-o", "json")[0] == 4


RULE = {"verbs": ["approve"], "apiGroups": ["kafkamedic.dev"], "resources": ["remediations"]}


@pytest.mark.parametrize(
    ("rule", "may"),
    [
        (RULE, True),
        ({**RULE, "verbs": ["*"]}, True),
        ({**RULE, "apiGroups": ["*"], "resources": ["*"]}, True),
        ({**RULE, "verbs": ["get"]}, False),
        ({**RULE, "apiGroups": [""]}, False),
        ({**RULE, "resources": ["remediationapprovals"]}, False),
        ({**RULE, "resourceNames": ["run"]}, True),
        ({**RULE, "resourceNames": ["other"]}, False),
        ({}, False),
    ],
)
def test_who_may_approve_is_read_from_the_rules(rule, may):
    role = {"metadata": {"name": "r", "namespace": "ns"}, "rules": [rule]}
    subjects = [{"kind": "ServiceAccount", "name": "bot"}]
    binding = {"metadata": {"namespace": "ns"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects}
    assert approvers([role], [binding], "run") == (["ServiceAccount ns/bot"] if may else [])
    elsewhere = {**role, "metadata": {"name": "r"}}
    assert approvers([elsewhere], [binding], "run") == [], "a ClusterRole of the same name is another role"


def test_the_plugin_has_the_name_that_kubectl_looks_for():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, function = scripts["kubectl-kafka_medic"].split(":")
    assert getattr(importlib.import_module(module), function) is plugin


@pytest.mark.parametrize("name", command.COMMANDS)
def test_each_command_stands_in_both_places_and_its_help_has_the_codes(name, capsys):
    for words, top in ((["remediation", name, "--help"], False), ([name, "--help"], True)):
        assert main(words, as_plugin=top) == 0
        assert capsys.readouterr().out.endswith(exits.EPILOG)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_that_the_shell_can_read(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "kafka-medic" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
