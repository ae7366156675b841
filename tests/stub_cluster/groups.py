"""Consumer groups: ListGroups, FindCoordinator, OffsetFetch, DescribeGroups and ConsumerGroupDescribe."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any
from zlib import crc32

from kafka import errors
from kafka.protocol.admin import DescribeGroupsResponse, ListGroupsResponse
from kafka.protocol.consumer import OffsetFetchResponse
from kafka.protocol.metadata import FindCoordinatorResponse

from kafka_medic.clients.kafka_groups import ConsumerGroupDescribeResponse
from tests.stub_cluster.description import Address, Commit, Group
from tests.stub_cluster.state import State

CONSUMERS = "consumer"
OF_GROUPS = 0
"""FindCoordinator's key type."""
_NOT_HERE: int = errors.NotCoordinatorError.errno
_NOT_THERE: int = errors.GroupIdNotFoundError.errno


class Groups:
    def __init__(self, state: State, addresses: Mapping[int, Address]) -> None:
        self._state = state
        self._described = state.described
        self._addresses = addresses

    def listed(self, broker: int, request: Any) -> Any:
        one = ListGroupsResponse.ListedGroup
        states, kinds = (set(getattr(request, name, None) or ()) for name in ("states_filter", "types_filter"))
        groups = [
            one(group_id=g.name, protocol_type=CONSUMERS, group_state=g.state, group_type=_kind(g))
            for g in self._of(broker)
            if (not states or g.state in states) and (not kinds or _kind(g) in kinds)
        ]
        return ListGroupsResponse(throttle_time_ms=0, error_code=0, groups=groups)

    def coordinators(self, request: Any) -> Any:
        """An unknown group has a coordinator too: the hash of its name decides."""
        one = FindCoordinatorResponse.Coordinator
        if request.API_VERSION < 4:
            node, host, port = self._coordinator(request.key)
            return FindCoordinatorResponse(
                throttle_time_ms=0, error_code=0, error_message=None, node_id=node, host=host, port=port
            )
        found = []
        for key in request.coordinator_keys:
            node, host, port = self._coordinator(key)
            found.append(one(key=key, node_id=node, host=host, port=port, error_code=0, error_message=None))
        return FindCoordinatorResponse(throttle_time_ms=0, coordinators=found)

    def offsets(self, broker: int, request: Any) -> Any:
        if request.API_VERSION >= 8:
            groups = [self._offsets(broker, asked, request.API_VERSION) for asked in request.groups]
            return OffsetFetchResponse(throttle_time_ms=0, groups=groups)
        topic_of = OffsetFetchResponse.OffsetFetchResponseTopic
        code, committed = self._committed(broker, request.group_id)
        topics = [
            topic_of(name=topic, partitions=[_commit(topic_of.OffsetFetchResponsePartition, *one) for one in commits])
            for topic, commits in _by_topic(committed, _wanted(request.topics))
        ]
        return OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=code)

    def described(self, broker: int, request: Any) -> Any:
        """Groups of the classic protocol. Version 6 and later report other groups as not found (KIP-1043)."""
        one = DescribeGroupsResponse.DescribedGroup
        member_of = one.DescribedGroupMember
        found = []
        for name in request.groups:
            group = self._described.group.get(name)
            there = group is not None and not group.consumer
            code = 0 if there else _NOT_THERE if request.API_VERSION >= 6 else 0
            if group is not None and self._state.coordinator(group) != broker:
                code, there = _NOT_HERE, False
            members = [
                member_of(
                    member_id=f"{m.client_id}-{n}",
                    group_instance_id=None,
                    client_id=m.client_id,
                    client_host=m.client_host,
                    member_metadata=b"",
                    member_assignment=b"",
                )
                for n, m in enumerate(group.members if group is not None and there else ())
            ]
            found.append(
                one(
                    error_code=code,
                    error_message=None if there or not code else f"Group {name} not found.",
                    group_id=name,
                    group_state=group.state if group is not None and there else "Dead",
                    protocol_type=CONSUMERS if there else "",
                    protocol_data="range" if members else "",
                    members=members,
                )
            )
        return DescribeGroupsResponse(throttle_time_ms=0, groups=found)

    def consumers(self, broker: int, request: Any) -> Any:
        """Groups of KIP-848's protocol."""
        one = ConsumerGroupDescribeResponse.DescribedGroup
        member_of = one.Member
        nothing = member_of.Assignment(topic_partitions=[])
        found = []
        for name in request.group_ids:
            group = self._described.group.get(name)
            code = _NOT_THERE if group is None or not group.consumer else 0
            if group is not None and self._state.coordinator(group) != broker:
                code = _NOT_HERE
            members = [
                member_of(
                    member_id=str(uuid.UUID(int=n)),
                    instance_id=None,
                    rack_id=None,
                    member_epoch=1,
                    client_id=m.client_id,
                    client_host=m.client_host,
                    subscribed_topic_names=[],
                    subscribed_topic_regex=None,
                    assignment=nothing,
                    target_assignment=nothing,
                    member_type=1,
                )
                for n, m in enumerate(group.members if group is not None and not code else ())
            ]
            found.append(
                one(
                    error_code=code,
                    error_message=None,
                    group_id=name,
                    group_state=group.state if group is not None and not code else "",
                    group_epoch=1,
                    assignment_epoch=1,
                    assignor_name="uniform",
                    members=members,
                )
            )
        return ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=found)

    def _coordinator(self, name: str) -> tuple[int, str, int]:
        group = self._described.group.get(name)
        brokers = sorted(self._state.members)
        node = self._state.coordinator(group) if group is not None else brokers[crc32(name.encode()) % len(brokers)]
        return node, *self._addresses[node]

    def _of(self, broker: int) -> Iterable[Group]:
        """Its own groups, and those that it has taken over from a broker that is away."""
        away = self._state.racks.keys() - self._state.members
        for at in sorted({broker, *away}):
            yield from (g for g in self._described.groups_of[at] if self._state.coordinator(g) == broker)

    def _committed(self, broker: int, name: str) -> tuple[int, Mapping[tuple[str, int], Commit]]:
        group = self._described.group.get(name)
        if group is None:
            return 0, {}
        return (0, group.committed) if self._state.coordinator(group) == broker else (_NOT_HERE, {})

    def _offsets(self, broker: int, asked: Any, version: int) -> Any:
        one = OffsetFetchResponse.OffsetFetchResponseGroup
        topic_of = one.OffsetFetchResponseTopics
        part_of = topic_of.OffsetFetchResponsePartitions
        code, committed = self._committed(broker, asked.group_id)
        topics = []
        for topic, commits in _by_topic(committed, _wanted(asked.topics, self._state.by_id if version >= 10 else None)):
            known = self._state.fresh.topics.get(topic)
            parts = [_commit(part_of, *found) for found in commits]
            topics.append(topic_of(name=topic, topic_id=known.id if known else uuid.UUID(int=0), partitions=parts))
        return one(group_id=asked.group_id, topics=topics, error_code=code)


def _kind(group: Group) -> str:
    return "consumer" if group.consumer else "classic"


def _wanted(topics: Any, by_id: Mapping[uuid.UUID, str] | None = None) -> dict[str, list[int]] | None:
    """None: every committed offset."""
    if topics is None:
        return None
    return {(by_id.get(t.topic_id, "") if by_id else t.name): list(t.partition_indexes) for t in topics}


def _by_topic(
    committed: Mapping[tuple[str, int], Commit], wanted: dict[str, list[int]] | None
) -> Iterable[tuple[str, list[tuple[int, Commit]]]]:
    """A requested partition without a committed offset gets -1."""
    if wanted is not None:
        none = Commit(-1)
        for topic, numbers in wanted.items():
            yield topic, [(n, committed.get((topic, n), none)) for n in numbers]
        return
    for topic, found in groupby(sorted(committed.items()), key=lambda item: item[0][0]):
        yield topic, [(number, commit) for (_, number), commit in found]


def _commit(part_of: Any, number: int, commit: Commit) -> Any:
    return part_of(
        partition_index=number,
        committed_offset=commit.offset,
        committed_leader_epoch=commit.epoch,
        metadata=commit.metadata,
        error_code=0,
    )
