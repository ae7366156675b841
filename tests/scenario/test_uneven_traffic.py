"""Clients send most to one broker: other leaders, and every reason to leave them alone."""

from __future__ import annotations

from datetime import UTC, datetime

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Elections, Reorders
from kafka_medic.resources.vocabulary import Guard
from tests.scenario.test_uneven_brokers import findings, strimzi, wait
from tests.simulation.brokers import MIN_ISR
from tests.simulation.exporters import SimExporters
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BROKERS, World

MB = 1e6
PLAYBOOK = "rebalance-leaders"
START = datetime(2026, 1, 1, tzinfo=UTC)


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
    assert "broker 1 reports about 80% of all traffic, and its logs have about 30% of all growth" in run.status.message
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


def carried_out(world: World, playbook: str, **parameters: str) -> None:
    """By a person who asks for it and approves it at once."""
    world.ask(playbook, **parameters)
    name = max(
        (r for r in world.runs() if r.spec.requested_by), key=lambda r: r.metadata.creation_timestamp or START
    ).name
    for _ in range(80):
        world.step(15)
        (run,) = [r for r in world.runs() if r.name == name]
        if run.status.phase == "AwaitingApproval" and not run.status.approvals:
            world.approve(run)
        if run.status.phase == "Succeeded":
            return
    raise AssertionError(run.status.message)


def proposed(world: World) -> Remediation:
    (run,) = [r for r in world.runs() if r.spec.playbook.name == PLAYBOOK]
    return run


def test_a_broker_that_was_drained_leads_nothing_more() -> None:
    world = busy({0: 5 * MB, 1: 0.5 * MB, 2: 0.5 * MB}, remediation={"mode": "Auto"})
    carried_out(world, "drain-broker", brokers="2")
    assert sent(world)[2] == 0
    wait(world, 2, step=60)
    assert proposed(world).status.phase == "Succeeded"
    assert sent(world) == [24, 24, 0]


def test_a_broker_of_a_pool_that_is_scaled_down_leads_nothing_more() -> None:
    rates = {0: 0.8 * MB, 1: 0.5 * MB, 2: 3 * MB, 3: 0.05 * MB}
    world = busy(rates, brokers=4, partitions=40, bootstrapServers=None, **{"strimzi": {"cluster": "kafka"}})
    spec = world.api.touch("/apis/kafkamedic.dev/v1alpha1/namespaces/ns/kafkaclusters/c")["spec"]
    del spec["brokers"]
    strimzi(world, {"replicas": 3}, {"nodeIds": [0, 1, 2, 3], "roles": ["broker"]})
    wait(world, 1.6, step=60)
    plan = proposed(world).status.plan
    assert plan is not None
    assert 3 not in {c.replicas[0] for c in plan.part(Reorders).reorders}


def test_a_plan_whose_reason_is_gone_is_not_carried_out() -> None:
    """Somebody approves it hours later, when clients send as much to each broker."""
    world = busy({0: 5 * MB, 1: 0.5 * MB, 2: 0.5 * MB})
    wait(world, 1.6, step=60)
    run = proposed(world)
    assert run.status.phase == "AwaitingApproval"
    world.exporters.rates = dict.fromkeys(world.exporters.rates, 2 * MB)
    wait(world, 0.2, step=60)
    assert proposed(world).status.phase == "Superseded"
    assert sent(world) == [16, 16, 16]


def test_an_approved_plan_waits_while_the_traffic_is_not_known() -> None:
    world = busy({0: 5 * MB, 1: 0.5 * MB, 2: 0.5 * MB})
    wait(world, 1.6, step=60)
    run, before = proposed(world), sent(world)
    world.exporters.down = {0, 1, 2}
    world.step(60)
    world.approve(run)
    wait(world, 0.2, step=60)
    assert sent(world) == before
    assert proposed(world).status.phase in ("Approved", "Blocked")
    assert [w.guard for w in proposed(world).status.waiting_for] == [Guard.PRECONDITIONS_HOLD]
    world.exporters.down.clear()
    wait(world, 0.3, step=15)
    assert max(sent(world)) <= 17.6


def test_a_plan_for_other_traffic_is_made_anew() -> None:
    """The finding lasts, and another broker is the busy one by now."""
    world = busy({0: 5 * MB, 1: 0.5 * MB, 2: 0.5 * MB})
    wait(world, 1.6, step=60)
    first = proposed(world).status.plan
    world.exporters.rates = {tp: (5 if tp.partition % 3 == 2 else 0.5) * MB for tp in world.exporters.rates}
    wait(world, 0.5, step=60)
    run = proposed(world)
    assert run.status.plan is not None
    assert first is not None
    assert run.status.plan.digest != first.digest
    world.approve(run)
    wait(world, 0.3, step=15)
    assert max(sent(world)) <= 17.6


def test_an_exporter_that_counts_three_times_as_much_moves_nobody() -> None:
    """Too little to be called a contradiction: by the word of the logs no broker is busier than others."""
    world = busy(dict.fromkeys(range(3), 1 * MB), remediation={"mode": "Auto"})
    world.exporters.wrong[0] = 24 * MB
    wait(world, 2, step=60)
    assert sent(world) == [8, 8, 8]
    assert "no other leader makes" in proposed(world).status.message


def test_brokers_that_are_busy_in_turn_keep_their_leaders() -> None:
    world = busy(dict.fromkeys(range(3), 0.8 * MB), remediation={"mode": "Auto"})
    first = {tp: part.leader for tp, part in world.kafka.partitions.items()}
    for minute in range(180):
        busiest = minute % 3
        world.exporters.rates = {tp: (2.4 if tp.partition % 3 == busiest else 0.8) * MB for tp in first}
        world.step(60)
    assert {tp: part.leader for tp, part in world.kafka.partitions.items()} == first


def test_many_small_partitions_are_evened_too() -> None:
    world = busy({0: 0.1 * MB, 1: 0.02 * MB, 2: 0.02 * MB}, partitions=600)
    wait(world, 1.6, step=60)
    run = proposed(world)
    assert run.status.phase == "AwaitingApproval"
    assert run.status.plan is not None
    assert run.status.plan.partitions == 50


def test_what_undrain_broker_has_restored_may_move() -> None:
    world = busy(dict.fromkeys(range(3), 0.5 * MB))
    carried_out(world, "drain-broker", brokers="0")
    carried_out(world, "undrain-broker", brokers="0")
    world.exporters.rates = {tp: (5 if tp.partition % 3 == 0 else 0.5) * MB for tp in world.exporters.rates}
    wait(world, 1.8, step=60)
    assert proposed(world).status.phase == "AwaitingApproval"


def test_drains_in_turn_give_each_broker_back_what_it_led() -> None:
    """What undrain-broker restored for one broker is not what a drain of another one has left."""
    world = busy(dict.fromkeys(range(3), 0.5 * MB))
    for broker in "012":
        carried_out(world, "drain-broker", brokers=broker)
        carried_out(world, "undrain-broker", brokers=broker)
        assert sent(world) == [4, 4, 4]


def test_a_compacted_log_that_was_cleaned_stays_where_it_is() -> None:
    """It got records, and no bytes: how busy it makes its leader is not known."""
    world = busy({0: 2 * MB, 1: 0.5 * MB, 2: 0.5 * MB})
    cleaned = TopicPartition("orders", 0)
    world.exporters.rates[cleaned] = 6 * MB
    for _ in range(110):
        world.step(60)
        world.kafka.partitions[cleaned].size = 1_000_000
    plan = proposed(world).status.plan
    assert plan is not None
    assert cleaned not in {TopicPartition(c.topic, c.partition) for c in plan.part(Reorders).reorders}
