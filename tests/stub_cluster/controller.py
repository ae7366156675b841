"""Requests that brokers forward to the active controller: DescribeQuorum and ListPartitionReassignments."""

from __future__ import annotations

import uuid
from typing import Any

from kafka.protocol.admin import DescribeQuorumResponse, ListPartitionReassignmentsResponse

from tests.stub_cluster.description import Move
from tests.stub_cluster.physics import Physics

END, NOW_MS = 1_000_000, 1_767_268_800_000
"""The metadata log's end, and the time at which the voters that are up were caught up."""


class Controller:
    def __init__(self, physics: Physics) -> None:
        self._physics = physics
        self._state = physics.state
        self._leader, self._epoch = self._elected(), 1

    def quorum(self, request: Any) -> Any:
        """Every voter that is up is caught up. When the leader goes, the first of them leads."""
        if self._leader not in self._state.members:
            self._leader, self._epoch = self._elected(), self._epoch + 1
        leader = self._leader
        topic_of = DescribeQuorumResponse.TopicData
        part_of = topic_of.PartitionData
        voter_of = part_of.ReplicaState
        now, away = self._physics.clock(), self._physics.away

        def one(id_: int) -> Any:
            caught_up = NOW_MS - (int((now - away[id_]) * 1000) if id_ in away else 0)
            return voter_of(
                replica_id=id_,
                replica_directory_id=uuid.UUID(int=id_ + 1),
                log_end_offset=END - (id_ in away),
                last_fetch_timestamp=-1 if id_ == leader else caught_up,
                last_caught_up_timestamp=caught_up,
            )

        part = part_of(
            partition_index=0,
            error_code=0,
            error_message=None,
            leader_id=leader,
            leader_epoch=self._epoch,
            high_watermark=END,
            current_voters=[one(v) for v in self._state.described.voters],
            observers=[],
        )
        topics = [topic_of(topic_name="__cluster_metadata", partitions=[part])]
        return DescribeQuorumResponse(error_code=0, error_message=None, topics=topics, nodes=[])

    def reassignments(self, request: Any) -> Any:
        """All reassignments in flight, or only those of the requested partitions."""
        topic_of = ListPartitionReassignmentsResponse.OngoingTopicReassignment
        part_of = topic_of.OngoingPartitionReassignment
        wanted = None
        if request.topics is not None:
            wanted = {(t.name, n) for t in request.topics for n in t.partition_indexes}
        topics: dict[str, list[tuple[int, Move]]] = {}
        for (topic, number), move in sorted(self._state.moves.items()):
            if wanted is None or (topic, number) in wanted:
                topics.setdefault(topic, []).append((number, move))
        found = [
            topic_of(
                name=name,
                partitions=[
                    part_of(
                        partition_index=number,
                        replicas=move.replicas,
                        adding_replicas=move.adding,
                        removing_replicas=move.removing,
                    )
                    for number, move in moves
                ],
            )
            for name, moves in topics.items()
        ]
        return ListPartitionReassignmentsResponse(throttle_time_ms=0, error_code=0, error_message=None, topics=found)

    def _elected(self) -> int:
        return next((v for v in self._state.described.voters if v in self._state.members), -1)
