"""Topics are deleted in the middle of a run: it goes on without them, and touches no other topic of the same name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow.compute as pc
import pytest

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.ports import BrokerView
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.phases import StepPhase
from tests.scenario.four_brokers import LAST, QUIET, held, throttles, watched
from tests.scenario.test_evacuate_broker import all_copied
from tests.scenario.test_relieve_volumes import crowded as with_volumes
from tests.simulation.brokers import MIN_ISR
from tests.simulation.deaths import Moments
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BASE, BROKERS, World
from tests.thorough import THOROUGH

EVERY = 1 if THOROUGH else 40
GOES = "orders1"
BEFORE = [LAST, 1, 2]
TOLD = f"left out, because deleted since the approval: topic {GOES}"
Moment = Callable[[World], bool]


def several(*, zookeeper: bool = False, copies: int = 2) -> World:
    kafka = SimKafka(racks=dict.fromkeys(range(4)), zookeeper=zookeeper)
    for n in range(4):
        kafka.topic(f"orders{n}", BEFORE, size=1_000_000)
        kafka.dynamic["TOPIC", f"orders{n}", MIN_ISR] = "2"
    kafka.copies_per_tick = copies
    return watched(kafka)


def approved(world: World, **parameters: str) -> World:
    world.ask("evacuate-broker", **{"brokers": "3", "batchSize": "1"} | parameters)
    world.approve(world.until_phase("AwaitingApproval"))
    return world


def goes(world: World, *, again: bool) -> None:
    """The topic is deleted; again: there is another one under its name. With ZooKeeper it waits for its copies."""
    world.until(lambda: world.kafka.deletable(GOES))
    world.kafka.delete(GOES)
    if again:
        world.kafka.topic(GOES, BEFORE, size=1_000_000)
        world.kafka.dynamic["TOPIC", GOES, MIN_ISR] = "2"


def partition(world: World, topic: str = GOES) -> list[int]:
    return world.kafka.partitions[TopicPartition(topic, 0)].replicas


def step(world: World, times: int, seconds: float = 15.0) -> None:
    """The topic is gone: nothing throttles another one of that name."""
    for _ in range(times):
        world.step(seconds)
        assert not [key for key in throttles(world) if key[1] == GOES]


def without_it(world: World, *, again: bool, writes: int) -> None:
    """Everything else is done, and the other topic of that name is as it was."""
    run = world.run()
    assert run.status.phase == "Succeeded", (run.status.phase, run.status.message)
    assert TOLD in run.status.message
    assert run.status.deleted_topics == (GOES,)
    assert held(world) == ([f"{GOES}-0"] if again else [])
    if again:
        assert partition(world) == BEFORE
    assert not [w for w in world.kafka.writes[writes:] if GOES in w]
    assert all(len(p.replicas) == len(p.isr) == 3 for p in world.kafka.partitions.values())
    assert throttles(world) == []
    assert not run.status.restore_owed
    assert all(e.state == "Done" for e in run.status.journal)


def begun(world: World) -> bool:
    return world.run().status.phase == "Running"


def throttled(world: World) -> bool:
    return bool(throttles(world))


def copying(world: World) -> bool:
    return TopicPartition(GOES, 0) in world.kafka.partitions and len(partition(world)) == 4


def copied(world: World) -> bool:
    return sum(len(p.isr) == 4 for p in world.kafka.partitions.values()) >= 3


def removing(world: World) -> bool:
    return len(held(world)) < 4


def test_a_topic_that_is_deleted_does_not_undo_what_was_copied_of_others() -> None:
    kafka = SimKafka(racks=dict.fromkeys(range(4)))
    for n in range(10):
        kafka.topic(f"orders{n}", [3, 1, 2], size=1_000_000)
        kafka.dynamic["TOPIC", f"orders{n}", MIN_ISR] = "2"
    world = watched(kafka)
    world.ask("evacuate-broker", brokers="3")
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: sum(len(p.isr) == 4 for p in kafka.partitions.values()) >= 8)
    kafka.delete("orders9")
    for _ in range(40):
        world.step()
    run = world.run()
    assert run.status.phase == "Succeeded", (run.status.phase, run.status.message)
    assert held(world) == []


MOMENTS: list[Moment] = [begun, throttled, copying, copied, all_copied, removing]


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "recreated"])
@pytest.mark.parametrize("zookeeper", [False, True], ids=["KRaft", "ZooKeeper"])
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda m: m.__name__)
def test_the_run_goes_on_with_the_rest(moment: Moment, zookeeper: bool, again: bool) -> None:
    world = approved(several(zookeeper=zookeeper))
    world.until(lambda: moment(world), seconds=1.0)
    goes(world, again=again)
    writes = len(world.kafka.writes)
    step(world, 60)
    without_it(world, again=again, writes=writes)


def paused(world: World, so: bool) -> None:
    world.api.touch(f"{BASE}/namespaces/ns/kafkaclusters/c")["spec"]["remediation"]["paused"] = so


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "recreated"])
def test_an_approved_run_that_waits_needs_no_other_approval(again: bool) -> None:
    world = several()
    world.ask("evacuate-broker", brokers="3")
    run = world.until_phase("AwaitingApproval")
    paused(world, True)
    world.approve(run)
    world.until_phase("Approved")
    goes(world, again=again)
    for _ in range(5):
        world.step()
    assert world.run().status.phase == "Approved"
    paused(world, False)
    step(world, 60)
    without_it(world, again=again, writes=0)


def test_a_plan_that_waits_for_its_approval_is_made_anew() -> None:
    world = several()
    world.ask("evacuate-broker", brokers="3")
    first = world.until_phase("AwaitingApproval").status.plan
    goes(world, again=False)
    for _ in range(6):
        world.step()
    second = world.run().status.plan
    assert first is not None
    assert second is not None
    assert (first.partitions, second.partitions) == (4, 3)
    assert world.run().status.deleted_topics == ()


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "recreated"])
@pytest.mark.parametrize("zookeeper", [False, True], ids=["KRaft", "ZooKeeper"])
@pytest.mark.parametrize("moment", [copying, all_copied], ids=lambda m: m.__name__)
def test_what_is_given_back_is_not_given_to_another_topic(moment: Moment, zookeeper: bool, again: bool) -> None:
    """Once deleted before the run is rejected, and once while it takes back."""
    for late in (False, True):
        world = approved(several(zookeeper=zookeeper))
        world.until(lambda moment=moment, world=world: moment(world), seconds=1.0)  # type: ignore[misc]
        if late:
            world.approve(world.run(), decision="Reject")
            world.step(1.0)
        goes(world, again=again)
        writes = len(world.kafka.writes)
        if not late:
            world.approve(world.run(), decision="Reject")
        step(world, 30)
        run = world.run()
        assert run.status.phase == "Aborted", run.status.message
        assert TOLD in run.status.message
        assert not [w for w in world.kafka.writes[writes:] if GOES in w]
        assert all(sorted(p.replicas) == sorted(BEFORE) == sorted(p.isr) for p in world.kafka.partitions.values())
        assert throttles(world) == []


def test_a_topic_that_the_only_broker_that_answers_has_not_heard_of_is_not_deleted() -> None:
    """Its view is older than the topic, and the others do not answer: nothing counts as done, and nothing is taken
    back."""
    kafka = SimKafka(racks=dict.fromkeys(range(4)))
    before = kafka.image(0).view
    world = several(copies=0)
    approved(world)
    world.until(lambda: copying(world), seconds=1.0)
    writes = len(world.kafka.writes)
    world.kafka.stale[0], world.kafka.deaf = before, {1, 2, 3}
    for _ in range(10):
        world.step()
    run = world.run()
    assert run.status.phase == "Blocked", (run.status.phase, run.status.message)
    assert run.status.deleted_topics == ()
    assert all(s.phase is not StepPhase.SUCCEEDED for s in run.status.steps if s.name == "copy-replicas")
    assert len(world.kafka.writes) == writes
    world.kafka.heal(0)
    world.kafka.deaf = set()
    world.kafka.copies_per_tick = 2
    world.until_phase("Succeeded")
    assert held(world) == []
    assert world.run().status.deleted_topics == ()


def test_a_topic_that_the_operator_may_not_see_any_more_is_not_deleted() -> None:
    """No broker's metadata has it, and brokers list its replicas."""
    world = approved(several(copies=0))
    world.until(lambda: copying(world), seconds=1.0)
    hides = world.kafka._answers
    writes = len(world.kafka.writes)

    def without_it(brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        return {b: _hidden(a) if isinstance(a, BrokerView) else a for b, a in hides(brokers).items()}

    world.kafka._answers = without_it  # type: ignore[method-assign]
    for _ in range(10):
        world.step()
    run = world.run()
    assert run.status.deleted_topics == ()
    assert run.status.phase == "Blocked"
    assert f"whether topic {GOES} was deleted is not known" in run.status.message
    assert len(world.kafka.writes) == writes
    world.kafka._answers = hides  # type: ignore[method-assign]
    world.kafka.copies_per_tick = 2
    world.until_phase("Succeeded")
    assert held(world) == []


def _hidden(view: BrokerView) -> BrokerView:
    states = view.states
    return view if states is None else replace(view, states=states.filter(pc.field("topic") != GOES))


def test_a_topic_that_one_broker_does_not_report_is_not_deleted() -> None:
    kafka = SimKafka(racks=dict.fromkeys(range(4)))
    before = kafka.image(0).view
    world = approved(several(copies=0))
    world.until(lambda: copying(world), seconds=1.0)
    world.kafka.stale[0] = before
    for _ in range(10):
        world.step()
    assert world.run().status.deleted_topics == ()
    world.kafka.heal(0)
    world.kafka.copies_per_tick = 2
    world.until_phase("Succeeded")
    assert held(world) == []


@pytest.mark.parametrize(("moment", "ends"), [(begun, "Superseded"), (copying, "Succeeded")])
def test_a_run_of_which_every_topic_is_deleted_ends(moment: Moment, ends: str) -> None:
    world = approved(several(copies=0))
    world.until(lambda: moment(world), seconds=1.0)
    for n in range(4):
        world.kafka.delete(f"orders{n}")
    world.kafka.topic("others", [0, 1, 2])
    run = world.until_phase(ends)
    assert run.status.deleted_topics == tuple(f"orders{n}" for n in range(4))
    assert "orders0" in run.status.message
    assert throttles(world) == []


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "recreated"])
def test_killed_at_any_write_to_the_api_server(again: bool) -> None:
    """Before and after the deletion, which comes in the middle of the copies."""
    whole = approved(several())
    moments = Moments(whole)
    whole.wrap_api = lambda _: moments
    whole.operator()
    whole.until(lambda: copied(whole), seconds=1.0)
    goes(whole, again=again)
    writes, began = len(whole.kafka.writes), len(moments.kept)
    whole.to_the_end()
    without_it(whole, again=again, writes=writes)
    for told, world in moments.worlds(range(began, len(moments.kept), max(EVERY // 4, 1))):
        world.to_the_end()
        try:
            without_it(world, again=again, writes=writes)
        except AssertionError as problem:
            raise AssertionError(f"{told}: {problem}") from problem
    for told, world in moments.worlds(range(0, began, EVERY)):
        if world.run().status.phase == "AwaitingApproval":
            continue  # its plan is made anew
        if TopicPartition(GOES, 0) in world.kafka.partitions:
            goes(world, again=again)
        world.to_the_end()
        assert (told, world.run().status.phase) == (told, "Succeeded")
        assert held(world) == ([f"{GOES}-0"] if again else [])
        assert throttles(world) == []


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "recreated"])
@pytest.mark.parametrize("at_end", [False, True], ids=["copying", "electing"])
def test_raised_factors(again: bool, at_end: bool) -> None:
    """The orders and the elections that follow the copies leave the topic out, too."""
    kafka = SimKafka()
    for n in range(4):
        kafka.topic(f"orders{n}", [0], [0], size=1_000_000)
        kafka.dynamic["TOPIC", f"orders{n}", MIN_ISR] = "1"
    world = World(kafka)
    world.install(brokers=BROKERS, remediation=QUIET)
    world.with_pods()
    world.ask("raise-replication-factor")
    world.approve(world.until_phase("AwaitingApproval"))
    if at_end:
        world.until(lambda: all(len(p.isr) == 3 for p in kafka.partitions.values()), seconds=1.0)
    else:
        world.until(lambda: any(p.adding for p in kafka.partitions.values()), seconds=1.0)
    kafka.delete(GOES)
    if again:
        kafka.topic(GOES, [0, 1, 2], [0, 2, 1], size=1_000_000)
    writes = len(kafka.writes)
    step(world, 60)
    run = world.run()
    assert run.status.phase == "Succeeded", (run.status.phase, run.status.message)
    assert TOLD in run.status.message
    assert not [w for w in kafka.writes[writes:] if GOES in w]
    assert all(len(p.isr) == 3 for p in kafka.partitions.values())
    assert throttles(world) == []
    if again:
        assert [kafka.partitions[TopicPartition(GOES, n)].replicas for n in range(2)] == [[0, 1, 2], [0, 2, 1]]


def test_a_broker_that_is_gone_is_replaced_in_what_is_left() -> None:
    world = several(copies=0)
    world.kafka.stop(LAST)
    assert world.pods is not None
    world.pods._put(LAST, ready=False, keep=True)
    world.until(lambda: bool(world.runs()), reconciles=200)
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: TopicPartition(GOES, 0) in world.kafka.partitions and 0 in partition(world), seconds=1.0)
    world.kafka.delete(GOES)
    world.kafka.copies_per_tick = 2
    run = world.until_phase("Succeeded")
    assert TOLD in run.status.message
    assert held(world) == []


def test_a_move_between_log_directories() -> None:
    world = with_volumes()
    world.ask("relieve-disk", brokers="0", freeSharePercent="30")
    run = world.until_phase("AwaitingApproval")
    assert run.status.plan is not None
    moved = sorted(run.status.plan.changed_topics())
    world.approve(run)
    world.until(lambda: bool(world.kafka.futures), seconds=5)
    world.kafka.delete(moved[0])
    for _ in range(30):
        world.step(5.0)
    run = world.run()
    assert run.status.phase == "Succeeded", run.status.message
    assert run.status.deleted_topics == (moved[0],)
    assert not world.kafka.futures
    assert not any("throttled" in key[2] for key in world.kafka.dynamic)
