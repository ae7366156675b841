"""Whether something may be done, from a saved snapshot: verdicts, reasons and exit codes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kafka_medic.cli import check
from kafka_medic.cli.main import main
from kafka_medic.guard.evaluate import GuardFaultError
from kafka_medic.resources.vocabulary import Guard
from tests.unit.cli.conftest import CLUSTER
from tests.unit.cluster import worlds


@pytest.mark.parametrize(
    ("snapshot", "code", "verdict"),
    [
        (worlds.healthy(), 0, "Allow"),
        (worlds.healthy(rows=[*worlds.ROWS, worlds.partition("t", 0, (2, 1))]), 1, "Deny"),
        (worlds.healthy(brokers=worlds.brokers(b3={"recovering": True})), 2, "Wait"),
        (worlds.healthy(controller=None), 3, "Unknown"),
    ],
)
def test_check_restart_verdicts_and_exit_codes(save, capsys, snapshot, code, verdict):
    assert main(["check", "restart", "--broker", "2", "--snapshot", save(snapshot), "-o", "json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"verdict", "reasons"}
    assert document["verdict"] == verdict
    verdicts = [r["verdict"] for r in document["reasons"]]
    assert len(verdicts) == 11
    assert verdicts[0] == verdict
    assert verdicts == sorted(verdicts, key=["Deny", "Unknown", "Wait", "Allow"].index)
    assert all(set(r) == {"guard", "message", "verdict"} and r["message"] for r in document["reasons"])


def test_a_snapshot_without_pods_names_the_way_out(save, capsys):
    """As `kafka-medic snapshot` makes them all."""
    whole = worlds.healthy()
    read = tuple(s for s in whole.sources if s.name != "kubernetes")
    nowhere = tuple(replace(b, pod=None) for b in whole.brokers)
    file = save(replace(whole, sources=read, brokers=nowhere, rollouts=None))
    asked = ["check", "restart", "--broker", "2", "--snapshot", file]
    assert main(asked) == 3
    assert "give --outside-kubernetes" in capsys.readouterr().err
    assert main([*asked, "--outside-kubernetes"]) == 0
    assert capsys.readouterr().err == ""


def test_an_old_snapshot_is_judged_as_of_its_own_time(save):
    old = save(worlds.healthy(at=worlds.later(-(10**7))))
    assert main(["check", "restart", "--broker", "2", "--snapshot", old, "-o", "json"]) == 0


def test_check_restart_in_the_course_of_a_run(save, capsys):
    file = save(worlds.healthy())
    assert main(["check", "restart", "--broker", "1", "--snapshot", file]) == 0
    assert main(["check", "restart", "--broker", "1", "--then", "2", "--snapshot", file]) == 2
    assert "ControllerLast" in capsys.readouterr().out


def test_a_pause_in_the_cluster_counts(save):
    policy = {"paused": True}
    file = save({**CLUSTER, "spec": {**CLUSTER["spec"], "remediation": policy}}, "cluster.yaml")
    now = save(worlds.healthy())
    assert main(["check", "restart", "--broker", "2", "--snapshot", now, "--cluster", file]) == 2
    assert main(["check", "restart", "--broker", "2", "--snapshot", now, "--cluster", save(CLUSTER, "c.yaml")]) == 0


def test_check_elect_and_reset_offsets(save, capsys):
    beyond = worlds.healthy(groups=worlds.groups(("billing", "Empty", "orders", 0, 150)))
    file = save(beyond)
    assert main(["check", "elect", "--snapshot", file]) == 0
    assert main(["check", "elect", "--snapshot", file, "--partition", "orders:9"]) == 1
    assert main(["check", "reset-offsets", "--group", "billing", "--snapshot", file]) == 0
    assert main(["check", "reset-offsets", "--group", "billing", "--to", "orders:0:101", "--snapshot", file]) == 1
    assert "outside the log" in capsys.readouterr().out
    assert main(["check", "reset-offsets", "--group", "nobody", "--snapshot", file]) == 1


def test_a_guard_that_fails_is_unknown_and_loud(save, capsys, monkeypatch):
    def broken(*_, **__):
        raise GuardFaultError(Guard.VIEWS_AGREE, "KeyError: leader")

    monkeypatch.setattr(check, "judge_restart", broken)
    assert main(["check", "restart", "--broker", "2", "--snapshot", save(worlds.healthy()), "-o", "json"]) == 3
    told = capsys.readouterr()
    assert json.loads(told.out)["verdict"] == "Unknown"
    assert "internal fault in the guard ViewsAgree" in told.err
