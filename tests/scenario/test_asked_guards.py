"""What an action says that it demands is what is asked before its effects, seen in runs of every action. What a
playbook adds is asked as well, and one that nobody would ask is refused."""

from __future__ import annotations

import functools
from collections import defaultdict
from dataclasses import dataclass, replace
from unittest.mock import ANY

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook import engine, execution, guards
from kafka_medic.playbook.acceptance import check
from kafka_medic.playbook.action import StepContext
from kafka_medic.playbook.effects import Intent
from kafka_medic.playbook.registry import ACTIONS
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.vocabulary import ActionName, Guard, VerifyProbe
from tests.scenario import offset_worlds, test_stopped_consumers
from tests.scenario.test_leftover_throttles import LEFT, SimKafka
from tests.simulation.scenarios import Prefix
from tests.simulation.world import BASE, World, shipped_playbooks
from tests.unit.cluster import worlds

SCENARIOS = ("raise", "stale", "offsets", "defaults", "drain", "owned", "leaving-broker", "volumes")
"""Between them and the worlds below, they carry out every action."""
BORROWED = {
    # Before it starts, the restart that it is for is asked about.
    ActionName.RESCUE_RECORDS: ACTIONS[ActionName.RESTART_BROKERS].asked,
    # So is the copying that owners are paused for.
    ActionName.PAUSE_OWNERS: ACTIONS[ActionName.REASSIGN_PARTITIONS].asked,
}
NOTHING_KNOWN = replace(
    worlds.healthy(), brokers=None, partitions=None, views=None, quorum=None, controller=None, rollouts=None
)
ONLY_BEFORE_THE_START = {Guard.WITHIN_LIMITS}


@dataclass(frozen=True)
class Asked:
    action: ActionName
    intent: Intent | None
    reasons: tuple[Reason, ...]

    @property
    def guards(self) -> set[Guard]:
        return {r.guard for r in self.reasons}


def stopped() -> World:
    world = test_stopped_consumers.arrange()
    world.ask("reset-offsets-of-workload", workload="Deployment/shop", groups="billing")
    world.approve(world.until_phase("AwaitingApproval"))
    test_stopped_consumers.settled(world)
    return world


def undone() -> World:
    world = offset_worlds.asked_for()
    world.to_the_end()
    world.ask("undo-offset-reset", remediation=world.run().name)
    world.approve(world.until_phase("AwaitingApproval"))
    world.to_the_end()
    return world


def unthrottled() -> World:
    kafka = SimKafka()
    kafka.topic("orders", [0, 1, 2], [1, 2, 0])
    kafka.dynamic |= LEFT
    world = World(kafka)
    world.install()
    world.ask("remove-leftover-throttles")
    world.to_the_end()
    return world


@functools.cache
def recorded() -> tuple[Asked, ...]:
    found: list[Asked] = []

    def asking(run, context, intent=None):
        reasons = guards.forward_reasons(run, context, intent)
        plan = run.status.plan
        step = guards._due(run, plan)
        found.append(Asked(next(s.action for s in plan.steps if s.name == step), intent, reasons))
        return reasons

    def giving_back(run, context, *, giving_up):
        reasons = guards.restoring_reasons(run, context, giving_up=giving_up)
        action = next(s.action for s in run.status.plan.steps if s.name == guards._due(run, run.status.plan))
        if ACTIONS[action].gives_back and not giving_up:
            found.append(Asked(action, ANY, reasons))
        return reasons

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "restoring_reasons", giving_back)
        patch.setattr(engine, "forward_reasons", asking)
        patch.setattr(execution, "forward_reasons", asking)
        for scenario in SCENARIOS:
            Prefix(scenario).to_the_end()
        for world in (stopped, undone, unthrottled):
            assert "Succeeded" in {r.status.phase for r in world().runs()}, world
    return tuple(found)


@pytest.mark.parametrize("action", ACTIONS.values(), ids=lambda a: a.name)
def test_what_an_action_declares_is_asked_before_each_of_its_effects(action):
    asked = [a for a in recorded() if a.action is action.name]
    effects = [a for a in asked if a.intent is not None]
    assert effects, "it is never carried out here"
    for one in effects:
        assert action.asked - ONLY_BEFORE_THE_START <= one.guards, (one.intent, action.asked - one.guards)


@pytest.mark.parametrize("action", ACTIONS.values(), ids=lambda a: a.name)
def test_what_is_asked_for_an_action_is_declared(action):
    seen = defaultdict(set)
    for one in recorded():
        seen[one.action] |= one.guards
    assert seen[action.name] <= action.asked | BORROWED.get(action.name, frozenset())
    assert action.asked - ONLY_BEFORE_THE_START <= seen[action.name]


def test_every_guard_of_the_vocabulary_is_asked_by_some_action_or_can_be_added():
    assert set(Guard) == {g for a in ACTIONS.values() for g in a.asked | a.addable}


def book(action: ActionName, **step) -> Playbook:
    """The first shipped playbook that has such a step, with that step changed."""
    raw = next(p for p in shipped_playbooks() if action in [s["action"] for s in p["spec"]["steps"]])
    steps = [s | step if s["action"] == action else s for s in raw["spec"]["steps"]]
    return Playbook.parse(raw | {"spec": raw["spec"] | {"steps": steps}})


@pytest.mark.parametrize("action", ACTIONS.values(), ids=lambda a: a.name)
def test_each_guard_is_named_for_nothing_or_added_or_refused(action):
    for guard in Guard:
        playbook = book(action.name, guards=[guard.value])
        place = [s.action for s in playbook.spec.steps].index(action.name)
        if guard in action.asked | action.addable:
            check(playbook)
            continue
        with pytest.raises(ResourceError) as refused:
            check(playbook)
        (problem,) = refused.value.problems
        assert problem.path == f"spec.steps[{place}].guards"
        assert guard.value in problem.message
        assert all(g.value in problem.way_out for g in action.addable)


@pytest.mark.parametrize("action", ACTIONS.values(), ids=lambda a: a.name)
def test_each_probe_is_taken_or_refused(action):
    for probe in VerifyProbe:
        playbook = book(action.name, verify={"probe": probe.value, "within": "10m"})
        place = [s.action for s in playbook.spec.steps].index(action.name)
        if probe in action.probes:
            check(playbook)
            continue
        with pytest.raises(ResourceError) as refused:
            check(playbook)
        (problem,) = refused.value.problems
        assert problem.path == f"spec.steps[{place}].verify.probe"
        assert problem.way_out == f"write {' or '.join(p.value for p in action.probes)}"


def test_every_action_has_a_probe_of_its_own_and_every_probe_an_action():
    assert {a.probe for a in ACTIONS.values()} | {VerifyProbe.FINDING_GONE} == set(VerifyProbe)


@pytest.mark.parametrize("action", ACTIONS.values(), ids=lambda a: a.name)
def test_what_is_added_is_asked_and_can_refuse(action):
    """Each in a snapshot in which nothing is known."""
    playbook = book(action.name, guards=[g.value for g in Guard if g in action.asked | action.addable])
    step = next(s for s in playbook.spec.steps if s.action is action.name)

    class Context:
        snapshot = NOTHING_KNOWN
        now = snapshot.taken_at

    class Run:
        class status:  # noqa: N801
            phase = Phase.RUNNING

    context = Context()
    alone = playbook.model_copy(update={"spec": playbook.spec.model_copy(update={"steps": (step,)})})
    context.playbook = alone
    plan = Plan(digest="sha256:" + "0" * 64, proposed_at=context.now, expires_at=context.now)
    found = guards._added(StepContext(Run(), plan, context, step.name), action)
    assert {r.guard for r in found if r.verdict is Verdict.UNKNOWN} >= action.addable
    assert {r.guard for r in found} - {Guard.SOURCES_FRESH} == action.addable


def test_nothing_is_stopped_while_a_guard_of_the_reset_would_refuse():
    """Consumers would stay stopped for as long as the guard refuses."""
    raw = next(p for p in shipped_playbooks() if p["metadata"]["name"] == "reset-offsets-of-workload")
    stricter = {"guards": [Guard.PODS_READY_NODE_SCHEDULABLE.value]}
    steps = [s | stricter if s["action"] == "ResetOffsets" else s for s in raw["spec"]["steps"]]
    playbook = Playbook.parse(raw | {"spec": raw["spec"] | {"steps": steps}})
    workload = {"kind": "Deployment", "name": "w", "uid": "u", "replicas": 2}
    offset = {"group": "g", "topic": "t", "partition": 0, "before": 1, "after": 0}
    raw = {"digest": "sha256:" + "0" * 64, "proposedAt": worlds.NOW, "expiresAt": worlds.NOW}
    plan = Plan.model_validate({**raw, "workload": workload, "offsets": [offset]})

    class Run:
        class status:  # noqa: N801
            phase = Phase.RUNNING

    class Context:
        snapshot = NOTHING_KNOWN
        now = snapshot.taken_at

    context = Context()
    context.playbook = playbook
    first = playbook.spec.steps[0]
    found = guards._added(StepContext(Run(), plan, context, first.name), ACTIONS[first.action])
    assert first.action is ActionName.STOP_CONSUMERS
    assert Guard.PODS_READY_NODE_SCHEDULABLE in {r.guard for r in found}


def test_an_added_guard_holds_a_run_up_and_lets_it_go_on():
    """An election itself does not mind a follower that is out of sync and is not preferred."""
    world = World(one_behind())
    world.install(remediation={"limits": {"cooldown": "0s"}})
    raw = world.api.get(f"{BASE}/playbooks/elect-preferred-leaders")
    raw["spec"]["steps"][0]["guards"] = ["NoOtherBrokerDisturbed"]
    world.api.put(f"{BASE}/playbooks", raw)
    world.ask("elect-preferred-leaders")
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    for _ in range(5):
        world.step()
    assert world.kafka.writes == []
    assert {w.guard for w in world.run().status.waiting_for} == {Guard.NO_OTHER_BROKER_DISTURBED}
    world.kafka.copies_per_tick = 100
    world.kafka.partitions[TopicPartition("slow", 0)].isr.append(2)
    world.until_phase("Succeeded")
    assert world.kafka.writes


def one_behind() -> SimKafka:
    kafka = SimKafka()
    kafka.topic("orders", *([[0, 1, 2]] * 4))
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    for part in kafka.partitions.values():
        part.elect(1)
    kafka.topic("slow", [1, 0, 2])
    kafka.partitions[TopicPartition("slow", 0)].isr.remove(2)
    kafka.copies_per_tick = 0
    return kafka
