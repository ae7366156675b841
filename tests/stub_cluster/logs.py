"""Logs and directories: ListOffsets, OffsetForLeaderEpoch and DescribeLogDirs."""

from __future__ import annotations

from typing import Any

from kafka import errors
from kafka.protocol.admin import DescribeLogDirsResponse
from kafka.protocol.consumer.offsets import ListOffsetsResponse, OffsetForLeaderEpochResponse

from tests.stub_cluster.description import OWN, PARTED, Partition, Sight
from tests.stub_cluster.state import State

DIRECTORY = "/var/lib/kafka/data"
DEBUGGING_REPLICA = -2
"""This replica id may read from any replica, past the high watermark."""
LATEST, EARLIEST = -1, -2
_UNKNOWN: int = errors.UnknownTopicOrPartitionError.errno
_NOT_LEADER: int = errors.NotLeaderForPartitionError.errno


class Logs:
    def __init__(self, state: State) -> None:
        self._state = state

    def offsets(self, broker: int, sight: Sight, request: Any) -> Any:
        topic_of = ListOffsetsResponse.ListOffsetsTopicResponse
        part_of = topic_of.ListOffsetsPartitionResponse

        def one(topic: str, asked: Any) -> Any:
            anyone = request.replica_id == DEBUGGING_REPLICA
            epoch = getattr(asked, "current_leader_epoch", -1)
            code, partition = self._asked(broker, sight, (topic, asked.partition_index), epoch, anyone=anyone)
            offset, of = -1, -1
            if partition is not None:
                of = partition.epoch
                if asked.timestamp == EARLIEST:
                    offset = partition.start
                elif asked.timestamp == LATEST:
                    offset = self._end(broker, topic, asked.partition_index, partition)
                else:
                    of = -1  # nothing was written at that time or later
            return part_of(
                partition_index=asked.partition_index,
                error_code=code,
                old_style_offsets=[],
                timestamp=-1,
                offset=offset,
                leader_epoch=of,
            )

        topics = [
            topic_of(name=t.name, partitions=[one(t.name, part) for part in t.partitions]) for t in request.topics
        ]
        return ListOffsetsResponse(throttle_time_ms=0, topics=topics)

    def epoch_ends(self, broker: int, sight: Sight, request: Any) -> Any:
        """An earlier epoch ends where the log of a stale leader parts from the leader's log."""
        topic_of = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        part_of = topic_of.EpochEndOffset

        def one(topic: str, asked: Any) -> Any:
            epoch = getattr(asked, "current_leader_epoch", -1)
            code, partition = self._asked(broker, sight, (topic, asked.partition), epoch, anyone=False)
            of, end = -1, -1
            if partition is not None and asked.leader_epoch <= partition.epoch:
                of = asked.leader_epoch
                end = partition.end - (PARTED if of < partition.epoch else 0)
            return part_of(error_code=code, partition=asked.partition, leader_epoch=of, end_offset=end)

        topics = [topic_of(topic=t.topic, partitions=[one(t.topic, p) for p in t.partitions]) for t in request.topics]
        return OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=topics)

    def directories(self, broker: int, request: Any) -> Any:
        """One directory with all replicas of the broker, or with the requested ones."""
        one = DescribeLogDirsResponse.DescribeLogDirsResult
        topic_of = one.DescribeLogDirsTopic
        part_of = topic_of.DescribeLogDirsPartition
        held, fresh = self._state.held[broker], self._state.fresh
        wanted = None if request.topics is None else {t.topic: set(t.partitions) for t in request.topics}
        topics, used = [], 0
        for name, numbers in held.items():
            partitions = fresh.topics[name].partitions
            sizes = {n: self._size(broker, name, n, partitions[n]) for n in numbers}
            used += sum(sizes.values())
            shown = numbers if wanted is None else [n for n in numbers if n in wanted.get(name, ())]
            if shown:
                parts = [
                    part_of(partition_index=n, partition_size=sizes[n], offset_lag=0, is_future_key=False)
                    for n in shown
                ]
                topics.append(topic_of(name=name, partitions=parts))
        room = self._state.described.room
        directory = one(
            error_code=0,
            log_dir=DIRECTORY,
            topics=topics,
            total_bytes=room,
            usable_bytes=max(0, room - used),
            is_cordoned=False,
        )
        return DescribeLogDirsResponse(throttle_time_ms=0, error_code=0, results=[directory])

    def _asked(
        self, broker: int, sight: Sight, which: tuple[str, int], epoch: int, *, anyone: bool
    ) -> tuple[int, Partition | None]:
        """The error, and the partition where there is none (kafka.server.ReplicaManager, KIP-320). `epoch`: that of the
        client, -1 for any. `anyone`: not only of the leader."""
        partition = sight.partition(*which)
        if partition is None:
            return _UNKNOWN, None
        if broker not in partition.replicas or (not anyone and partition.leader != broker):
            return _NOT_LEADER, None
        if 0 <= epoch < partition.epoch:
            return int(errors.FencedLeaderEpochError.errno), None
        if epoch > partition.epoch:
            return int(errors.UnknownLeaderEpochError.errno), None
        return 0, partition

    def _end(self, broker: int, topic: str, number: int, seen: Partition) -> int:
        """A stale leader has records of its own. A follower has the same records as the leader, once it is added."""
        if self._copying(broker, topic, number, seen):
            return seen.start
        now = self._state.fresh.partition(topic, number)
        stale = now is not None and seen.epoch < now.epoch and seen.leader == broker
        return seen.end - PARTED + OWN if stale else seen.end

    def _copying(self, broker: int, topic: str, number: int, seen: Partition) -> bool:
        """Whether this replica is being added and not in sync yet."""
        move = self._state.moves.get((topic, number))
        return move is not None and broker in move.adding and broker not in seen.isr

    def _size(self, broker: int, topic: str, number: int, seen: Partition) -> int:
        return 0 if self._copying(broker, topic, number, seen) else seen.size
