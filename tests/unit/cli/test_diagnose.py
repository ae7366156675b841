"""What is wrong, from saved snapshots: the fixed format, and which snapshots go together."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace

import yaml

from kafka_medic.cli.main import main
from kafka_medic.cluster.document import to_document
from tests.unit.cli.conftest import CLUSTER
from tests.unit.cluster import worlds


def low():
    return worlds.healthy(rows=[worlds.partition("orders", 0, (1,), minIsr=1)])


def test_diagnose_prints_the_fixed_format(save, capsys):
    assert main(["diagnose", "--snapshot", save(low()), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"findings"}
    (finding,) = document["findings"]
    assert set(finding) == {
        "type", "state", "severity", "affected", "evidence", "playbook", "id", "message", "since",
    }  # fmt: skip
    assert finding["type"] == "ReplicationFactorLow"
    assert finding["state"] == "Firing"
    assert finding["affected"] == ["orders"]
    assert finding["playbook"] == "raise-replication-factor"


def test_diagnose_says_the_same_as_a_table_and_as_yaml(save, capsys):
    file = save(low())
    assert main(["diagnose", "--snapshot", file]) == 0
    text = capsys.readouterr().out
    assert "ReplicationFactorLow/topics" in text
    assert "\033[" not in text
    assert main(["diagnose", "--snapshot", file, "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["findings"][0]["type"] == "ReplicationFactorLow"


def test_a_healthy_cluster_and_one_with_gaps(save, capsys):
    assert main(["diagnose", "--snapshot", save(worlds.healthy())]) == 0
    assert "no finding\n" in capsys.readouterr().out
    gaps = worlds.healthy(groups=None, sources=worlds.sources(groups="not authorized"))
    assert main(["diagnose", "--snapshot", save(gaps)]) == 0
    told = capsys.readouterr()
    assert "1 source not known" in told.out
    assert "groups is not known: not authorized" in told.err


def test_previous_and_cluster(save, capsys):
    down = worlds.healthy(brokers=worlds.brokers(b3={"registered": False}))
    before = save(replace(down, taken_at=worlds.later(-60)), "before.json")
    assert main(["diagnose", "--snapshot", save(down), "--previous", before, "-o", "json"]) == 0
    states = {f["type"]: f["state"] for f in json.loads(capsys.readouterr().out)["findings"]}
    assert states["BrokerZombie"] == "Firing"
    lenient = {**CLUSTER, "spec": {**CLUSTER["spec"], "expectations": {"topics": [{"pattern": ".*", "exempt": True}]}}}
    file = save(lenient, "cluster.yaml")
    assert main(["diagnose", "--snapshot", save(low()), "--cluster", file, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"findings": []}


def test_snapshots_that_do_not_go_together(save, capsys):
    now, later = save(worlds.healthy()), save(worlds.healthy(at=worlds.later(60)), "later.json")
    assert main(["diagnose", "--snapshot", now, "--previous", later]) == 4
    assert "give the earlier one as --previous" in capsys.readouterr().err
    other = worlds.healthy(at=worlds.later(-60))
    other = save(replace(other, cluster=replace(other.cluster, id="another")), "other.json")
    assert main(["diagnose", "--snapshot", now, "--previous", other]) == 4
    assert main(["diagnose", "--snapshot", "-", "--previous", "-"]) == 4
    file = save({**CLUSTER, "spec": {**CLUSTER["spec"], "metadata": {"zookeeper": {"connect": "zk:2181"}}}}, "c.yaml")
    assert main(["diagnose", "--snapshot", now, "--cluster", file]) == 4
    assert "describes a ZooKeeper cluster" in capsys.readouterr().err


def test_standard_input_and_yaml_snapshots(save, capsys, monkeypatch):
    text = json.dumps(to_document(low())).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["diagnose", "--snapshot", "-", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"]
    assert main(["diagnose", "--snapshot", save(low(), "now.yaml"), "-o", "json"]) == 0
