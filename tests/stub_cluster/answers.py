"""Dispatch of requests. The same request gets the same bytes again, without another encoding."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
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
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
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
from tests.stub_cluster.orders import Orders
from tests.stub_cluster.physics import Physics
from tests.stub_cluster.settings import Settings
from tests.stub_cluster.state import Changes, State

MESSAGES: Mapping[int, tuple[Any, Any]] = {
    request.API_KEY: (request, answer)
    for request, answer in (
        (AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse),
        (ApiVersionsRequest, ApiVersionsResponse),
        (ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
        (CreateTopicsRequest, CreateTopicsResponse),
        (DescribeClusterRequest, DescribeClusterResponse),
        (DescribeConfigsRequest, DescribeConfigsResponse),
        (DescribeGroupsRequest, DescribeGroupsResponse),
        (DescribeLogDirsRequest, DescribeLogDirsResponse),
        (DescribeQuorumRequest, DescribeQuorumResponse),
        (ElectLeadersRequest, ElectLeadersResponse),
        (FindCoordinatorRequest, FindCoordinatorResponse),
        (IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
        (ListGroupsRequest, ListGroupsResponse),
        (ListOffsetsRequest, ListOffsetsResponse),
        (ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
        (MetadataRequest, MetadataResponse),
        (OffsetFetchRequest, OffsetFetchResponse),
        (OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    )
}
"""By API key: request and response. Covers what the operator's observation sends, and the orders of its playbooks that
need no record: no Produce, no Fetch, no offset commit."""
ANYONE = -1
"""Stands for the broker where all brokers with the same sight give the same answer."""
OF_PARTITIONS = (ListPartitionReassignmentsRequest.API_KEY, MetadataRequest.API_KEY)
OF_REPLICAS = (DescribeLogDirsRequest.API_KEY, ListOffsetsRequest.API_KEY, OffsetForLeaderEpochRequest.API_KEY)
"""Whose answers change where a broker's own replicas do."""
OF_MEMBERS = (
    ConsumerGroupDescribeRequest.API_KEY,
    DescribeClusterRequest.API_KEY,
    DescribeGroupsRequest.API_KEY,
    FindCoordinatorRequest.API_KEY,
    ListGroupsRequest.API_KEY,
    MetadataRequest.API_KEY,
    OffsetFetchRequest.API_KEY,
)


class Answer(NamedTuple):
    head: bytes
    body: bytes


class Answers:
    """The answers of all brokers of a cluster. Not thread-safe."""

    def __init__(
        self, described: Described, addresses: Mapping[int, Address], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.state = State(described)
        self.physics = Physics(self.state, clock)
        self.orders = Orders(self.physics)
        self._membership = Membership(self.state, addresses)
        self._settings = Settings(self.state)
        self._known: defaultdict[int, defaultdict[int, dict[tuple[str, bytes], bytes]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        groups, logs, controller = Groups(self.state, addresses), Logs(self.state), Controller(self.physics)
        self._shared: dict[int, Callable[[Any], Any]] = {
            ApiVersionsRequest.API_KEY: lambda _: self._membership.versions(),
            DescribeClusterRequest.API_KEY: self._membership.cluster,
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

        self._each_time: dict[int, Callable[[int, Any], Any]] = {
            AlterPartitionReassignmentsRequest.API_KEY: self.orders.reassign,
            CreateTopicsRequest.API_KEY: self.orders.create,
            DescribeQuorumRequest.API_KEY: lambda _, asked: controller.quorum(asked),
            ElectLeadersRequest.API_KEY: self.orders.elect,
            IncrementalAlterConfigsRequest.API_KEY: self.orders.alter,
        }

    def warm(self, sight: Sight, versions: tuple[int, ...]) -> int:
        """Encode the metadata of all topics in these versions ahead of requests. Returns the size of the last."""
        return [len(self._membership.whole(sight, version)) for version in versions][-1]

    def answer(self, broker: int, sight: Sight, request: Request) -> Answer:
        """Raises BadRequest."""
        self.physics.advance()
        self._forget()
        known, same = self._known[request.key], (sight.name, request.same)
        found = known[ANYONE].get(same) or known[broker].get(same)
        if request.key not in MESSAGES:
            raise BadRequest(f"API key {request.key} is not answered")
        low, high = OFFERED[request.key]
        if not low <= request.version <= high:
            if request.key != ApiVersionsRequest.API_KEY:
                raise BadRequest(f"API key {request.key} version {request.version} is not offered")
            found = body(self._membership.versions_refused(), 0)
        if found is None and request.key in self._each_time:
            answer = self._each_time[request.key](broker, decoded(request, MESSAGES[request.key][0]))
            found = body(answer, request.version)
        elif found is None:
            found, anyones = self._made(broker, sight, request)
            known[ANYONE if anyones else broker][same] = found
        return Answer(head(request, MESSAGES[request.key][1], len(found)), found)

    def _forget(self) -> None:
        """What has changed since the last request is encoded anew once it is asked for."""
        changes = self.state.changes
        if not changes:
            return
        self.state.changes = Changes()
        self._membership.forget(changes)
        self._settings.forget(changes)
        if changes.topics_made:
            self._known.clear()
            return
        if changes.topics:
            for key in OF_PARTITIONS:
                self._known[key].clear()
            for key in OF_REPLICAS:
                for broker in changes.brokers:
                    self._known[key].pop(broker, None)
        if changes.settings:
            self._known[DescribeConfigsRequest.API_KEY].clear()
        if changes.members:
            for key in OF_MEMBERS:
                self._known[key].clear()

    def _made(self, broker: int, sight: Sight, request: Request) -> tuple[bytes, bool]:
        """The body, and whether all brokers with this sight give the same answer."""
        key, asked = request.key, decoded(request, MESSAGES[request.key][0])
        if key == MetadataRequest.API_KEY:
            return self._membership.metadata(sight, asked), True
        if key == DescribeConfigsRequest.API_KEY:
            return self._settings.describe(broker, sight, asked)
        if key in self._shared:
            return body(self._shared[key](asked), request.version), True
        return body(self._own[key](broker, sight, asked), request.version), False
