"""Brokers and partitions: ApiVersions, Metadata and DescribeCluster.

Each topic is encoded once per version. Every answer is a join of such pieces, so a change costs as much as the topics
that it concerns.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from kafka import errors
from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

from tests.stub_cluster.description import Address, Partition, Sight, Topic
from tests.stub_cluster.messages import OFFERED, body, length
from tests.stub_cluster.state import Changes, State

BROKERS = 1
"""KIP-919's endpoint type."""
FLEXIBLE = 9
_BEHIND_TOPICS = {9: 5, 10: 5, 11: 1, 12: 1, 13: 3}
"""By version, the bytes behind the topics: authorized operations, the error code (KIP-1102), tagged fields."""
_TOPIC = MetadataResponse.MetadataResponseTopic
_PARTITION = _TOPIC.MetadataResponsePartition


class Membership:
    """`addresses`: where each broker listens. Metadata names the first broker as controller. A KRaft broker names any
    live broker (KIP-590), but shared bytes need a fixed one."""

    def __init__(self, state: State, addresses: Mapping[int, Address]) -> None:
        self._state = state
        self._addresses = addresses
        self._whole: dict[tuple[str, int], bytes] = {}
        self._pieces: defaultdict[tuple[str, int], dict[str, bytes]] = defaultdict(dict)

    def forget(self, changes: Changes) -> None:
        """What is encoded of these topics is outdated."""
        self._whole.clear()
        for pieces in self._pieces.values():
            for name in changes.topics:
                pieces.pop(name, None)

    def versions(self) -> Any:
        one = ApiVersionsResponse.ApiVersion
        keys = [one(api_key=key, min_version=low, max_version=high) for key, (low, high) in OFFERED.items()]
        return ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0)

    def versions_refused(self) -> Any:
        """For a request version that the broker does not know; encoded in version 0 (KIP-511)."""
        one = ApiVersionsResponse.ApiVersion
        low, high = OFFERED[ApiVersionsResponse.API_KEY]
        known = [one(api_key=ApiVersionsResponse.API_KEY, min_version=low, max_version=high)]
        return ApiVersionsResponse(error_code=errors.UnsupportedVersionError.errno, api_keys=known, throttle_time_ms=0)

    def metadata(self, sight: Sight, request: Any) -> bytes:
        """A request without a list of topics gets all topics."""
        version = request.API_VERSION
        if request.topics is None or (version == 0 and not request.topics):
            return self.whole(sight, version)
        if version < FLEXIBLE:
            return body(self._metadata([self._named(sight, asked) for asked in request.topics]), version)
        return self._joined([self._of(sight, asked, version) for asked in request.topics], version)

    def whole(self, sight: Sight, version: int) -> bytes:
        found = self._whole.get((sight.name, version))
        if found is None:
            if version < FLEXIBLE:
                found = body(self._metadata(map(self._known, sight.topics.values())), version)
            else:
                found = self._joined([self._piece(sight, name, version) for name in sight.topics], version)
            self._whole[sight.name, version] = found
        return found

    def cluster(self, request: Any) -> Any:
        """Refuses a request for controllers, as kafka.server.AuthHelper does."""
        state = self._state
        if request.endpoint_type != BROKERS:
            code = errors.MismatchedEndpointTypeError.errno
            return DescribeClusterResponse(throttle_time_ms=0, error_code=code, cluster_id="", brokers=[])
        one = DescribeClusterResponse.DescribeClusterBroker
        return DescribeClusterResponse(
            throttle_time_ms=0,
            error_code=0,
            error_message=None,
            endpoint_type=BROKERS,
            cluster_id=state.described.cluster_id,
            controller_id=min(state.members, default=-1),
            brokers=[
                one(broker_id=b, host=self._addresses[b][0], port=self._addresses[b][1], rack=rack, is_fenced=False)
                for b, rack in state.racks.items()
                if b in state.members
            ],
        )

    def _metadata(self, topics: Iterable[Any]) -> Any:
        state, one = self._state, MetadataResponse.MetadataResponseBroker
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[
                one(node_id=b, host=self._addresses[b][0], port=self._addresses[b][1], rack=rack)
                for b, rack in state.racks.items()
                if b in state.members
            ],
            cluster_id=state.described.cluster_id,
            controller_id=min(state.members, default=-1),
            topics=list(topics),
            error_code=0,
        )

    def _joined(self, pieces: Collection[bytes], version: int) -> bytes:
        none, behind = body(self._metadata([]), version), _BEHIND_TOPICS[version]
        before = len(none) - behind - 1
        return b"".join((none[:before], length(len(pieces)), *pieces, none[len(none) - behind :]))

    def _of(self, sight: Sight, asked: Any, version: int) -> bytes:
        if asked.name is not None and asked.name in sight.topics:
            return self._piece(sight, asked.name, version)
        return _encoded(self._named(sight, asked), version)

    def _piece(self, sight: Sight, name: str, version: int) -> bytes:
        pieces = self._pieces[sight.name, version]
        if (piece := pieces.get(name)) is None:
            piece = pieces[name] = _encoded(self._known(sight.topics[name]), version)
        return piece

    def _named(self, sight: Sight, asked: Any) -> Any:
        by_id: uuid.UUID | None = getattr(asked, "topic_id", None)
        name = asked.name if asked.name is not None or by_id is None else self._state.by_id.get(by_id)
        topic = None if name is None else sight.topics.get(name)
        if topic is not None:
            return self._known(topic)
        error = errors.UnknownTopicOrPartitionError if asked.name is not None else errors.UnknownTopicIdError
        none = uuid.UUID(int=0) if by_id is None else by_id
        return _TOPIC(error_code=error.errno, name=asked.name, topic_id=none, is_internal=False, partitions=[])

    def _known(self, topic: Topic) -> Any:
        members = self._state.members
        if len(members) == len(self._state.racks):
            offline: Callable[[Partition], tuple[int, ...]] = lambda _: ()  # noqa: E731
        else:
            offline = lambda partition: tuple(b for b in partition.replicas if b not in members)  # noqa: E731
        return _TOPIC(
            error_code=0,
            name=topic.name,
            topic_id=topic.id,
            is_internal=False,
            partitions=[
                _partition(number, partition, offline(partition)) for number, partition in enumerate(topic.partitions)
            ],
        )


def _encoded(topic: Any, version: int) -> bytes:
    """One topic as it stands in an answer of a flexible version (KIP-482)."""
    bare = MetadataResponse(
        throttle_time_ms=0, brokers=[], cluster_id=None, controller_id=-1, topics=[topic], error_code=0
    )
    alone, behind = body(bare, version), _BEHIND_TOPICS[version]
    # In front: the throttle time, no brokers, no cluster id, the controller's id, and the number of topics.
    return alone[4 + 1 + 1 + 4 + 1 : len(alone) - behind]


def _partition(number: int, partition: Partition, offline: tuple[int, ...]) -> Any:
    code = errors.LeaderNotAvailableError.errno if partition.leader < 0 else 0
    return _PARTITION(
        error_code=code,
        partition_index=number,
        leader_id=partition.leader,
        leader_epoch=partition.epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=offline,
    )
