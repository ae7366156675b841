"""approve, reject, abort, run, pause, resume: what is written, in whose name, and everything that is refused."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from tests.unit.cli.remediation.api_of_people import BASE


def words(sim):
    return sim.api.list(f"{BASE}/remediationapprovals")


def test_what_is_shown_is_what_is_approved_and_then_runs(sim, terminal):
    run = sim.run()
    code, out, err = terminal("approve", run.name, "--reason", "read it")
    assert code == 0
    assert terminal.asked == 1
    assert err == "Approve it? Type yes: ", "not on standard output, which a program may read"
    assert run.status.plan.digest in out
    assert "raise 7 partitions" in out
    assert "replicas of orders-0" in out
    assert "Medium" in out
    assert "(in 23h)" in out
    (word,) = words(sim)
    assert word["spec"] == {
        "remediationRef": {"name": run.name, "uid": run.uid}, "planDigest": run.status.plan.digest,
        "decision": "Approve", "reason": "read it", "approver": "alice", "approverGroups": ["system:authenticated"],
    }  # fmt: skip
    sim.until_phase("Running")
    assert sim.run().status.approved_by == "alice"


@pytest.mark.parametrize("answer", ["no", "", "y", "sha256"])
def test_anything_but_yes_is_no(sim, terminal, answer):
    terminal.answer = answer
    code, _, err = terminal("approve", sim.run().name)
    assert code == 1
    assert "the answer was not yes" in err
    assert words(sim) == []


def test_where_nobody_can_be_asked_yes_has_to_be_said(sim, terminal):
    terminal.answer = None
    code, _, err = terminal("approve", sim.run().name)
    assert code == 4
    assert "--yes" in err
    assert words(sim) == []
    digest = sim.run().status.plan.digest
    code, out, err = terminal("approve", sim.run().name, "--yes", "--digest", digest, "-o", "json")
    assert code == 0
    assert json.loads(out)["planDigest"] == digest
    assert "Planned changes" in err, "the plan is shown, beside the answer"
    assert len(words(sim)) == 1


def test_a_plan_that_changed_while_it_was_read_is_not_approved(sim, terminal, monkeypatch):
    run = sim.run()
    was = run.status.plan.digest

    def ask():
        sim.api.touch(f"{BASE}/remediations/{run.name}")["status"]["plan"]["digest"] = "sha256:" + "1" * 64
        return "yes"

    monkeypatch.setattr("builtins.input", ask)
    code, out, err = terminal("approve", run.name)
    assert code == 1
    assert was in out
    assert "planned again while you read it" in err
    assert words(sim) == []


def test_between_the_last_look_and_the_write_the_digest_that_was_shown_is_sent(sim, terminal):
    run = sim.run()

    def replanned():
        sim.api.touch(f"{BASE}/remediations/{run.name}")["status"]["plan"]["digest"] = "sha256:" + "1" * 64

    terminal.api.before_create = replanned
    assert terminal("approve", run.name)[0] == 0
    assert words(sim)[0]["spec"]["planDigest"] == run.status.plan.digest


def test_a_plan_that_is_not_what_its_digest_says_is_not_approved_but_can_be_rejected(sim, terminal):
    run = sim.run()
    path = f"{BASE}/remediations/{run.name}"
    sim.api.touch(path)["status"]["plan"]["changes"][0]["replicas"] = [1, 2]
    code, _, err = terminal("approve", run.name)
    assert code == 1
    assert "does not match the digest in its status" in err
    assert words(sim) == []
    assert terminal("reject", run.name)[0] == 0
    assert words(sim)[0]["spec"]["decision"] == "Reject"


def test_an_older_digest_is_refused(sim, terminal):
    code, _, err = terminal("approve", sim.run().name, "--yes", "--digest", "sha256:" + "0" * 64)
    assert code == 1
    assert ", not sha256:000" in err
    assert words(sim) == []


def test_without_the_verb_nothing_is_written_and_the_role_is_named(sim, terminal):
    terminal.api.allowed = {"create"}
    for command in ("approve", "reject", "abort"):
        code, _, err = terminal(command, sim.run().name, "--yes")
        assert code == 1
        assert "alice may not decide" in err
        assert "kafka-medic-approver" in err
    assert words(sim) == []


def test_who_asked_does_not_approve_unless_that_is_allowed(sim, terminal):
    name = sim.run().name
    spec = sim.api.touch(f"{BASE}/remediations/{name}")["spec"]
    del spec["cause"]
    spec["requestedBy"] = "alice"
    code, _, err = terminal("approve", name, "--yes")
    assert code == 1
    assert "so may not approve it" in err
    assert words(sim) == []
    cluster = sim.api.touch(f"{BASE}/kafkaclusters/c")
    cluster["spec"]["remediation"] = {"approvals": {"allowRequester": True}}
    assert terminal("approve", name, "--yes")[0] == 0


def test_an_unreadable_kafkacluster_allows_nobody_their_own_run_and_hinders_no_other(sim, terminal):
    name = sim.run().name
    del sim.api.objects[f"{BASE}/kafkaclusters/c"]
    code, _, err = terminal("approve", name, "--yes")
    assert code == 0
    assert "KafkaCluster c in namespace ns: not found" in err
    spec = sim.api.touch(f"{BASE}/remediations/{name}")["spec"]
    del spec["cause"]
    spec["requestedBy"] = "alice"
    assert terminal("approve", name, "--yes")[0] == 1


def test_an_expired_plan_is_not_approved_by_the_servers_clock(sim, terminal):
    sim.now += timedelta(hours=25)
    code, _, err = terminal("approve", sim.run().name, "--yes")
    assert code == 1
    assert "expired at" in err
    assert words(sim) == []


def test_in_observe_nothing_is_approved(sim, terminal):
    sim.api.touch(f"{BASE}/kafkaclusters/c")["spec"]["remediation"] = {"mode": "Observe"}
    code, _, err = terminal("approve", sim.run().name, "--yes")
    assert code == 1
    assert "Observe" in err


def test_the_servers_own_refusal_is_told_with_a_way_out(sim, terminal):
    def refuse():
        raise ApiFailure(403, 'admission denied: "spec.approver must be your own"\x1b[2J')

    terminal.api.before_create = refuse
    code, _, err = terminal("approve", sim.run().name, "--yes")
    assert code == 1
    assert "must be your own" in err
    assert "\x1b" not in err
    assert "auth whoami" in err


def test_reject_and_abort_end_a_run(sim, terminal):
    name = sim.run().name
    code, out, _ = terminal("reject", name, "--reason", "not today")
    assert code == 0
    assert "It ends as Rejected" in out
    assert "proposes no new run for a lasting finding" in out
    sim.until_phase("Rejected")
    code, _, err = terminal("approve", name)
    assert code == 1
    assert "ended as Rejected" in err


def test_abort_of_a_run_under_way_says_what_is_taken_back(sim, terminal):
    sim.approve(sim.run())
    sim.until_phase("Running")
    terminal.slept = sim.step
    code, out, _ = terminal("abort", sim.run().name, "--yes", "--watch")
    assert "It ends as Aborted" in out
    assert code == 0
    assert sim.run().status.phase == "Aborted"
    assert out.count("Aborted") >= 2, "followed to its end"


def test_approve_with_watch_follows_the_run_to_its_end(sim, terminal):
    terminal.slept = sim.step
    code, out, _ = terminal("approve", sim.run().name, "--watch")
    assert code == 0
    lines = [line for line in out.splitlines() if re.match(r"\d\d:\d\d:\d\d  ", line)]
    assert "AwaitingApproval" in lines[0]
    assert "Succeeded" in lines[-1]
    shown = r"add-replicas \[[#.]{20}\] \d/7 partitions, \d.* of 10\.\d MB"
    assert any(re.search(shown, line) for line in lines)
    assert any(re.search(r"reassign 7 partitions; so far 0/7 partitions, 0 B of", text) for _, text in sim.api.events)


def test_a_run_is_asked_for_in_ones_own_name_and_planned(sim, terminal):
    terminal.api.user = "carol"
    code, out, _ = terminal(
        "run", "raise-replication-factor", "--cluster", "c", "--set", "throttleBytesPerSecond=1000000"
    )
    assert code == 0
    assert "you may not be one of them" in out
    made = next(r for r in sim.runs() if r.spec.requested_by)
    assert made.spec.requested_by == "carol"
    assert made.spec.parameters == {"throttleBytesPerSecond": "1000000"}
    assert made.spec.playbook.digest == next(r for r in sim.runs() if r.spec.cause).spec.playbook.digest
    assert made.metadata.owner_references[0].name == "c"
    sim.step()
    sim.step()
    phases = {r.name: (str(r.status.phase), r.status.message) for r in sim.runs()}
    assert phases[made.name][0] in ("AwaitingApproval", "Planning"), phases


@pytest.mark.parametrize(
    ("may", "told"),
    [
        (["create"], "carol may not request raise-replication-factor"),
        (["create", "use rolling-restart"], "carol may not request raise-replication-factor"),
        (["create", "use raise-replication-factor"], "verb use on playbooks/throttleBytesPerSecond"),
        (["create", "use raise-replication-factor", "use raise-replication-factor/throttleBytesPerSecond"], None),
        (["create", "use raise-replication-factor", "use raise-replication-factor/*"], None),
    ],
)
def test_who_may_ask_for_which_playbook_with_which_parameters(sim, terminal, may, told):
    terminal.api.user, terminal.api.allowed = "carol", set(may)
    wanted = ("run", "raise-replication-factor", "--cluster", "c", "--yes", "--set", "throttleBytesPerSecond=1000000")
    code, _, err = terminal(*wanted)
    asked = [r for r in sim.runs() if r.spec.requested_by]
    assert (code, len(asked)) == ((0, 1) if told is None else (1, 0))
    assert (told or "") in err


@pytest.mark.parametrize(
    ("extra", "code", "told"),
    [
        (["--set", "throttle=1"], 4, "throttle"),
        (["--set", "throttleBytesPerSecond=fast"], 4, "throttleBytesPerSecond"),
        (["--set", "nonsense"], 4, "NAME=VALUE"),
    ],
)
def test_parameters_that_the_playbook_does_not_have_are_refused(sim, terminal, extra, code, told):
    found, _, err = terminal("run", "raise-replication-factor", "--cluster", "c", "--yes", *extra)
    assert found == code
    assert told in err
    assert len(sim.runs()) == 1


def test_without_the_right_nothing_is_asked_for(sim, terminal):
    terminal.api.allowed = {"approve"}
    code, _, err = terminal("run", "raise-replication-factor", "--cluster", "c", "--yes")
    assert code == 1
    assert "kafka-medic-operator-user" in err
    assert len(sim.runs()) == 1


def test_a_pause_has_a_reason_and_an_owner_and_holds_until_it_is_lifted(sim, terminal):
    sim.approve(sim.run())
    assert terminal("pause", "c")[0] == 4, "a reason is needed"
    code, out, _ = terminal("pause", "c", "--reason", "until Monday")
    assert code == 0
    assert not terminal.asked, "stopping asks nobody"
    assert "until Monday (paused by alice)" in out
    for _ in range(3):
        sim.step()
    assert sim.kafka.writes == []
    code, out, _ = terminal("pause", "c", "--reason", "another")
    assert code == 0
    assert "already paused: until Monday" in out
    code, out, err = terminal("resume", "c")
    assert code == 0
    assert "until Monday" in out
    assert sim.run().name in out
    assert "Resume?" in err
    sim.until_phase("Running")


def test_the_operators_own_writes_do_not_hinder_a_pause_but_another_persons_do(sim, terminal):
    path, turns = f"{BASE}/kafkaclusters/c", iter(range(3))

    def writes_status():
        if next(turns, None) is not None:
            sim.api.touch(path)

    terminal.api.before_merge = writes_status
    assert terminal("pause", "c", "--reason", "now")[0] == 0
    assert sim.cluster()["spec"]["remediation"]["paused"] is True

    def gives_another_reason():
        sim.api.touch(path)["spec"]["remediation"]["pauseReason"] = "a fire (paused by bob)"

    terminal.api.before_merge = gives_another_reason
    code, _, err = terminal("resume", "c")
    assert code == 1
    assert "another client changed it" in err
    assert sim.cluster()["spec"]["remediation"]["paused"] is True


def test_where_the_breaker_is_open_resume_has_one_tried(sim, terminal):
    told = {"type": "RemediationAllowed", "status": "False", "reason": "BreakerOpen", "message": "open until noon"}
    status = sim.api.touch(f"{BASE}/kafkaclusters/c")["status"]
    status["conditions"] = [told | {"lastTransitionTime": sim.timestamp()}]
    assert "open until noon" in terminal("explain", sim.run().name)[1]
    code, out, err = terminal("resume", "c")
    assert code == 0
    assert "Allow one try?" in err
    assert "if it fails, the breaker opens again" in out
    assert sim.cluster()["spec"]["remediation"] == {"breaker": {"tryAgainAt": sim.timestamp()}}


def test_a_resume_that_nobody_confirms_changes_nothing(sim, terminal):
    terminal("pause", "c", "--reason", "x")
    terminal.answer = "no"
    assert terminal("resume", "c")[0] == 1
    assert sim.cluster()["spec"]["remediation"]["paused"] is True


@pytest.mark.parametrize(
    ("failure", "code", "told"),
    [
        (ApiFailure(0, "the API server at X did not answer: no answer in time"), 3, "at X did not answer"),
        (ApiFailure(503, "apiserver is shutting down"), 3, "503"),
        (ApiFailure(429, "slow down"), 3, "429"),
        (ApiFailure(401, "Unauthorized"), 1, "log in again"),
        (ApiFailure(403, "remediations is forbidden"), 1, "forbidden"),
        (ApiFailure(404, "404 page not found"), 4, "does not serve kafka-medic's types"),
        (ApiFailure(409, "the object has been modified"), 1, "try again"),
    ],
)
@pytest.mark.parametrize("command", ["approve", "show"])
def test_each_failure_of_the_api_server_has_its_code_and_no_traceback(sim, terminal, failure, code, told, command):
    terminal.api.fails = failure
    if failure.message == "404 page not found":
        terminal.api.get = lambda _: (_ for _ in ()).throw(failure)
    found, out, err = terminal(command, "some-run")
    assert found == code, err
    assert out == ""
    assert told in err


@pytest.mark.parametrize("name", ["../../secrets/x", "a/b", "A", "", "a\x1b[2J", "a" * 300, "-a", "kmr/a"])
def test_a_name_that_cannot_be_one_never_becomes_a_path(sim, terminal, name):
    terminal.api.get = pytest.fail
    code, _, err = terminal("approve", "--yes", "--", name)
    assert code == 4
    assert "\x1b" not in err


def test_a_name_that_there_is_not(sim, terminal):
    code, _, err = terminal("approve", "no-such-run", "--yes")
    assert code == 4
    assert "not found" in err


def test_a_service_account_is_told_that_its_approval_would_not_count(sim, terminal):
    terminal.api.user = "system:serviceaccount:ci:robot"
    code, _, err = terminal("approve", sim.run().name, "--yes")
    assert code == 1
    assert "spec.remediation.approvals.serviceAccounts does not list it" in err


def test_who_approves_a_run_that_has_begun_sees_what_it_may_put_back(sim, terminal):
    saved = [{"name": "BROKER/1/leader.replication.throttled.rate", "value": "7"}]
    saved += [{"name": "TOPIC/orders/leader.replication.throttled.replicas"}, {"name": "places", "value": "0-3"}]
    at = sim.timestamp()
    entry = {"id": "s/throttle", "step": "s", "kind": "ChangeSettings", "state": "Intended", "intendedAt": at}
    status = sim.api.touch(f"{BASE}/remediations/{sim.run().name}")["status"]
    _, out, _ = terminal("approve", sim.run().name, "--yes")
    assert "What it may restore" not in out
    status |= {"phase": "Blocked", "startedAt": at, "journal": [entry | {"saved": saved}]}
    _, out, _ = terminal("approve", sim.run().name, "--yes")
    assert "  BROKER/1/leader.replication.throttled.rate: 7\n" in out
    assert "  TOPIC/orders/leader.replication.throttled.replicas: not set\n" in out
    assert "places" not in out
