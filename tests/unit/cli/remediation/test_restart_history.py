"""history --broker: every restart of a broker that there has been, over all runs."""

from __future__ import annotations

import copy
import json

import pytest

from tests.unit.cli.remediation.api_of_people import BASE, proposed


def restart(broker, at, back=None):
    """A journal entry of a step that restarts brokers."""
    done = {"state": "Intended"} if back is None else {"state": "Done", "doneAt": f"2026-01-05T{back}Z"}
    return {
        "id": f"restart-brokers/restart-{broker}",
        "step": "restart-brokers",
        "kind": "RestartPod",
        "targetUid": "11111111-1111-4111-8111-111111111111",
        "intendedAt": f"2026-01-05T{at}Z",
        **done,
    }


@pytest.fixture
def sim():
    """Two runs: one that was done with broker 2, and one that ended before broker 2 was back."""
    made = proposed()
    first = made.api.get(f"{BASE}/remediations/{made.run().name}")
    for name, phase, journal in (
        ("one", "Succeeded", [restart(1, "03:00:00", "03:00:10"), restart(2, "03:00:11", "03:01:01")]),
        ("two", "Rejected", [restart(2, "04:00:00")]),
    ):
        run = copy.deepcopy(first)
        run["metadata"] |= {"name": name, "uid": f"{len(name):08d}-1111-4111-8111-11111111{name.encode().hex()[:4]}"}
        run["status"] |= {"phase": phase, "journal": journal}
        made.put("remediations", run)
    return made


def test_every_restart_of_a_broker_is_told_with_how_it_ended(terminal):
    code, out, _ = terminal("history", "--broker", "2", "--cluster", "c")
    assert code == 0
    header, one, two = out.splitlines()
    assert header.split() == ["AT", "(UTC)", "CLUSTER", "BROKER", "RUN", "PLAYBOOK", "OUTCOME"]
    assert one.startswith("2026-01-05T03:00:11")
    assert one.endswith("back after 50s")
    assert two.startswith("2026-01-05T04:00:00")
    assert two.endswith("not back when the run ended as Rejected")


def test_one_that_came_back_as_it_was_and_the_next_one_are_told_apart(sim, terminal):
    void = restart(5, "05:00:00", "05:00:30") | {"state": "Void"}
    again = restart(5, "06:00:00", "06:00:40") | {"id": "restart-brokers/restart-5-again-1"}
    sim.api.touch(f"{BASE}/remediations/two")["status"]["journal"] = [void, again]
    _, first, second = terminal("history", "--broker", "5")[1].splitlines()
    assert first.endswith("back after 30s, with its old configuration")
    assert second.endswith("back after 40s")


def test_all_brokers_and_as_json(terminal):
    told = json.loads(terminal("history", "--broker", "all", "-A", "-o", "json")[1])
    assert [(a["broker"], a["remediation"], a["backAfterSeconds"]) for a in told["restarts"]] == [
        (1, "one", 10.0),
        (2, "one", 50.0),
        (2, "two", None),
    ]


def test_one_that_was_never_restarted_is_said_to_be(terminal):
    code, out, err = terminal("history", "--broker", "7")
    assert (code, out) == (0, "")
    assert "no kept run has restarted it" in err


def test_what_cannot_be_read_may_hold_more_and_is_named(sim, terminal):
    sim.put("remediations", {"metadata": {"name": "broken"}, "spec": {"clusterRef": {"name": "c"}, "surprise": 1}})
    assert "broken" in terminal("history", "--broker", "7")[2]
    assert len(json.loads(terminal("history", "--broker", "2", "-o", "json")[1])["unreadable"]) == 1


@pytest.mark.parametrize("words", [["--broker", "two"], ["--broker", "-1"], ["RUN", "--broker", "2"], []])
def test_one_run_or_one_broker_is_named(terminal, words):
    code, out, err = terminal("history", *words)
    assert (code, out) == (4, "")
    assert "broker" in err
