"""A broker that stays away loses its replicas to others, and nothing else is lost; each way in which it must not."""

from __future__ import annotations

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.remediation_plan import ReplicaMoves
from tests.scenario.four_brokers import LAST, QUIET, four_brokers, held, lose, throttles
from tests.simulation.brokers import MIN_ISR
from tests.simulation.deaths import Interrupted, Moments
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BASE, BROKERS, World, four_broker_cluster
from tests.thorough import THOROUGH, only

EVERY = 1 if THOROUGH else 40
"""`make simulate` dies at every moment, `make check` at some."""
FIVE: dict[int, str | None] = {0: "a", 1: "b", 2: "c", 3: "a", 4: "b"}


@pytest.fixture
def world() -> World:
    return four_brokers()


def test_a_broker_that_stays_away_is_replaced(world: World) -> None:
    lose(world)
    world.until(lambda: bool(world.runs()), reconciles=200)
    began = world.now
    run = world.until_phase("AwaitingApproval")
    assert run.spec.playbook.name == "replace-broker"
    assert run.spec.cause is not None
    assert run.spec.cause.finding_id == "BrokerDown/broker-3"
    assert (began - world.runs()[0].metadata.creation_timestamp).total_seconds() < 60
    plan = run.status.plan
    assert plan is not None
    assert plan.part(ReplicaMoves).replaced_brokers == (LAST,)
    assert plan.moves == plan.part(ReplicaMoves).lower_bound_moves == 3
    assert "replace broker 3 in 3 partitions of 2 topics" in plan.summary
    assert world.kafka.writes == []

    world.approve(run)
    done = world.until_phase("Succeeded")

    assert held(world) == []
    assert all(len(p.replicas) == len(p.isr) == 3 for p in world.kafka.partitions.values())
    assert throttles(world) == []
    assert not done.status.restore_owed
    for _ in range(20):
        world.step(300)
    assert len(world.runs()) == 1, "the broker is still down, and nothing is left to be done about it"


@pytest.mark.parametrize("zookeeper", [False, True])
def test_whoever_leads_now_stays_the_preferred_leader_where_the_lost_broker_was_it(zookeeper: bool) -> None:
    """Kafka would elect the next in line by itself."""
    world = four_brokers(zookeeper=zookeeper)
    lose(world)
    kafka, tp = world.kafka, TopicPartition("orders", 0)
    kafka.partitions[tp].elect(2)
    world.ask("replace-broker", brokers="3")
    run = world.until_phase("AwaitingApproval")
    (change,) = (c for c in run.status.plan.part(ReplicaMoves).changes if (c.topic, c.partition) == tp)
    assert change.replicas[:2] == (2, 1)
    world.approve(run)
    world.until_phase("Succeeded")
    assert held(world) == []
    assert kafka.partitions[tp].replicas[0] == kafka.partitions[tp].leader == 2


@pytest.mark.parametrize("zookeeper", [False, True])
def test_nothing_is_replaced_beside_a_follower_that_would_not_hear_of_it(zookeeper: bool) -> None:
    """What takes a replica away raises the leader epoch, and a broker with a stale view keeps the old one: it would
    leave the ISR, which had lost a member already."""
    world = four_brokers(zookeeper=zookeeper)
    world.kafka.topic("apart", [1, 0, 2])
    lose(world)
    kafka = world.kafka
    for part in kafka.partitions.values():
        if part.leader == 1:
            part.elect(2)
    kafka.stale[1] = kafka.view()
    kafka.partitions[TopicPartition("apart", 0)].elect(0)
    world.ask("replace-broker", brokers="3")

    def replaced() -> bool:
        for run in world.runs():
            if run.status.phase == "AwaitingApproval" and not run.status.approvals:
                world.approve(run)
        return held(world) == []

    for _ in range(20):
        world.step()
        assert not replaced()
    run = next(r for r in world.runs() if r.spec.playbook.name == "replace-broker")
    assert "the view of broker 1 is stale, so it would fall out of the ISR" in run.status.message
    assert not any(w.startswith("reassign") for w in kafka.writes)
    assert all(1 in p.isr for tp, p in kafka.partitions.items() if str(tp) in held(world))
    kafka.heal(1)
    world.until(replaced, reconciles=100)


def test_a_broker_that_is_away_for_a_rollout_is_not_replaced(world: World) -> None:
    lose(world)
    for _ in range(100):
        world.step()  # 25 minutes
    assert world.runs() == []
    world.kafka.start(LAST)
    assert world.pods is not None
    world.pods.ready(LAST)
    for _ in range(100):
        world.step()
    assert world.runs() == []


def test_a_request_to_replace_a_broker_that_is_up_ends_and_does_not_wait_for_its_next_restart(world: World) -> None:
    world.ask("replace-broker", brokers="3")
    for _ in range(5):
        world.step()
    (run,) = world.runs()
    assert run.status.phase == "Superseded"
    assert "broker 3 is up" in run.status.message
    assert "evacuate-broker" in run.status.message
    world.kafka.stop(LAST)
    for _ in range(20):
        world.step()
    assert all(r.status.plan is None for r in world.runs()), "a broker that restarts is not what somebody asked about"


@pytest.mark.parametrize("zookeeper", [False, True])
def test_a_broker_that_comes_back_meanwhile_ends_the_run(zookeeper: bool) -> None:
    world = four_brokers()
    lose(world)
    world.ask("replace-broker", brokers="3")
    world.kafka.copies_per_tick = 0
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: any(p.adding for p in world.kafka.partitions.values()))
    world.kafka.start(LAST)
    assert world.pods is not None
    world.pods.ready(LAST)
    ended = world.until_phase("Superseded")
    assert "broker 3 is back" in ended.status.message
    world.kafka.copies_per_tick = 2
    world.until(lambda: all(len(p.isr) == 3 for p in world.kafka.partitions.values()))
    assert held(world) == ["__consumer_offsets-0", "orders-0", "orders-1"]
    assert throttles(world) == []


@pytest.mark.parametrize("approved", [False, True])
def test_a_plan_does_not_lie_in_wait_for_the_next_restart_of_a_broker_that_is_back(
    world: World, approved: bool
) -> None:
    lose(world)
    world.ask("replace-broker", brokers="3")
    run = world.until_phase("AwaitingApproval")
    world.kafka.start(LAST)
    assert world.pods is not None
    world.pods.ready(LAST)
    if approved:
        world.approve(run)
    ended = world.until_phase("Superseded")
    assert "broker 3 is up" in ended.status.message
    assert world.kafka.writes == []


def test_what_only_that_broker_has_is_left_out_and_named(world: World) -> None:
    world.kafka.topic("scratch", [3], [0])
    world.kafka.dynamic["TOPIC", "scratch", MIN_ISR] = "1"
    world.api.touch("/apis/kafkamedic.dev/v1alpha1/namespaces/ns/kafkaclusters/c")["spec"]["expectations"] = {
        "topics": [{"pattern": "scratch", "exempt": True}]
    }
    lose(world)
    world.ask("replace-broker", brokers="3")
    run = world.until_phase("AwaitingApproval")
    assert run.status.plan is not None
    assert "no other broker has them in sync: scratch-0" in run.status.plan.summary
    world.approve(run)
    world.until_phase("Succeeded")
    assert held(world) == ["scratch-0"]
    assert world.kafka.partitions[TopicPartition("scratch", 0)].isr == [3]


def test_topics_that_every_broker_holds_keep_their_place() -> None:
    """Of three brokers one is gone: what had three replicas has to wait for it."""
    kafka = SimKafka()
    kafka.topic("orders", [2, 1, 0])
    kafka.topic("logs", [2, 1], [0, 2])
    for topic in ("orders", "logs"):
        kafka.dynamic["TOPIC", topic, MIN_ISR] = "1"
    world = World(kafka)
    expected = {"topics": [{"pattern": "logs", "replicationFactor": 2}]}
    world.install(brokers=BROKERS, remediation=QUIET, expectations=expected)
    world.with_pods()
    lose(world, 2)
    world.ask("replace-broker", brokers="2")
    run = world.until_phase("AwaitingApproval")
    assert run.status.plan is not None
    assert "every broker that is up holds a replica already: orders" in run.status.plan.summary
    world.approve(run)
    world.until_phase("Succeeded")
    assert held(world, 2) == ["orders-0"]
    world.ask("replace-broker", brokers="2")
    for _ in range(5):
        world.step()
    again = world.runs()[-1]
    assert again.status.plan is None
    assert again.status.phase == "Superseded"
    assert "no replica of broker 2 can be replaced: left out, because every broker" in again.status.message


def test_nothing_is_proposed_again_and_again_where_no_other_broker_can_take_a_replica() -> None:
    kafka = SimKafka()
    kafka.topic("orders", [2, 1, 0])
    kafka.dynamic["TOPIC", "orders", MIN_ISR] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=QUIET)
    world.with_pods()
    lose(world, 2)
    for _ in range(100):
        world.step(60)
    assert world.runs() == []
    (found,) = [f for f in world.cluster()["status"]["findings"] if f["type"] == "BrokerDown"]
    assert any("holds 1 replica, of which other brokers can copy 0" in line for line in found["evidence"])


def test_a_proposal_waits_where_the_named_broker_cannot_take_what_others_could() -> None:
    """It is not proposed again and again while the broker stays away."""
    kafka = SimKafka(racks={0: "a", 1: "b", 2: "c", 3: "a"})
    kafka.topic("orders", [3, 1, 2])
    kafka.topic("logs", [0, 1, 2])
    for topic in ("orders", "logs"):
        kafka.dynamic["TOPIC", topic, MIN_ISR] = "2"
    world = World(kafka)
    onto = {"name": "replace-broker", "parameters": {"onto": "1"}}
    world.install(brokers=BROKERS, remediation={"playbooks": [*QUIET["playbooks"], onto]})
    world.with_pods()
    lose(world)
    for _ in range(100):
        world.step(60)
    (run,) = world.runs()
    assert run.status.phase == "Planning"
    assert "every broker that may get a replica holds one already: orders" in run.status.message
    world.kafka.start(LAST)
    assert world.pods is not None
    world.pods.ready(LAST)
    world.until_phase("Superseded")


@pytest.mark.parametrize(
    ("onto", "why"),
    [
        ("3", "broker 3 cannot get replicas, since it is to lose its own"),
        ("7", "broker 7 of the parameter onto is not up"),
    ],
)
def test_a_broker_that_cannot_get_replicas_is_named(world: World, onto: str, why: str) -> None:
    lose(world)
    world.ask("replace-broker", brokers="3", onto=onto)
    for _ in range(5):
        world.step()
    asked = world.run()
    assert asked.status.plan is None
    assert why in asked.status.message


def test_a_disk_that_fills_up_after_the_plan_holds_the_next_wave(world: World) -> None:
    lose(world)
    world.ask("replace-broker", brokers="3", waveBytesPerBroker="4000000")
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    world.kafka.copies_per_tick = 1
    world.until(lambda: any(p.adding for p in world.kafka.partitions.values()))
    world.kafka.free = 1_000_000
    world.until(lambda: "DiskHasRoom" in {w.guard for w in world.run().status.waiting_for})
    assert len(held(world)) > 0
    world.kafka.free = 1 << 40
    world.until_phase("Succeeded")
    assert held(world) == []


def test_a_broker_that_answers_and_is_not_registered_is_not_replaced(world: World) -> None:
    """A zombie goes on serving whoever asks it."""
    world.kafka.fence(LAST)
    world.ask("replace-broker", brokers="3")
    for _ in range(10):
        world.step()
    asked = world.run()
    assert asked.status.plan is None
    assert "broker 3 answers" in asked.status.message
    assert world.kafka.writes == []


def test_a_broker_that_nobody_knew_where_to_ask_is_not_replaced() -> None:
    """Outside of Kubernetes, and the operator started after the broker had left: where it is, nobody says any more."""
    world = World(four_broker_cluster(None, size=5_000_000))
    world.install(remediation=QUIET)
    for _ in range(3):
        world.step()
    world.kafka.fence(LAST)
    world.operator()
    world.ask("replace-broker", brokers="3")
    for _ in range(10):
        world.step()
    asked = next(run for run in world.runs() if run.spec.playbook.name == "replace-broker")
    assert asked.status.plan is None
    assert "whether broker 3 still answers clients is not known" in (asked.status.message or "")
    (down,) = (f for f in world.cluster()["status"]["findings"] if f["id"] == "BrokerDown/broker-3")
    assert not any("does not answer" in text for text in down["evidence"])


def test_with_another_broker_down_nobody_is_replaced() -> None:
    """A rack that is without power comes back, and to copy all that was on it would take what is left."""
    world = four_brokers(racks=FIVE)
    lose(world)
    lose(world, 4)
    world.ask("replace-broker", brokers="3")
    for _ in range(10):
        world.step()
    asked = world.run()
    assert asked.status.plan is None
    assert "broker 4 is down" in asked.status.message
    assert world.kafka.writes == []


def test_a_named_broker_gets_the_replicas() -> None:
    world = four_brokers(racks=FIVE)
    lose(world)
    world.ask("replace-broker", brokers="3", onto="4")
    run = world.until_phase("AwaitingApproval")
    assert run.status.plan is not None
    changes = run.status.plan.part(ReplicaMoves).changes
    assert {b for c in changes for b in set(c.replicas) - set(c.replicas_before)} == {4}
    world.approve(run)
    world.until_phase("Succeeded")
    assert held(world) == []
    assert len(held(world, 4)) == 3


def test_an_aborted_replacement_leaves_nothing_behind(world: World) -> None:
    lose(world)
    world.ask("replace-broker", brokers="3")
    world.kafka.copies_per_tick = 0
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    world.until(lambda: any(p.adding for p in world.kafka.partitions.values()))
    world.approve(world.run(), decision="Reject")
    world.until_phase("Aborted")
    assert held(world) == ["__consumer_offsets-0", "orders-0", "orders-1"]
    assert not any(p.adding or p.removing for p in world.kafka.partitions.values())
    assert throttles(world) == []


def test_a_cancel_waits_where_it_would_take_a_replica_that_is_needed() -> None:
    """With ZooKeeper nothing is complete before all are in sync: one that was added is, and one from before is down."""
    world = four_brokers(zookeeper=True)
    part, before = world.kafka.partitions[TopicPartition("__consumer_offsets", 0)], [0, 3, 1]
    lose(world)
    world.ask("replace-broker", brokers="3")
    world.kafka.copies_per_tick = 0
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: bool(part.adding))
    world.kafka.stop(0)
    part.isr.append(2)
    world.kafka.start(LAST)
    assert world.pods is not None
    world.pods.ready(LAST)
    world.until(lambda: "not cancelled yet" in world.run().status.message)
    for _ in range(10):
        world.step()
    assert sorted(part.isr) == [1, 2], "a producer with acks=all goes on"
    assert world.kafka.acknowledges(TopicPartition("__consumer_offsets", 0))
    world.kafka.start(0)
    world.kafka.copies_per_tick = 2
    world.until(world.finished)
    assert len(part.isr) == len(part.replicas) == len(before)
    assert throttles(world) == []


def replaced_whole(world: World) -> None:
    assert world.run().status.phase == "Succeeded"
    assert held(world) == []
    assert all(len(p.replicas) == len(p.isr) == 3 for p in world.kafka.partitions.values())
    assert throttles(world) == []
    assert all(e.state == "Done" for e in world.run().status.journal)


def asked() -> World:
    world = four_brokers()
    lose(world)
    world.ask("replace-broker", brokers="3")
    return world


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", only([1], range(3)))
def test_killed_at_a_write_to_kafka(nth: int, when: str) -> None:
    world = asked()
    world.wrap_kafka = lambda kafka: Interrupted(kafka, ("alter_reassignments", "alter_configs"), nth, when)
    world.operator()
    assert world.to_the_end() == 1
    replaced_whole(world)


def test_killed_at_any_write_to_the_api_server() -> None:
    whole = asked()
    moments = Moments(whole)
    whole.wrap_api = lambda _: moments
    whole.to_the_end()
    replaced_whole(whole)
    for told, world in moments.worlds(range(0, len(moments.kept), EVERY)):
        world.to_the_end()
        try:
            replaced_whole(world)
        except AssertionError as problem:
            raise AssertionError(f"{told}: {problem}") from problem


GB = 10**9
NIGHT = [
    {"days": ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"], "start": "22:00", "end": "23:00", "timeZone": "UTC"}
]


def test_auto_counts_the_bytes_that_there_are_when_it_starts() -> None:
    """The plan is made at noon, and Auto may start at ten in the evening."""
    kafka = SimKafka(racks=dict.fromkeys(range(4)))
    kafka.topic("orders", [LAST, 1, 2], size=9 * GB)
    kafka.dynamic["TOPIC", "orders", MIN_ISR] = "2"
    world = World(kafka)
    auto = {"maxRisk": "High", "maxBytes": 10 * GB, "windows": NIGHT}
    playbooks = [*QUIET["playbooks"], {"name": "replace-broker", "mode": "Auto"}]
    world.install(brokers=BROKERS, remediation={"auto": auto, "playbooks": playbooks})
    world.with_pods()
    lose(world)
    world.until_phase("AwaitingApproval", reconciles=200)
    while world.now.hour < 21:
        world.step(900)
        kafka.partitions[TopicPartition("orders", 0)].size = 100 * GB
    for _ in range(30):
        world.step(150)
    assert not any(w.startswith("reassign") for w in kafka.writes), (world.now, world.run().status.approved_by)
    assert "auto.maxBytes is 10000000000" in str(world.run().status.waiting_for)


def test_the_time_of_a_copy_counts_who_sends_it() -> None:
    """3 TB of broker 3 come from five brokers, and go to five: 600 GB each, 3.3 hours at 50 MB/s."""
    kafka = SimKafka(racks=dict.fromkeys(range(6)))
    others = [0, 1, 2, 4, 5]
    for n in range(30):
        kafka.topic(f"orders{n}", [LAST, others[n % 5], others[(n + 1) % 5]], size=100 * GB)
        kafka.dynamic["TOPIC", f"orders{n}", MIN_ISR] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=QUIET)
    world.with_pods()
    lose(world)
    world.until(lambda: bool(world.runs()), reconciles=200)
    run = world.until_phase("AwaitingApproval")
    assert run.status.plan is not None
    assert 3 * 3600 < (run.status.plan.estimated_seconds or 0) < 4 * 3600, run.status.plan.summary


SATURDAY = [{"days": ["Sat"], "start": "01:00", "end": "05:00", "timeZone": "UTC"}]


def auto(world: World, **bounds: object) -> None:
    playbooks = [*QUIET["playbooks"], {"name": "replace-broker", "mode": "Auto"}]
    spec = world.api.touch(f"{BASE}/namespaces/ns/kafkaclusters/c")["spec"]
    spec["remediation"] = {"auto": {"maxRisk": "High", **bounds}, "playbooks": playbooks}


def test_auto_acts_in_its_next_window_though_a_plan_expires_before() -> None:
    world = four_brokers()  # it is Thursday noon
    auto(world, windows=SATURDAY)
    lose(world)
    while world.now.day < 3 or world.now.hour < 1:
        world.step(900)
    for _ in range(60):
        world.step(120)
    assert held(world) == [], [(r.status.phase, r.status.message) for r in world.runs()]
    assert sorted(str(r.status.phase) for r in world.runs()) == ["Expired", "Succeeded"]


def test_auto_asks_where_the_room_is_not_known() -> None:
    world = four_brokers()
    auto(world)
    world.kafka.free = None
    lose(world)
    world.until_phase("AwaitingApproval", reconciles=200)
    for _ in range(8):
        world.step()
    assert not world.kafka.writes, world.run().status.approved_by
    assert "the free disk space of broker" in str(world.run().status.waiting_for)
