"""The operator's clients read from stub brokers exactly what these were given; and the faults of stub brokers."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection, Kafka
from kafka_medic.cluster.snapshot import Snapshot, SourceState, TopicPartition
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from kafka_medic.observe.view_reads import ViewRotation
from tests.contract.given import PROMISES, by_hand
from tests.stub_cluster import Conduct, Described, Running, Size, StubProcess, made_up, running
from tests.stub_cluster.description import OWN, PARTED

SECONDS = 30.0
"""What anything here may take, on a machine that is busy with something else."""


@pytest.fixture(scope="module")
def known() -> Iterator[tuple[Kafka, Described, Running]]:
    given = by_hand()
    with running(given) as stub:
        client = RealKafka(Connection(stub.cluster.bootstrap, timeout_seconds=SECONDS))
        yield client, given, stub
        client.close()


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_what_is_given_is_read(known, promise: Callable[[Kafka, Described], None]):
    client, given, _ = known
    promise(client, given)


def test_nothing_was_asked_that_is_not_answered(known):
    client, given, stub = known
    observe_cluster("stub", ClusterReaders(client))
    counts = stub.counts()
    assert counts["refused"] == {}
    assert counts["requests"] == sum(one["requests"] for one in counts["by_request"].values())
    assert set(counts["by_broker"]) == {str(broker) for broker in given.racks}
    assert all(one["sent"] > 4 * one["requests"] > 0 for one in counts["by_request"].values())


def test_a_healthy_cluster_is_observed_whole_and_nothing_is_found():
    given = made_up(Size(6, 130), groups=7)
    with running(given) as stub:
        snapshot = looked(stub)
    assert all(s.state is SourceState.KNOWN and s.error is None for s in snapshot.sources), snapshot.sources
    assert diagnose(snapshot) == ()
    rows = {TopicPartition(r.topic, r.partition): r for r in snapshot.rows()}
    assert len(rows) == 130
    for topic in given.topics:
        for number, partition in enumerate(topic.partitions):
            row = rows[TopicPartition(topic.name, number)]
            assert (row.leader, row.replicas, row.log_end) == (partition.leader, partition.replicas, partition.end)
    assert snapshot.groups is not None
    assert snapshot.groups.num_rows == sum(len(g.committed) for g in given.groups) == 70


def test_a_stale_broker_has_earlier_epochs_and_records_of_its_own():
    given = made_up(Size(5, 60))
    with running(given, stale_topics=2) as stub:
        stub.make_stale(1)
        snapshot = looked(stub)
        missed = {t.name for t in given.topics} & set(sorted(t.name for t in given.topics)[:2])
        (stale,) = (v for v in snapshot.views or () if v.broker == 1)
        assert stale.diverged
        for log in stale.diverged:
            partition = given.fresh.partition(log.topic, log.partition)
            assert partition is not None
            assert log.topic in missed
            assert partition.replicas[1] == 1, "the former leader"
            assert (log.log_end, log.shared_end) == (partition.end - PARTED + OWN, partition.end - PARTED)
        assert {f.type for f in diagnose(snapshot)} >= {"ViewDiverged"}
        stub.make_stale(1, stale=False)
        assert diagnose(looked(stub)) == ()


def test_a_broker_that_hangs_and_one_that_is_silent_fail_alone():
    with running(made_up(Size(4, 20))) as stub:
        stub.conduct(2, Conduct.HANGS)
        stub.conduct(3, Conduct.SILENT)
        client = RealKafka(Connection(stub.cluster.bootstrap, timeout_seconds=0.5))
        try:
            told = client.memberships([0, 1, 2, 3])
            assert [isinstance(told[b], BrokerView) for b in range(4)] == [True, True, False, False]
            for broker in (2, 3):
                problem = told[broker]
                assert isinstance(problem, ReadFailed)
                assert problem.kind is FailureKind.UNREACHABLE
            assert "2" in stub.counts()["by_broker"], "it takes requests"
            assert "3" not in stub.counts()["by_broker"]
            stub.conduct(2, Conduct.ANSWERS)
            stub.conduct(3, Conduct.ANSWERS)
            end = time.monotonic() + SECONDS
            while not all(isinstance(view, BrokerView) for view in client.memberships([2, 3]).values()):
                assert time.monotonic() < end, "they did not come back"
        finally:
            client.close()


def test_a_request_that_is_not_answered_ends_the_connection_and_is_counted():
    with running(made_up(Size(1, 1))) as stub:
        (address,) = stub.cluster.addresses.values()
        for key, version in ((0, 13), (3, 99), (3, 13)):
            with socket.create_connection(address, SECONDS) as link:
                link.sendall(struct.pack(">ihhi", 8, key, version, 1))
                assert link.recv(1) == b""
        assert sorted(why.partition(":")[0] for why in stub.counts()["refused"]) == [
            "Metadata version 13",
            "Metadata version 99",
            "Produce version 13",
        ]


def test_a_process_of_its_own_reports_what_went_over_the_wire():
    with StubProcess(Size(3, 40), groups=2) as stub:
        assert stub.place.view_bytes > 40 * 40
        client = RealKafka(Connection(stub.place.bootstrap, timeout_seconds=SECONDS))
        assert all(isinstance(view, BrokerView) for view in client.views([0, 1, 2]).values())
        counts = stub.counts()
        assert counts["by_request"]["Metadata"]["sent"] >= 3 * stub.place.view_bytes
        json.dumps(counts)
        stub.reset()
        assert stub.counts()["requests"] == 0
        stub.conduct(2, Conduct.SILENT)
        assert isinstance(client.memberships([2])[2], ReadFailed)
        with pytest.raises(ValueError, match="no-such-conduct"):
            stub._do({"do": "conduct", "broker": 2, "conduct": "no-such-conduct"})
        client.close()


@pytest.mark.parametrize("text", ["", "3", "x", "0x5", "3x0", "3xmany"])
def test_a_size_is_brokers_and_partitions(text):
    with pytest.raises(ValueError):
        Size.parse(text)
    assert str(Size.parse("30X20000")) == "30x20000"


@pytest.mark.parametrize("brokers", [30, 31, 32])
def test_a_made_up_cluster_is_the_same_each_time_and_even(brokers):
    given = made_up(Size(brokers, 1210), groups=40)
    assert given == made_up(Size(brokers, 1210), groups=40)
    assert sum(len(t.partitions) for t in given.topics) == 1210
    for topic in given.topics:
        for partition in topic.partitions:
            assert len({given.racks[b] for b in partition.replicas}) == 3
    counts = [sum(map(len, held.values())) for held in given.held.values()]
    assert sum(counts) == 3 * 1210
    assert max(counts) < 2 * min(counts)


def looked(stub: Running) -> Snapshot:
    client = RealKafka(Connection(stub.cluster.bootstrap, timeout_seconds=SECONDS))
    try:
        return observe_cluster("stub", ClusterReaders(client), rotation=ViewRotation(everything=True))
    finally:
        client.close()
