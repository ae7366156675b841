"""Committed offsets: of all groups that were asked for, in parts, or none."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from confluent_kafka.admin import AdminClient
from kafka import errors
from kafka.admin._groups import GroupAdminMixin
from kafka.protocol.consumer.group import OffsetFetchResponse

from kafka_medic.clients import kafka_groups, librdkafka
from kafka_medic.clients.ports import ReadFailed
from kafka_medic.cluster.groups import Committed, GroupMember
from kafka_medic.cluster.snapshot import TopicPartition


def answered(**offsets):
    return {
        group: {
            TopicPartition("orders", n): SimpleNamespace(offset=o, leader_epoch=-1, metadata="")
            for n, o in enumerate(told)
        }
        for group, told in offsets.items()
    }


def test_offsets_by_group_without_those_that_were_never_committed():
    found = kafka_groups.committed(lambda *_: answered(billing=[10, -1], idle=[]), ["billing", "idle"], 5)
    assert found == {"billing": {TopicPartition("orders", 0): Committed(10)}, "idle": {}}


def test_a_group_that_is_not_in_the_answer_is_no_group_without_offsets():
    with pytest.raises(ReadFailed, match="idle: not in the answer"):
        kafka_groups.committed(lambda *_: answered(billing=[10]), ["billing", "idle"], 5)


def test_many_groups_in_parts(monkeypatch):
    asked = []

    def ask(wanted, what):
        asked.append((len(wanted), what))
        return {group: {} for group in wanted}

    groups = [f"group-{n}" for n in range(600)]
    assert list(kafka_groups.committed(ask, groups, 5)) == groups
    assert asked[0] == (250, "offsets of 250 groups from group-0 on")
    assert [number for number, _ in asked] == [250, 250, 100]
    ticks = iter([0.0, 100.0])
    monkeypatch.setattr(kafka_groups.time, "monotonic", lambda: next(ticks))
    with pytest.raises(ReadFailed, match="250 of 600 groups read in time"):
        kafka_groups.committed(ask, groups, 5)


def test_what_was_committed_with_it_is_kept():
    told = {"billing": {TopicPartition("orders", 0): SimpleNamespace(offset=4, leader_epoch=7, metadata="m")}}
    found = kafka_groups.committed(lambda *_: told, ["billing"], 5)
    assert found == {"billing": {TopicPartition("orders", 0): Committed(4, 7, "m")}}


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
