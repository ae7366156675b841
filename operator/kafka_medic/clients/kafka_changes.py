"""kafka-python: reassignments (KIP-455) and elections (KIP-460), sent to the controller. Moves between the log
directories of a broker (KIP-113), which that broker takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kafka import errors
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    ElectLeadersRequest,
)

from kafka_medic.clients.failures import WriteFailed
from kafka_medic.clients.kafka_link import KafkaLink, answer_of, failure_of, know
from kafka_medic.clients.timeouts import change_timeout
from kafka_medic.cluster.snapshot import TopicPartition

PREFERRED = 0
"""KIP-460's election type: each partition's first replica, if it is in sync."""
SERVERS_SHARE = 0.9
"""Of what we wait, for the server: an answer that comes too late for us is none."""


class KafkaChanges:
    """What changes something, each time in one request that is sent once."""

    def __init__(self, link: KafkaLink, who: Callable[[], Any]) -> None:
        """`who`: a request that asks who the controller is."""
        self._link = link
        self._who = who

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, str]:
        named = AlterPartitionReassignmentsRequest.ReassignableTopic
        part = named.ReassignablePartition
        topics: dict[str, list[Any]] = {}
        for tp, replicas in targets.items():
            wanted = None if replicas is None else list(replicas)
            topics.setdefault(tp.topic, []).append(part(partition_index=tp.partition, replicas=wanted))

        def request(milliseconds: int) -> Any:
            wanted = [named(name=topic, partitions=parts) for topic, parts in topics.items()]
            return AlterPartitionReassignmentsRequest(timeout_ms=milliseconds, topics=wanted)

        answer = self._send(request, len(targets), "alter partition reassignments", lambda result: [result.error_code])
        refused = {}
        for topic in answer.responses:
            for result in topic.partitions:
                tp, error = TopicPartition(topic.name, result.partition_index), errors.for_code(result.error_code)
                # Cancelling what already ended is the state that was asked for.
                over = targets.get(tp) is None and error is errors.NoReassignmentInProgressError
                if result.error_code and not over:
                    refused[tp] = error.__name__
        return refused

    def elect_preferred(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, str]:
        # confluent-kafka 2.16 cannot: its elect_leaders ends in a SystemError, whatever it is given.
        topics: dict[str, list[int]] = {}
        for tp in partitions:
            topics.setdefault(tp.topic, []).append(tp.partition)

        def request(milliseconds: int) -> Any:
            return ElectLeadersRequest(
                election_type=PREFERRED, topic_partitions=list(topics.items()), timeout_ms=milliseconds
            )

        def codes(answer: Any) -> Iterable[int]:
            # With ZooKeeper, who is not the controller says so of each partition.
            yield getattr(answer, "error_code", 0)
            results = answer.replica_election_results
            yield from (part.error_code for result in results for part in result.partition_result)

        answer = self._send(request, len(partitions), "elect preferred leaders", codes)
        return {
            TopicPartition(result.topic, part.partition_id): errors.for_code(part.error_code).__name__
            for result in answer.replica_election_results
            for part in result.partition_result
            if part.error_code not in (0, errors.ElectionNotNeededError.errno)
        }

    def _send(
        self, request: Callable[[int], Any], things: int, what: str, codes: Callable[[Any], Iterable[int]]
    ) -> Any:
        """To the controller, as whoever answered last has it. Only if that one says that it is not, and so has done
        nothing, to the one that it names."""
        link = self._link
        seconds = change_timeout(link.seconds, things)

        async def send(client: Any) -> Any:
            end = time.monotonic() + seconds
            node = link.in_turn(client)[0]
            try:
                answer = await answer_of(client, node, request(int(seconds * 1000 * SERVERS_SHARE)), seconds)
            except Exception:  # with KRaft one that is cut off from the controller cannot pass it on
                link.spare([node])
                raise
            if errors.NotControllerError.errno in codes(answer):
                members = await answer_of(client, node, self._who(), max(0.0, end - time.monotonic()))
                know(client, {broker.node_id: broker for broker in members.brokers})
                left = max(0.0, end - time.monotonic())
                wanted = request(int(left * 1000 * SERVERS_SHARE))
                answer = await answer_of(client, members.controller_id, wanted, left)
            return answer

        answer = link.call(lambda c: c._manager.run(send, c), WriteFailed, what)
        if code := getattr(answer, "error_code", 0):
            raise failure_of(WriteFailed, errors.for_code(code)(), what)
        return answer


def log_dirs_change(targets: Mapping[TopicPartition, str]) -> Any:
    """The request that moves a broker's replicas to these log directories."""
    directory = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    named = directory.AlterReplicaLogDirTopic
    wanted: dict[str, dict[str, list[int]]] = {}
    for tp, path in targets.items():
        wanted.setdefault(path, {}).setdefault(tp.topic, []).append(tp.partition)
    return AlterReplicaLogDirsRequest(
        dirs=[
            directory(path=path, topics=[named(name=topic, partitions=parts) for topic, parts in topics.items()])
            for path, topics in wanted.items()
        ]
    )


def log_dirs_refused(answer: Any) -> dict[TopicPartition, str]:
    """What the broker has refused of such a request, and why."""
    return {
        TopicPartition(topic.topic_name, result.partition_index): errors.for_code(result.error_code).__name__
        for topic in answer.results
        for result in topic.partitions
        if result.error_code
    }
