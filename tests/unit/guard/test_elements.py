"""One bad element stands against what it concerns, and against nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import STORAGE_ERROR, Directory, Element, Source, SourceState, TopicPartition
from kafka_medic.guard.reset_offsets import judge_reset_offsets
from kafka_medic.guard.verdict import Verdict
from tests.unit.cluster import worlds
from tests.unit.guard.restarts import diverged, judged, only, refusals

GOOD, FAILED = Directory("/data/0", None, 100, 40), Directory("/data/1", STORAGE_ERROR)
FOUR = (1, 2, 3, 4)


def partly(name: str, error: str) -> tuple[Source, ...]:
    """That source is known, and could not report everything."""
    return tuple(replace(s, error=error) if s.name == name else s for s in worlds.sources())


def with_failed(broker, *offline, rows=worlds.ROWS, directories=(GOOD, FAILED), **more):
    """A log directory of the broker has failed, with these replicas on it, which are out of the ISR."""
    gone = {TopicPartition(*tp) for tp in offline}
    listed = [
        {**r, "isr": [b for b in r["isr"] if b != broker]} if (r["topic"], r["partition"]) in gone else r for r in rows
    ]
    listed = [{**r, "leader": r["isr"][0] if r["isr"] else -1} for r in listed]
    told = {"directories": directories, "offline_replicas": tuple(sorted(gone))}
    members = tuple(sorted({b for r in listed for b in r["replicas"]}))
    brokers = tuple(worlds.broker(n, **(told if n == broker else {})) for n in members)
    views = tuple(worlds.view(n, listed, members=members) for n in members)
    error = f"broker {broker}, /data/1: {STORAGE_ERROR}"
    changes = {"brokers": brokers, "views": views, "sources": partly("log-dirs", error)}
    return worlds.healthy(rows=listed, **{**changes, **more})


# A failed log directory of another broker


def test_a_failed_directory_elsewhere_stands_against_nobody_whose_partitions_keep_enough():
    """Broker 1's disk fails with orders-0 on it. Of its other replicas one may go, where min.insync.replicas is 1."""
    rows = [
        worlds.partition("orders", 0, (1, 2, 3), minIsr=1),
        worlds.partition("orders", 1, (2, 3, 4)),
        worlds.partition("orders", 2, (3, 4, 1)),
    ]
    snapshot = with_failed(1, ("orders", 0), rows=rows)
    for broker in (2, 3, 4):
        found = judged(snapshot, broker)
        assert found.verdict is Verdict.ALLOW, found.refusals
        told = next(r.message for r in found.reasons if r.guard == "NoOtherBrokerDisturbed")
        assert "except 1 replica on a failed log directory of broker 1" in told


def test_the_replicas_that_are_gone_with_it_count_as_gone():
    snapshot = with_failed(1, ("orders", 0))
    for broker in (2, 3):
        only(snapshot, "IsrStaysAboveMin", Verdict.DENY, "orders-0 would have 1 in sync (required: 2)", broker)


def test_only_what_lies_on_the_failed_directory_is_excused():
    """Out of the ISR for another reason: that broker is catching up, and waited for."""
    rows = [*worlds.ROWS, worlds.partition("spare", 0, (1, 2, 3), isr=[2, 3], leader=2, minIsr=1)]
    snapshot = with_failed(1, ("orders", 0), rows=[{**r, "minIsr": 1} for r in rows])
    only(snapshot, "NoOtherBrokerDisturbed", Verdict.WAIT, "out of the ISR: broker 1 (1 partition)", 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"directories": (GOOD, Directory("/data/1"))}, "broker 1 (1 partition)"),
        ({"directories": (GOOD, Directory("/data/1", "UNKNOWN_SERVER_ERROR"))}, "broker 1 (1 partition)"),
        ({"offline_replicas": None}, "which replicas are on its failed log directory is not known"),
        ({"offline_replicas": ()}, "broker 1 (1 partition)"),
        ({"directories": None}, "broker 1 (1 partition)"),
    ],
)
def test_what_is_not_known_to_be_on_a_failed_directory_is_waited_for(change, words):
    snapshot = with_failed(1, ("orders", 0), rows=[{**r, "minIsr": 1} for r in worlds.ROWS])
    changed = tuple(replace(b, **change) if b.id == 1 else b for b in snapshot.brokers)
    only(replace(snapshot, brokers=changed), "NoOtherBrokerDisturbed", Verdict.WAIT, words, 3)


def test_a_broker_that_is_down_is_disturbed_whatever_its_directories_were():
    snapshot = with_failed(1, ("orders", 0), rows=[{**r, "minIsr": 1} for r in worlds.ROWS])
    down = tuple(replace(b, reachable=False) if b.id == 1 else b for b in snapshot.brokers)
    assert refusals(replace(snapshot, brokers=down), 3)["NoOtherBrokerDisturbed"][0] is Verdict.DENY


def test_two_failed_directories_of_two_brokers():
    rows = [{**r, "minIsr": 1} for r in worlds.ROWS]
    snapshot = with_failed(1, ("orders", 0), rows=rows)
    snapshot = with_failed(2, ("orders", 0), rows=snapshot.partitions.to_pylist())
    first = replace(worlds.broker(1), directories=(GOOD, FAILED), offline_replicas=(TopicPartition("orders", 0),))
    snapshot = replace(snapshot, brokers=(first, *snapshot.brokers[1:]))
    only(snapshot, "IsrStaysAboveMin", Verdict.DENY, "orders-0 would have 0 in sync (required: 1)", 3)


# The target's own


def test_a_broker_with_a_failed_directory_may_be_restarted_and_that_is_said():
    snapshot = with_failed(1, ("orders", 0))
    found = judged(snapshot, 1)
    assert found.verdict is Verdict.ALLOW, found.refusals
    told = next(r.message for r in found.reasons if r.guard == "TargetMayBeTouched")
    assert "its log directory /data/1 has failed; Kafka starts with the others" in told


def test_a_broker_that_is_alone_in_sync_on_its_failed_directory_is_not_restarted():
    """A new disk would be empty, and it would lead with that."""
    rows = [worlds.partition("orders", 0, (1, 2, 3), isr=[1], minIsr=1), *worlds.ROWS[1:]]
    snapshot = with_failed(1, rows=rows)
    gone = {"directories": (GOOD, FAILED), "offline_replicas": (TopicPartition("orders", 0),)}
    snapshot = replace(snapshot, brokers=(worlds.broker(1, **gone), *snapshot.brokers[1:]))
    assert refusals(snapshot, 1)["IsrStaysAboveMin"][0] is Verdict.DENY


def test_a_broker_whose_every_directory_failed_would_not_start():
    snapshot = worlds.healthy(brokers=worlds.brokers(b2={"directories": (FAILED,), "offline_replicas": ()}))
    only(snapshot, "TargetMayBeTouched", Verdict.DENY, "every log directory of broker 2 has failed")


@pytest.mark.parametrize(("target", "permitted"), [(1, True), (2, False), (3, True)])
def test_directories_that_were_not_told_concern_their_broker_alone(target, permitted):
    unread = {Element("log-dirs", "BROKER", "2"): "Unreachable: no answer"}
    snapshot = worlds.healthy(unread=unread, sources=partly("log-dirs", "broker 2: Unreachable: no answer"))
    assert (judged(snapshot, target).verdict is Verdict.ALLOW) == permitted
    if not permitted:
        only(snapshot, "TargetMayBeTouched", Verdict.UNKNOWN, "log directories are not known: Unreachable", target)


@pytest.mark.parametrize(("registered", "permitted"), [(True, False), (False, True)])
def test_a_registered_broker_that_does_not_answer_may_hold_what_nobody_else_has(registered, permitted):
    """It was stale when it was heard of last, say, and its clients go on writing to it. One that is not registered is
    down, as far as anybody can tell."""
    rows = [{**r, "isr": [b for b in r["isr"] if b != 2], "minIsr": 1} for r in worlds.ROWS]
    rows = [{**r, "leader": r["isr"][0]} for r in rows]
    views = tuple(worlds.view(n, rows, members=(1, 2, 3) if registered else (1, 3)) for n in (1, 3))
    brokers = worlds.brokers(b2={"reachable": False, "registered": registered})
    unread = {Element("log-dirs", "BROKER", "2"): "Unreachable: no answer"}
    snapshot = worlds.healthy(rows=rows, unread=unread, brokers=brokers, views=views)
    found = judged(snapshot, 2)
    assert (found.verdict is Verdict.ALLOW) == permitted, found.refusals
    if not permitted:
        words = "is registered but does not answer, so which records only it holds is not known"
        only(snapshot, "TargetMayBeTouched", Verdict.UNKNOWN, words, 2)


def test_a_document_without_directories_is_as_good_as_before():
    assert all(b.directories is None for b in worlds.healthy().brokers or ())
    assert judged(worlds.healthy()).verdict is Verdict.ALLOW


# Settings, groups, logs of stale leaders


@pytest.mark.parametrize(("target", "permitted"), [(1, True), (2, True), (3, False), (4, False)])
def test_a_topic_whose_settings_are_not_known_concerns_the_brokers_that_hold_it(target, permitted):
    rows = [worlds.partition("orders", 0, (1, 2, 3, 4)), worlds.partition("tmp-123", 0, (3, 4), minIsr=None)]
    rows.append(worlds.partition("orders", 1, (2, 3, 4, 1)))
    brokers, views = tuple(map(worlds.broker, FOUR)), tuple(worlds.view(n, rows, members=FOUR) for n in FOUR)
    unread = {Element("configs", "TOPIC", "tmp-123"): "UnknownTopicOrPartitionError"}
    sources = partly("configs", "topic tmp-123: UnknownTopicOrPartitionError")
    snapshot = worlds.healthy(rows=rows, brokers=brokers, views=views, unread=unread, sources=sources)
    assert (judged(snapshot, target).verdict is Verdict.ALLOW) == permitted
    if not permitted:
        words = "tmp-123-0 (minIsr: UnknownTopicOrPartitionError)"
        only(snapshot, "IsrStaysAboveMin", Verdict.UNKNOWN, words, target)


@pytest.mark.parametrize("source", ["groups", "log-ends", "configs", "log-dirs"])
def test_a_source_that_is_known_in_part_stands_against_nobody_and_one_that_failed_does(source):
    assert judged(worlds.healthy(sources=partly(source, "broker 1: no answer"))).verdict is Verdict.ALLOW
    assert (
        judged(worlds.healthy(sources=worlds.sources(**{source.replace("-", "_"): "refused"}))).verdict
        is not Verdict.ALLOW
    )


def test_the_log_of_a_stale_leader_that_could_not_be_read_stands_against_its_own_restart():
    failed = Source("stale-log-3", worlds.NOW, SourceState.UNKNOWN, "no answer")
    views = (worlds.view(1, told={("orders", 1): (3, 4)}), *(diverged().views or ())[1:])
    snapshot = replace(diverged(), sources=(*worlds.sources(), failed))
    assert judged(replace(snapshot, views=views), 1, cures=frozenset({1, 3})).verdict is Verdict.ALLOW
    only(snapshot, "SourcesFresh", Verdict.UNKNOWN, "stale-log-3 did not answer", 3, cures=frozenset({2, 3}))


ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("unread", "group", "verdict", "words"),
    [
        ({}, "gone", Verdict.DENY, "group gone does not exist or has no committed offsets"),
        ({Element("groups", "BROKER", "2"): "no answer"}, "gone", Verdict.UNKNOWN, "broker 2 did not list its groups"),
        ({Element("groups", "GROUP", "gone"): "no answer"}, "gone", Verdict.UNKNOWN, "no answer"),
        ({Element("groups", "GROUP", "other"): "no answer"}, "gone", Verdict.DENY, "group gone does not exist"),
        ({Element("groups", "BROKER", "2"): "no answer"}, "billing", Verdict.ALLOW, "has no members"),
    ],
)
def test_a_group_that_is_in_no_list_is_not_gone_while_a_list_is_missing(unread, group, verdict, words):
    snapshot = worlds.healthy(groups=worlds.groups(("billing", "Empty", "orders", 0, 90)), unread=unread)
    judgement = judge_reset_offsets(snapshot, group, {ORDERS: 50}, worlds.NOW)
    found = next(r for r in judgement.reasons if r.guard == "GroupEmpty")
    assert found.verdict is verdict
    assert words in found.message
