"""Brokers hold unequal shares: from the finding to even brokers, and every reason to leave them alone."""

from __future__ import annotations

from collections import Counter

import pytest

from kafka_medic.resources.remediation_plan import ReplicaMoves, ReplicaRemovals
from tests.simulation.brokers import MIN_ISR
from tests.simulation.kafka import SimKafka
from tests.simulation.pods import KAFKA_PATH, STRIMZI
from tests.simulation.world import BROKERS, NO_ELECTIONS, World

GB = 10**9
NO_RACKS: dict[int, str | None] = dict.fromkeys(range(4))
HOUR = 3600.0
POOL = "/apis/kafka.strimzi.io/v1/namespaces/ns/kafkanodepools/brokers"


def uneven(
    racks: dict[int, str | None] = NO_RACKS,
    *,
    held: list[list[int]] | None = None,
    zookeeper: bool = False,
    **spec: object,
) -> World:
    """Broker 3 was added and is empty: an even share is 15."""
    kafka = SimKafka(racks=dict(racks), zookeeper=zookeeper)
    kafka.topic("orders", *(held or [[n % 3, (n + 1) % 3, (n + 2) % 3] for n in range(20)]), size=1_000_000)
    kafka.dynamic["TOPIC", "orders", MIN_ISR] = "2"
    world = World(kafka)
    world.install(**{"brokers": BROKERS, "remediation": NO_ELECTIONS, **spec})
    world.with_pods()
    return world


def strimzi(world: World, spec: dict[str, object], status: dict[str, object]) -> None:
    """The cluster is Strimzi's, with one pool."""
    world.with_pods(STRIMZI)
    world.api.objects["/apis/kafka.strimzi.io"] = {"metadata": {}, "versions": [{"version": "v1"}]}
    resource = world.api.touch(KAFKA_PATH)
    resource["spec"] = {"kafka": {"listeners": [{"name": "plain", "port": 9092, "type": "internal", "tls": False}]}}
    resource["status"] |= {"listeners": [{"name": "plain", "bootstrapServers": "kafka:9092"}]}
    meta = {"name": "brokers", "namespace": "ns", "labels": {"strimzi.io/cluster": "kafka"}}
    world.api.objects[POOL] = {"metadata": meta, "spec": {"roles": ["broker"], **spec}, "status": status}


def held(world: World) -> Counter[int]:
    return Counter(b for part in world.kafka.partitions.values() for b in part.replicas)


def findings(world: World) -> dict[str, dict[str, object]]:
    return {f["id"]: f for f in world.cluster()["status"].get("findings", []) if f["type"] == "LoadUneven"}


def wait(world: World, hours: float, step: float = 300.0) -> None:
    for _ in range(int(hours * HOUR / step)):
        world.step(step)


@pytest.mark.parametrize("zookeeper", [False, True])
def test_a_broker_that_was_added_is_filled_after_an_hour_and_an_approval(zookeeper: bool) -> None:
    world = uneven(zookeeper=zookeeper)
    wait(world, 0.4)
    assert findings(world)["LoadUneven/replicas"]["state"] == "Pending"
    wait(world, 0.5)
    assert findings(world)["LoadUneven/replicas"]["state"] == "Firing"
    assert world.condition("Ready")["status"] == "True", "it is no illness"
    assert world.runs() == []
    run = world.until_phase("AwaitingApproval", seconds=300)
    assert run.spec.playbook.name == "rebalance"
    assert run.status.plan is not None
    assert run.status.plan.moves == run.status.plan.part(ReplicaMoves).lower_bound_moves == 15
    assert "which you request" not in run.status.plan.summary
    world.approve(run)
    world.until_phase("Succeeded", reconciles=200)
    assert sorted(held(world).values()) == [15, 15, 15, 15]
    assert all(len(p.replicas) == len(p.isr) == 3 and p.leader in p.isr for p in world.kafka.partitions.values())
    wait(world, 3)
    assert findings(world) == {}
    assert len(world.runs()) == 1


def test_what_one_run_may_not_move_follows_in_the_next_one() -> None:
    world = uneven(
        remediation={"playbooks": [*NO_ELECTIONS["playbooks"], {"name": "rebalance", "parameters": {"maxMoves": 3}}]}
    )
    for moved in (3, 6):
        run = world.until_phase("AwaitingApproval", seconds=300)
        world.approve(run)
        world.until(lambda name=run.name: {r.name: r.status.phase for r in world.runs()}[name] == "Succeeded", 200)  # type: ignore[misc]
        assert held(world)[3] == moved
    wait(world, 3)
    assert findings(world) == {}, "broker 3 lacks less than 10"
    assert len(world.runs()) == 2


def test_a_rejection_counts_also_after_a_broker_was_restarted() -> None:
    world = uneven()
    world.approve(world.until_phase("AwaitingApproval", seconds=300), decision="Reject")
    world.until_phase("Rejected")
    world.kafka.deaf.add(1)
    wait(world, 0.2)
    assert "LoadUneven/replicas" in findings(world), "what cannot be seen has not gone"
    world.kafka.deaf.clear()
    wait(world, 3)
    assert len(world.runs()) == 1


def test_nothing_is_proposed_while_a_broker_is_down() -> None:
    world = uneven(held=[[n % 3, (n + 1) % 3, (n + 2) % 3] for n in range(20)] + [[0, 1, 3]] * 2)
    world.kafka.deaf.add(3)
    wait(world, 0.4)
    assert findings(world) == {}
    world.kafka.deaf.clear()
    wait(world, 0.9)
    assert [r.spec.playbook.name for r in world.runs()] == []


def on_a_failed_directory(world: World, broker: int) -> None:
    theirs = [tp for tp, part in sorted(world.kafka.partitions.items()) if broker in part.replicas]
    world.kafka.disk_fails(broker, set(theirs[:6]))


def test_nothing_is_evened_while_a_log_directory_has_failed() -> None:
    """Its replicas are never in sync, so a rebalance would not end, and would hold and fill what the cure needs."""
    world = uneven()
    on_a_failed_directory(world, 1)
    wait(world, 1.5)
    assert findings(world) == {}
    assert [r.spec.playbook.name for r in world.runs()] == ["restore-log-dir"]
    for playbook in ("rebalance", "spread-racks"):
        world.ask(playbook)
        wait(world, 0.1, 30)
        (run,) = (r for r in world.runs() if r.spec.playbook.name == playbook)
        assert run.status.phase == "Planning"
        assert "a log directory of broker 1 has failed" in (run.status.message or "")


def test_a_log_directory_that_fails_during_a_rebalance_pauses_it_at_once_and_says_what_to_do() -> None:
    world = uneven()
    world.ask("rebalance")
    world.kafka.copies_per_tick = 0
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: any(part.adding for part in world.kafka.partitions.values()))
    moving = next(tp for tp, part in sorted(world.kafka.partitions.items()) if part.adding and 1 in part.replicas)
    world.kafka.disk_fails(1, {moving})
    world.kafka.copies_per_tick = 20
    run = world.until_phase("Paused")
    assert run.status.message is not None
    assert "a log directory of broker 1 has failed" in run.status.message
    assert "or reject the run: restore-log-dir" in run.status.message
    wait(world, 0.5)
    assert "LeftoverThrottle" not in {f["type"] for f in world.cluster()["status"]["findings"]}, "it is this run's"
    world.approve(run, decision="Reject")
    world.until_phase("Aborted")


def test_racks_that_force_unequal_shares_are_left_alone() -> None:
    world = uneven({0: "a", 1: "a", 2: "b", 3: "c"}, held=[[n % 2, 2, 3] for n in range(40)])
    wait(world, 3)
    assert findings(world) == {}
    assert world.runs() == []


def test_another_balancer_is_named_and_nothing_is_proposed() -> None:
    world = uneven()
    world.kafka.topic("strimzi.cruisecontrol.metrics", [0, 1, 2])
    world.kafka.dynamic["TOPIC", "strimzi.cruisecontrol.metrics", MIN_ISR] = "2"
    wait(world, 3)
    assert findings(world)["LoadUneven/replicas"]["state"] == "Firing"
    assert world.runs() == []


def test_a_broker_that_a_run_has_emptied_is_not_filled_again() -> None:
    world = uneven(held=[[n % 4, (n + 1) % 4, (n + 2) % 4] for n in range(40)])
    wait(world, 0.1)
    assert findings(world) == {}
    world.ask("evacuate-broker", brokers="3")
    run = world.until_phase("AwaitingApproval")
    assert run.status.plan is not None
    assert run.status.plan.part(ReplicaRemovals).emptied == (3,)
    assert "proposes no run that fills it again" in run.status.plan.summary
    world.approve(run)
    world.until_phase("Succeeded", reconciles=200)
    assert held(world)[3] == 0
    wait(world, 3)
    assert findings(world) == {}
    assert len(world.runs()) == 1
    world.api.delete(f"/apis/kafkamedic.dev/v1alpha1/namespaces/ns/remediations/{run.name}")
    again = world.until_phase("AwaitingApproval", seconds=300)
    assert again.spec.playbook.name == "rebalance"


def test_a_proposal_about_other_brokers_does_not_fill_the_emptied_one() -> None:
    world = uneven({**NO_RACKS, 4: None}, held=[[0, 1, 2]] * 30 + [[0, 1, 3]] * 10)
    world.ask("evacuate-broker", brokers="3", onto="2")
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    world.until_phase("Succeeded", reconciles=200)
    wait(world, 1.2)
    proposed = world.runs()[-1] if world.runs()[-1].name != run.name else world.runs()[0]
    assert proposed.spec.playbook.name == "rebalance"
    assert proposed.status.plan is not None
    gets = {
        b for c in proposed.status.plan.part(ReplicaMoves).changes for b in set(c.replicas) - set(c.replicas_before)
    }
    assert gets == {4}


def test_a_person_may_have_an_emptied_broker_filled() -> None:
    world = uneven(held=[[n % 4, (n + 1) % 4, (n + 2) % 4] for n in range(40)])
    world.ask("evacuate-broker", brokers="3")
    world.approve(world.until_phase("AwaitingApproval"))
    world.until_phase("Succeeded", reconciles=200)
    world.ask("rebalance")
    world.until(lambda: any(r.status.phase == "AwaitingApproval" for r in world.runs()))
    (run,) = (r for r in world.runs() if r.status.phase == "AwaitingApproval")
    assert run.status.plan is not None
    assert run.status.plan.moves == 30


@pytest.mark.parametrize(("hours", "found"), [(12, False), (25, True)])
def test_a_broker_that_comes_back_after_a_day_is_a_new_one_and_gets_its_share(hours: int, found: bool) -> None:
    world = uneven(held=[[n % 4, (n + 1) % 4, (n + 2) % 4] for n in range(20)])
    world.ask("evacuate-broker", brokers="3")
    world.approve(world.until_phase("AwaitingApproval"))
    world.until_phase("Succeeded")
    kafka, kept = world.kafka, dict(world.kafka.files[3])
    kafka.stop(3)  # scaled down: neither a broker nor a Pod any more
    del kafka.racks[3]
    (path,) = [p for p in world.api.objects if p.endswith("/pods/kafka-3")]
    pod = world.api.objects.pop(path)
    wait(world, hours, step=HOUR)
    world.operator()
    wait(world, 2, step=HOUR)
    kafka.installed(3, None)  # scaled up again, with a new volume
    kafka.files[3] = kept
    kafka.start(3)
    pod["metadata"]["uid"] = "another"
    world.api.objects[path] = pod
    wait(world, 3)
    assert ("LoadUneven/replicas" in findings(world)) is found
    proposed = [r.spec.playbook.name for r in world.runs() if r.spec.cause]
    assert proposed == (["rebalance"] if found else [])


def test_small_clusters_and_a_percentage_of_zero_are_left_alone() -> None:
    small = uneven(held=[[0, 1, 2]] * 12)
    off = uneven(expectations={"unevenPercent": 0})
    for world in (small, off):
        wait(world, 3)
        assert findings(world) == {}
        assert world.runs() == []


def test_a_broker_of_a_pool_that_is_scaled_down_is_not_filled() -> None:
    """Strimzi keeps the pool as it is until the broker is empty, and meanwhile nobody fills the broker again."""
    world = uneven(bootstrapServers=None, brokers=None, strimzi={"cluster": "kafka"})
    world.kafka.topic("small", [0, 1, 3])
    world.kafka.dynamic["TOPIC", "small", MIN_ISR] = "2"
    strimzi(world, {"replicas": 3}, {"nodeIds": [0, 1, 2, 3], "roles": ["broker"]})
    wait(world, 3)
    assert world.cluster()["status"]["strimzi"]["pools"][0]["leaving"] == [3]
    assert findings(world) == {}
    world.api.touch(POOL)["spec"]["replicas"] = 4
    wait(world, 0.2)
    assert "LoadUneven/replicas" in findings(world)


def test_a_plan_that_finds_nothing_to_move_waits_and_is_not_proposed_again() -> None:
    """Every replica that may move is larger than what broker 3 may take: it keeps 25 % of its volume free."""
    world = uneven(expectations={"topics": [{"pattern": "small", "exempt": True}]})
    world.kafka.topic("small", *[[0, 1, 2]] * 200, size=1)
    world.kafka.dynamic["TOPIC", "small", MIN_ISR] = "2"
    world.kafka.volumes[3] = (1_300_000,)
    wait(world, 2)
    world.kafka.deaf.add(1)
    wait(world, 0.3)
    world.kafka.deaf.clear()
    wait(world, 2)
    (run,) = world.runs()
    assert run.status.phase == "Planning", run.status.message
    assert "no move makes the brokers more even" in str(run.status.message)
    world.kafka.volumes.clear()
    world.until_phase("AwaitingApproval")
    assert len(world.runs()) == 1


def test_nothing_is_proposed_where_no_broker_has_room() -> None:
    world = uneven()
    world.kafka.free = 0
    wait(world, 3)
    assert findings(world) == {}
    assert world.runs() == []


def test_runs_that_each_go_on_where_the_last_one_ended_are_no_cures_without_effect() -> None:
    """With two brokers to fill the same partitions move once more, and the breaker stays closed."""
    limits = {
        "breaker": {"failures": 1},
        "playbooks": [*NO_ELECTIONS["playbooks"], {"name": "rebalance", "parameters": {"maxMoves": 6}}],
    }
    world = uneven({**NO_RACKS, 4: None}, held=[[0, 1, 2], [1, 2, 0], [2, 0, 1]] * 13, remediation=limits)
    for number in (1, 2, 3):
        run = world.until_phase("AwaitingApproval", seconds=300)
        world.approve(run)
        world.until(lambda name=run.name: {r.name: r.status.phase for r in world.runs()}[name] == "Succeeded", 200)  # type: ignore[misc]
        assert held(world)[3] + held(world)[4] == 6 * number
    assert world.condition("RemediationAllowed")["status"] == "True", world.condition("RemediationAllowed")


def of_bytes(world: World) -> dict[int, int]:
    parts = world.kafka.partitions.values()
    return {b: sum(p.size for p in parts if b in p.replicas) for b in world.kafka.up}


def heavy(**spec: object) -> World:
    """Every broker has 15 replicas. The partitions without one on broker 3 are twenty times as large as the others."""
    world = uneven(held=[[0, 1, 2], [1, 2, 3], [2, 3, 0], [3, 0, 1]] * 5, **spec)
    for part in world.kafka.partitions.values():
        part.size = 1_000_000_000 if 3 in part.replicas else 20_000_000_000
    return world


@pytest.mark.parametrize("zookeeper", [False, True])
def test_bytes_are_evened_by_exchange_and_replicas_stay_even(zookeeper: bool) -> None:
    world = heavy(zookeeper=zookeeper)
    wait(world, 0.4)
    assert list(findings(world)) == ["LoadUneven/bytes"]
    run = world.until_phase("AwaitingApproval", seconds=300)
    assert (run.spec.playbook.name, run.spec.cause and run.spec.cause.finding_id) == ("rebalance", "LoadUneven/bytes")
    assert run.status.plan is not None
    assert run.status.plan.summary.startswith("make bytes per broker more even")
    assert min(of_bytes(world).values()) == 15_000_000_000
    world.approve(run)
    world.until_phase("Succeeded", reconciles=200)
    assert sorted(held(world).values()) == [15, 15, 15, 15]
    even = sum(of_bytes(world).values()) / 4
    assert all(abs(share - even) <= even / 5 for share in of_bytes(world).values())
    assert all(len(p.replicas) == len(p.isr) == 3 and p.leader in p.isr for p in world.kafka.partitions.values())
    wait(world, 3)
    assert findings(world) == {}
    assert len(world.runs()) == 1


def test_a_person_may_ask_for_bytes_or_replicas() -> None:
    world = heavy()
    world.ask("rebalance", balance="bytes", maxMoves="2")
    plan = world.until_phase("AwaitingApproval").status.plan
    assert plan is not None
    assert (plan.moves, plan.summary.startswith("make bytes per broker more even")) == (2, True)
    other = heavy()
    other.ask("rebalance")
    other.until_phase("Superseded")
    assert "no move makes the brokers more even" in (other.run().status.message or "")
    wrong = heavy()
    wrong.ask("rebalance", balance="size")
    for _ in range(3):
        wrong.step()
    assert "balance 'size': must be replicas, bytes or cause" in (wrong.run().status.message or "")


def test_a_rebalance_keeps_its_share_free_also_where_the_approval_comes_late() -> None:
    kafka = SimKafka(racks=dict(NO_RACKS))
    kafka.volumes = {0: (9000 * GB,), 1: (9000 * GB,), 2: (9000 * GB,), 3: (1000 * GB,)}
    kafka.topic("orders", *[[n % 3, (n + 1) % 3, (n + 2) % 3] for n in range(20)], size=20 * GB)
    kafka.dynamic["TOPIC", "orders", MIN_ISR] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=NO_ELECTIONS)
    world.with_pods()
    run = world.until_phase("AwaitingApproval", seconds=300)
    kafka.topic("new", [3], size=600 * GB)  # somebody's new topic: 40 % are free still
    kafka.dynamic["TOPIC", "new", MIN_ISR] = "1"
    for _ in range(3):
        world.step(60)
    world.approve(run)
    for _ in range(40):
        world.step()
    used = sum(p.size for p in kafka.partitions.values() if 3 in p.replicas)
    told = [(r.spec.playbook.name, r.status.phase, r.status.message) for r in world.runs()]
    assert 1000 * GB - used >= 200 * GB, (used // GB, told)
