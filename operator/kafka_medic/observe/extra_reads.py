"""What a run asks for besides the snapshot, read when it asks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from kafka_medic.clients.answers import LogDirs
from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.ports import KafkaReads
from kafka_medic.cluster.groups import GroupMember
from kafka_medic.cluster.log_dirs import ReplicaDirs
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.cluster.workloads import Workload
from kafka_medic.observe import checks
from kafka_medic.observe.directories import replica_dirs
from kafka_medic.playbook.extra_reads import ExtraReads, Questions
from kafka_medic.resources.vocabulary import WorkloadKind

ReadWorkload = Callable[[WorkloadKind, str], Workload]
"""By kind and name. Raises ReadFailed."""


def answers(
    kafka: KafkaReads | None,
    questions: Questions,
    workload: ReadWorkload | None = None,
    paces: Mapping[str, float] = MappingProxyType({}),
) -> ExtraReads:
    """What cannot be read stays unanswered: a plan then says so, or waits. `kafka` None: it cannot be asked. `paces`:
    how fast groups were seen reading, in offsets a second."""
    stopped = None if workload is None or questions.workload is None else _workload(workload, *questions.workload)
    if kafka is None:
        return ExtraReads(silent=frozenset(tp for _, tp, _ in questions.epochs), workload=stopped, paces=paces)
    at = None if questions.ms is None else _at(kafka, questions.partitions, questions.ms)
    ends, silent = _epoch_ends(kafka, questions.epochs)
    dirs = _log_dirs(kafka, sorted(questions.log_dirs))
    return ExtraReads(_members(kafka, questions.groups), at, ends, silent, stopped, dirs, paces)


def _log_dirs(kafka: KafkaReads, brokers: Sequence[int]) -> Mapping[int, ReplicaDirs | str]:
    if not brokers:
        return {}
    try:
        answers = checks.log_dirs(kafka.log_dirs(brokers))
    except ReadFailed as problem:
        return dict.fromkeys(brokers, str(problem))
    found: dict[int, ReplicaDirs | str] = dict.fromkeys(brokers, "not in the answer")
    for broker, answer in answers.items():
        try:
            found[broker] = replica_dirs(broker, answer) if isinstance(answer, LogDirs) else str(answer)
        except ReadFailed as problem:
            found[broker] = str(problem)
    return found


def _workload(read: ReadWorkload, kind: WorkloadKind, name: str) -> Workload | str:
    try:
        return read(kind, name)
    except ReadFailed as problem:
        return str(problem)


def _members(kafka: KafkaReads, groups: Sequence[str]) -> Mapping[str, Sequence[GroupMember]]:
    try:
        return kafka.group_members(groups) if groups else {}
    except ReadFailed:
        return {}


def _at(kafka: KafkaReads, partitions: Sequence[TopicPartition], ms: int) -> Mapping[TopicPartition, int | None] | None:
    try:
        return kafka.offsets_at(partitions, ms)
    except ReadFailed:
        return None


def _epoch_ends(
    kafka: KafkaReads, epochs: Iterable[tuple[int, TopicPartition, int]]
) -> tuple[dict[tuple[TopicPartition, int], int], frozenset[TopicPartition]]:
    """A request has room for one epoch of each partition, so different commits on one take more than one. And the
    partitions of which something was not answered."""
    requests: dict[int, list[dict[TopicPartition, int]]] = defaultdict(list)
    for leader, tp, epoch in sorted(epochs):
        room = next((r for r in requests[leader] if tp not in r), None)
        if room is None:
            requests[leader].append(room := {})
        room[tp] = epoch
    found: dict[tuple[TopicPartition, int], int] = {}
    silent: set[TopicPartition] = set()
    for leader, parts in requests.items():
        for number, part in enumerate(parts):
            try:
                ends = kafka.epoch_ends(leader, part)
            except ReadFailed:
                silent |= {tp for left in parts[number:] for tp in left}
                break  # it would be waited for once more with each request
            found |= {(tp, part[tp]): end for tp, end in ends.items()}
    return found, frozenset(silent)
