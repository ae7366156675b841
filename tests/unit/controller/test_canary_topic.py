"""The canary's topic is left with one partition led by each broker, and is touched only when nothing else goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import ConfigValue, Rollout, TopicPartition
from kafka_medic.controller.canary_topic import (
    MARKER,
    Add,
    Create,
    Elect,
    Place,
    hindrances,
    next_change,
    receivers,
    recognised,
)
from tests.unit.cluster import worlds

TOPIC = "kafka-medic-canary"
OTHERS = worlds.ROWS


def canary(*rows, **changes):
    mine = [worlds.partition(TOPIC, number, ids, **more) for number, (ids, more) in enumerate(rows)]
    return worlds.healthy(rows=[*OTHERS, *mine], **changes)


EVEN = (((1, 2, 3), {}), ((2, 3, 1), {}), ((3, 1, 2), {}))


def change(snapshot, factor=3, min_isr=2):
    assert hindrances(snapshot, TOPIC) == ()
    return next_change(snapshot, TOPIC, factor, min_isr)


def test_it_is_made_with_a_partition_for_each_broker_across_racks():
    made = change(canary())
    assert isinstance(made, Create)
    assert [ids[0] for ids in made.assignment] == [1, 2, 3]
    assert all(sorted(ids) == [1, 2, 3] for ids in made.assignment)
    assert made.configs["min.insync.replicas"] == "2"
    assert {k: v for k, v in made.configs.items() if k in MARKER} == MARKER


@pytest.mark.parametrize(("factor", "min_isr", "wanted"), [(5, 2, "2"), (3, 3, "2"), (2, 2, "1"), (1, 1, "1")])
def test_min_isr_always_leaves_room_for_one_broker_down(factor, min_isr, wanted):
    made = change(canary(), factor, min_isr)
    assert isinstance(made, Create)
    assert made.configs["min.insync.replicas"] == wanted
    assert {len(ids) for ids in made.assignment} == {min(factor, 3)}


def test_replicas_avoid_the_leaders_rack_while_there_is_another():
    racks = {"b1": {"rack": "a"}, "b2": {"rack": "a"}, "b3": {"rack": "b"}}
    made = change(canary(brokers=worlds.brokers(**racks)), factor=2)
    assert isinstance(made, Create)
    assert made.assignment[0] == (1, 3)
    assert made.assignment[1] == (2, 3)


def test_one_led_by_each_broker_is_left_alone():
    assert change(canary(*EVEN)) is None


def test_a_leader_that_moved_is_elected_back_to_its_preferred_replica():
    moved = (EVEN[0], ((2, 3, 1), {"leader": 3}), EVEN[2])
    assert change(canary(*moved)) == Elect((TopicPartition(TOPIC, 1),))
    lagging = (EVEN[0], ((2, 3, 1), {"leader": 3, "isr": [3, 1]}), EVEN[2])
    assert change(canary(*lagging)) is None, "its preferred replica is still catching up"


def test_a_new_broker_gets_a_partition_of_its_own():
    assert change(canary(EVEN[0], EVEN[1])) == Add(3, ((3, 1, 2),))


def test_as_many_partitions_as_brokers_led_by_too_few_are_placed_anew():
    placed = change(canary(EVEN[0], EVEN[1], ((1, 2, 3), {})))
    assert placed == Place(((TopicPartition(TOPIC, 2), (3, 1, 2)),))


@pytest.mark.parametrize(
    ("made", "receives"),
    [
        (Create(((1, 2), (2, 1)), {}), {1, 2}),
        (Add(4, ((2, 3),)), {2, 3}),
        (Place(((TopicPartition(TOPIC, 0), (2, 1, 3)),)), {1, 2, 3}),
        (Elect((TopicPartition(TOPIC, 1),)), {1, 2, 3}),
    ],
)
def test_every_broker_that_a_change_concerns_has_to_be_fit(made, receives):
    assert receivers(made, canary(*EVEN), TOPIC) == receives


def test_a_broker_that_left_for_good_is_taken_out():
    rows = [
        worlds.partition("orders", 0, (1, 2)),
        *(worlds.partition(TOPIC, n, ids) for n, (ids, _) in enumerate(EVEN)),
    ]
    brokers = worlds.brokers(b3={"registered": False, "reachable": None, "pod": None})
    views = tuple(worlds.view(n, rows, members=(1, 2)) for n in (1, 2))
    gone = worlds.healthy(rows=rows, brokers=brokers, views=views)
    placed = change(gone, factor=3)
    assert isinstance(placed, Place)
    assert [(tp.partition, sorted(ids)) for tp, ids in placed.targets] == [(0, [1, 2]), (1, [1, 2]), (2, [1, 2])]
    assert [ids[0] for _, ids in placed.targets][:2] == [1, 2]

    down = worlds.healthy(rows=[*rows, worlds.partition("other", 0, (3, 1))], brokers=brokers, views=views)
    assert hindrances(down, TOPIC) != (), "another partition still waits for it: it is down"
    unseen = replace(gone, sources=worlds.sources(kubernetes="refused"))
    assert hindrances(unseen, TOPIC) != (), "whether it has a Pod is not known"
    silent = replace(gone, unplaced=(worlds.pod(3),))
    assert hindrances(silent, TOPIC) != (), "its Pod may be the one that has not answered"


def test_it_is_not_touched_while_a_broker_may_run_in_a_pod_that_is_about_to_go():
    unknown = worlds.brokers(b3={"pod": None})
    told = hindrances(canary(*EVEN, brokers=unknown, unplaced=(worlds.pod(3, cordoned=True),)), TOPIC)
    assert told == ("not yet known in which Pods: brokers 3",)
    assert hindrances(canary(*EVEN, unplaced=(worlds.pod(4, ready=False),)), TOPIC) == (), "it runs none of them"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sources": worlds.sources(views="timed out")}, "views is not known"),
        ({"sources": worlds.sources(reassignments="timed out")}, "reassignments is not known"),
        ({"partitions": None}, "not known"),
        ({"brokers": None}, "not known"),
        ({"brokers": worlds.brokers(b2={"registered": False})}, "brokers 2"),
        ({"brokers": worlds.brokers(b2={"reachable": None})}, "brokers 2"),
        ({"brokers": worlds.brokers(b2={"pod": worlds.pod(2, ready=False)})}, "without a Ready Pod: brokers 2"),
        ({"brokers": worlds.brokers(b2={"pod": worlds.pod(2, ready=None)})}, "without a Ready Pod: brokers 2"),
        ({"brokers": worlds.brokers(b2={"pod": worlds.pod(2, cordoned=True)})}, "about to go: brokers 2"),
        ({"brokers": worlds.brokers(b2={"pod": worlds.pod(2, deleting=True)})}, "about to go: brokers 2"),
        ({"rollouts": (Rollout("StatefulSet", "kafka", "1 of 3"),)}, "StatefulSet kafka is being rolled out"),
        ({"views": tuple(worlds.view(n, members=(1, 2) if n == 1 else (1, 2, 3)) for n in (1, 2, 3))}, "disagree"),
    ],
)
def test_it_is_not_touched_while_anything_goes_on(changes, said):
    assert any(said in told for told in hindrances(canary(*EVEN, **changes), TOPIC))


@pytest.mark.parametrize("flight", [{"adding": [9]}, {"removing": [1]}, {"adding": None}, {"removing": None}])
def test_it_is_not_touched_while_anybody_reassigns_anything(flight):
    rows = [worlds.partition("orders", 0, **flight), worlds.partition("orders", 1)]
    assert "a reassignment is in flight" in hindrances(worlds.healthy(rows=rows), TOPIC)


def test_only_a_topic_with_all_our_marks_is_ours():
    marked = {name: ConfigValue(value, True) for name, value in MARKER.items()}
    assert recognised({**marked, "min.insync.replicas": ConfigValue("1", True)})
    for name in MARKER:
        assert not recognised({**marked, name: ConfigValue(MARKER[name], False)})
        assert not recognised({**marked, name: ConfigValue("7", True)})
        assert not recognised({n: v for n, v in marked.items() if n != name})
