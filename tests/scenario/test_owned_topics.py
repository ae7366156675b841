"""Topics that have a KafkaTopic: what the Topic Operator would restore is not planned, and who says what is shown."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.resources.remediation import Remediation
from tests.simulation.pods import STRIMZI
from tests.simulation.topic_operator import PAUSE, THROTTLES, TOPICS, SimTopicOperator
from tests.simulation.world import BROKERS, NO_ELECTIONS, World, factor_one_cluster

MIN_ISR = "min.insync.replicas"
PATCH = '{"spec":{"replicas":3,"config":{"min.insync.replicas":2}}}'
SELECTOR = {"podSelector": {"matchLabels": {"strimzi.io/cluster": "kafka"}}, "restart": "StrimziAnnotation"}


def strimzi(*owned: str, topic_operator: dict[str, Any] | None = None, **how: Any) -> World:
    """The incident on a cluster of Strimzi's, where nothing but factors is amiss; these topics have a KafkaTopic."""
    world = World(factor_one_cluster())
    world.install(brokers={**BROKERS, **SELECTOR}, remediation=NO_ELECTIONS, **how)
    world.with_pods(STRIMZI)
    acting = world.with_topic_operator(**(topic_operator or {}))
    for name in owned:
        acting.create(name)
    return world


def topic_operator(world: World) -> SimTopicOperator:
    assert world.topic_operator is not None
    return world.topic_operator


def kafka_topic(world: World, name: str, *, topic: str | None = None, **meta: Any) -> str:
    return topic_operator(world).create(name, topic=topic, **meta)


def stored(world: World, name: str = "orders") -> dict[str, Any]:
    return world.api.objects[f"{TOPICS}/{name}"]


def paused(world: World, name: str = "orders") -> bool:
    return PAUSE in (stored(world, name)["metadata"].get("annotations") or {})


def as_person(world: World, name: str = "orders", *, pause: str | None = "true", **spec: Any) -> None:
    """kubectl annotate and kubectl patch."""
    body: dict[str, Any] = {"metadata": {"annotations": {PAUSE: pause}}}
    world.api.merge(f"{TOPICS}/{name}", body | ({"spec": spec} if spec else {}))


def without_right(world: World) -> None:
    """As the chart leaves it unless strimzi.topics is edit."""
    world.api.rules = [{"verbs": ["*"], "apiGroups": [""], "resources": ["*"]}]


def setting(world: World, name: str, topic: str = "orders") -> str | None:
    return world.kafka.dynamic.get(("TOPIC", topic, name))


def raising(world: World) -> Remediation:
    return next(r for r in world.runs() if r.spec.playbook.name == "raise-replication-factor")


def approved(world: World) -> Remediation:
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    return run


def unthrottled(world: World) -> set[str]:
    """Topics that are copied at this moment, and not throttled."""
    moving = {tp.topic for tp in world.kafka.reassignments()}
    return {t for t in moving if not all(setting(world, name, t) for name in THROTTLES)}


def finding(world: World) -> dict[str, Any] | None:
    found = world.cluster()["status"].get("findings", [])
    return next((f for f in found if f["type"] == "TopicOwnedElsewhere"), None)


def planned(world: World) -> set[str]:
    plan = world.until_phase("AwaitingApproval").status.plan
    assert plan is not None
    moved = {c["topic"] for c in plan.to_kubernetes()["changes"]}
    return moved | {c["resourceName"] for c in plan.to_kubernetes()["configChanges"]}


def test_an_owner_is_paused_given_what_is_so_and_resumed_and_never_acts_against_the_run():
    world = strimzi("orders", "payments")
    world.kafka.copies_per_tick = 1
    run = approved(world)
    plan = run.status.plan
    assert plan is not None
    assert f"kubectl patch kafkatopic orders -n ns --type merge -p '{PATCH}'" in plan.summary
    assert [s.name for s in plan.steps][:2] == ["pause-owners", "add-replicas"]
    while raising(world).status.phase != "Succeeded":
        assert raising(world).status.phase in {"AwaitingApproval", "Approved", "Running", "Verifying"}
        world.step(15)
        assert unthrottled(world) == set()
    assert topic_operator(world).acted == []
    for name in ("orders", "payments"):
        assert not paused(world, name)
        assert stored(world, name)["spec"] == {
            "partitions": len([tp for tp in world.kafka.partitions if tp.topic == name]),
            "replicas": 3,
            "config": {MIN_ISR: 2},
        }
        assert stored(world, name)["status"]["conditions"][0] == {"type": "Ready", "status": "True"}
    for _ in range(40):
        world.step(15)
    assert topic_operator(world).acted == [], "nothing is put back afterwards"
    assert (setting(world, MIN_ISR), setting(world, MIN_ISR, "payments")) == ("2", "2")
    assert len(world.runs()) == 1


def test_a_plan_without_owners_has_no_step_for_them():
    world = strimzi()
    plan = world.until_phase("AwaitingApproval").status.plan
    assert plan is not None
    names = [s.name for s in plan.steps]
    assert names == ["add-replicas", "set-min-insync-replicas", "change-order", "elect"]
    assert "ownedTopics" not in plan.to_kubernetes()


def test_without_the_right_people_pause_edit_and_resume_and_the_run_waits_for_each():
    world = strimzi("orders", "payments")
    without_right(world)
    first = approved(world)
    assert first.status.plan is not None
    assert "a person must pause their owners: orders (KafkaTopic orders), payments" in first.status.plan.summary
    world.until(lambda: raising(world).status.phase == "Succeeded", reconciles=100)
    world.until(lambda: len(world.runs()) == 2)
    second = approved(world)
    for _ in range(20):
        world.step(15)
    waits = next(r for r in world.runs() if r.name == second.name)
    assert waits.status.phase == "Approved", "it has not begun, and holds up nobody"
    assert "kubectl annotate kafkatopic orders -n ns strimzi.io/pause-reconciliation=true" in waits.status.message
    assert world.kafka.reassignments() == {}
    for name in ("orders", "payments"):
        as_person(world, name)
    now = lambda: next(r for r in world.runs() if r.name == second.name)  # noqa: E731
    world.until(
        lambda: "waits for you" in now().status.message and now().status.current_step == "return-to-owners", 100
    )
    assert f"--type merge -p '{PATCH}'" in now().status.message
    assert paused(world), "nobody but people take their pause off"
    for name in ("orders", "payments"):
        as_person(world, name, replicas=3, config={MIN_ISR: 2})
    world.step(15)
    world.until(lambda: "strimzi.io/pause-reconciliation-" in now().status.message)
    for name in ("orders", "payments"):
        as_person(world, name, pause=None)
    world.until(lambda: now().status.phase == "Succeeded", reconciles=100)
    assert topic_operator(world).acted == []


def test_what_git_keeps_is_never_edited_though_the_operator_may():
    world = strimzi()
    kafka_topic(world, "orders", labels={"kustomize.toolkit.fluxcd.io/name": "shop"})
    run = approved(world)
    assert run.status.plan is not None
    assert "a person must pause their owners: orders" in run.status.plan.summary
    world.until(lambda: raising(world).status.phase == "Succeeded", reconciles=100)
    world.until(lambda: len(world.runs()) == 2)
    (topic,) = approved(world).status.plan.to_kubernetes()["ownedTopics"]  # type: ignore[union-attr]
    assert (topic["by"], topic["reason"]) == ("Person", "Flux reverts it to Git's value; change it in Git")
    for _ in range(10):
        world.step(15)
    assert not paused(world)


def test_one_that_a_person_has_paused_is_edited_and_stays_paused():
    world = strimzi("orders")
    as_person(world)
    approved(world)
    world.until(lambda: raising(world).status.phase == "Succeeded", reconciles=100)
    assert paused(world)
    assert stored(world)["spec"]["replicas"] == 3


def test_a_pause_that_is_taken_off_while_copying_holds_the_run_and_the_throttle_is_set_again():
    world = strimzi("orders")
    world.kafka.copies_per_tick = 0
    approved(world)
    world.until(lambda: bool(world.kafka.reassignments()))
    as_person(world, pause=None)
    topic_operator(world).look()
    assert unthrottled(world) == {"orders"}
    world.step(1)
    assert unthrottled(world) == set(), "set again in the next reconcile"
    said = [message for reason, message in world.api.events if reason == "Effect"]
    assert any(
        "another client removed the throttle of topic orders during the copy; KafkaTopic orders acts on it" in m
        for m in said
    )
    world.step(15)
    topic_operator(world).look(everything=True)  # two minutes later
    assert unthrottled(world) == {"orders"}
    world.step(1)
    world.step(15)
    run = raising(world)
    assert unthrottled(world) == set()
    assert run.status.phase == "Paused"
    assert "removed the throttle more than once" in run.status.message
    world.kafka.copies_per_tick = 9
    as_person(world)
    world.until(lambda: raising(world).status.phase == "Succeeded", reconciles=200)
    assert setting(world, MIN_ISR) == "2"
    assert stored(world)["spec"]["replicas"] == 3
    assert not paused(world), "what the run owes it takes off, whoever put it on again"


def test_a_kafkatopic_that_is_made_in_the_middle_holds_the_next_step():
    world = strimzi()
    world.kafka.copies_per_tick = 0
    approved(world)
    world.until(lambda: bool(world.kafka.reassignments()))
    kafka_topic(world, "orders")
    world.kafka.copies_per_tick = 9
    world.until(lambda: raising(world).status.current_step == "set-min-insync-replicas", 100)
    for _ in range(5):
        world.step(15)
    run = raising(world)
    assert run.status.phase == "Blocked"
    assert [w.guard for w in run.status.waiting_for] == ["OwnersPaused"]
    assert "the owner of orders (KafkaTopic orders) acts" in run.status.message
    assert setting(world, MIN_ISR) == "1"


@pytest.mark.parametrize("step", ["pause-owners", "add-replicas", "set-min-insync-replicas", "return-to-owners"])
@pytest.mark.parametrize("cruise_control", [False, True])
def test_an_aborted_run_leaves_no_pause_and_no_owner_that_takes_replicas_away(step, cruise_control):
    world = strimzi("orders", "payments", topic_operator={"cruise_control": cruise_control})
    world.kafka.copies_per_tick = 1
    run = approved(world)
    if step == "pause-owners":
        topic_operator(world).down = True
    world.until(lambda: raising(world).status.current_step == step, 100)
    topic_operator(world).down = False
    world.approve(run, decision="Reject")
    world.until(lambda: raising(world).status.phase == "Aborted", 60)
    assert not paused(world)
    assert not paused(world, "payments")
    before = {tp: tuple(p.replicas) for tp, p in world.kafka.partitions.items()}
    without_right(world)
    for _ in range(20):
        topic_operator(world).look(everything=True)
    assert {tp: tuple(p.replicas) for tp, p in world.kafka.partitions.items()} == before
    assert {tp for tp, p in world.kafka.partitions.items() if len(p.isr) < len(p.replicas)} == set()
    assert not any(setting(world, name) for name in THROTTLES)


@pytest.mark.parametrize("value", [" 1", "none", "²"])
def test_a_setting_that_somebody_adds_meanwhile_in_other_words_keeps_no_pause(value):
    world = strimzi()
    stored_spec = world.api.objects[kafka_topic(world, "orders")]["spec"]
    del world.kafka.dynamic["TOPIC", "orders", MIN_ISR], stored_spec["config"][MIN_ISR]
    world.kafka.dynamic["BROKER", "", MIN_ISR] = "1"
    run = approved(world)
    world.until(lambda: raising(world).status.current_step == "add-replicas", 100)
    as_person(world, config={MIN_ISR: value})
    world.until(lambda: raising(world).status.current_step == "return-to-owners", 100)
    world.step(15)
    world.approve(run, decision="Reject")
    world.until(lambda: raising(world).status.finished_at is not None, 60)
    assert not paused(world)
    assert stored(world)["spec"]["config"][MIN_ISR] == value


def test_an_owner_whose_setting_is_no_number_is_left_out_with_why():
    world = strimzi("orders", "payments")
    world.api.touch(f"{TOPICS}/orders")["spec"]["config"] = {MIN_ISR: " 1"}
    world.kafka.dynamic["TOPIC", "orders", MIN_ISR] = "1"
    topic_operator(world).down = True
    plan = world.until_phase("AwaitingApproval").status.plan
    assert plan is not None
    assert "because min.insync.replicas of their owner's object is not a number: orders" in plan.summary


def test_what_was_undone_before_the_end_is_no_success_and_counts_for_the_breaker():
    world = strimzi("orders")
    approved(world)
    world.until(lambda: raising(world).status.current_step == "return-to-owners", 100)
    world.until(lambda: not paused(world))
    as_person(world, pause=None, config={MIN_ISR: 1})  # Git, say, has put it back
    world.until(lambda: raising(world).status.finished_at is not None, 30)
    run = raising(world)
    assert run.status.phase == "Failed"
    assert "the run's changes were reverted" in run.status.message
    assert not paused(world)


def test_a_topic_that_two_objects_describe_is_left_out_with_both_named():
    world = strimzi("orders", "payments")
    kafka_topic(world, "orders-too", topic="orders")
    plan = world.until_phase("AwaitingApproval").status.plan
    assert plan is not None
    assert "orders" not in {c["topic"] for c in plan.to_kubernetes()["changes"]}
    assert (
        "because several objects describe the topic: orders (KafkaTopic orders, KafkaTopic orders-too)" in plan.summary
    )


def test_a_plan_for_topics_with_the_longest_names_fits_into_its_object():
    kafka = factor_one_cluster()
    topics = [f"{n:02}-{'x' * 246}" for n in range(40)]
    for topic in topics:
        kafka.topic(topic, [1])
        kafka.dynamic["TOPIC", topic, MIN_ISR] = "1"
    world = World(kafka)
    world.install(brokers={**BROKERS, **SELECTOR}, remediation=NO_ELECTIONS)
    world.with_pods(STRIMZI)
    world.with_topic_operator()
    for topic in topics:
        kafka_topic(world, f"{topic[:2]}-{'y' * 250}", topic=topic)
    for topic in topics[22:]:
        kafka_topic(world, f"{topic[:2]}-{'z' * 250}", topic=topic)
    plan = world.until_phase("AwaitingApproval").status.plan
    assert plan is not None
    assert len({c["topic"] for c in plan.to_kubernetes()["changes"]}) >= 22
    assert len(plan.summary) <= 32768


def test_an_object_that_asks_for_more_than_the_plan_is_not_lowered():
    world = strimzi("orders")
    as_person(world, config={MIN_ISR: 3})
    approved(world)
    world.until(lambda: raising(world).status.phase == "Succeeded", reconciles=100)
    assert stored(world)["spec"]["replicas"] == 3
    assert stored(world)["spec"]["config"] == {MIN_ISR: 3}


def test_a_pause_that_a_person_sets_after_the_approval_is_not_the_runs_to_take_off():
    world = strimzi("orders", "payments")
    approved(world)
    as_person(world, "payments")
    for _ in range(6):
        world.step(15)
    assert "was paused by another client since the plan" in str(raising(world).status.conditions)
    assert raising(world).status.phase == "AwaitingApproval"


def test_an_operator_of_topics_that_is_down_is_waited_for():
    world = strimzi("orders", topic_operator={})
    run = approved(world)
    topic_operator(world).down = True
    for _ in range(20):
        world.step(15)
    assert "has not yet confirmed the pause of KafkaTopic orders" in raising(world).status.message
    assert world.kafka.reassignments() == {}
    topic_operator(world).down = False
    world.until(lambda: raising(world).status.phase == "Succeeded", reconciles=100)
    assert run.name == raising(world).name


def test_the_finding_has_the_edit_and_who_keeps_the_object():
    world = strimzi()
    kafka_topic(world, "my-orders", topic="orders", labels={"argocd.argoproj.io/instance": "shop"})
    for _ in range(8):
        world.step(15)
    found = finding(world)
    assert found is not None
    assert (found["state"], found["affected"]) == ("Firing", ["orders"])
    patch = '{"spec":{"replicas":3,"config":{"min.insync.replicas":2}}}'
    assert f"kubectl patch kafkatopic my-orders -n ns --type merge -p '{patch}'" in found["evidence"]
    assert "edit them in Git: Argo CD applies them from there" in found["evidence"]


def test_an_owner_that_agrees_and_topics_of_which_nothing_is_expected_are_no_finding():
    world = strimzi(expectations={"topics": [{"pattern": "payments", "exempt": True}]})
    kafka_topic(world, "payments")
    agrees = world.api.objects[kafka_topic(world, "orders")]
    agrees["spec"] |= {"replicas": 3, "config": {"min.insync.replicas": 2}}
    for _ in range(8):
        world.step(15)
    assert finding(world) is None


def test_an_owner_whose_topic_is_not_managed_holds_nothing_up_and_is_not_edited():
    world = strimzi()
    kafka_topic(world, "orders", annotations={"strimzi.io/managed": "false"})
    assert planned(world) == {"orders", "payments", "__consumer_offsets"}
    plan = world.run().status.plan
    assert plan is not None
    assert "ownedTopics" not in plan.to_kubernetes()


def test_owners_that_cannot_be_read_hold_every_change_of_topics_up():
    world = strimzi()
    listed = world.api.list

    def refuses(path: str, query: Any = None) -> Any:
        if path == TOPICS:
            raise ApiFailure(403, "kafkatopics.kafka.strimzi.io is forbidden")
        return listed(path, query)

    world.api.list = refuses  # type: ignore[method-assign]
    for _ in range(8):
        world.step(15)
    run = next(r for r in world.runs() if r.spec.playbook.name == "raise-replication-factor")
    assert run.status.phase == "Planning"
    assert "topic-owners: AuthorizationFailed" in run.status.message or "is forbidden" in run.status.message
