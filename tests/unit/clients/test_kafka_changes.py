"""To which broker a change goes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_medic.clients.kafka_wire import WireAdmin
from kafka_medic.clients.ports import FailureKind, WriteFailed
from kafka_medic.cluster.snapshot import TopicPartition
from tests.unit.clients.test_kafka_identity import IDS, Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Broker 1 is the one that is asked first, as the controller that the others name."""
    made = Cluster()
    made.pods[1].cut_off = True
    yield made
    made.close()


def test_a_broker_that_cannot_pass_a_change_on_is_not_asked_again(cluster: Cluster) -> None:
    """With KRaft, one that is cut off from the controller answers everything else."""
    admin = WireAdmin(cluster.connection())
    try:
        admin.memberships(IDS)
        with pytest.raises(WriteFailed) as found:
            admin.changes.elect_preferred([TopicPartition("orders", 0)])
        assert found.value.kind is FailureKind.UNREACHABLE
        admin.memberships(IDS)
        assert admin.changes.elect_preferred([TopicPartition("orders", 0)]) == {}
        assert ("elect",) not in cluster.pods[1].asked
    finally:
        admin.close()
