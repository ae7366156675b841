"""Which replicas of a broker go to another of its volumes, so that a volume that fills has room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kafka_medic.cluster.log_dirs import ReplicaDirs
from kafka_medic.cluster.snapshot import Broker, Snapshot, TopicPartition
from kafka_medic.diagnose.disks import Volume, share_of, volumes_of
from kafka_medic.guard.rows import known_ids, troubled_rows
from kafka_medic.plan.solver.volumes import STAYS, to_other_volumes
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.extra_reads import Questions
from kafka_medic.playbook.reassign.leave_plan import named_brokers
from kafka_medic.playbook.reassign.parameters import WithinParameters, within_parameters
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.report.units import many
from kafka_medic.resources.durations import format_bytes, format_duration
from kafka_medic.resources.playbook import Step
from kafka_medic.resources.remediation_plan import MAX_INLINE_CHANGES, LogDirMove, LogDirMoves

MAX_BATCHES = 15
"""Of one run: its journal holds 200 entries, and the steps that follow need most of them (`moves_plan.MAX_WAVES`)."""


@dataclass(frozen=True, slots=True)
class Short:
    """A volume that has `need` bytes less free than its share. `only`: what may leave the broker for it; None: whatever
    it holds, since it is the only one."""

    broker: int
    volume: Volume
    need: int
    only: frozenset[TopicPartition] | None = None


@dataclass(frozen=True, slots=True)
class Within:
    """What moves within brokers. `left`: volumes that are still short afterwards. `later`: replicas that are left to a
    later plan."""

    moves: tuple[LogDirMove, ...] = ()
    left: tuple[Short, ...] = ()
    later: int = 0
    throttle: int | None = None

    @property
    def part(self) -> LogDirMoves:
        if not self.moves:
            return LogDirMoves()
        return LogDirMoves(log_dir_moves=self.moves, log_dir_throttle_bytes_per_second=self.throttle)

    @property
    def seconds(self) -> int | None:
        """How long the copies take: each broker has its own throttle. None: not known."""
        size = Counter[int]()
        for move in self.moves:
            size[move.broker] += move.size_bytes
        return None if self.throttle is None else -(-max(size.values(), default=0) // self.throttle)

    @property
    def sentence(self) -> str:
        """What the step would do, empty for nothing."""
        if not self.moves:
            return ""
        bytes_, batches = sum(m.size_bytes for m in self.moves), len({m.batch for m in self.moves})
        throttle = f"throttled to {format_bytes(self.throttle)}/s per broker" if self.throttle else "without a throttle"
        return (
            f"move {many(len(self.moves), 'replica')} to other log directories of their broker, {format_bytes(bytes_)} "
            f"in {many(batches, 'batch', 'batches')}, {throttle}, then remove the throttle"
        )

    def lines(self) -> Iterator[str]:
        """What a person reads of it besides."""
        if self.moves and self.seconds is not None:
            yield f"the copies within brokers take about {format_duration(max(1, self.seconds))}"
        for m in self.moves[:20]:
            size = format_bytes(m.size_bytes)
            yield f"  {m.topic}-{m.partition}: {m.source} -> {m.target} on broker {m.broker} ({size})"
        if len(self.moves) > 20:
            yield f"  and {len(self.moves) - 20} more in status.plan.logDirMoves"
        if self.later:
            yield (
                f"{many(self.later, 'more replica')} in a later plan: one plan moves at most {MAX_INLINE_CHANGES} "
                f"replicas in {MAX_BATCHES} batches within brokers"
            )


def about_volumes(request: PlanRequest, step: Step) -> Questions:
    """Which replica is where, of the brokers that are named and have several volumes."""
    told = within_parameters(request.playbook, step, request.run.spec.parameters)
    named = named_brokers(request, told.brokers)
    if isinstance(named, Refusal):
        return Questions()
    brokers = (request.snapshot.broker(number) for number in named)
    return Questions(log_dirs=frozenset(b.id for b in brokers if b is not None and has_several(b)))


def has_several(broker: Broker) -> bool:
    return len(volumes_of(broker.directories or ())) > 1


def within_brokers(
    request: PlanRequest, step: Step | None, dirs: Mapping[int, ReplicaDirs], share: int, stay: Collection[str]
) -> Within:
    """`step`: the playbook's for moves within brokers; None: it has none. `stay`: topics that stay as they are."""
    moves: list[LogDirMove] = []
    left: list[Short] = []
    later = 0
    told = None if step is None else within_parameters(request.playbook, step, request.run.spec.parameters)
    for broker, found in sorted(dirs.items()):
        volumes = volumes_of(found.directories)
        movable = _movable(request.snapshot, broker, found, stay)
        here = () if told is None else tuple(_moves(broker, found, volumes, movable, share))
        batched = () if told is None else _in_batches(here, told, MAX_INLINE_CHANGES - len(moves))
        later += len(here) - len(batched)
        moves += batched
        gone = {TopicPartition(m.topic, m.partition) for m in here}
        left += _still_short(broker, found, volumes, here, frozenset(movable) - gone, share)
    throttle = None if told is None else told.throttle_bytes_per_second
    ordered = sorted(moves, key=lambda m: (m.batch, m.broker, -m.size_bytes, m.topic, m.partition))
    return Within(tuple(ordered), tuple(left), later, throttle)


def _movable(
    snapshot: Snapshot, broker: int, dirs: ReplicaDirs, stay: Collection[str]
) -> dict[TopicPartition, tuple[str, int]]:
    """Replicas that are in sync there, and that nobody moves: where each is, and its bytes."""
    rows = {row.tp: row for row in troubled_rows(snapshot, broker) or ()}
    able = {
        tp
        for tp, row in rows.items()
        if broker in (known_ids(row.isr) or ()) and row.reassigning is False and tp.topic not in stay
    }
    return {tp: (at.path, at.size) for tp, at in sorted(dirs.current.items()) if tp in able and tp not in dirs.future}


def above_share(volumes: Sequence[Volume], dirs: ReplicaDirs, share: int) -> list[int]:
    """Bytes that each volume has free above `share` percent; below 0: so many are lacking. What is still to be copied
    there takes room as well."""
    coming = Counter[str]()
    for tp, at in dirs.future.items():
        now = dirs.current.get(tp)
        coming[at.path] += max((at.size if now is None else now.size) - at.size, 0)
    return [v.free - share_of(v.total, share) - sum(coming[path] for path in v.paths) for v in volumes]


def _moves(
    broker: int,
    dirs: ReplicaDirs,
    volumes: Sequence[Volume],
    movable: Mapping[TopicPartition, tuple[str, int]],
    share: int,
) -> Iterator[LogDirMove]:
    """In no batches yet."""
    of = {path: number for number, volume in enumerate(volumes) for path in volume.paths}
    able = [(tp, path, size) for tp, (path, size) in movable.items() if path in of]
    size = np.array([size for _, _, size in able], dtype=np.int64)
    volume = np.array([of[path] for _, path, _ in able], dtype=np.int64)
    above = np.array(above_share(volumes, dirs, share), dtype=np.int64)
    count = Counter(at.path for at in (*dirs.current.values(), *dirs.future.values()))
    for (tp, path, bytes_), to in zip(able, to_other_volumes(size, volume, above).tolist(), strict=True):
        if to == STAYS:
            continue
        target = min(volumes[to].paths, key=lambda p: (count[p], p))
        count[target] += 1
        yield LogDirMove(
            broker=broker,
            topic=tp.topic,
            partition=tp.partition,
            source=path,
            target=target,
            batch=0,
            size_bytes=bytes_,
        )


def _in_batches(moves: Iterable[LogDirMove], told: WithinParameters, most: int) -> tuple[LogDirMove, ...]:
    """The largest first: at most so many bytes in each batch (a larger replica alone), and so many replicas. No more
    moves than `most`."""
    batched: list[LogDirMove] = []
    number, count, bytes_ = 0, 0, 0
    for move in sorted(moves, key=lambda m: (-m.size_bytes, m.topic, m.partition)):
        full = told.batch_bytes is not None and bytes_ + move.size_bytes > told.batch_bytes
        if count and (full or count >= told.batch):
            number, count, bytes_ = number + 1, 0, 0
        if len(batched) == most or number == MAX_BATCHES:
            break
        batched.append(move.model_copy(update={"batch": number}))
        count, bytes_ = count + 1, bytes_ + move.size_bytes
    return tuple(batched)


def _still_short(
    broker: int,
    dirs: ReplicaDirs,
    volumes: Sequence[Volume],
    moves: Sequence[LogDirMove],
    rest: frozenset[TopicPartition],
    share: int,
) -> Iterator[Short]:
    """Volumes that have less than their share once these have moved."""
    for volume, above in zip(volumes, above_share(volumes, dirs, share), strict=True):
        leaves = sum(m.size_bytes for m in moves if m.source in volume.paths)
        if above + leaves < 0:
            only = frozenset(tp for tp in rest if dirs.current[tp].path in volume.paths)
            yield Short(broker, volume, -(above + leaves), only)


def results(within: Within, volumes: Mapping[int, Sequence[Volume]]) -> Iterator[str]:
    """What each volume has free afterwards."""
    changed = Counter[tuple[int, str]]()
    for move in within.moves:
        changed[move.broker, move.source] += move.size_bytes
        changed[move.broker, move.target] -= move.size_bytes
    for broker, found in sorted(volumes.items()):
        for volume in found:
            gain = sum(changed[broker, path] for path in volume.paths)
            if any((broker, path) in changed for path in volume.paths):
                after = replace(volume, free=volume.free + gain)
                yield (
                    f"volume {volume.where} of broker {broker}: {format_bytes(volume.free)} free now "
                    f"({percent(volume)}), {format_bytes(after.free)} afterwards ({percent(after)}) without what is "
                    "written meanwhile"
                )


def percent(volume: Volume) -> str:
    return f"{100 * volume.free / max(volume.total, 1):.1f} %"
