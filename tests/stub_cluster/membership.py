"""Brokers and partitions: ApiVersions, Metadata and DescribeCluster."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from kafka import errors
from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

from tests.stub_cluster.description import Address, Described, Partition, Sight, Topic
from tests.stub_cluster.messages import OFFERED, body

BROKERS = 1
"""KIP-919's endpoint type."""
_TOPIC = MetadataResponse.MetadataResponseTopic
_PARTITION = _TOPIC.MetadataResponsePartition


class Membership:
    """`addresses`: where each broker listens. Metadata names the first broker as controller. A KRaft broker names any
    live broker (KIP-590), but shared bytes need a fixed one."""

    def __init__(self, described: Described, addresses: Mapping[int, Address]) -> None:
        self._described = described
        self._addresses = addresses
        self._by_id = {topic.id: topic.name for topic in described.topics}
        self._whole: dict[tuple[str, int], bytes] = {}

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
        """A request without a list of topics gets all topics, encoded once per version."""
        version = request.API_VERSION
        if request.topics is None or (version == 0 and not request.topics):
            return self.whole(sight, version)
        return body(self._metadata([self._named(sight, asked) for asked in request.topics]), version)

    def whole(self, sight: Sight, version: int) -> bytes:
        found = self._whole.get((sight.name, version))
        if found is None:
            topics = (_known(topic) for topic in sight.topics.values())
            found = self._whole[sight.name, version] = body(self._metadata(topics), version)
        return found

    def cluster(self, request: Any) -> Any:
        """Refuses a request for controllers, as kafka.server.AuthHelper does."""
        described = self._described
        if request.endpoint_type != BROKERS:
            code = errors.MismatchedEndpointTypeError.errno
            return DescribeClusterResponse(throttle_time_ms=0, error_code=code, cluster_id="", brokers=[])
        one = DescribeClusterResponse.DescribeClusterBroker
        return DescribeClusterResponse(
            throttle_time_ms=0,
            error_code=0,
            error_message=None,
            endpoint_type=BROKERS,
            cluster_id=described.cluster_id,
            controller_id=min(described.racks),
            brokers=[
                one(broker_id=b, host=self._addresses[b][0], port=self._addresses[b][1], rack=rack, is_fenced=False)
                for b, rack in described.racks.items()
            ],
        )

    def _metadata(self, topics: Iterable[Any]) -> Any:
        described, one = self._described, MetadataResponse.MetadataResponseBroker
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[
                one(node_id=b, host=self._addresses[b][0], port=self._addresses[b][1], rack=rack)
                for b, rack in described.racks.items()
            ],
            cluster_id=described.cluster_id,
            controller_id=min(described.racks),
            topics=list(topics),
            error_code=0,
        )

    def _named(self, sight: Sight, asked: Any) -> Any:
        by_id: uuid.UUID | None = getattr(asked, "topic_id", None)
        name = asked.name if asked.name is not None or by_id is None else self._by_id.get(by_id)
        topic = None if name is None else sight.topics.get(name)
        if topic is not None:
            return _known(topic)
        error = errors.UnknownTopicOrPartitionError if asked.name is not None else errors.UnknownTopicIdError
        none = uuid.UUID(int=0) if by_id is None else by_id
        return _TOPIC(error_code=error.errno, name=asked.name, topic_id=none, is_internal=False, partitions=[])


def _known(topic: Topic) -> Any:
    return _TOPIC(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        is_internal=False,
        partitions=[_partition(number, partition) for number, partition in enumerate(topic.partitions)],
    )


def _partition(number: int, partition: Partition) -> Any:
    code = errors.LeaderNotAvailableError.errno if partition.leader < 0 else 0
    return _PARTITION(
        error_code=code,
        partition_index=number,
        leader_id=partition.leader,
        leader_epoch=partition.epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=(),
    )
