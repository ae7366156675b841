"""The operator's client reads a known cluster in full, from stub brokers and from real brokers alike."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.kafka_link import KafkaLink
from kafka_medic.clients.ports import BrokerView, Connection, Kafka
from kafka_medic.cluster.snapshot import TopicPartition
from tests.contract.conftest import FILE
from tests.contract.given import NO_ID, PROMISES, by_hand
from tests.incident.records import commit_offset, create_topic, delete_topic, write
from tests.simulation.log_bounds import log_bounds
from tests.stub_cluster import Described, running
from tests.stub_cluster.answers import MESSAGES
from tests.stub_cluster.description import Commit, Group, Partition, Topic
from tests.stub_cluster.messages import VERSION
from tests.testbed import KafkaDeployment, Shape, wait_for

RECORDS, COMMITTED = 21, 7
RACKS = {0: "zone-1", 1: "zone-2", 2: "zone-3"}


def made(bootstrap: str, client: Kafka) -> Described:
    """Two topics and a group without members, on a real cluster; and its description."""
    run = uuid.uuid4().hex[:8]
    plain, group = f"given-{run}", f"given-{run}"
    lists = {plain: ((1, 0), (0, 2), (2, 1)), f"{plain}-own": ((0, 1, 2),)}
    settings = {plain: {}, f"{plain}-own": {"min.insync.replicas": "2"}}
    for name, assignment in lists.items():
        create_topic(bootstrap, name, [list(replicas) for replicas in assignment], settings[name])
        assert write(bootstrap, name, [str(n) for n in range(RECORDS)]) == RECORDS
    commit_offset(bootstrap, group, plain, COMMITTED)
    given = Described(
        RACKS,
        tuple(
            Topic(
                name,
                NO_ID,
                tuple(
                    Partition(replicas[0], 0, replicas, replicas, 0, RECORDS if number == 0 else 0)
                    for number, replicas in enumerate(assignment)
                ),
                settings[name],
            )
            for name, assignment in lists.items()
        ),
        # The coordinator is whoever the broker's hash says; the promises do not depend on it.
        (Group(group, 0, {(plain, 0): Commit(COMMITTED)}, "Empty"),),
        files=FILE,
        voters=(0, 1, 2),
    )
    wait_for("every broker to know the topics", lambda: all(_knows(client, broker, given) for broker in RACKS), 60)
    return given


def _knows(client: Kafka, broker: int, given: Described) -> bool:
    view = client.views([broker])[broker]
    if not isinstance(view, BrokerView):
        return False
    told = {(p.topic, p.partition): set(p.isr) for p in view.partitions}
    wanted = {(t.name, n): set(p.isr) for t in given.topics for n, p in enumerate(t.partitions)}
    led = {TopicPartition(*tp): given.fresh.topics[tp[0]].partitions[tp[1]].leader for tp in wanted}
    bounds = log_bounds(client, led)
    served = [tp for answer in bounds.values() if not isinstance(answer, ReadFailed) for tp in answer]
    return all(told.get(tp) == isr for tp, isr in wanted.items()) and len(served) == len(led)


@pytest.fixture(scope="module", params=["stub", "kraft"])
def known(
    request: pytest.FixtureRequest, kafka_of: Callable[[Shape], KafkaDeployment]
) -> Iterator[tuple[Kafka, Described, str]]:
    if request.param == "stub":
        given = by_hand()
        with running(given) as stub:
            client = RealKafka(Connection(stub.cluster.bootstrap))
            yield client, given, stub.cluster.bootstrap
            client.close()
        return
    bootstrap = kafka_of("kraft").bootstrap
    client = RealKafka(Connection(bootstrap))
    given = made(bootstrap, client)
    yield client, given, bootstrap
    for topic in given.topics:
        delete_topic(bootstrap, topic.name)
    client.close()


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_what_is_there_is_read(
    known: tuple[Kafka, Described, str], promise: Callable[[Kafka, Described], None]
) -> None:
    client, given, _ = known
    promise(client, given)


def test_the_versions_that_the_stub_brokers_offer_are_a_real_brokers(known: tuple[Kafka, Described, str]) -> None:
    link = KafkaLink(Connection(known[2]))
    try:
        told = link.call(lambda client: client._manager.broker_version_data.api_versions, ReadFailed, "versions")
    finally:
        link.close()
    for key in MESSAGES:
        assert tuple(told[key]) == BROKER_API_VERSIONS[VERSION][key], key
