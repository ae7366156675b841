"""Requests that change something: reassignments, elections, settings and new topics. Each one is noted."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kafka import errors
from kafka.protocol.admin import (
    AlterPartitionReassignmentsResponse,
    CreateTopicsResponse,
    ElectLeadersResponse,
    IncrementalAlterConfigsResponse,
)

from tests.stub_cluster.description import Partition, Topic
from tests.stub_cluster.messages import BadRequest
from tests.stub_cluster.physics import DONE, Physics, Result
from tests.stub_cluster.settings import defaults, unexpected
from tests.stub_cluster.state import BROKER, TOPIC

PREFERRED = 0
"""KIP-460's election type."""
SET, DELETE = 0, 1
"""KIP-339's operations. Nothing here appends to a list or takes from one."""
REASSIGN, CANCEL, ELECT, ALTER, CREATE = "reassign", "cancel", "elect", "alter", "create"
BY_DEFAULT = -1
"""Of partitions and replicas in CreateTopics."""


class Order(NamedTuple):
    """`at`: seconds since the epoch. `target`: a partition, a topic or a setting. `value`: what was wanted of it.
    `error`: the code of the answer."""

    at: float
    kind: str
    target: str
    value: str
    error: int


class Orders:
    def __init__(self, physics: Physics, now: Callable[[], float] = time.time) -> None:
        self._physics = physics
        self._state = physics.state
        self._now = now
        self.taken: list[Order] = []

    def reassign(self, broker: int, request: Any) -> Any:
        topic_of = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
        part_of = topic_of.ReassignablePartitionResponse

        def one(topic: str, asked: Any) -> Any:
            code, why = self._physics.reassign((topic, asked.partition_index), asked.replicas)
            kind = CANCEL if asked.replicas is None else REASSIGN
            self._note(kind, f"{topic}-{asked.partition_index}", str(list(asked.replicas or ())), code)
            return part_of(partition_index=asked.partition_index, error_code=code, error_message=why)

        topics = [
            topic_of(name=t.name, partitions=[one(t.name, part) for part in t.partitions]) for t in request.topics
        ]
        return AlterPartitionReassignmentsResponse(
            throttle_time_ms=0,
            allow_replication_factor_change=True,
            error_code=0,
            error_message=None,
            responses=topics,
        )

    def elect(self, broker: int, request: Any) -> Any:
        """Without a list, all partitions; those that need no election are then left out (KIP-460)."""
        if request.election_type != PREFERRED:
            raise BadRequest(f"an election of type {request.election_type} is not answered")
        topic_of = ElectLeadersResponse.ReplicaElectionResult
        part_of = topic_of.PartitionResult
        wanted: Iterable[tuple[str, Iterable[int]]]
        if request.topic_partitions is None:
            wanted = [(t.name, range(len(t.partitions))) for t in self._state.fresh.topics.values()]
        else:
            wanted = [(t.topic, t.partitions) for t in request.topic_partitions]
        results = []
        for topic, numbers in wanted:
            parts = []
            for number in numbers:
                code, why = self._physics.elect((topic, number))
                if request.topic_partitions is None and code == errors.ElectionNotNeededError.errno:
                    continue
                self._note(ELECT, f"{topic}-{number}", "", code)
                parts.append(part_of(partition_id=number, error_code=code, error_message=why))
            if parts:
                results.append(topic_of(topic=topic, partition_result=parts))
        return ElectLeadersResponse(throttle_time_ms=0, error_code=0, replica_election_results=results)

    def alter(self, broker: int, request: Any) -> Any:
        one = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
        found = []
        for asked in request.resources:
            code, why = self._altered(broker, asked, request.validate_only)
            if not request.validate_only:
                resource = f"{'topic' if asked.resource_type == TOPIC else 'broker'} {asked.resource_name}"
                for entry in asked.configs:
                    value = "" if entry.config_operation == DELETE else str(entry.value)
                    self._note(ALTER, f"{resource} {entry.name}", value, code)
            found.append(
                one(
                    error_code=code,
                    error_message=why,
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                )
            )
        return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=found)

    def create(self, broker: int, request: Any) -> Any:
        one = CreateTopicsResponse.CreatableTopicResult
        found = []
        for asked in request.topics:
            topic, (code, why) = self._created(asked)
            if topic is not None and not request.validate_only:
                self._state.make(topic)
            if not request.validate_only:
                self._note(CREATE, asked.name, "", code)
            found.append(
                one(
                    name=asked.name,
                    topic_id=uuid.UUID(int=0) if topic is None else topic.id,
                    error_code=code,
                    error_message=why,
                    topic_config_error_code=0,
                    num_partitions=-1 if topic is None else len(topic.partitions),
                    replication_factor=-1 if topic is None else len(topic.partitions[0].replicas),
                    configs=[],
                )
            )
        return CreateTopicsResponse(throttle_time_ms=0, topics=found)

    def _note(self, kind: str, target: str, value: str, error: int) -> None:
        self.taken.append(Order(self._now(), kind, target, value, error))

    def _altered(self, broker: int, asked: Any, validate_only: bool) -> Result:
        kind, name, state = asked.resource_type, asked.resource_name, self._state
        before: Mapping[str, str]
        if kind == TOPIC:
            if name not in state.fresh.topics:
                return errors.UnknownTopicOrPartitionError.errno, ""
            before = state.fresh.topics[name].settings
            if strange := [entry.name for entry in asked.configs if entry.name not in defaults("topic")]:
                return errors.InvalidConfigurationError.errno, f"Unknown topic config name: {strange[0]}"
        elif kind == BROKER:
            if name and name != str(broker):
                return errors.InvalidRequestError.errno, unexpected(broker, name)
            before = state.own[broker] if name else state.shared
        else:
            return errors.InvalidRequestError.errno, f"Unsupported resource type: {kind}"
        after = dict(before)
        for entry in asked.configs:
            if entry.config_operation == DELETE:
                after.pop(entry.name, None)
            elif entry.config_operation == SET and entry.value is not None:
                after[entry.name] = entry.value
            else:
                raise BadRequest(f"operation {entry.config_operation} on a setting is not answered")
        if validate_only or after == dict(before):
            return DONE
        if kind == TOPIC:
            state.set_topic(name, after)
        else:
            state.set_broker(int(name) if name else None, after)
        return DONE

    def _created(self, asked: Any) -> tuple[Topic | None, Result]:
        """With the wanted assignment, or with brokers in order of id."""
        state = self._state
        if asked.name in state.fresh.topics:
            return None, (errors.TopicAlreadyExistsError.errno, f"Topic '{asked.name}' already exists.")
        assignment = {part.partition_index: tuple(part.broker_ids) for part in asked.assignments}
        if not assignment:
            members = sorted(state.members)
            count = 1 if asked.num_partitions == BY_DEFAULT else asked.num_partitions
            factor = int(state.described.files.get("default.replication.factor", "1"))
            factor = factor if asked.replication_factor == BY_DEFAULT else asked.replication_factor
            if not 0 < factor <= len(members) or count < 1:
                why = f"{count} partitions with {factor} replicas on {len(members)} brokers"
                return None, (errors.InvalidReplicationFactorError.errno, why)
            assignment = {n: tuple(members[(n + k) % len(members)] for k in range(factor)) for n in range(count)}
        valid = all(ids and len(set(ids)) == len(ids) and state.racks.keys() >= set(ids) for ids in assignment.values())
        if sorted(assignment) != list(range(len(assignment))) or not valid:
            return None, (
                errors.InvalidReplicationAssignmentError.errno,
                "The manual partition assignment is not valid.",
            )
        partitions = []
        for _, ids in sorted(assignment.items()):
            isr = tuple(b for b in ids if b in state.members)
            partitions.append(Partition(isr[0] if isr else -1, 0, ids, isr or ids))
        settings = {entry.name: entry.value for entry in asked.configs if entry.value is not None}
        return Topic(asked.name, uuid.uuid4(), tuple(partitions), settings), DONE
