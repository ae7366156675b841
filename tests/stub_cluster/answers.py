"""Dispatch of requests. The same request gets the same bytes again, without another encoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.consumer.offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

from kafka_medic.clients.kafka_groups import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from tests.stub_cluster.controller import Controller
from tests.stub_cluster.description import Address, Described, Sight
from tests.stub_cluster.groups import Groups
from tests.stub_cluster.logs import Logs
from tests.stub_cluster.membership import Membership
from tests.stub_cluster.messages import OFFERED, BadRequest, Request, body, decoded, head
from tests.stub_cluster.settings import Settings

MESSAGES: Mapping[int, tuple[Any, Any]] = {
    request.API_KEY: (request, answer)
    for request, answer in (
        (ApiVersionsRequest, ApiVersionsResponse),
        (ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
        (DescribeClusterRequest, DescribeClusterResponse),
        (DescribeConfigsRequest, DescribeConfigsResponse),
        (DescribeGroupsRequest, DescribeGroupsResponse),
        (DescribeLogDirsRequest, DescribeLogDirsResponse),
        (DescribeQuorumRequest, DescribeQuorumResponse),
        (FindCoordinatorRequest, FindCoordinatorResponse),
        (ListGroupsRequest, ListGroupsResponse),
        (ListOffsetsRequest, ListOffsetsResponse),
        (ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
        (MetadataRequest, MetadataResponse),
        (OffsetFetchRequest, OffsetFetchResponse),
        (OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    )
}
"""By API key: request and response. Covers everything that the operator's observation sends, and no writes."""
ANYONE = -1
"""Stands for the broker where all brokers with the same sight give the same answer."""


class Answer(NamedTuple):
    head: bytes
    body: bytes


class Answers:
    """The answers of all brokers of a cluster. Not thread-safe."""

    def __init__(self, described: Described, addresses: Mapping[int, Address]) -> None:
        self._membership = Membership(described, addresses)
        self._settings = Settings(described)
        self._known: dict[tuple[int, str, bytes], bytes] = {}
        groups, logs, controller = Groups(described, addresses), Logs(described), Controller(described)
        self._shared: dict[int, Callable[[Any], Any]] = {
            ApiVersionsRequest.API_KEY: lambda _: self._membership.versions(),
            DescribeClusterRequest.API_KEY: self._membership.cluster,
            DescribeQuorumRequest.API_KEY: controller.quorum,
            FindCoordinatorRequest.API_KEY: groups.coordinators,
            ListPartitionReassignmentsRequest.API_KEY: controller.reassignments,
        }
        self._own: dict[int, Callable[[int, Sight, Any], Any]] = {
            ConsumerGroupDescribeRequest.API_KEY: lambda broker, _, asked: groups.consumers(broker, asked),
            DescribeGroupsRequest.API_KEY: lambda broker, _, asked: groups.described(broker, asked),
            DescribeLogDirsRequest.API_KEY: lambda broker, _, asked: logs.directories(broker, asked),
            ListGroupsRequest.API_KEY: lambda broker, _, asked: groups.listed(broker, asked),
            ListOffsetsRequest.API_KEY: logs.offsets,
            OffsetFetchRequest.API_KEY: lambda broker, _, asked: groups.offsets(broker, asked),
            OffsetForLeaderEpochRequest.API_KEY: logs.epoch_ends,
        }

    def warm(self, sight: Sight, versions: tuple[int, ...]) -> int:
        """Encode the metadata of all topics in these versions ahead of requests. Returns the size of the last."""
        return [len(self._membership.whole(sight, version)) for version in versions][-1]

    def answer(self, broker: int, sight: Sight, request: Request) -> Answer:
        """Raises BadRequest."""
        known, same = self._known, request.same
        found = known.get((ANYONE, sight.name, same)) or known.get((broker, sight.name, same))
        if request.key not in MESSAGES:
            raise BadRequest(f"API key {request.key} is not answered")
        low, high = OFFERED[request.key]
        if not low <= request.version <= high:
            if request.key != ApiVersionsRequest.API_KEY:
                raise BadRequest(f"API key {request.key} version {request.version} is not offered")
            found = body(self._membership.versions_refused(), 0)
        if found is None:
            found, anyones = self._made(broker, sight, request)
            known[ANYONE if anyones else broker, sight.name, same] = found
        return Answer(head(request, MESSAGES[request.key][1], len(found)), found)

    def _made(self, broker: int, sight: Sight, request: Request) -> tuple[bytes, bool]:
        """The body, and whether all brokers with this sight give the same answer."""
        key, asked = request.key, decoded(request, MESSAGES[request.key][0])
        if key == MetadataRequest.API_KEY:
            return self._membership.metadata(sight, asked), True
        if key == DescribeConfigsRequest.API_KEY:
            answer, anyones = self._settings.describe(broker, sight, asked)
            return body(answer, request.version), anyones
        if key in self._shared:
            return body(self._shared[key](asked), request.version), True
        return body(self._own[key](broker, sight, asked), request.version), False
