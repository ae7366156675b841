"""Slow servers, however many there are, do not make an observation so long that its worker counts as stalled."""

from __future__ import annotations

import time

import pytest

from kafka_medic.clients import kafka_admin, kafka_link
from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.kafka_admin import KafkaAdmin
from kafka_medic.clients.ports import LONGEST_TIMEOUT, Connection, EnsembleConnection
from kafka_medic.clients.zookeeper import ZooKeeper
from kafka_medic.controller.__main__ import OBSERVATION_SECONDS
from kafka_medic.controller.compute_budget import COMPUTE_SECONDS
from kafka_medic.controller.fleet import STALLED_SECONDS
from tests.stub_cluster.description import Size, made_up
from tests.stub_cluster.server import Conduct, running

BROKERS, TIMEOUT, OBSERVATION = 12, 1.0, 2.5


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(kafka_link, "OBSERVATION_SECONDS", OBSERVATION)
    monkeypatch.setattr(kafka_admin, "BROKERS_AT_ONCE", 1)


def test_many_brokers_that_hang_cost_the_time_of_one_observation(short):
    with running(made_up(Size(BROKERS, BROKERS), 0)) as stub:
        admin = KafkaAdmin(Connection(stub.cluster.bootstrap, timeout_seconds=TIMEOUT))
        try:
            known = [node.id for node in admin.members().nodes]
            for broker in known[1:]:
                stub.conduct(broker, Conduct.HANGS)
            admin.begin()
            began = time.monotonic()
            told = admin.broker_configs(known[1:])
            assert time.monotonic() - began < OBSERVATION + 2 * TIMEOUT, "11 s without a limit"
            assert all(isinstance(one, ReadFailed) for one in told.values())
            assert "took 2.5 s (limit); the rest was not tried" in str(told[known[-1]])
            admin.begin()
            assert not isinstance(admin.broker_configs([known[0]])[known[0]], ReadFailed), "the next one begins anew"
        finally:
            admin.close()


def test_no_answer_is_waited_for_longer_than_a_minute():
    kafka = RealKafka(Connection("127.0.0.1:1", timeout_seconds=300.0))
    assert kafka._admin._link.seconds == LONGEST_TIMEOUT
    kafka.close()
    assert ZooKeeper(EnsembleConnection("127.0.0.1:1", None, 300.0))._timeout == LONGEST_TIMEOUT


def test_the_limits_together_are_below_the_one_of_liveness():
    assert OBSERVATION_SECONDS + LONGEST_TIMEOUT <= STALLED_SECONDS
    assert COMPUTE_SECONDS < STALLED_SECONDS - OBSERVATION_SECONDS
