"""The brokers' defaults through the operator's own reconciles: at most one restart is for nothing, and nobody goes on
without a person."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_medic.resources.remediation import Remediation
from tests.simulation.deaths import Interrupted
from tests.simulation.kafka import SimKafka
from tests.simulation.pods import STRIMZI
from tests.simulation.world import BASE, BROKERS, NO_ELECTIONS, World
from tests.thorough import thorough

MIN_ISR = "min.insync.replicas"
FACTORS = ("default.replication.factor", "offsets.topic.replication.factor", "transaction.state.log.replication.factor")
ONE = {**dict.fromkeys(FACTORS, "1"), "transaction.state.log.min.isr": "1", MIN_ISR: "1"}
GOOD = {**dict.fromkeys(FACTORS, "3"), "transaction.state.log.min.isr": "2", MIN_ISR: "1"}
EVERY = 9


def grown(files: dict[str, str] | None = None, topics: dict[str, Any] | None = None, **remediation: Any) -> World:
    """Three brokers whose configuration was never changed, or is as `files` by now, and has not been read."""
    kafka = SimKafka(files={b: dict(ONE) for b in (0, 1, 2)}, copies_per_tick=3)
    kafka.files = {b: dict(files or ONE) for b in (0, 1, 2)}
    kafka.topic("orders", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    kafka.topic("__consumer_offsets", [1, 0, 2])
    world = World(kafka)
    rules = {"limits": {"cooldown": "0s"}, **NO_ELECTIONS} | remediation
    world.install(brokers=BROKERS, remediation=rules, expectations={"topics": topics or []})
    world.with_pods()
    return world


def cure(world: World) -> Remediation:
    return next(r for r in world.runs() if r.spec.playbook.name == "raise-defaults")


def until(world: World, phase: str, reconciles: int = 80) -> Remediation:
    world.until(
        lambda: any(r.spec.playbook.name == "raise-defaults" and r.status.phase == phase for r in world.runs()),
        reconciles,
    )
    return cure(world)


def again(world: World, user: str = "alice", number: int = 1) -> None:
    """The same plan, approved once more."""
    run = cure(world)
    assert run.status.plan is not None
    spec = {
        "remediationRef": {"name": run.name, "uid": run.uid},
        "planDigest": run.status.plan.digest,
        "decision": "Approve",
        "approver": user,
    }
    meta = {"name": f"again-{user}-{number}", "namespace": "ns"}
    world.put("remediationapprovals", {"kind": "RemediationApproval", "metadata": meta, "spec": spec})


def read(world: World) -> set[tuple[str, ...]]:
    """What each broker has read of the factors."""
    return {tuple(told[name] for name in FACTORS) for told in world.kafka.started_with.values()}


def changed(world: World, *brokers: int) -> None:
    for broker in brokers or (0, 1, 2):
        world.kafka.files[broker] = dict(GOOD)


def test_brokers_read_new_defaults_then_the_minimum_rises():
    """Every broker reads the changed configuration at its restart; then min.insync.replicas rises."""
    world = grown(GOOD)
    run = until(world, "AwaitingApproval")
    assert run.spec.cause is not None
    assert run.spec.cause.finding_id == "ReplicationFactorLow/broker-defaults"
    assert world.pods.restarts == []
    assert world.kafka.dynamic == {}
    world.approve(run)
    while len(world.pods.restarts) < 3 or world.pods.down():
        world.step()
        assert world.kafka.dynamic == {}, "topics could still be born with too few replicas for it"
        assert len(world.pods.down()) <= 1
    done = until(world, "Succeeded")
    assert world.pods.restarts == [1, 2, 0]
    assert read(world) == {("3", "3", "3")}
    assert world.kafka.dynamic == {("BROKER", "", MIN_ISR): "2"}
    assert [(e.id, e.state) for e in done.status.journal][-1] == ("set-cluster-defaults/set", "Done")
    assert done.status.journal[-1].saved_values() == {f"BROKER//{MIN_ISR}": None}
    for _ in range(5):
        world.step()
    assert {f["type"] for f in world.cluster()["status"].get("findings", [])} <= {"LeadersImbalanced"}
    assert len(world.runs()) == 1


def test_what_strimzi_would_set_back_is_not_planned_and_said():
    """The minimum is the last thing that is low. Strimzi compares what a broker reports with its Kafka resource."""
    kafka = SimKafka(files={b: dict(GOOD) for b in (0, 1, 2)})
    kafka.topic("orders", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    world = World(kafka)
    world.install(brokers={**BROKERS, "restart": "StrimziAnnotation"}, remediation=NO_ELECTIONS)
    world.with_pods(STRIMZI)
    run = until(world, "Planning")
    for _ in range(4):
        world.step()
    assert cure(world).status.plan is None
    assert 'write min.insync.replicas: "2" under its spec.kafka.config' in (cure(world).status.message or "")
    assert run.spec.cause is not None
    assert world.kafka.dynamic == {}


def test_an_unchanged_broker_pauses_the_run():
    """A broker comes back with its old configuration. The run pauses, and no other broker is restarted."""
    world = grown()
    world.approve(until(world, "AwaitingApproval"))
    run = until(world, "Paused")
    assert world.pods.restarts == [1]
    assert run.status.message.startswith("broker 1 came back with default.replication.factor=1, offsets.topic")
    assert "its configuration still has the old value. Change it (default.replication.factor=3," in run.status.message
    assert "or reject" in run.status.message
    for _ in range(10):
        world.step(60)
    assert (world.pods.restarts, cure(world).status.phase) == ([1], "Paused")
    (entry,) = cure(world).status.journal
    assert (entry.id, entry.state) == ("restart-brokers/restart-1", "Void")


def paused() -> World:
    world = grown()
    world.approve(until(world, "AwaitingApproval"))
    until(world, "Paused")
    return world


@thorough
def test_a_new_approval_restarts_that_broker_again():
    """The configuration is changed and the plan approved again. That broker restarts again, and the run continues."""
    world = paused()
    changed(world)
    for _ in range(5):
        world.step()
    assert world.pods.restarts == [1], "nobody can know that the file is another one now"
    again(world)
    done = until(world, "Succeeded")
    assert world.pods.restarts == [1, 1, 2, 0]
    assert read(world) == {("3", "3", "3")}
    assert world.kafka.dynamic == {("BROKER", "", MIN_ISR): "2"}
    assert [(e.id.rpartition("/")[2], e.state) for e in done.status.journal] == [
        ("restart-1", "Void"), ("restart-1-again-1", "Done"), ("restart-2", "Done"), ("restart-0", "Done"),
        ("set", "Done"),
    ]  # fmt: skip
    assert len({e.target_uid for e in done.status.journal[:2]}) == 2, "in the Pod that came after the first"


@thorough
def test_a_new_approval_without_a_change_costs_a_restart():
    """The plan is approved again without a change. The same broker restarts once for nothing."""
    world = paused()
    again(world)
    world.until(lambda: world.pods.restarts == [1, 1])
    world.until(lambda: cure(world).status.phase == "Paused")
    for _ in range(20):
        world.step()
    assert world.pods.restarts == [1, 1]
    changed(world)
    again(world, number=2)
    until(world, "Succeeded")
    assert world.pods.restarts == [1, 1, 1, 2, 0]


@thorough
def test_only_a_new_valid_approval_restarts_again():
    """An older approval, or one by a person without the right, restarts no broker again."""
    world = grown()
    run = until(world, "AwaitingApproval")
    world.approve(run)
    again(world)  # twice, before anything is seen
    until(world, "Paused")
    again(world, "mallory")
    for _ in range(20):
        world.step()
    assert world.pods.restarts == [1]


@thorough
def test_every_approver_has_to_approve_again():
    world = grown(approvals={"required": 2})
    world.api.approvers = {"alice", "bob"}
    run = until(world, "AwaitingApproval")
    world.approve(run)
    world.approve(run, "bob")
    until(world, "Paused")
    changed(world)
    again(world)
    for _ in range(10):
        world.step()
    assert world.pods.restarts == [1]
    again(world, "bob")
    until(world, "Succeeded")


@thorough
def test_a_restart_by_hand_counts():
    """Somebody restarts a broker by hand. The operator sees that it has read the configuration."""
    world = paused()
    changed(world)
    world.pods.stop(1)
    done = until(world, "Succeeded")
    assert world.pods.restarts == [1, 2, 0], "our own"
    assert [e.state for e in done.status.journal] == ["Done"] * 4


def test_a_reject_after_one_restart_sets_nothing():
    """A reject ends the run after one restart, and nothing is set."""
    world = paused()
    world.approve(cure(world), decision="Reject")
    until(world, "Aborted")
    for _ in range(5):
        world.step()
    assert (world.pods.restarts, world.kafka.dynamic) == ([1], {})


def test_one_forgotten_file_is_reported_with_its_broker():
    world = grown(GOOD)
    world.kafka.files[2] = ONE | {"default.replication.factor": "3", "transaction.state.log.min.isr": "2"}
    world.approve(until(world, "AwaitingApproval"))
    run = until(world, "Paused")
    assert world.pods.restarts == [1, 2]
    assert run.status.message.startswith(
        "broker 2 came back with offsets.topic.replication.factor=1, transaction.state.log.replication.factor=1:"
    )


@thorough
def test_auto_waits_for_approval():
    world = grown(GOOD, mode="Auto", auto={"maxRisk": "High", "maxRestarts": 10})
    run = until(world, "AwaitingApproval")
    for _ in range(10):
        world.step()
    assert world.pods.restarts == []
    assert "only a person can confirm that the brokers' configuration was changed" in cure(world).status.message
    world.approve(run)
    assert until(world, "Succeeded").status.approved_by == "alice"


def test_auto_raises_the_minimum_without_a_file_change():
    """Auto raises the minimum where nobody has to change a file."""
    world = grown(mode="Auto", auto={"maxRisk": "High"})
    changed(world)
    world.kafka.started_with = {b: dict(GOOD) for b in (0, 1, 2)}
    assert until(world, "Succeeded").status.approved_by == "policy:Auto"
    assert world.kafka.dynamic == {("BROKER", "", MIN_ISR): "2"}
    assert world.pods.restarts == []


@thorough
def test_topics_come_first():
    world = grown(GOOD)
    world.kafka.topic("scratch", [1])
    world.until(lambda: len(world.runs()) == 2)
    raised = next(r for r in world.runs() if r.spec.playbook.name == "raise-replication-factor")
    world.step()
    assert cure(world).status.phase == "Planning"
    assert "raised first (raise-replication-factor): scratch" in cure(world).status.message
    world.until(lambda: any(r.uid == raised.uid and r.status.phase == "AwaitingApproval" for r in world.runs()))
    world.approve(next(r for r in world.runs() if r.uid == raised.uid))
    world.approve(until(world, "AwaitingApproval"))
    until(world, "Succeeded")


@thorough
def test_a_topic_without_spare_replicas_keeps_the_minimum():
    """A topic cannot spare a replica by then. The minimum stays as it is."""
    world = grown(GOOD, topics=[{"pattern": "scratch", "exempt": True}])
    world.approve(until(world, "AwaitingApproval"))
    world.until(lambda: len(world.pods.restarts) == 3 and not world.pods.down())
    world.kafka.topic("scratch", [0, 1])
    for _ in range(30):
        world.step()
    assert world.kafka.dynamic == {}
    assert any(r.status.phase == "Superseded" and "scratch" in r.status.message for r in world.runs())


def healed(world: World) -> int:
    """To the end, whoever dies on the way, with a person who does what the run asks for once it has paused."""

    def changed_at_last() -> None:
        if any(r.status.phase == "Paused" for r in world.runs()) and world.kafka.files[0] != GOOD:
            changed(world)
            again(world)

    return world.to_the_end(reconciles=150, meanwhile=changed_at_last)


def killed(names: tuple[str, ...], nth: int, when: str, of: str) -> World:
    world = grown()
    wrapped = {of: lambda inner: Interrupted(inner, names, nth, when)}
    world.wrap_kafka = wrapped.get("kafka", world.wrap_kafka)
    world.wrap_api = wrapped.get("api", world.wrap_api)
    world.operator()
    assert healed(world) == 1
    assert world.pods.restarts == [1, 1, 2, 0], "each as often as without"
    assert world.kafka.dynamic == {("BROKER", "", MIN_ISR): "2"}
    assert read(world) == {("3", "3", "3")}
    states = [(e.id.rpartition("/")[2], e.state) for e in cure(world).status.journal]
    assert states == [
        ("restart-1", "Void"), ("restart-1-again-1", "Done"), ("restart-2", "Done"), ("restart-0", "Done"),
        ("set", "Done"),
    ]  # fmt: skip
    return world


@thorough
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_where_the_minimum_is_set(when: str) -> None:
    killed(("alter_configs",), 0, when, "kafka")


@thorough
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_a_write_to_the_api_server(when: str) -> None:
    """Evictions and the journal among them, over all that an undisturbed run writes."""
    whole = Interrupted(None, ("create", "replace"), None, when)
    world = grown()

    def counted(api: Any) -> Any:
        whole.inner = api
        return whole

    world.wrap_api = counted
    healed(world)
    for nth in range(0 if when == "before" else EVERY // 2, whole.count, EVERY):
        killed(("create", "replace"), nth, when, "api")


def test_nothing_is_proposed_where_the_mode_is_observe():
    world = grown(GOOD, mode="Observe")
    for _ in range(10):
        world.step()
    assert world.runs() == []
    found = world.api.get(f"{BASE}/namespaces/ns/kafkaclusters/c")["status"]["findings"]
    assert [f["id"] for f in found] == ["ReplicationFactorLow/broker-defaults"]
