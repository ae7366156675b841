"""To which broker a change goes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_medic.clients.failures import FailureKind, WriteFailed
from kafka_medic.clients.kafka_admin import KafkaAdmin
from kafka_medic.cluster.snapshot import TopicPartition
from tests.unit.clients.test_kafka_identity import Cluster

CUT_OFF = (1, 2)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    for broker in CUT_OFF:
        made.pods[broker].cut_off = True
    yield made
    made.close()


def test_a_broker_that_cannot_pass_a_change_on_is_not_asked_again(cluster: Cluster) -> None:
    """With KRaft, one that is cut off from the controller answers everything else."""
    admin = KafkaAdmin(cluster.connection())
    told: list[object] = []
    try:
        while {} not in told and len(told) <= len(CUT_OFF):
            admin.members()
            try:
                told.append(admin.changes.elect_preferred([TopicPartition("orders", 0)]))
            except WriteFailed as problem:
                told.append(problem.kind)
    finally:
        admin.close()
    assert told[-1] == {}
    assert set(told[:-1]) <= {FailureKind.UNREACHABLE}
    assert all(broker.asked.count(("elect",)) <= 1 for broker in cluster.pods.values())
