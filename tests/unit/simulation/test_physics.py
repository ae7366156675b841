"""What brokers of the simulation do by what they know, and what the oracle holds against an operator that saw it."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_medic.clients.failures import ReadFailed, WriteFailed
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.phases import Phase, may_transition
from tests.simulation.api import SimApi
from tests.simulation.grounds import may_follow
from tests.simulation.kafka import SimKafka
from tests.simulation.log_bounds import log_bounds
from tests.simulation.oracle import Oracle
from tests.simulation.scenarios import prefix
from tests.simulation.stage import Stage

ORDERS, LEDGER = TopicPartition("orders", 0), TopicPartition("ledger", 0)


@pytest.fixture
def kafka() -> SimKafka:
    made = SimKafka(controllers={10, 11, 12}, voted=11)
    made.topic("orders", [0, 1, 2])
    made.topic("ledger", [2, 1, 0])
    return made


def test_the_oracle_imports_nothing_of_the_product():
    """In a process of its own, since this one has it all."""
    script = "import sys, tests.simulation.oracle as o; print([m for m in sys.modules if m.startswith('kafka_medic')])"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


@pytest.mark.parametrize("acted", [False, True])
def test_what_may_follow_what_is_the_same_by_the_oracles_own_rules(acted):
    for before, after in itertools.product([None, *Phase], Phase):
        theirs = may_transition(before, after)
        if acted and before in ("Paused", "Blocked") and after in ("Rejected", "Expired"):
            theirs = False
        assert may_follow(before, after, acted=acted) is theirs, (before, after)


def test_a_broker_serves_what_it_believes_it_leads(kafka):
    kafka.stale[0] = kafka.view()
    kafka.partitions[ORDERS].elect(1)
    assert log_bounds(kafka, {ORDERS: 0})[0] == {ORDERS: (0, 21)}, "a stale leader serves whoever asks it"
    assert kafka.served(ORDERS)
    assert not kafka.follows(0, ORDERS), "and fetches from nobody"
    assert kafka.follows(2, ORDERS)


def test_a_leader_that_does_not_know_it_serves_nobody(kafka):
    kafka.stale[1] = kafka.view()
    kafka.partitions[ORDERS].elect(1)
    assert log_bounds(kafka, {ORDERS: 1})[1] == {}
    assert not kafka.served(ORDERS)
    assert not kafka.follows(2, ORDERS)
    with pytest.raises(WriteFailed):
        kafka.append("orders", 0, [])
    with pytest.raises(ReadFailed):
        kafka.read_topic("orders", 0)
    kafka.heal(1)
    assert log_bounds(kafka, {ORDERS: 1})[1] == {ORDERS: (0, 21)}


def test_only_a_stale_broker_knows_a_topic_that_is_gone(kafka):
    kafka.partitions[LEDGER].epoch = 57
    kafka.stale[2] = kafka.view()
    kafka.delete("ledger")
    assert kafka.own_log_ends(2, [LEDGER]) == {LEDGER: 21}
    assert kafka.own_log_ends(1, [LEDGER]) == {}
    kafka.topic("ledger", [2, 1, 0], end=3)
    assert kafka.partitions[LEDGER].epoch == 0
    assert kafka.own_log_ends(2, [LEDGER]) == {LEDGER: 21}, "its own incarnation's"
    assert kafka.own_log_ends(1, [LEDGER]) == {LEDGER: 3}
    assert not kafka.served(LEDGER), "whose leader does not know it"
    kafka.near = 2
    kafka.topic("newer", [0])
    assert isinstance(kafka.topic_configs(["newer"])["newer"], ReadFailed)
    assert not isinstance(kafka.topic_configs(["newer"], [1])["newer"], ReadFailed)
    kafka.heal(2)
    assert kafka.own_log_ends(2, [LEDGER]) == {LEDGER: 3}


def test_with_zookeeper_a_deletion_waits_for_every_replica(kafka):
    kafka.stale[2] = kafka.view()
    assert kafka.deletable("ledger")
    kafka.zookeeper = True
    assert not kafka.deletable("ledger")


def test_one_that_is_killed_leads_until_its_session_is_over(kafka):
    kafka.kill(0)
    assert kafka.partitions[ORDERS].leader == 0
    assert 0 in kafka.members
    assert not kafka.served(ORDERS)
    kafka.partitions[ORDERS].elect(1)
    assert kafka.elect_preferred([ORDERS]) == {}, "whoever is registered and in the ISR may be elected"
    assert kafka.partitions[ORDERS].leader == 0
    kafka.expire(0)
    assert kafka.partitions[ORDERS].leader == 1
    assert 0 not in kafka.members


def test_a_fenced_broker_joins_no_isr(kafka):
    kafka.fence(2)
    assert kafka.partitions[LEDGER].leader == 1
    assert 2 not in kafka.members
    kafka.tick()
    assert 2 not in kafka.partitions[ORDERS].isr
    kafka.heal(2)
    kafka.tick()
    assert 2 in kafka.partitions[ORDERS].isr


def test_below_min_insync_replicas_the_eligible_ones_are_kept(kafka):
    kafka.elr = True
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    part = kafka.partitions[ORDERS]
    for broker in (2, 1, 0):
        kafka.stop(broker)
    assert (part.leader, part.isr, part.eligible) == (-1, [], [1, 0])
    kafka.start(2)
    assert part.leader == -1, "it may lack what was acknowledged by the others"
    kafka.start(1)
    assert (part.leader, part.isr) == (1, [1])
    kafka.tick()
    assert part.eligible == []


def test_what_brokers_answered_shows_who_is_behind_unless_all_are_alike(kafka):
    oracle = Oracle(kafka, SimApi(), set())
    kafka.stale[2] = before = kafka.view()
    kafka.partitions[ORDERS].elect(1)

    def read() -> tuple[int, set[int]]:
        seen: dict[str, Any] = {}
        oracle.read(SimpleNamespace(seen=seen), "views", ([0, 1, 2],), kafka.views([0, 1, 2]), 0.0)
        _, partitions, _, _, stale, _ = seen["views"]
        return partitions[ORDERS][2], stale

    assert read() == (1, {2})
    kafka.stale |= {0: before, 1: before}
    assert read() == (0, set()), "nobody could have known"


def test_news_may_reach_a_broker_late_and_reaches_it():
    stage = Stage.thaw(prefix("resting").moment(2), 1)
    stage.chance = random.Random(1)
    for number in itertools.count():
        stage._elected(number)
        stage.settle()
        if stage.kafka.lagging:
            break
    stage.pass_time(3.0)
    assert not stage.kafka.lagging
    assert all(stage.kafka.served(tp) for tp in stage.kafka.partitions)


def test_a_request_is_carried_out_after_its_caller_gave_up():
    moment = min(prefix("elect").to_the_end()[1])
    stage = Stage.thaw(prefix("elect").moment(moment), 1)
    stage.aimed.append(["late", "effect", 1, 8.0])
    while not any(what == "arrives" for _, _, what, _ in stage.queue):
        stage.next()
    before = {tp: part.leader for tp, part in stage.kafka.partitions.items()}
    stage.operators.clear()
    stage.queue = [entry for entry in stage.queue if entry[2] == "arrives"]
    stage.next()
    assert before != {tp: part.leader for tp, part in stage.kafka.partitions.items()}
