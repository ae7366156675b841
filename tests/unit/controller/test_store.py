"""What the store makes of what others wrote: every word on the present plan is heard, the unreadable is not hidden."""

from __future__ import annotations

import pytest

from kafka_medic.controller import store as store_module
from kafka_medic.controller.store import MAX_APPROVALS, Store
from kafka_medic.resources.admission import standing
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.vocabulary import Decision
from tests.simulation.api import SimApi
from tests.simulation.world import API_VERSION, BASE, POLICIES, World, factor_one_cluster


class Asked(SimApi):
    def __init__(self):
        super().__init__()
        self.asked = []

    def create(self, path, body):
        if path.endswith("/subjectaccessreviews"):
            self.asked.append((body["spec"]["user"], *body["spec"]["groups"]))
        return super().create(path, body)


@pytest.fixture
def world() -> World:
    world = World(factor_one_cluster(), api=Asked())
    world.install()
    return world


def say(world: World, run: Remediation, name, decision="Approve", who="alice", uid=None, digest=None):
    assert run.status.plan is not None
    spec = {
        "remediationRef": {"name": run.name, "uid": uid or run.uid}, "planDigest": digest or run.status.plan.digest,
        "decision": decision, "approver": who,
    }  # fmt: skip
    world.put(
        "remediationapprovals",
        {"apiVersion": API_VERSION, "kind": "RemediationApproval", "metadata": {"name": name}, "spec": spec},
    )


def test_words_that_count_come_first_and_a_no_before_a_yes(world):
    run = world.until_phase("AwaitingApproval")
    world.api.approvers = {"alice", "bob", "carol"}
    for n in range(MAX_APPROVALS):
        say(world, run, f"a-flood-{n:02}")
        say(world, run, f"a-nobody-{n:02}", "Reject", who=f"mallory-{n % 5}")
        say(world, run, f"a-other-plan-{n:02}", "Reject", digest="sha256:" + "0" * 64)
        say(world, run, f"a-other-run-{n:02}", "Reject", uid="another")
    say(world, run, "z-second", who="bob")
    say(world, run, "z-no", "Reject", who="carol")
    world.api.asked.clear()
    facts = Store(world.api).approvals(run)
    assert len(facts) == MAX_APPROVALS
    assert [f.approval.name for f in facts[:3]] == ["z-no", "a-flood-00", "z-second"]
    assert all(f.may_approve for f in facts)
    assert facts[0].approval.spec.decision is Decision.REJECT
    assert sorted(world.api.asked) == sorted(set(world.api.asked)), "each is asked about once"


def test_a_right_held_through_a_group_counts_if_the_approval_names_it(world):
    run = world.until_phase("AwaitingApproval")
    world.api.approvers = {"group:oncall"}
    world.approve(run, "alice")
    world.approve(run, "bob", approverGroups=["dev", "oncall"])
    rights = {f.approval.spec.approver: f.may_approve for f in Store(world.api).approvals(run)}
    assert rights == {"alice": False, "bob": True}
    assert ("bob", "dev", "oncall", "system:authenticated") in world.api.asked
    world.until_phase("Running")
    counted = {a.approver: (a.counted, a.reason) for a in world.run().status.approvals}
    assert counted["bob"][0]
    assert counted["alice"] == (False, "alice may not approve by name (verb approve on remediations)")
    world.api.approvers = set()
    world.until_phase("Blocked")
    assert world.run().status.waiting_for[0].guard == "ApprovalValid", "the group's right was taken away"


@pytest.mark.parametrize("phase", ["Running", "Paused", "Reconciling"])
def test_a_remediation_that_has_begun_and_cannot_be_read_is_named_where_its_cluster_is(world, phase):
    run = world.until_phase("AwaitingApproval")
    raw = world.api.get(f"{BASE}/namespaces/ns/remediations/{run.name}")
    broken = {**raw, "metadata": {"name": "broken"}, "spec": {**raw["spec"], "playbook": 7}, "status": {"phase": phase}}
    world.api.put(f"{BASE}/namespaces/ns/remediations", broken)
    store = Store(world.api)
    runs, unreadable = store.remediations("ns", "c")
    assert ([r.name for r in runs], unreadable) == ([run.name], ["broken"])
    assert store.remediations("ns", "other") == ([], [])


@pytest.mark.parametrize("status", [{}, {"phase": "AwaitingApproval"}, {"phase": "Failed"}, 7])
def test_one_that_has_not_begun_or_has_ended_holds_nothing_up(world, status):
    spec = {"clusterRef": {"name": "c"}, "playbook": 7, "requestedBy": "mallory"}
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    world.put("remediations", {"metadata": {"name": "a-broken", "namespace": "ns"}, "spec": spec, "status": status})
    store = Store(world.api)
    for _ in range(30):
        world.step()
    assert store.remediation("ns", run.name).status.phase == "Succeeded"
    assert store.remediations("ns", "c")[1] == []


def test_a_playbook_that_cannot_be_read_is_none(world):
    world.api.put(f"{BASE}/playbooks", {"apiVersion": API_VERSION, "kind": "Playbook", "metadata": {"name": "odd"}})
    assert Store(world.api).playbook("odd") is None
    assert Store(world.api).playbook("nobody") is None


def test_a_kafkacluster_that_cannot_be_read_says_so_once(world):
    path = f"{BASE}/namespaces/ns/kafkaclusters/c"
    world.api.touch(path)["spec"]["expectations"] = {"topics": [{"pattern": r"\pN(", "exempt": True}]}
    assert world.reconciler is None
    world.operator().reconcile()
    (ready,) = [c for c in world.api.get(path)["status"]["conditions"] if c["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "InvalidSpec")
    assert "regular expression" in ready["message"]
    writes = world.api.status_writes
    world.reconciler.reconcile()
    assert world.api.status_writes == writes
    world.api.touch(path)["spec"].pop("expectations")
    world.reconciler.reconcile()
    assert world.condition("Ready")["reason"] != "InvalidSpec"


def test_admission_policies_are_judged_again_after_any_change_and_only_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = []

    def counted(*given):
        judged.append(given)
        return standing(*given)

    monkeypatch.setattr(store_module, "standing", counted)
    store = Store(world.api, policies=POLICIES)
    first = store.policies()
    assert first is not None
    assert first.since is not None
    assert store.policies() == first
    assert len(judged) == 1
    path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/{POLICIES[-1].name}"
    edited = world.api.get(path)
    edited["spec"]["validationActions"] = ["Warn"]
    world.api.put(path.rpartition("/")[0], edited)
    after = store.policies()
    assert after is not None
    assert after.since is None
    assert "validationActions" in after.why
    del world.api.objects[path]
    gone = store.policies()
    assert gone is not None
    assert "not installed" in gone.why
