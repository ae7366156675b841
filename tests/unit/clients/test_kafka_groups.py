"""Groups: each broker's own, in parts; one that fails takes nobody else along."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from confluent_kafka.admin import AdminClient
from kafka import errors
from kafka.admin._groups import GroupAdminMixin
from kafka.protocol.admin import ListGroupsResponse
from kafka.protocol.consumer.group import OffsetFetchResponse

from kafka_medic.clients import kafka_groups, librdkafka
from kafka_medic.clients.answers import Groups
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.cluster.groups import Committed, GroupMember, GroupOffsets
from kafka_medic.cluster.snapshot import TopicPartition

ORDERS = TopicPartition("orders", 0)
REFUSED = ReadFailed(FailureKind.AUTHORIZATION, "not this one")


def encoded(message, version):
    """As it comes from the wire."""
    return type(message).decode(message.encode(version=version), version=version)


def fetched(**groups):
    """An answer about groups: an error code, or by partition an offset or its own error code, negative."""
    group_of = OffsetFetchResponse.OffsetFetchResponseGroup
    topic_of = group_of.OffsetFetchResponseTopics
    part_of = topic_of.OffsetFetchResponsePartitions

    def one(group, told):
        if isinstance(told, int):
            return group_of(group_id=group, error_code=told, topics=[])
        parts = [
            part_of(partition_index=n, committed_offset=o, committed_leader_epoch=e, metadata=m, error_code=code)
            for n, (o, e, m, code) in enumerate(told)
        ]
        return group_of(group_id=group, topics=[topic_of(name="orders", partitions=parts)])

    return encoded(OffsetFetchResponse(groups=[one(g, told) for g, told in groups.items()]), 8)


def test_offsets_by_group_without_those_that_were_never_committed():
    answer = fetched(billing=[(10, -1, "", 0), (-1, -1, "", 0)], idle=[], noted=[(4, 7, "m", 0)])
    assert kafka_groups.decoded_offsets(1, answer) == {
        "billing": {ORDERS: Committed(10)},
        "idle": {},
        "noted": {ORDERS: Committed(4, 7, "m")},
    }


def test_a_group_and_a_partition_with_an_error_are_not_known_and_the_others_are():
    found = kafka_groups.decoded_offsets(1, fetched(billing=[(10, -1, "", 0), (-1, -1, "", 88)], moved=16))
    assert found["billing"] == {ORDERS: Committed(10), TopicPartition("orders", 1): None}
    assert isinstance(found["moved"], ReadFailed)
    assert "NotCoordinator" in found["moved"].message


def test_a_request_names_the_groups_in_a_version_that_has_names_of_topics():
    request = kafka_groups.offsets_request(["billing", "audit"])
    assert [(g.group_id, g.topics) for g in encoded(request, 8).groups] == [("billing", None), ("audit", None)]


def test_consumer_groups_are_listed_with_a_state_in_kafkas_words():
    group_of = ListGroupsResponse.ListedGroup
    rows = [("billing", "consumer", "Empty"), ("simple", "", "Stable"), ("new", "consumer", "Reconciling")]
    rows += [("connect-cluster", "connect", "Stable")]
    groups = [group_of(group_id=g, protocol_type=p, group_state=state) for g, p, state in rows]
    answer = encoded(ListGroupsResponse(groups=groups), 4)
    assert kafka_groups.listed(1, answer) == {"billing": "Empty", "simple": "Stable", "new": None}
    with pytest.raises(ReadFailed, match="CoordinatorLoadInProgress"):
        kafka_groups.listed(1, encoded(ListGroupsResponse(error_code=14, groups=[]), 4))


def test_a_group_that_is_not_in_the_answer_is_no_group_without_offsets():
    found = kafka_groups.committed(lambda _: {1: {"billing": {}}}, {1: ["billing", "idle"]}, 5)
    assert found[1]["billing"] == {}
    assert isinstance(found[1]["idle"], ReadFailed)
    assert "idle: not in the answer" in found[1]["idle"].message


def test_many_groups_in_parts_of_each_broker(monkeypatch):
    asked = []

    def ask(part):
        asked.append({broker: len(names) for broker, names in part.items()})
        return {broker: {group: {} for group in names} for broker, names in part.items()}

    groups = [f"group-{n}" for n in range(600)]
    found = kafka_groups.committed(ask, {1: groups, 2: ["other"]}, 5)
    assert list(found[1]) == groups
    assert asked == [{1: 250, 2: 1}, {1: 250}, {1: 100}]
    ticks = iter([0.0, 100.0])
    monkeypatch.setattr(kafka_groups.time, "monotonic", lambda: next(ticks))
    found = kafka_groups.committed(ask, {1: groups, 2: ["other"]}, 5)
    late = {g: told for g, told in found[1].items() if isinstance(told, ReadFailed)}
    assert list(late) == groups[250:]
    assert "251 of 601 groups read in time" in late["group-599"].message
    assert found[2] == {"other": {}}


def test_a_coordinator_that_does_not_answer_takes_its_own_groups_along_and_is_asked_once():
    asked = []

    def ask(part):
        asked.append(sorted(part))
        return {b: REFUSED if b == 2 else {group: {} for group in names} for b, names in part.items()}

    theirs = [f"group-{n}" for n in range(400)]
    found = kafka_groups.committed(ask, {1: [f"mine-{n}" for n in range(300)], 2: theirs}, 5)
    assert set(found[2].values()) == {REFUSED}
    assert len(found[2]) == 400
    assert REFUSED not in found[1].values()
    assert asked == [[1, 2], [1]]


def test_of_two_brokers_that_list_a_group_the_one_that_answers_for_it_counts():
    at = Committed(10)
    states = {1: {"billing": "Stable"}, 2: {"billing": "Empty"}}
    one = kafka_groups.merged(states, {1: {"billing": REFUSED}, 2: {"billing": {ORDERS: at}}}, {})
    assert one == Groups((GroupOffsets("billing", "Empty", {ORDERS: at}),))
    both = kafka_groups.merged(states, {1: {"billing": {ORDERS: at}}, 2: {"billing": {ORDERS: Committed(4)}}}, {})
    assert both.offsets == ()
    assert "two brokers answer" in both.unread["billing"].message


class Link:
    """Each broker's list of groups, and the offsets that it tells of them."""

    seconds = 5.0

    def __init__(self, lists, offsets):
        self.lists, self.offsets = lists, offsets

    def ask_each(self, brokers, request, _, what):
        told = self.lists if what == "groups" else self.offsets
        assert all(request(b) for b in brokers)
        return {b: told[b] for b in brokers}


def test_one_broker_that_fails_leaves_the_groups_of_the_others():
    at = {ORDERS: Committed(10)}
    link = Link(
        {1: {"billing": "Empty", "left": "Empty"}, 2: REFUSED, 3: {"audit": "Empty"}}, {1: {"billing": at}, 3: REFUSED}
    )
    found = kafka_groups.KafkaGroups(link).read(lambda name: name != "left", [1, 2, 3])
    assert [g.group for g in found.offsets] == ["billing"]
    assert found.unread == {"audit": REFUSED}
    assert found.unlisted == {2: REFUSED}


@pytest.mark.parametrize("brokers", [[], [2]])
def test_no_list_at_all_is_not_no_group(brokers):
    with pytest.raises(ReadFailed):
        kafka_groups.KafkaGroups(Link({2: REFUSED}, {})).read(lambda _: True, brokers)


def test_members_of_groups_that_can_be_told():
    member = {"member_id": "m", "client_id": "shop", "client_host": "/10.0.0.7", "member_metadata": None}
    answer = {"billing": {"members": [member], "error": None}, "new": {"members": [], "error": "GroupIdNotFound"}}
    assert kafka_groups.members(answer) == {"billing": (GroupMember("shop", "/10.0.0.7"),)}
    assert str(GroupMember("shop", "/10.0.0.7")) == "shop at 10.0.0.7"


def test_groups_of_the_new_protocol_are_asked_in_its_own_words_of_their_coordinators():
    answered, asked = kafka_groups.ConsumerGroupDescribeResponse, []
    described, told_of = answered.DescribedGroup, answered.DescribedGroup.Member
    nothing = told_of.Assignment(topic_partitions=[])
    member = told_of(client_id="shop", client_host="/10.0.0.7", assignment=nothing, target_assignment=nothing)

    class Manager:
        async def send(self, request, node_id):
            asked.append((node_id, request.group_ids))
            told = [
                described(group_id=group, error_code=69 * (group == "gone"), members=[member])
                for group in request.group_ids
            ]
            return answered.decode(answered(groups=told).encode(version=1), version=1)

    async def coordinators(groups):
        return {group: 1 if group == "billing" else 2 for group in groups}

    client = SimpleNamespace(_manager=Manager(), _find_coordinator_ids=coordinators)
    found = asyncio.run(kafka_groups._describe(client, ["billing", "gone"]))
    assert found == {"billing": (GroupMember("shop", "/10.0.0.7"),)}
    assert asked == [(1, ["billing"]), (2, ["gone"])]


def test_members_of_groups_whose_coordinator_answers_are_named_though_another_does_not():
    """Of three, one coordinator is not available, one does not answer, and one does."""
    member = {"client_id": "shop", "client_host": "/10.0.0.7"}

    async def coordinators(groups):
        if "lost" in groups:
            raise errors.CoordinatorNotAvailableError("lost")
        return {group: 1 if group == "billing" else 2 for group in groups}

    async def describe(groups, node):
        if node == 2:
            raise errors.KafkaTimeoutError("late")
        return {group: {"members": [member], "error": None} for group in groups}

    cache = {"billing": 1}
    client = SimpleNamespace(
        _manager=SimpleNamespace(cluster=SimpleNamespace(_coordinators=cache)),
        _find_coordinator_ids=coordinators, _async_describe_groups=describe,
    )  # fmt: skip
    found = asyncio.run(kafka_groups._classic(client, ["billing", "lost", "audit"]))
    assert found == {"billing": (GroupMember("shop", "/10.0.0.7"),)}
    assert cache == {}, "who coordinates is asked anew"
    with pytest.raises(errors.CoordinatorNotAvailableError):
        asyncio.run(kafka_groups._classic(client, ["lost", "audit"]))


def test_partitions_with_an_offset_that_is_not_settled_yet():
    answered, asked = OffsetFetchResponse, []
    group_of, topic_of = answered.OffsetFetchResponseGroup, answered.OffsetFetchResponseGroup.OffsetFetchResponseTopics
    part = topic_of.OffsetFetchResponsePartitions

    class Manager:
        broker_version_data = SimpleNamespace(api_version=lambda _: 8)
        error = 0

        async def send(self, request, node_id):
            asked.append((node_id, request.require_stable))
            codes = {0: 88, 1: 0}
            parts = [part(partition_index=n, committed_offset=3, error_code=code) for n, code in codes.items()]
            told = group_of(
                group_id="billing", error_code=self.error, topics=[topic_of(name="orders", partitions=parts)]
            )
            return answered.decode(answered(groups=[told]).encode(version=8), version=8)

    async def coordinators(groups):
        return dict.fromkeys(groups, 2)

    def requests(wanted):
        return GroupAdminMixin._list_group_offsets_requests(client, wanted)

    client = SimpleNamespace(
        _manager=Manager(), _find_coordinator_ids=coordinators, _list_group_offsets_requests=requests
    )
    assert asyncio.run(kafka_groups._unsettled(client, "billing")) == [TopicPartition("orders", 0)]
    assert asked == [(2, True)]
    client._manager.error = 14
    with pytest.raises(errors.CoordinatorLoadInProgressError):
        asyncio.run(kafka_groups._unsettled(client, "billing"))


@pytest.mark.parametrize(
    "call",
    [
        "list_consumer_group_offsets",
        "describe_consumer_groups",
        "delete_consumer_groups",
        "alter_consumer_group_offsets",
    ],
)
def test_librdkafka_is_asked_nothing_that_goes_to_a_coordinator(call):
    """It aborts the process when the coordinator goes away in between (librdkafka#3663)."""
    assert hasattr(AdminClient, call)
    with open(librdkafka.__file__) as source:
        assert call not in source.read()
