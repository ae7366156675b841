"""Requests that brokers forward to the active controller: DescribeQuorum and ListPartitionReassignments."""

from __future__ import annotations

import uuid
from typing import Any

from kafka.protocol.admin import DescribeQuorumResponse, ListPartitionReassignmentsResponse

from tests.stub_cluster.description import Described, Move

END, NOW_MS = 1_000_000, 1_767_268_800_000
"""The metadata log's end, and the time at which all voters were caught up."""


class Controller:
    def __init__(self, described: Described) -> None:
        self._described = described

    def quorum(self, request: Any) -> Any:
        """Every voter is caught up."""
        topic_of = DescribeQuorumResponse.TopicData
        part_of = topic_of.PartitionData
        voter_of = part_of.ReplicaState
        voters = self._described.voters

        def one(id_: int) -> Any:
            return voter_of(
                replica_id=id_,
                replica_directory_id=uuid.UUID(int=id_ + 1),
                log_end_offset=END,
                last_fetch_timestamp=-1 if id_ == voters[0] else NOW_MS,
                last_caught_up_timestamp=NOW_MS,
            )

        part = part_of(
            partition_index=0,
            error_code=0,
            error_message=None,
            leader_id=voters[0] if voters else -1,
            leader_epoch=1,
            high_watermark=END,
            current_voters=[one(v) for v in voters],
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
        for (topic, number), move in sorted(self._described.moves.items()):
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
