"""What the operator's client must read from a cluster with a known description.

Each promise is a function of the client and the description. Stub brokers get a description; the test of a real cluster
writes one down as it creates the topics. Both must keep every promise. Other topics and groups may exist.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

from kafka_medic.clients.answers import LogDirs
from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.ports import BrokerView, Kafka, Reassignment
from kafka_medic.cluster.groups import Committed, GroupMember
from kafka_medic.cluster.min_isr import MIN_ISR
from kafka_medic.cluster.snapshot import ConfigValue, TopicPartition
from tests.simulation.log_bounds import log_bounds
from tests.stub_cluster.description import Commit, Described, Group, Member, Move, Partition, Topic
from tests.stub_cluster.settings import defaults

NO_ID = uuid.UUID(int=0)
"""Of a topic whose id is not known beforehand, as its size is not where that is 0."""


def by_hand() -> Described:
    """Three brokers, with each thing that a healthy cluster does not have: a partition without a leader, one that is
    under-replicated and led by another than the preferred replica, a reassignment, and settings of every kind."""
    orders = Topic(
        "orders",
        uuid.UUID(int=1),
        (
            Partition(0, 4, (0, 1, 2), (0, 1, 2), 10, 110, 1 << 20),
            Partition(2, 7, (1, 2, 0), (2, 0), 0, 50, 1 << 21),
            Partition(-1, 9, (2, 0), (2,), 0, 5, 1 << 10),
        ),
        {"min.insync.replicas": "2", "retention.ms": "60000"},
    )
    returns = Topic("returns", uuid.UUID(int=2), (Partition(1, 1, (1, 0), (1, 0), 0, 3, 100),))
    return Described(
        {0: "zone-1", 1: "zone-2", 2: None},
        (returns, orders),
        (
            Group("billing", 0, {("orders", 0): Commit(100, 4, "a note")}, members=(Member("reader", "/127.0.0.1"),)),
            Group(
                "shipping",
                2,
                {("orders", 0): Commit(90), ("returns", 0): Commit(3)},
                members=(Member("other", "/127.0.0.2"),),
                consumer=True,
            ),
            Group("audit", 1, {("returns", 0): Commit(0)}, "Empty"),
        ),
        {("returns", 0): Move((1, 0), (2,), (0,))},
        files={"default.replication.factor": "3"},
        shared={"leader.replication.throttled.rate": "1000"},
        own={1: {"log.cleaner.threads": "2"}},
        voters=(2, 0, 1),
    )


def partitions(given: Described) -> dict[TopicPartition, Partition]:
    return {TopicPartition(t.name, n): p for t in given.topics for n, p in enumerate(t.partitions)}


def the_registered_brokers(kafka: Kafka, given: Described) -> None:
    told = kafka.describe_cluster()
    assert {n.id: n.rack for n in told.nodes} == given.racks
    assert told.cluster_id
    assert len({(n.host, n.port) for n in told.nodes}) == len(given.racks)


def each_brokers_own_view(kafka: Kafka, given: Described) -> None:
    ids = {t.name: t.id for t in given.topics}
    for broker, view in kafka.views(list(given.racks)).items():
        assert isinstance(view, BrokerView)
        assert (view.broker, view.members) == (broker, tuple(sorted(given.racks)))
        told = {TopicPartition(p.topic, p.partition): p for p in view.partitions}
        for tp, partition in partitions(given).items():
            one = told[tp]
            assert (one.leader, one.leader_epoch) == (partition.leader, partition.epoch)
            assert (one.replicas, set(one.isr)) == (partition.replicas, set(partition.isr))
            assert one.topic_id is not None
            assert ids[tp.topic] in (NO_ID, uuid.UUID(one.topic_id))


def members_without_any_partition(kafka: Kafka, given: Described) -> None:
    for view in kafka.memberships(list(given.racks)).values():
        assert isinstance(view, BrokerView)
        assert (view.members, view.states) == (tuple(sorted(given.racks)), None)


def each_brokers_word_on_some_topics(kafka: Kafka, given: Described) -> None:
    """The same as in its whole view, and a topic that nobody has is not made by asking."""
    names, nobodys = [topic.name for topic in given.topics], f"nobody-has-{uuid.uuid4().hex[:8]}"
    asked = {broker: [names[n % len(names)], nobodys] for n, broker in enumerate(given.racks)} | {77: names}
    told, whole = kafka.slices(asked), kafka.views(list(given.racks))
    assert isinstance(told[77], ReadFailed)
    for broker in given.racks:
        view, every = told[broker], whole[broker]
        assert isinstance(view, BrokerView)
        assert isinstance(every, BrokerView)
        assert view.covers == frozenset(asked[broker])
        assert view.members == every.members
        assert list(view.partitions) == [p for p in every.partitions if p.topic in asked[broker]]
        assert view.states.num_rows
    again = kafka.views(list(given.racks)).values()
    assert not any(p.topic == nobodys for v in again if isinstance(v, BrokerView) for p in v.partitions)


def a_broker_that_is_not_there_fails_alone(kafka: Kafka, given: Described) -> None:
    first = min(given.racks)
    told = kafka.views([first, 77])
    assert isinstance(told[first], BrokerView)
    assert isinstance(told[77], ReadFailed)


def leaders_report_where_logs_begin_and_end(kafka: Kafka, given: Described) -> None:
    led = {tp: p.leader for tp, p in partitions(given).items() if p.leader >= 0}
    epochs = {tp: p.epoch for tp, p in partitions(given).items()}
    told = log_bounds(kafka, led, epochs)
    found = {
        tp: bounds for answer in told.values() if not isinstance(answer, ReadFailed) for tp, bounds in answer.items()
    }
    assert found == {tp: (p.start, p.end) for tp, p in partitions(given).items() if p.leader >= 0}


def where_logs_begin_is_read_of_those_alone_that_want_it(kafka: Kafka, given: Described) -> None:
    led = {tp: p.leader for tp, p in partitions(given).items() if p.leader >= 0}
    for ends_alone in (set(list(led)[::2]), set(led)):
        told = log_bounds(kafka, led, ends_alone=ends_alone)
        found = {tp: b for answer in told.values() if not isinstance(answer, ReadFailed) for tp, b in answer.items()}
        known = {tp: (p.start, p.end) for tp, p in partitions(given).items() if p.leader >= 0}
        assert found == {tp: (None if tp in ends_alone else start, end) for tp, (start, end) in known.items()}


def a_leader_under_another_epoch_reports_nothing(kafka: Kafka, given: Described) -> None:
    tp, partition = next((tp, p) for tp, p in partitions(given).items() if p.leader >= 0)
    for epoch in (partition.epoch + 1, partition.epoch - 1)[: 2 if partition.epoch else 1]:
        assert log_bounds(kafka, {tp: partition.leader}, {tp: epoch}) == {partition.leader: {}}


def who_does_not_lead_reports_nothing(kafka: Kafka, given: Described) -> None:
    tp, partition = next((tp, p) for tp, p in partitions(given).items() if p.leader >= 0)
    other = next(b for b in given.racks if b != partition.leader)
    assert log_bounds(kafka, {tp: other}) == {other: {}}
    assert log_bounds(kafka, {TopicPartition("no-such-topic", 0): other}) == {other: {}}


def each_replica_reports_its_own_log_end(kafka: Kafka, given: Described) -> None:
    every = list(partitions(given))
    for broker in given.racks:
        held = {tp: p.end for tp, p in partitions(given).items() if broker in p.isr}
        told = kafka.own_log_ends(broker, every)
        assert {tp: told.get(tp) for tp in held} == held
        assert not {tp for tp, p in partitions(given).items() if broker not in p.replicas} & set(told)


def a_leader_reports_where_its_epoch_ends(kafka: Kafka, given: Described) -> None:
    tp, partition = next((tp, p) for tp, p in partitions(given).items() if p.leader >= 0)
    assert kafka.epoch_ends(partition.leader, {tp: partition.epoch}) == {tp: partition.end}
    assert kafka.epoch_ends(partition.leader, {tp: partition.epoch + 1}) == {}


def directories_hold_each_replica(kafka: Kafka, given: Described) -> None:
    told = kafka.log_dirs([*given.racks, 77])
    assert isinstance(told[77], ReadFailed)
    for broker in given.racks:
        answer = told[broker]
        assert isinstance(answer, LogDirs)
        assert all(d.path and d.error is None and (d.total or 0) >= (d.usable or 0) for d in answer.directories)
        for tp, partition in partitions(given).items():
            assert (tp in answer.sizes) == (broker in partition.replicas)
            assert answer.sizes.get(tp, 0) in (partition.size, answer.sizes.get(tp, 0) if not partition.size else 0)


def topics_have_every_setting_and_their_own_are_dynamic(kafka: Kafka, given: Described) -> None:
    told = kafka.topic_configs([t.name for t in given.topics] + ["no-such-topic"])
    assert isinstance(told["no-such-topic"], ReadFailed)
    for topic in given.topics:
        found = told[topic.name]
        assert not isinstance(found, ReadFailed)
        assert set(found) == set(defaults("topic"))
        assert _dynamic(found) == dict(topic.settings)
        few = kafka.topic_configs([topic.name], names=[MIN_ISR, "no.such.setting"])[topic.name]
        assert few == {MIN_ISR: found[MIN_ISR]}


def brokers_have_every_setting(kafka: Kafka, given: Described) -> None:
    told = kafka.broker_configs(list(given.racks))
    for broker in given.racks:
        found = told[broker]
        assert not isinstance(found, ReadFailed)
        assert not set(defaults("broker")) - set(found)
        assert found["node.id"] == ConfigValue(str(broker), False)
        assert _dynamic(found) == dict(given.own.get(broker, {}))
        shown = {**given.files, **given.shared, **given.own.get(broker, {})}
        assert {name: found[name].value for name in shown} == shown
        few = kafka.broker_configs([broker], names=["node.id", "no.such.setting"])[broker]
        assert few == {"node.id": found["node.id"]}


def what_is_set_for_all_brokers(kafka: Kafka, given: Described) -> None:
    told = kafka.cluster_configs()
    assert {name: told[name] for name in given.shared} == {n: ConfigValue(v, True) for n, v in given.shared.items()}


def groups_with_their_state_and_offsets(kafka: Kafka, given: Described) -> None:
    names = {g.name for g in given.groups}
    told = kafka.groups(lambda name: name in names)
    assert not told.unread
    assert not told.unlisted
    assert {g.group: (g.state, dict(g.committed)) for g in told.offsets} == {
        g.name: (g.state, _committed(g)) for g in given.groups
    }


def members_of_groups_by_either_protocol(kafka: Kafka, given: Described) -> None:
    told = kafka.group_members([g.name for g in given.groups])
    assert {name: tuple(members) for name, members in told.items()} == {
        g.name: tuple(GroupMember(m.client_id, m.client_host) for m in g.members) for g in given.groups
    }


def no_transaction_is_open(kafka: Kafka, given: Described) -> None:
    for group in given.groups:
        assert not kafka.unsettled(group.name)


def reassignments_in_flight(kafka: Kafka, given: Described) -> None:
    wanted = {TopicPartition(*tp): Reassignment(m.replicas, m.adding, m.removing) for tp, m in given.moves.items()}
    assert {tp: m for tp, m in kafka.reassignments().items() if tp in partitions(given)} == wanted


def the_quorum(kafka: Kafka, given: Described) -> None:
    told = kafka.quorum()
    assert {v.id for v in told.voters} == set(given.voters)
    assert told.leader in given.voters


def the_version(kafka: Kafka, given: Described) -> None:
    assert kafka.version() == "4.3"


PROMISES: tuple[Callable[[Kafka, Described], None], ...] = (
    the_registered_brokers,
    each_brokers_own_view,
    members_without_any_partition,
    each_brokers_word_on_some_topics,
    a_broker_that_is_not_there_fails_alone,
    leaders_report_where_logs_begin_and_end,
    where_logs_begin_is_read_of_those_alone_that_want_it,
    a_leader_under_another_epoch_reports_nothing,
    who_does_not_lead_reports_nothing,
    each_replica_reports_its_own_log_end,
    a_leader_reports_where_its_epoch_ends,
    directories_hold_each_replica,
    topics_have_every_setting_and_their_own_are_dynamic,
    brokers_have_every_setting,
    what_is_set_for_all_brokers,
    groups_with_their_state_and_offsets,
    members_of_groups_by_either_protocol,
    no_transaction_is_open,
    reassignments_in_flight,
    the_quorum,
    the_version,
)


def _dynamic(found: Mapping[str, ConfigValue]) -> dict[str, str | None]:
    return {name: entry.value for name, entry in found.items() if entry.dynamic}


def _committed(group: Group) -> dict[TopicPartition, Committed]:
    return {
        TopicPartition(*tp): Committed(c.offset, c.epoch if c.epoch >= 0 else None, c.metadata)
        for tp, c in group.committed.items()
    }
