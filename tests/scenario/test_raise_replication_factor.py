"""The whole line on simulated parts: from factor 1 to a verified cure, and every way in which nothing is done."""

from __future__ import annotations

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import ReplicaMoves
from tests.simulation.world import World, factor_one_cluster
from tests.thorough import only, thorough


@pytest.fixture
def world() -> World:
    world = World(factor_one_cluster())
    world.install()
    return world


def all_in_sync(world: World) -> bool:
    return all(len(p.isr) == 3 and not p.adding for p in world.kafka.partitions.values())


def throttles(world: World) -> list[tuple[str, str, str]]:
    return [k for k in world.kafka.dynamic if "throttled" in k[2]]


def under_way(world: World, copies: int = 0) -> Remediation:
    """Approved, and moving; so many replicas are copied in a reconcile."""
    world.kafka.copies_per_tick = copies
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    world.until(lambda: any(p.adding for p in world.kafka.partitions.values()))
    return run


def test_a_raise_from_proposal_to_verification(world: World) -> None:
    run = world.until_phase("AwaitingApproval")
    assert run.status.plan is not None
    assert run.status.plan.moves == run.status.plan.part(ReplicaMoves).lower_bound_moves == 14
    for _ in range(5):
        world.step()
    assert world.kafka.writes == []

    world.approve(run)
    done = world.until_phase("Succeeded")

    assert all_in_sync(world)
    assert throttles(world) == []
    assert {k[1]: v for k, v in world.kafka.dynamic.items()} == dict.fromkeys(
        ("orders", "payments", "__consumer_offsets"), "2"
    )
    assert [w.split(" ")[0] for w in world.kafka.writes] == ["configs", "reassign", "configs", "configs"]
    assert done.status.approved_by == "alice"
    assert not done.status.restore_owed
    assert all(e.state == "Done" for e in done.status.journal)


def test_a_healthy_cluster_is_left_alone(world: World) -> None:
    for part in world.kafka.partitions.values():
        part.replicas = part.isr = [0, 1, 2]
        part.leader = 0
    world.kafka.dynamic.clear()
    for _ in range(10):
        world.step()
    assert world.kafka.writes == []
    assert world.runs() == []
    assert world.condition("Replicated")["status"] == "True"


def test_an_unchanged_status_is_seldom_written(world: World) -> None:
    """A status of which only the time has changed is written again after some seconds, not in each reconcile. A broker
    that is on its way back is looked at several times a second."""

    def version() -> str:
        return str(world.cluster()["metadata"]["resourceVersion"])

    world.until_phase("AwaitingApproval")
    world.step(1)
    before = version()
    for _ in range(3):
        world.step(1)
        assert version() == before
    world.step(40)
    world.step(1)
    assert version() != before


@pytest.mark.parametrize("mode", ["Observe"])
def test_observe_mode_reports_and_does_nothing(mode: str) -> None:
    world = World(factor_one_cluster())
    world.install(remediation={"mode": mode})
    for _ in range(10):
        world.step()
    assert world.runs() == []
    assert world.condition("Replicated")["reason"] == "ReplicationFactorLow"
    assert world.condition("RemediationAllowed")["reason"] == "ObserveMode"


@thorough
def test_an_exempt_topic_is_not_touched() -> None:
    world = World(factor_one_cluster())
    world.install(expectations={"topics": [{"pattern": "payments", "exempt": True}]})
    world.approve(world.until_phase("AwaitingApproval"))
    world.until_phase("Succeeded")
    factors = {tp.topic: len(p.replicas) for tp, p in world.kafka.partitions.items()}
    assert factors == {"orders": 3, "payments": 1, "__consumer_offsets": 3}


def test_no_plan_with_too_few_live_brokers(world: World) -> None:
    world.kafka.racks = {0: "a", 1: "b"}
    world.kafka.up = {0, 1}
    for tp, part in world.kafka.partitions.items():
        part.replicas = part.isr = [part.replicas[0] % 2]
        part.leader = part.replicas[0]
        assert tp
    for _ in range(10):
        world.step()
    assert world.kafka.writes == []
    assert world.run().status.phase is Phase.PLANNING
    assert "EnoughLiveBrokers" in {w.guard for w in world.run().status.waiting_for}
    assert world.condition("RemediationAllowed")["status"] == "False"
    assert any("broker" in message for _, message in world.api.events)


def test_no_plan_with_too_little_disk_space(world: World) -> None:
    world.kafka.free = 100
    for _ in range(10):
        world.step()
    assert world.kafka.writes == []
    run = world.run()
    assert run.status.phase is Phase.PLANNING
    assert "bytes of new replicas and has room for 0" in str(run.status.message)
    assert " --" not in str(run.status.message), "a run has no options of the command"


def test_the_plan_reports_unknown_disk_space(world: World) -> None:
    world.kafka.free = None
    plan = world.until_phase("AwaitingApproval").status.plan
    assert plan is not None
    assert (
        "free disk space is not known on 3 receiving brokers, and not checked where a broker does not" in plan.summary
    )


@thorough
def test_the_run_waits_for_a_foreign_reassignment(world: World) -> None:
    run = world.until_phase("AwaitingApproval")
    other = next(p for tp, p in world.kafka.partitions.items() if tp.topic == "payments")
    world.kafka.topic("theirs", [0, 1, 2])
    foreign = next(p for tp, p in world.kafka.partitions.items() if tp.topic == "theirs")
    foreign.before, foreign.adding, foreign.isr = [0, 1], [2], [0, 1]
    world.kafka.copies_per_tick = 0
    world.approve(run)
    for _ in range(6):
        world.step()
    assert world.kafka.writes == []
    assert other.replicas == [0]
    assert "NoForeignReassignment" in {w.guard for w in world.run().status.waiting_for}
    world.kafka.copies_per_tick = 2
    world.until_phase("Succeeded")


@thorough
def test_the_run_waits_for_a_broker_that_died(world: World) -> None:
    run = world.until_phase("AwaitingApproval")
    world.kafka.stop(1)
    world.approve(run)
    for _ in range(5):
        world.step()
    assert world.kafka.writes == []
    assert world.run().status.waiting_for
    world.kafka.start(1)
    world.until_phase("Succeeded")
    assert all_in_sync(world)


@thorough
def test_a_dead_target_holds_the_run(world: World) -> None:
    """A target broker dies in mid-run. The run waits until it is back."""
    under_way(world, copies=1)
    world.kafka.stop(2)
    for _ in range(20):
        world.step()
    assert world.run().status.phase not in (Phase.SUCCEEDED, Phase.FAILED, Phase.ABORTED)
    assert world.run().status.restore_owed
    world.kafka.start(2)
    world.until_phase("Succeeded")
    assert all_in_sync(world)
    assert throttles(world) == []


@thorough
def test_an_unreachable_cluster_holds_the_run(world: World) -> None:
    under_way(world, copies=1)
    world.kafka.reachable = False
    before = len(world.kafka.writes)
    for _ in range(5):
        world.step()
    assert len(world.kafka.writes) == before
    assert world.run().status.phase is Phase.BLOCKED
    assert world.condition("Reachable")["status"] == "False"
    world.kafka.reachable = True
    world.until_phase("Succeeded")
    assert throttles(world) == []


@pytest.mark.parametrize("source", only([0], ["views", "reassignments", "configs"]))
def test_a_source_that_cannot_be_read_never_permits(world: World, source: str) -> None:
    run = world.until_phase("AwaitingApproval")
    world.kafka.unreadable = {source}
    world.approve(run)
    for _ in range(6):
        world.step()
    assert world.kafka.writes == []
    world.kafka.unreadable = set()
    world.until_phase("Succeeded")


def test_drift_before_the_start_voids_the_approval(world: World) -> None:
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    world.kafka.partitions[next(iter(world.kafka.partitions))].replicas = [1, 2]
    world.kafka.partitions[next(iter(world.kafka.partitions))].isr = [1, 2]
    old = run.status.plan
    for _ in range(6):
        world.step()
    new = world.run().status.plan
    assert old is not None
    assert new is not None
    assert new.digest != old.digest
    assert world.run().status.phase is Phase.AWAITING_APPROVAL
    assert world.kafka.writes == []


def test_drift_in_mid_run_cancels_restores_and_ends(world: World) -> None:
    under_way(world)
    part = world.kafka.partitions[TopicPartition("orders", 0)]
    world.kafka.reassigned(part, [1], [1, 0])  # by somebody else
    run = world.until_phase("Superseded")
    assert "another client is reassigning orders-0" in run.status.message
    part.withdraw(world.kafka.up)
    assert not any(p.adding for p in world.kafka.partitions.values())
    assert throttles(world) == []
    world.kafka.copies_per_tick = 2
    again = world.until_phase("AwaitingApproval")
    assert again.name != run.name, "what is left is proposed anew, and needs a new approval"


def test_a_reject_in_mid_run_cancels_restores_and_ends(world: World) -> None:
    run = under_way(world)
    world.approve(run, decision="Reject")
    world.until_phase("Aborted")
    assert not any(p.adding for p in world.kafka.partitions.values())
    assert throttles(world) == []
    for _ in range(10):
        world.step()
    assert len(world.runs()) == 1, "what a person stopped is not proposed again by itself"


def test_an_existing_throttle_is_restored(world: World) -> None:
    theirs = {
        ("BROKER", "1", "leader.replication.throttled.rate"): "777",
        ("TOPIC", "orders", "leader.replication.throttled.replicas"): "*",
    }
    world.kafka.dynamic.update(theirs)
    world.approve(world.until_phase("AwaitingApproval"))
    world.until_phase("Succeeded")
    assert {k: world.kafka.dynamic.get(k) for k in theirs} == theirs
    assert len(throttles(world)) == 2


@thorough
def test_changed_replicas_end_the_run(world: World) -> None:
    """Somebody changes replicas before the last step. The run ends."""
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: world.run().status.steps[0].phase == "Succeeded")
    world.kafka.installed(3, "d")
    world.kafka.start(3)
    part = next(p for tp, p in world.kafka.partitions.items() if tp.topic == "orders")
    part.replicas = part.isr = [*part.replicas, 3]
    ended = world.until_phase("Superseded")
    assert "drift since the plan: orders-0" in ended.status.message
    assert throttles(world) == []
    assert not any("min.insync" in w for w in world.kafka.writes)


def test_a_pause_on_the_cluster_holds_the_run(world: World) -> None:
    run = world.until_phase("AwaitingApproval")
    spec = world.cluster()
    spec["spec"]["remediation"] = {"paused": True, "pauseReason": "freeze"}
    world.put("kafkaclusters", spec)
    world.approve(run)
    for _ in range(5):
        world.step()
    assert world.kafka.writes == []
    assert any("freeze" in w.message for w in world.run().status.waiting_for)


@thorough
def test_another_kafka_cluster_id_is_not_touched(world: World) -> None:
    """Another Kafka cluster answers behind the same bootstrap servers. The operator changes nothing."""
    run = world.until_phase("AwaitingApproval")
    world.kafka.cluster_id = "other"
    world.approve(run)
    for _ in range(6):
        world.step()
    assert world.kafka.writes == []
    told = [w.message for w in world.run().status.waiting_for if w.guard == "PreconditionsHold"]
    assert any("sim" in m and "other" in m for m in told)
    world.kafka.cluster_id = "sim"
    world.until_phase("Succeeded")


@pytest.mark.parametrize("stopped", [True, False])
def test_another_kafka_cluster_id_in_mid_run(world: World, stopped: bool) -> None:
    """Another Kafka cluster answers in mid-run. The operator neither continues nor cleans up there."""
    run = under_way(world)
    ours, writes = world.kafka, list(world.kafka.writes)
    other = factor_one_cluster()
    other.cluster_id = "other"
    other.delete("payments")
    world.kafka = other
    world.operator()
    if stopped:
        world.approve(run, decision="Reject")
    for _ in range(6):
        world.step()
    assert (other.writes, ours.writes) == ([], writes)
    state = world.run().status
    assert state.phase is Phase.BLOCKED
    assert state.restore_owed
    assert any("other" in w.message and "sim" in w.message and w.verdict == "Deny" for w in state.waiting_for)
    world.kafka = ours
    ours.copies_per_tick = 2
    world.operator()
    world.until_phase("Aborted" if stopped else "Succeeded")
    assert throttles(world) == []


def test_no_plan_without_a_cluster_id(world: World) -> None:
    world.kafka.cluster_id = None  # type: ignore[assignment]
    for _ in range(5):
        world.step()
    assert world.run().status.phase is Phase.PLANNING
    assert world.run().status.plan is None
    assert "id" in world.run().status.message
    world.kafka.cluster_id = "sim"
    world.until_phase("AwaitingApproval")
