"""Clients send most to one broker: other leaders, and every reason to leave them alone."""

from __future__ import annotations

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.remediation_plan import Elections, Reorders
from tests.scenario.test_uneven_brokers import findings, wait
from tests.simulation.brokers import MIN_ISR
from tests.simulation.exporters import SimExporters
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BROKERS, World

MB = 1e6
PLAYBOOK = "rebalance-leaders"


def busy(rates: dict[int, float], *, brokers: int = 3, partitions: int = 24, **spec: object) -> World:
    """`rates`: bytes per second of each partition that a broker leads."""
    kafka = SimKafka(racks=dict.fromkeys(range(brokers)))
    kafka.topic("orders", *([n % brokers, (n + 1) % brokers, (n + 2) % brokers] for n in range(partitions)))
    kafka.dynamic["TOPIC", "orders", MIN_ISR] = "2"
    world = World(kafka)
    led = {TopicPartition("orders", n): rates[n % brokers] for n in range(partitions)}
    world.exporters = SimExporters(kafka, led)
    world.install(**{"brokers": BROKERS, "probes": {"metricsPort": 9404}, **spec})
    world.with_pods()
    return world


def sent(world: World) -> list[float]:
    return [world.exporters.sent_to(b) / MB for b in sorted(world.kafka.racks)]


def test_busy_partitions_get_other_leaders_after_an_hour_and_an_approval() -> None:
    world = busy({0: 5 * MB, 1: 0.5 * MB, 2: 0.5 * MB})
    assert sent(world) == [40, 4, 4]
    held = {tp: sorted(part.replicas) for tp, part in world.kafka.partitions.items()}
    wait(world, 0.4, step=60)
    assert findings(world)["LoadUneven/traffic"]["state"] == "Pending"
    assert world.runs() == []
    wait(world, 0.3, step=60)
    run = world.until_phase("AwaitingApproval", seconds=60, reconciles=60)
    assert run.spec.playbook.name == PLAYBOOK
    assert run.status.plan is not None
    assert "clients send 15.0 MB/s to 17.5 MB/s to each broker (now 4.0 MB/s to 40.0 MB/s)" in run.status.plan.summary
    moved = run.status.plan.part(Reorders)
    assert moved.reordered_for_good
    assert len(moved.reorders) == sum(len(e.partitions) for e in run.status.plan.part(Elections).elections) == 8
    assert run.status.plan.moves == 0
    world.approve(run)
    world.until_phase("Succeeded", reconciles=60)
    assert sorted(sent(world)) == [15, 15.5, 17.5]
    for tp, part in world.kafka.partitions.items():
        assert sorted(part.replicas) == sorted(part.isr) == held[tp]
        assert part.leader == part.replicas[0]
    wait(world, 4, step=60)
    assert findings(world) == {}
    assert [r.spec.playbook.name for r in world.runs()] == [PLAYBOOK]


def test_what_one_run_may_not_move_follows_in_the_next_one() -> None:
    few = {"playbooks": [{"name": PLAYBOOK, "parameters": {"maxMoves": 2}}]}
    world = busy({0: 5 * MB, 1: 0.5 * MB, 2: 0.5 * MB}, remediation=few)
    for expected in (30, 20):
        wait(world, 1.2, step=60)
        run = world.until_phase("AwaitingApproval", seconds=60, reconciles=60)
        world.approve(run)
        world.until(lambda name=run.name: {r.name: r.status.phase for r in world.runs()}[name] == "Succeeded", 60)  # type: ignore[misc]
        assert max(sent(world)) == expected


def test_one_busy_partition_stays_where_it_is() -> None:
    world = busy({0: 0.1 * MB, 1: 0.1 * MB, 2: 0.1 * MB})
    world.exporters.rates[TopicPartition("orders", 0)] = 30 * MB
    wait(world, 2, step=60)
    (run,) = world.runs()
    assert run.status.phase == "Planning"
    assert "no other leader makes what clients send to the brokers more even" in run.status.message
    assert max(sent(world)) > 30


def test_an_exporter_that_the_logs_contradict_moves_nobody() -> None:
    """The exporter of broker 1 reports ten times what its clients send it."""
    world = busy({0: 1 * MB, 1: 1 * MB, 2: 1 * MB})
    world.exporters.wrong[1] = 80 * MB
    wait(world, 2, step=60)
    assert "LoadUneven/traffic" in findings(world)
    (run,) = world.runs()
    assert run.status.phase == "Planning"
    assert "broker 1 reports 83% of all traffic, and its logs have 33% of all growth" in run.status.message
    world.exporters.wrong.clear()
    wait(world, 1, step=60)
    assert findings(world) == {}
    assert sent(world) == [8, 8, 8]


def test_brokers_without_an_exporter_and_brokers_about_to_go_lead_nothing_more() -> None:
    world = busy({0: 5 * MB, 1: 0.5 * MB, 2: 0.5 * MB})
    world.exporters.down.add(2)
    wait(world, 2, step=60)
    assert findings(world) == {}
    world.exporters.down.clear()
    world.api.touch("/api/v1/nodes/node-2")["spec"]["unschedulable"] = True
    wait(world, 2, step=60)
    (run,) = [r for r in world.runs() if r.spec.playbook.name == PLAYBOOK]
    assert run.status.plan is not None
    assert 2 not in {c.replicas[0] for c in run.status.plan.part(Reorders).reorders}


def test_undrain_broker_does_not_take_the_new_leaders_back() -> None:
    world = busy({0: 5 * MB, 1: 0.5 * MB, 2: 0.5 * MB})
    wait(world, 1.6, step=60)
    (run,) = world.runs()
    world.approve(run)
    world.until_phase("Succeeded", reconciles=60)
    even = sent(world)
    world.ask("undrain-broker", brokers="0")
    wait(world, 0.3, step=60)
    (asked,) = [r for r in world.runs() if r.spec.playbook.name == "undrain-broker"]
    assert "no order that a drain of broker 0 changed is as the drain left it" in asked.status.message
    assert sent(world) == even


def test_another_balancer_of_the_cluster_keeps_the_operator_from_proposing_one() -> None:
    world = busy({0: 5 * MB, 1: 0.5 * MB, 2: 0.5 * MB})
    world.kafka.topic("strimzi.cruisecontrol.metrics", [0, 1, 2])
    world.kafka.dynamic["TOPIC", "strimzi.cruisecontrol.metrics", MIN_ISR] = "2"
    wait(world, 2, step=60)
    assert findings(world)["LoadUneven/traffic"]["state"] == "Firing"
    assert world.runs() == []
