"""status: what is wrong, what waits for whom, what runs. On a terminal of 80 and of 200 columns, in a pipe, in JSON."""

from __future__ import annotations

import io
import json
import sys
from datetime import timedelta

import pytest
import yaml

from kafka_medic.cli.remediation import read_commands, status_command
from kafka_medic.clients.kubernetes_api import ApiFailure
from tests.unit.cli.remediation.api_of_people import BASE

CLUSTER = f"{BASE}/kafkaclusters/c"


class Screen(io.StringIO):
    """A terminal that keeps what is written on it."""

    def isatty(self):
        return True

    def fileno(self):
        raise OSError("no descriptor")


@pytest.fixture
def screen(monkeypatch):
    """Standard output is a terminal of so many columns."""

    def of(columns, **environment):
        made = Screen()
        monkeypatch.setattr(sys, "stdout", made)
        for name in ("NO_COLOR", "TERM"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"COLUMNS": str(columns), "TERM": "xterm-256color", **environment}.items():
            monkeypatch.setenv(name, value)
        return made

    return of


def status_of(sim, kind="kafkaclusters", name="c"):
    return sim.api.touch(f"{BASE}/{kind}/{name}")["status"]


def running(sim):
    """A run that has copied 3 of 12 GB in 100 seconds."""
    name = sim.run().name
    step = {
        "name": "add-replicas", "action": "ReassignPartitions", "phase": "Running",
        "startedAt": (sim.now - timedelta(seconds=100)).isoformat(),
        "progress": {
            "done": 2, "total": 7, "unit": "partitions", "bytesDone": 3_000_000_000, "bytesTotal": 12_000_000_000,
            "secondsLeft": 300,
        },
    }  # fmt: skip
    status = status_of(sim, "remediations", name)
    status |= {"phase": "Running", "currentStep": "add-replicas", "steps": [step], "waitingFor": []}
    status |= {"message": "copies", "startedAt": step["startedAt"]}
    return name


def test_one_command_has_what_is_wrong_since_when_why_and_what_waits_for_whom(sim, terminal):
    code, out, err = terminal("status")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "1 cluster: 2 Critical; 1 run waits"
    assert lines[1] == "c  Approve  KRaft 4.3  3/3 brokers  controller 0"
    assert "Critical  ReplicationFactorLow/internal-topics  for 75s" in lines[2]
    assert "__consumer_offsets has factor 1 (wanted 3)" in lines[3]
    assert f"run {sim.run().name} treats it" in lines[4]
    assert "waits for a person who may approve: 1 approval of this plan" in out
    assert f"run {sim.run().name}  AwaitingApproval, expires in 23h\n" in out
    assert f"── kubectl kafka-medic show {sim.run().name} -n ns\n" in out
    assert sim.run().status.plan.digest not in out


def test_nothing_is_said_twice(sim, terminal):
    for words in (("status",), ("show", sim.run().name)):
        lines = [line.strip(" ├─└│") for line in terminal(*words)[1].splitlines()]
        assert len(set(lines)) == len([line for line in lines if line]) + ("" in lines), words


def test_progress_rate_and_what_is_left_of_a_run(sim, terminal):
    name = running(sim)
    out = terminal("status")[1]
    assert out.splitlines()[0].endswith("; 1 run active")
    expected = "add-replicas [#####...............] 2/7 partitions, 3.0 GB of 12.0 GB, at least 5m left, 30.0 MB/s"
    assert expected in out
    document = json.loads(terminal("status", "-o", "json")[1])
    (run,) = document["clusters"][0]["runs"]
    assert (run["name"], run["bytesPerSecond"], run["waitsFor"]) == (name, 30_000_000, None)


def test_a_cluster_that_is_paused_says_who_paused_it(sim, terminal):
    assert terminal("pause", "c", "--reason", "until Monday")[0] == 0
    sim.step()
    assert "paused: until Monday (paused by alice)" in terminal("status")[1]


def test_what_is_not_observed_is_not_called_healthy(sim, terminal):
    status = status_of(sim)
    status["findings"], status["findingsTotal"] = [], 0
    assert "no finding" in terminal("status")[1]
    sim.now += timedelta(minutes=10)
    out = terminal("status")[1]
    assert "no finding" not in out
    assert "1 cluster: 1 unknown" in out
    assert "not observed for 10m: the rest is as of then" in out
    assert json.loads(terminal("status", "-o", "json")[1])["clusters"][0]["stale"] is True
    del status_of(sim)["lastObservedAt"]
    assert "never observed: check that the operator runs" in terminal("status")[1]


def test_unknown_figures_are_unknown_and_not_0(sim, terminal):
    status = status_of(sim)
    for name in ("brokers", "controller", "metadata", "version"):
        del status[name]
    assert "metadata mode unknown  brokers unknown  controller unknown" in terminal("status")[1]
    cluster = json.loads(terminal("status", "-o", "json")[1])["clusters"][0]
    assert (cluster["controller"], cluster["version"], cluster["brokers"]["reachable"]) == (None, None, None)


def test_a_missing_broker_is_seen_in_the_first_line_of_the_cluster(sim, terminal):
    status_of(sim)["brokers"] = {"expected": 3, "registered": 2, "reachable": 2}
    assert "2/3 brokers" in terminal("status")[1]


def test_the_worst_stands_first_and_a_healthy_cluster_takes_two_lines(sim, terminal):
    healthy = json.loads(json.dumps(sim.api.get(CLUSTER)))
    healthy["metadata"] |= {"name": "a", "uid": "uid-a"}
    healthy["status"] |= {"findings": [], "findingsTotal": 0}
    sim.put("kafkaclusters", healthy)
    lines = terminal("status", "-A")[1].splitlines()
    assert lines[0] == "2 clusters: 2 Critical; 1 run waits"
    assert lines[1].startswith("ns/c  ")
    assert lines[-2].startswith("ns/a  ")
    assert lines[-1].endswith("no finding")
    names = terminal("status", "-o", "name")[1]
    assert names == "kafkacluster.kafkamedic.dev/c\nkafkacluster.kafkamedic.dev/a\n"


def test_many_findings_are_cut_off_and_counted(sim, terminal):
    status = status_of(sim)
    (first, *_) = status["findings"]
    status["findings"] = [{**first, "id": f"ReplicationFactorLow/{n}"} for n in range(12)]
    status["findingsTotal"] = 60
    out = terminal("status")[1]
    assert out.count("Critical  ReplicationFactorLow/") == 8
    assert "52 more findings; -o wide lists more" in out
    assert terminal("status", "-o", "wide")[1].count("Critical  ReplicationFactorLow/") == 12


def test_one_cluster_and_a_name_that_is_misspelt(sim, terminal):
    assert terminal("status", "c")[1].startswith("1 cluster")
    other = json.loads(json.dumps(sim.api.get(CLUSTER)))
    sim.put("kafkaclusters", {**other, "metadata": {"name": "orders", "uid": "u"}})
    code, out, err = terminal("status", "oders")
    assert (code, out) == (4, "")
    assert err == "kafka-medic: KafkaCluster oders: not found in namespace ns\n  did you mean orders?\n"


def test_one_that_this_version_cannot_read_hides_no_other(sim, terminal):
    sim.put("kafkaclusters", {"metadata": {"name": "odd"}, "spec": {"bootstrapServers": "a:1", "surprise": 1}})
    code, out, _ = terminal("status")
    assert code == 0
    assert "odd  unreadable" in out
    assert "c  Approve" in out


@pytest.mark.parametrize("columns", [80, 200])
def test_nothing_is_wider_than_the_terminal_and_no_word_is_lost(sim, terminal, screen, columns):
    running(sim)
    whole = " ".join(terminal("status")[1].replace("│", " ").split())
    shown = screen(columns, NO_COLOR="1")
    assert terminal("status")[0] == 0
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= columns
    assert "".join(" ".join(lines).replace("│", " ").split()) == whole.replace(" ", "")


def test_list_leaves_columns_out_rather_than_to_wrap(sim, terminal, screen):
    piped = terminal("list")[1]
    assert "PLAYBOOK" in piped
    for columns, kept in ((80, False), (200, True)):
        shown = screen(columns, NO_COLOR="1")
        terminal("list")
        assert ("PLAYBOOK" in shown.getvalue()) is kept
        assert max(map(len, shown.getvalue().splitlines())) <= columns
        assert "AwaitingApproval" in shown.getvalue()


def test_show_folds_between_words_on_a_terminal(sim, terminal, screen):
    piped = terminal("show", sim.run().name)[1]
    shown = screen(80, NO_COLOR="1")
    terminal("show", sim.run().name)
    lines = shown.getvalue().splitlines()
    # A digest is copied whole.
    assert [line for line in lines if len(line) > 80] == [line for line in lines if line.startswith("plan  ")]
    assert shown.getvalue().split() == piped.split()


def test_colours_on_a_terminal_alone_and_not_where_they_are_unwanted(sim, terminal, screen):
    assert "\x1b" not in terminal("status")[1]
    coloured = screen(80)
    terminal("status")
    assert "\x1b[1;31mCritical" in coloured.getvalue()
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        plain = screen(80, **environment)
        terminal("status")
        assert "\x1b" not in plain.getvalue()
        assert "Critical" in plain.getvalue()


def test_what_others_write_is_shown_and_not_obeyed(sim, terminal, screen):
    hostile = "a\x1b[2J\x1b]0;evil\x07\u202e[bold]b"
    status = status_of(sim)
    status["findings"][0] |= {"message": hostile, "evidence": [hostile]}
    status_of(sim, "remediations", sim.run().name)["message"] = hostile
    outputs = [terminal("status", "-o", "wide")[1]]
    shown = screen(200)
    terminal("status", "-o", "wide")
    for out in (*outputs, shown.getvalue()):
        assert "\\x1b[2J" in out
        assert "[bold]b" in out
        assert not {"\x07", "\u202e"} & set(out)
        assert "\x1b[2J" not in out


def test_json_and_yaml_say_the_same(sim, terminal):
    document = json.loads(terminal("status", "-o", "json")[1])
    assert yaml.safe_load(terminal("status", "-o", "yaml")[1]) == document
    (cluster,) = document["clusters"]
    assert document["summary"] | {"Critical": 2, "waiting": 1, "running": 0, "unknown": 0} == document["summary"]
    assert (cluster["mode"], cluster["metadata"], cluster["controller"]) == ("Approve", "KRaft", 0)
    assert cluster["findings"][0]["evidence"][0].startswith("__consumer_offsets has factor 1")
    assert cluster["runs"][0]["holds"][0]["what"] == "ApprovalValid"


def test_an_empty_namespace_is_said_and_is_no_error(sim, terminal):
    sim.api.objects.clear()
    code, out, err = terminal("status")
    assert (code, out) == (0, "")
    assert "no KafkaCluster in namespace ns; -A reads every namespace" in err


def test_watch_into_a_pipe_writes_the_whole_whenever_it_has_changed(sim, terminal, monkeypatch):
    turns = iter(range(5))

    def slept(_):
        turn = next(turns, None)
        if turn is None:
            raise KeyboardInterrupt
        terminal.api.fails = ApiFailure(503, "away") if turn == 1 else None
        if turn == 3:
            sim.approve(sim.run())
            sim.step()

    monkeypatch.setattr(status_command, "sleep", slept)
    monkeypatch.setattr(read_commands, "sleep", slept)
    code, out, err = terminal("status", "--watch")
    assert code == 130
    assert out.count("1 cluster: ") == 2
    assert "1 run active" in out
    assert err.count("retrying") == 1


def test_watch_draws_the_tree_anew_on_a_terminal(sim, terminal, screen, monkeypatch):
    def slept(_):
        if sim.run().status.phase != "AwaitingApproval":
            raise KeyboardInterrupt
        sim.approve(sim.run())
        sim.step()

    monkeypatch.setattr(status_command, "sleep", slept)
    shown = screen(80)
    assert terminal("status", "--watch")[0] == 130
    assert "\x1b[2K" in shown.getvalue()  # the lines before are erased
    assert "1 run active" in shown.getvalue()


def test_watch_goes_with_the_tree_alone(terminal):
    code, _, err = terminal("status", "--watch", "-o", "json")
    assert code == 4
    assert "--watch: cannot be combined with -o json" in err


def test_a_run_that_is_followed_has_a_bar_on_a_terminal_and_lines_in_a_pipe(sim, terminal, screen, monkeypatch):
    def followed():
        name = running(sim)
        terminal.slept = lambda: status_of(sim, "remediations", name).update(phase="Succeeded", message="done")
        return terminal("show", name, "--watch")

    code, out, err = followed()
    assert (code, err) == (0, "")
    assert "Running  add-replicas [#####...............] 2/7 partitions, 3.0 GB of 12.0 GB" in out
    drawn = screen(120, NO_COLOR="1")
    monkeypatch.setattr(sys, "stderr", drawn)
    code, out, _ = followed()
    assert code == 0
    assert "add-replicas 2/7 partitions, 3.0 GB of 12.0 GB, 30.0 MB/s" in drawn.getvalue()


def test_a_misspelt_name_of_anything_is_answered_with_the_nearest(sim, terminal):
    name = sim.run().name
    for words, meant in (
        (("show", name[:-1]), name),
        (("pause", "cc", "--reason", "x"), "c"),
        (("run", "raise-replicaton-factor", "--cluster", "c"), "raise-replication-factor"),
    ):
        code, _, err = terminal(*words)
        assert (code, err.splitlines()[-1]) == (4, f"  did you mean {meant}?")
    assert "`list` and `status` show what exists" in terminal("show", "xyzzy")[2]
