"""Stub brokers follow orders as KRaft's controller does, and report what has changed, in the bytes of a full answer."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator

import pytest
from kafka.protocol.admin import ElectLeadersRequest, IncrementalAlterConfigsRequest

from kafka_medic.clients.answers import LogDirs
from kafka_medic.clients.failures import ReadFailed, WriteFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, ConfigChange, Connection, NewTopic, PartitionState, Reassignment
from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.snapshot import ConfigValue, TopicPartition
from tests.stub_cluster import Described, Running, Size, StubProcess, made_up, running
from tests.stub_cluster import membership as membership_module
from tests.stub_cluster.description import Commit, Group, Move, Partition, Topic
from tests.stub_cluster.membership import Membership
from tests.stub_cluster.messages import body
from tests.stub_cluster.orders import Orders
from tests.stub_cluster.physics import Physics
from tests.stub_cluster.state import State

SECONDS = 30.0
FIRST, SECOND, ALONE = (TopicPartition(*tp) for tp in (("orders", 0), ("orders", 1), ("orders", 2)))
RATE = "follower.replication.throttled.rate"
LIST = "follower.replication.throttled.replicas"


def given() -> Described:
    orders = Topic(
        "orders",
        uuid.UUID(int=1),
        (
            Partition(0, 4, (0, 1), (0, 1), 10, 110, 1000),
            Partition(1, 7, (1, 2), (1, 2), 0, 50, 2000),
            Partition(1, 9, (1,), (1,), 0, 5, 3000),
        ),
    )
    others = tuple(
        Topic(f"other-{n}", uuid.UUID(int=10 + n), (Partition(3, 0, (3, 2), (3, 2), 0, 1, 1),)) for n in range(5)
    )
    groups = (Group("billing", 1, {("orders", 0): Commit(7)}, "Empty"),)
    return Described(dict.fromkeys(range(4)), (*others, orders), groups, voters=(0, 1, 2))


@pytest.fixture
def known() -> Iterator[tuple[RealKafka, Running]]:
    with running(given()) as stub:
        client = RealKafka(Connection(stub.cluster.bootstrap, timeout_seconds=SECONDS))
        stub.pace(None, None)
        yield client, stub
        assert stub.counts()["refused"] == {}
        client.close()


def row(client: RealKafka, tp: TopicPartition, broker: int = 0) -> PartitionState:
    view = client.views([broker])[broker]
    assert isinstance(view, BrokerView)
    (found,) = (p for p in view.partitions if (p.topic, p.partition) == (tp.topic, tp.partition))
    sliced = client.slices({broker: [tp.topic]})[broker]
    assert isinstance(sliced, BrokerView)
    assert found in list(sliced.partitions), "the same in an answer to a request that names the topic"
    return found


def size(client: RealKafka, tp: TopicPartition, broker: int) -> int | None:
    told = client.log_dirs([broker])[broker]
    assert isinstance(told, LogDirs)
    return told.sizes.get(tp)


def test_replicas_are_added_and_the_reassignment_ends_once_all_of_them_are_in_sync(known):
    client, stub = known
    assert client.reassignments() == {}
    assert size(client, FIRST, 3) is None
    assert client.alter_reassignments({FIRST: [3, 0, 1, 2]}) == {}
    assert client.reassignments() == {FIRST: Reassignment((3, 0, 1, 2), (3, 2), ())}
    moving = row(client, FIRST, 3)
    assert (moving.replicas, set(moving.isr), moving.leader, moving.leader_epoch) == ((3, 0, 1, 2), {0, 1}, 0, 4)
    assert size(client, FIRST, 3) == 0
    assert client.own_log_ends(3, [FIRST]) == {FIRST: 10}, "nothing is copied yet"
    assert client.elect_preferred([FIRST]) == {FIRST: "PreferredLeaderNotAvailableError"}

    stub.pace(0, None)
    ended = row(client, FIRST, 3)
    assert (ended.replicas, set(ended.isr), ended.leader, ended.leader_epoch) == ((3, 0, 1, 2), {0, 1, 2, 3}, 0, 4)
    assert client.reassignments() == {}
    assert (size(client, FIRST, 3), client.own_log_ends(3, [FIRST])) == (1000, {FIRST: 110})
    assert row(client, SECOND).replicas == (1, 2), "nobody asked for another"


def test_a_cancelled_reassignment_leaves_the_replicas_of_before(known):
    client, _ = known
    assert client.alter_reassignments({FIRST: [0, 1, 2, 3], SECOND: [1, 2, 3]}) == {}
    assert client.alter_reassignments({FIRST: None, ALONE: None}) == {}, "there is none of the other, as was wanted"
    assert set(client.reassignments()) == {SECOND}
    back = row(client, FIRST)
    assert (back.replicas, set(back.isr), back.leader) == ((0, 1), {0, 1}, 0)
    assert size(client, FIRST, 3) is None


def test_what_was_added_by_then_is_taken_back_too_in_another_epoch():
    now = [0.0]
    state = State(given())
    physics = Physics(state, lambda: now[0])
    physics.pace(5.0, 2.0)
    assert physics.reassign(("orders", 0), (2, 0, 1, 3)) == (0, None)
    physics.go(3)
    now[0] = 5.0
    physics.advance()
    before = state.fresh.topics["orders"].partitions[0]
    assert (set(before.isr), before.epoch, before.leader) == ({0, 1, 2}, 4, 0)
    physics.elect(("orders", 0))
    assert physics.reassign(("orders", 0), None) == (0, None)
    after = state.fresh.topics["orders"].partitions[0]
    assert (after.replicas, after.isr, after.leader, after.epoch) == ((0, 1), (0, 1), 0, 6)
    physics.come(3)
    now[0] = 60.0
    physics.advance()
    assert state.fresh.topics["orders"].partitions[0] == after


def test_what_a_former_order_has_added_counts_as_present_and_still_catches_up():
    now = [0.0]
    state = State(given())
    physics = Physics(state, lambda: now[0])
    physics.reassign(("orders", 0), (0, 1, 2))
    physics.reassign(("orders", 0), (2, 0, 1, 3))
    assert state.moves == {("orders", 0): Move((2, 0, 1, 3), (3,), ())}
    assert physics.reassign(("orders", 0), None) == (0, None)
    after = state.fresh.topics["orders"].partitions[0]
    assert (after.replicas, after.isr, after.epoch) == ((2, 0, 1), (0, 1), 5)
    now[0] = 60.0
    physics.advance()
    assert state.fresh.topics["orders"].partitions[0].isr == (0, 1, 2)


def test_a_follower_is_removed_in_another_epoch():
    state = State(given())
    Physics(state).reassign(("orders", 0), (0,))
    after = state.fresh.topics["orders"].partitions[0]
    assert (after.replicas, after.isr, after.leader, after.epoch) == ((0,), (0,), 0, 5)


def test_replicas_are_removed_at_once_and_who_led_and_goes_is_succeeded(known):
    client, stub = known
    assert client.alter_reassignments({FIRST: [1]}) == {}
    after = row(client, FIRST)
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == ((1,), (1,), 1, 5)
    assert client.reassignments() == {}
    stub.pace(0, None)
    assert client.alter_reassignments({SECOND: [3, 0]}) == {}
    moved = row(client, SECOND)
    assert (moved.replicas, set(moved.isr), moved.leader, moved.leader_epoch) == ((3, 0), {0, 3}, 3, 8)


def test_another_order_is_there_at_once_and_moves_no_leader_until_it_is_elected(known):
    client, _ = known
    assert client.alter_reassignments({FIRST: [1, 0]}) == {}
    assert client.reassignments() == {}
    assert (row(client, FIRST).replicas, row(client, FIRST).leader, row(client, FIRST).leader_epoch) == ((1, 0), 0, 4)
    assert client.elect_preferred([FIRST, SECOND]) == {}, "the other one needs none"
    assert (row(client, FIRST).leader, row(client, FIRST).leader_epoch) == (1, 5)
    assert (row(client, SECOND).leader, row(client, SECOND).leader_epoch) == (1, 7)


@pytest.mark.parametrize("target", [[], [0, 0], [0, 77]])
def test_an_assignment_that_is_not_valid_is_refused(known, target):
    client, _ = known
    nobodys = TopicPartition("no-such-topic", 0)
    assert client.alter_reassignments({FIRST: target, nobodys: [0]}) == {
        FIRST: "InvalidReplicationAssignmentError",
        nobodys: "UnknownTopicOrPartitionError",
    }
    assert client.elect_preferred([nobodys]) == {nobodys: "UnknownTopicOrPartitionError"}
    assert row(client, FIRST).replicas == (0, 1)


def test_settings_of_a_topic_of_a_broker_and_of_all_brokers_are_set_and_removed(known):
    client, _ = known
    before = client.topic_configs(["orders"])["orders"], client.broker_configs([1, 2]), client.cluster_configs()

    def change(list_: str | None, rate: str | None, shared: str | None) -> None:
        client.alter_configs(
            [
                ConfigChange("TOPIC", "orders", LIST, list_),
                ConfigChange("BROKER", "1", RATE, rate),
                ConfigChange("BROKER", "", "min.insync.replicas", shared),
            ]
        )

    change("0:3", "1000", "2")
    topic = client.topic_configs(["orders"])["orders"]
    assert not isinstance(topic, ReadFailed)
    assert topic[LIST] == ConfigValue("0:3", True)
    assert topic["min.insync.replicas"] == ConfigValue("2", False), "shows through of the brokers"
    told = client.broker_configs([1, 2], [RATE, "min.insync.replicas"])
    assert told[1] == {RATE: ConfigValue("1000", True), "min.insync.replicas": ConfigValue("2", False)}
    assert told[2] == {"min.insync.replicas": ConfigValue("2", False)}
    assert client.cluster_configs() == {"min.insync.replicas": ConfigValue("2", True)}
    own = [ConfigChange("TOPIC", "orders", LIST, "0:2"), ConfigChange("BROKER", "1", RATE, "2000")]
    few = lambda: (client.topic_configs(["orders"], names=[LIST]), client.broker_configs([1], [RATE]))  # noqa: E731
    assert few() == ({"orders": {LIST: ConfigValue("0:3", True)}}, {1: {RATE: ConfigValue("1000", True)}})
    client.alter_configs(own)
    assert few() == ({"orders": {LIST: ConfigValue("0:2", True)}}, {1: {RATE: ConfigValue("2000", True)}})
    change(None, None, None)
    assert (
        client.topic_configs(["orders"])["orders"],
        client.broker_configs([1, 2]),
        client.cluster_configs(),
    ) == before
    for strange in (ConfigChange("TOPIC", "no-such-topic", LIST, "*"), ConfigChange("TOPIC", "orders", "no.such", "1")):
        with pytest.raises(WriteFailed):
            client.alter_configs([strange])


def test_a_broker_changes_no_settings_of_another():
    orders = Orders(Physics(State(given())))
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    entry = resource.AlterableConfig(name=RATE, config_operation=0, value="1000")
    asked = [resource(resource_type=4, resource_name="1", configs=[entry])]
    (told,) = orders.alter(2, IncrementalAlterConfigsRequest[1](resources=asked, validate_only=False)).responses
    assert (told.error_code, told.error_message) == (
        42,
        "Unexpected broker id, expected 2 or empty string, but received 1",
    )
    assert orders.taken[0].error == 42


def test_a_broker_goes_and_comes_back(known):
    client, stub = known
    assert isinstance(client.memberships([1])[1], BrokerView)
    before = client.groups(lambda _: True)
    assert [(g.group, g.committed) for g in before.offsets] == [("billing", {FIRST: Committed(7)})]
    stub.go(1)
    assert isinstance(client.memberships([1])[1], ReadFailed), "nobody listens"
    assert [n.id for n in client.describe_cluster().nodes] == [0, 2, 3]
    view = client.views([2])[2]
    assert isinstance(view, BrokerView)
    assert view.members == (0, 2, 3)
    for tp, leader, epoch, isr in ((FIRST, 0, 4, (0,)), (SECOND, 2, 8, (2,)), (ALONE, -1, 10, (1,))):
        seen = row(client, tp, 2)
        assert (seen.leader, seen.leader_epoch, seen.isr) == (leader, epoch, isr), tp
    assert row(client, TopicPartition("other-1", 0), 2).isr == (3, 2)
    quorum = {voter.id: voter for voter in client.quorum().voters}
    assert set(quorum) == {0, 1, 2}
    assert client.groups(lambda _: True) == before, "another broker coordinates them now"

    stub.come(1)
    assert client.describe_cluster().nodes[1].id == 1
    seen = row(client, SECOND, 1)
    assert (seen.leader, seen.leader_epoch, seen.isr) == (2, 8, (2,)), "it has to catch up"
    seen = row(client, ALONE, 1)
    assert (seen.leader, seen.leader_epoch, seen.isr) == (1, 11, (1,)), "nobody else could lead"
    stub.pace(None, 0)
    for tp, leader, epoch, isr in ((FIRST, 0, 4, (0, 1)), (SECOND, 2, 8, (2, 1))):
        seen = row(client, tp, 1)
        assert (seen.leader, seen.leader_epoch, seen.isr) == (leader, epoch, isr), tp
    assert client.elect_preferred([SECOND]) == {}
    assert (row(client, SECOND).leader, row(client, SECOND).leader_epoch) == (1, 9)


def test_the_leader_of_the_quorum_is_succeeded(known):
    client, stub = known
    assert client.quorum().leader == 0
    stub.go(0)
    told = client.quorum()
    assert told.leader == 1
    assert {v.id: v.lag for v in told.voters} == {0: 1, 1: 0, 2: 0}
    stub.come(0)
    assert client.quorum().leader == 1, "nobody takes over from a leader that is up"


def test_a_topic_is_made_as_wanted_and_known_to_every_broker(known):
    client, _ = known
    client.views([0])
    client.create_topic(NewTopic("made", ((3, 0), (0, 1)), {"min.insync.replicas": "1"}))
    made = row(client, TopicPartition("made", 1), 2)
    assert (made.leader, made.leader_epoch, made.replicas, made.isr) == (0, 0, (0, 1), (0, 1))
    settings = client.topic_configs(["made"])["made"]
    assert not isinstance(settings, ReadFailed)
    assert settings["min.insync.replicas"] == ConfigValue("1", True)
    assert size(client, TopicPartition("made", 0), 3) == 0
    client.create_topic(NewTopic("made", ((3, 0),), {}))  # it is there, as wanted
    assert row(client, TopicPartition("made", 1)) == made


def test_each_order_is_noted_with_its_answer(known):
    client, stub = known
    client.alter_reassignments({FIRST: [0, 1, 3]})
    client.alter_reassignments({FIRST: None})
    client.elect_preferred([SECOND])
    client.alter_configs([ConfigChange("BROKER", "1", RATE, "1000")])
    client.alter_configs([ConfigChange("BROKER", "1", RATE, None)])
    taken = stub.orders()
    assert [(o["kind"], o["target"], o["value"], o["error"]) for o in taken] == [
        ("reassign", "orders-0", "[0, 1, 3]", 0),
        ("cancel", "orders-0", "[]", 0),
        ("elect", "orders-1", "", 84),
        ("alter", f"broker 1 {RATE}", "1000", 0),
        ("alter", f"broker 1 {RATE}", "", 0),
    ]
    assert sorted(o["at"] for o in taken) == [o["at"] for o in taken]


def test_an_election_of_all_leaves_out_what_needs_none(known):
    _, stub = known
    stub.go(1)
    stub.come(1)
    stub.pace(None, 0)
    orders = stub.cluster._answers.orders
    everything = ElectLeadersRequest[2](election_type=0, topic_partitions=None, timeout_ms=1000)
    (result,) = orders.elect(0, everything).replica_election_results
    assert (result.topic, [p.partition_id for p in result.partition_result]) == ("orders", [1])


def test_a_process_of_its_own_follows_orders():
    with StubProcess(Size(4, 40)) as stub:
        client = RealKafka(Connection(stub.place.bootstrap, timeout_seconds=SECONDS))
        stub.pace(0, 0)
        stub.go(3)
        assert isinstance(client.memberships([3])[3], ReadFailed)
        stub.come(3)
        assert [n.id for n in client.describe_cluster().nodes] == [0, 1, 2, 3]
        topic = next(iter(made_up(Size(4, 40)).topics))
        tp = TopicPartition(topic.name, 0)
        assert client.alter_reassignments({tp: [0, 1, 2, 3]}) == {}
        assert set(row(client, tp).isr) == {0, 1, 2, 3}
        assert [o["target"] for o in stub.orders()] == [f"{topic.name}-0"]
        client.close()


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happened_a_view_has_the_bytes_of_one_that_is_encoded_anew(seed):
    chance, now = random.Random(seed), [0.0]
    state = State(made_up(Size(7, 130)))
    physics = Physics(state, lambda: now[0])
    addresses = {broker: (f"127.0.0.{broker + 1}", 9092) for broker in state.racks}
    view = Membership(state, addresses)
    stale = state.stale(2)
    missed = {name: topic for name, topic in stale.topics.items() if topic is not state.fresh.topics[name]}
    assert len(missed) == 2
    topics = list(state.fresh.topics.values())
    for _ in range(60):
        topic, broker = chance.choice(topics), chance.randrange(7)
        key = topic.name, chance.randrange(len(topic.partitions))
        match chance.randrange(6):
            case 0:
                physics.go(broker)
            case 1:
                physics.come(broker)
            case 2:
                physics.reassign(key, chance.sample(range(7), chance.randrange(1, 5)))
            case 3:
                physics.reassign(key, None)
            case 4:
                physics.elect(key)
            case _:
                now[0] += chance.choice((0.0, 3.0, 10.0))
                physics.advance()
        view.forget(state.changes)
        for sight in (state.fresh, stale):
            for version in (8, 9, 12, 13):
                anew = body(view._metadata(map(view._known, sight.topics.values())), version)
                assert view.whole(sight, version) == anew
        assert {name for name in stale.topics if stale.topics[name] is not state.fresh.topics[name]} == set(missed)
        assert all(stale.topics[name] == before for name, before in missed.items())
        held: dict[int, dict[str, list[int]]] = {b: {} for b in state.racks}
        for one in state.fresh.topics.values():
            for number, partition in enumerate(one.partitions):
                able = set(partition.isr) & state.members
                assert set(partition.isr) <= set(partition.replicas)
                assert partition.isr
                assert (partition.leader in able) == bool(able)
                assert partition.leader == -1 or able
                for replica in partition.replicas:
                    held[replica].setdefault(one.name, []).append(number)
        assert state.held == held
        for number, part in enumerate(view._known(state.fresh.topics[key[0]]).partitions):
            replicas = state.fresh.topics[key[0]].partitions[number].replicas
            assert set(part.offline_replicas) == set(replicas) - state.members


def test_a_change_encodes_only_the_topics_that_it_concerns(monkeypatch):
    described = made_up(Size(60, 4000))
    state = State(described)
    physics = Physics(state)
    view = Membership(state, dict.fromkeys(state.racks, ("127.0.0.1", 9092)))
    view.whole(state.fresh, 12)
    encoded: list[str] = []
    before = membership_module._encoded
    monkeypatch.setattr(membership_module, "_encoded", lambda t, v: encoded.append(t.name) or before(t, v))
    view.forget(state.changes)
    view.whole(state.fresh, 12)
    assert encoded == []
    physics.go(7)
    view.forget(state.changes)
    view.whole(state.fresh, 12)
    assert sorted(encoded) == sorted(described.held[7])
    assert len(encoded) < len(described.topics) / 2


def test_catching_up_takes_as_long_as_was_set():
    now = [100.0]
    state = State(given())
    physics = Physics(state, lambda: now[0])
    physics.pace(5.0, 2.0)
    physics.reassign(("orders", 0), (0, 1, 3))
    physics.go(2)
    physics.come(2)

    def in_sync(number: int) -> tuple[int, ...]:
        physics.advance()
        return state.fresh.topics["orders"].partitions[number].isr

    now[0] = 101.9
    assert (in_sync(0), in_sync(1)) == ((0, 1), (1,))
    now[0] = 102.0
    assert (in_sync(0), in_sync(1)) == ((0, 1), (1, 2))
    now[0] = 104.9
    assert in_sync(0) == (0, 1)
    physics.pace(7.0, 2.0)
    now[0] = 106.9
    assert in_sync(0) == (0, 1)
    now[0] = 107.0
    assert in_sync(0) == (0, 1, 3)
    assert state.moves == {}


def test_who_goes_while_a_replica_is_added_to_it_begins_anew_when_it_is_back():
    now = [0.0]
    state = State(given())
    physics = Physics(state, lambda: now[0])
    physics.pace(5.0, 2.0)
    physics.reassign(("orders", 0), (0, 1, 3))
    physics.go(3)
    now[0] = 60.0
    physics.advance()
    assert state.moves
    physics.come(3)
    now[0] = 64.9
    physics.advance()
    assert state.moves
    now[0] = 65.0
    physics.advance()
    assert not state.moves


def test_a_deaf_broker_reports_what_it_knew_before_the_changes(known):
    client, stub = known
    before = row(client, FIRST, broker=3)
    stub.cluster.make_deaf(3)
    client.alter_reassignments({FIRST: (1, 0)})
    client.elect_preferred([FIRST])
    after = row(client, FIRST)
    assert (after.leader, after.leader_epoch > before.leader_epoch) == (1, True)
    assert row(client, FIRST, broker=2) == after
    assert row(client, FIRST, broker=3) == before
