"""What is in a cluster: partitions with their sizes and log ends, consumer groups, settings.

Asked of brokers that have just told their own view. One that did not is left out: what it alone could tell is not
known, for the reason that it gave no answer, and nobody waits for it once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from kafka_medic.clients.ports import (
    BrokerView,
    ClusterDescription,
    FailureKind,
    KafkaReads,
    LogDirs,
    ReadFailed,
    Reassignment,
)
from kafka_medic.cluster.groups import GroupOffsets
from kafka_medic.cluster.snapshot import ConfigValue, TopicPartition
from kafka_medic.observe import checks, tables
from kafka_medic.observe.metrics import named_failures
from kafka_medic.observe.sources import Reading, Readings, value_of
from kafka_medic.observe.view_reads import Answers

Bounds = Mapping[TopicPartition, tuple[int, int]]
Settings = tuple[
    Mapping[str, Mapping[str, ConfigValue]], Mapping[int, Mapping[str, ConfigValue]], Mapping[str, ConfigValue]
]
"""Of topics, of brokers, and what is set at run time for all brokers."""


@dataclass(slots=True)
class Contents:
    """Begun once the brokers have told their views; each table waits for what it is made of. `states`, with
    STATES_SCHEMA, is what stands for the cluster; None when no broker told its own view. `moving` is asked before:
    like the quorum it is the controller that tells it, and while that one hangs both are waited for at once."""

    seen: Readings
    kafka: KafkaReads
    wanted: Callable[[str], bool]
    states: pa.Table | None
    answers: Answers
    described: ClusterDescription
    moving: Reading[Mapping[TopicPartition, Reassignment]]
    _keys: list[TopicPartition] = field(default_factory=list)
    _disks: Reading[Mapping[int, LogDirs]] | None = None
    _settings: Reading[Settings] | None = None
    _groups: Reading[Sequence[GroupOffsets]] | None = None
    _bounds: Reading[tuple[Bounds, str | None]] | None = None

    @property
    def silent(self) -> dict[int, ReadFailed]:
        """The brokers that were asked directly in this look and did not answer."""
        return {
            broker: answer
            for broker, answer in sorted(self.answers.items())
            if isinstance(answer, ReadFailed) and answer.kind is FailureKind.UNREACHABLE
        }

    def begin(self) -> None:
        seen, kafka, silent = self.seen, self.kafka, self.silent
        if self.states is None:
            seen.skip(("log-dirs", "configs", "log-ends"), "no broker told its own view")
            self._begin_groups(silent)
            return
        self._keys = tables.addresses(self.states)
        answering = sorted(b for b, answer in self.answers.items() if isinstance(answer, BrokerView))
        topics = sorted({tp.topic for tp in self._keys})
        left_out = named_failures(silent)
        self._disks = seen.begin("log-dirs", lambda: checks.log_dirs(kafka.log_dirs(answering)), lambda _: left_out)
        self._settings = seen.begin("configs", lambda: self._read_settings(topics, answering), lambda _: left_out)
        groups = self._begin_groups(silent)
        leaders: list[int] = checks.numbers(self.states["leader"]).tolist()
        led = {tp: leader for tp, leader in zip(self._keys, leaders, strict=True) if leader >= 0}

        def after_groups() -> tuple[Bounds, str | None]:
            # States, then committed offsets, and log ends last: the other way round lag goes negative by race alone.
            value_of(groups)
            return read_bounds(kafka, led, silent)

        self._bounds = seen.begin("log-ends", after_groups, lambda told: told[1])

    def _begin_groups(self, silent: Mapping[int, ReadFailed]) -> Reading[Sequence[GroupOffsets]] | None:
        """Every broker lists the groups that it coordinates and no other: without one of them the list is not whole."""
        named = {node.id for node in self.described.nodes} & set(silent)
        if named:
            self.seen.fail("groups", f"not tried: each broker lists its own groups; {named_failures(silent)}")
            return None
        self._groups = self.seen.begin("groups", lambda: checks.groups(self.kafka.groups(self.wanted)))
        return self._groups

    def _read_settings(self, topics: Sequence[str], brokers: Sequence[int]) -> Settings:
        of_brokers = self.seen.pool.submit(self.kafka.broker_configs, brokers)
        of_all = self.seen.pool.submit(self.kafka.cluster_configs)
        return self.kafka.topic_configs(topics), of_brokers.result(), of_all.result()

    def partitions(self) -> pa.Table | None:
        """With PARTITIONS_SCHEMA."""
        moving, disks = self.moving.value(), value_of(self._disks)
        settings, told = value_of(self._settings), value_of(self._bounds)
        if self.states is None:
            return None
        bounds = told[0] if told is not None else None
        of_topics = settings[0] if settings is not None else None
        return tables.partitions(self.states, self._keys, moving, disks, bounds, of_topics)

    def rooms(self) -> Mapping[int, int]:
        """Bytes that are free on the disks of each broker that told it."""
        told = value_of(self._disks) or {}
        return {broker: disks.usable for broker, disks in told.items() if disks.usable is not None}

    def groups(self) -> pa.Table | None:
        """With GROUPS_SCHEMA."""
        found = value_of(self._groups)
        return None if found is None else tables.groups(found)

    def configs(self) -> pa.Table | None:
        """With CONFIGS_SCHEMA."""
        settings = value_of(self._settings)
        return None if settings is None else tables.configs(*settings)


def read_bounds(
    kafka: KafkaReads, led: Mapping[TopicPartition, int], silent: Mapping[int, ReadFailed]
) -> tuple[Bounds, str | None]:
    """Log start and log end of what is led by these brokers, and what could not be told. Raises ReadFailed when no
    leader answers."""
    asked = {tp: leader for tp, leader in led.items() if leader not in silent}
    mute = {b: problem for b, problem in silent.items() if b in set(led.values())}
    answers = kafka.log_bounds(asked) if asked else {}
    mute |= {b: answer for b, answer in answers.items() if isinstance(answer, ReadFailed)}
    told = [answer for answer in answers.values() if not isinstance(answer, ReadFailed)]
    if mute and not told:
        raise next(iter(mute.values()))
    found = checks.log_bounds({tp: bounds for answer in told for tp, bounds in answer.items()})
    missing = sorted(set(led) - set(found))
    unknowing = [tp for tp in missing if led[tp] not in mute]
    gaps = []
    if mute:
        gaps.append(f"{len(missing) - len(unknowing)} partitions whose leader did not answer: {named_failures(mute)}")
    if unknowing:
        gaps.append(f"{len(unknowing)} partitions not served by their leader: {unknowing[0]}")
    return found, "; ".join(gaps) or None
