"""What is in a cluster: partitions with their sizes and log ends, consumer groups, settings.

Asked of brokers that have just told their own view. One that did not is left out: what it alone could tell is not
known, for the reason that it gave no answer, and nobody waits for it once more. Whatever could not be read although its
source is known is in `unread`, element by element. A source of which every element failed has failed itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_medic.clients.answers import Groups, LogDirs
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import BrokerView, ClusterDescription, KafkaReads, Reassignment
from kafka_medic.clients.tables import BOUNDS_SCHEMA
from kafka_medic.cluster.agreement import stale_accounts
from kafka_medic.cluster.elements import BROKER, CONFIGS, GROUP, GROUPS, LOG_DIRS
from kafka_medic.cluster.min_isr import Minimums
from kafka_medic.cluster.partition_rows import NOWHERE, Rows
from kafka_medic.cluster.snapshot import Element, TopicPartition
from kafka_medic.observe import checks, directories, tables
from kafka_medic.observe.at_rest import AtRest
from kafka_medic.observe.metrics import named_failures
from kafka_medic.observe.settings import Settings, read_settings
from kafka_medic.observe.sources import NAMED, Reading, Readings, failure_summary, value_of
from kafka_medic.observe.view_reads import Answers
from kafka_medic.report.units import many

EVERY_START = 20_000
"""Partitions up to which all log starts are read. Each costs as much as a log end, and only offsets need them."""
NOTHING_MOVES: Mapping[TopicPartition, Reassignment] = {}


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
    at_rest: AtRest = field(default_factory=AtRest)
    _rows: Rows | None = None
    _disks: Reading[Mapping[int, LogDirs | ReadFailed]] | None = None
    _settings: Reading[Settings] | None = None
    _groups: Reading[Groups] | None = None
    _bounds: Reading[tuple[pa.Table, str | None]] | None = None

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
            seen.skip(("log-dirs", "configs", "log-ends"), "no broker reported its own view")
            self._begin_groups(silent)
            return
        states = self.states
        self._rows = self.at_rest.rows.of(lambda: Rows.of(states), states)
        answering = sorted(b for b, answer in self.answers.items() if isinstance(answer, BrokerView))
        names: list[Any] = self._rows.topics.to_pylist()
        topics: list[str] = sorted(names)
        if (disks := self.at_rest.still(self.at_rest.disks, self.states, answering)) is not None:
            self._disks = seen.again(*disks)
        else:
            self._disks = seen.begin(LOG_DIRS, lambda: read_log_dirs(kafka, answering, silent), directory_gaps)
        among = self._current(answering)
        if (settings := self.at_rest.still(self.at_rest.settings, self.states, answering)) is not None:
            self._settings = seen.again(*settings)
        else:
            self._settings = seen.begin(
                CONFIGS,
                lambda: read_settings(kafka, seen.pool, topics, answering, silent, among),
                lambda answer: answer.gaps,
            )
        groups = self._begin_groups(silent)
        rows = self._rows

        def after_groups() -> tuple[pa.Table, str | None]:
            # States, then committed offsets, and log ends last: the other way round lag goes negative by race alone.
            return read_bounds(kafka, tables.led(states, _started(rows, states.num_rows, value_of(groups))), silent)

        self._bounds = seen.begin("log-ends", after_groups, lambda answer: answer[1])

    def _current(self, answering: Sequence[int]) -> list[int]:
        """Brokers whose account agrees with what is decided, those first that have just reported their partitions."""
        assert self.states is not None  # begin saw to it
        whole = {b: a.states for b, a in self.answers.items() if isinstance(a, BrokerView) and a.states is not None}
        stale = stale_accounts(self.states, whole)
        return sorted(set(answering) - stale, key=lambda b: (b not in whole, b)) or list(answering)

    def _begin_groups(self, silent: Mapping[int, ReadFailed]) -> Reading[Groups] | None:
        """Every broker lists the groups that it coordinates and no other: of one that is silent they are not known."""
        named = {node.id for node in self.described.nodes}
        answering, left_out = sorted(named - set(silent)), {b: why for b, why in silent.items() if b in named}
        if not answering:
            self.seen.fail(GROUPS, f"not tried: each broker lists its own groups; {named_failures(left_out)}")
            return None
        self._groups = self.seen.begin(GROUPS, lambda: self._read_groups(answering, left_out), group_gaps)
        return self._groups

    def _read_groups(self, brokers: Sequence[int], left_out: Mapping[int, ReadFailed]) -> Groups:
        found = checks.groups(self.kafka.groups(self.wanted, brokers))
        if found.unread and not found.offsets and not found.unlisted:
            raise next(iter(found.unread.values()))
        return Groups(found.offsets, found.unread, {**left_out, **found.unlisted})

    def partitions(self) -> pa.Table | None:
        """With PARTITIONS_SCHEMA."""
        moving, disks = self.moving.value(), value_of(self._disks)
        settings, read = value_of(self._settings), value_of(self._bounds)
        if self.states is None or self._rows is None:
            return None
        states, rows = self.states, self._rows

        def resting() -> Mapping[str, Any]:
            minimums = None if settings is None else Minimums.of_settings(settings.topics, settings.brokers)
            return tables.columns_at_rest(states, rows, moving, None if disks is None else known(disks), minimums)

        in_flight = moving if moving is None or moving else NOTHING_MOVES
        columns = self.at_rest.columns.of(resting, states, in_flight, disks, settings)
        return tables.partitions(states, rows, columns, read[0] if read is not None else None)

    def log_dirs(self) -> Mapping[int, LogDirs]:
        """Of each broker that reported them."""
        return known(value_of(self._disks) or {})

    def offline_replicas(self) -> Mapping[int, tuple[TopicPartition, ...] | None]:
        """By broker, of those that reported their directories."""
        if self.states is None or self._rows is None:
            return {}
        moving = self.moving.value()
        return {
            broker: directories.offline_replicas(self.states, self._rows, moving, broker, answer)
            for broker, answer in self.log_dirs().items()
        }

    def unknown_topics(self) -> Mapping[int, tuple[str, ...] | None]:
        """By broker, of those that reported their directories."""
        disks, rows = value_of(self._disks), self._rows
        if disks is None or rows is None:
            return {}
        answers, topics = known(disks), rows.topics
        return self.at_rest.unknown_topics.of(
            lambda: {b: directories.unknown_topics(topics, answer) for b, answer in answers.items()}, disks, rows
        )

    def groups(self) -> pa.Table | None:
        """With GROUPS_SCHEMA."""
        found = value_of(self._groups)
        return None if found is None else tables.groups(found.offsets)

    def configs(self) -> pa.Table | None:
        """With CONFIGS_SCHEMA."""
        settings = value_of(self._settings)
        if settings is None:
            return None
        read = settings
        return self.at_rest.configs.of(lambda: tables.configs(read.topics, read.brokers, read.everywhere), read)

    def keep(self) -> None:
        """For the next observation."""
        if self.states is not None and self._settings is not None and self._disks is not None:
            answering = sorted(b for b, answer in self.answers.items() if isinstance(answer, BrokerView))
            self.at_rest.take(self.at_rest.settings, self.states, answering, self._settings)
            self.at_rest.take(self.at_rest.disks, self.states, answering, self._disks)

    def unread(self) -> dict[Element, str]:
        """What these sources could not report although they are known."""
        settings, groups = value_of(self._settings), value_of(self._groups)
        found = dict(settings.unread) if settings is not None else {}
        disks = value_of(self._disks) or {}
        found |= {Element(LOG_DIRS, BROKER, str(b)): str(why) for b, why in failures(disks)}
        if groups is not None:
            found |= {Element(GROUPS, BROKER, str(b)): str(why) for b, why in sorted(groups.unlisted.items())}
            found |= {Element(GROUPS, GROUP, group): str(why) for group, why in sorted(groups.unread.items())}
        return found


def known(found: Mapping[int, LogDirs | ReadFailed]) -> dict[int, LogDirs]:
    return {broker: answer for broker, answer in found.items() if isinstance(answer, LogDirs)}


def failures(found: Mapping[int, object]) -> Iterable[tuple[int, ReadFailed]]:
    return ((broker, why) for broker, why in sorted(found.items()) if isinstance(why, ReadFailed))


def read_log_dirs(
    kafka: KafkaReads, brokers: Sequence[int], silent: Mapping[int, ReadFailed]
) -> dict[int, LogDirs | ReadFailed]:
    """By broker, those that are silent included. Raises ReadFailed when no broker reports its directories."""
    answered = checks.log_dirs(kafka.log_dirs(brokers))
    missing = {b: ReadFailed(FailureKind.OTHER, "log directories: not in the answer") for b in brokers}
    found = missing | answered
    if brokers and not known(found):
        raise next(why for _, why in failures(found))
    return {**found, **silent}


def directory_gaps(found: Mapping[int, LogDirs | ReadFailed]) -> str | None:
    """Which brokers did not report their directories, and which directories have an error."""
    gaps = {f"broker {b}": str(why) for b, why in failures(found)}
    gaps |= {
        f"broker {b}, {d.path}": d.error
        for b, dirs in sorted(known(found).items())
        for d in dirs.directories
        if d.error is not None
    }
    return failure_summary(gaps)


def group_gaps(found: Groups) -> str | None:
    """Which brokers did not list their groups, and which groups' offsets could not be read."""
    gaps = {f"groups of broker {b}": str(why) for b, why in sorted(found.unlisted.items())}
    return failure_summary(gaps | {f"group {group}": str(why) for group, why in sorted(found.unread.items())})


def read_bounds(kafka: KafkaReads, led: pa.Table, silent: Mapping[int, ReadFailed]) -> tuple[pa.Table, str | None]:
    """Log start and log end of what these brokers lead under the decided epochs (BOUNDS_SCHEMA), and what could not be
    read. `led` has LED_SCHEMA. The log of a broker that leads under another epoch is not the partition's. Raises
    ReadFailed when no leader answers."""
    leaders = np.asarray(led["leader"].to_numpy(), dtype=np.int64)
    reachable = ~np.isin(leaders, list(silent))
    mute = {b: problem for b, problem in silent.items() if b in set(leaders[~reachable].tolist())}
    answers = checks.log_bounds(kafka.log_bounds(led.filter(pa.array(reachable)))) if reachable.any() else {}
    mute |= {b: answer for b, answer in answers.items() if isinstance(answer, ReadFailed)}
    answered = {b: answer for b, answer in answers.items() if not isinstance(answer, ReadFailed)}
    if mute and not answered:
        raise next(iter(mute.values()))
    found = pa.concat_tables([BOUNDS_SCHEMA.empty_table(), *answered.values()])
    place = Rows.of(led).find(found)
    by = np.repeat(np.array(list(answered), dtype=np.int64), [answer.num_rows for answer in answered.values()])
    own = place != NOWHERE
    own[own] = leaders[place[own]] == by[own]  # nobody has a word on what another leads
    found, place = found.filter(pa.array(own)), place[own]
    wrong = np.asarray(found["error"].is_valid().to_numpy(), dtype=np.bool_)
    missing = np.ones(len(leaders), dtype=np.bool_)
    missing[place] = False
    unreachable = missing & np.isin(leaders, list(mute))
    unknowing = np.flatnonzero(missing & ~unreachable)
    gaps = []
    if mute:
        gaps.append(f"{many(unreachable.sum(), 'partition')} whose leader did not answer: {named_failures(mute)}")
    if wrong.any():
        failed = {_name(row): row["error"] for row in found.filter(pa.array(wrong)).slice(0, NAMED).to_pylist()}
        gaps.append(f"{many(wrong.sum(), 'partition')} with an error: {failure_summary(failed, of=int(wrong.sum()))}")
    if len(unknowing):
        (first,) = led.slice(int(unknowing[0]), 1).to_pylist()
        gaps.append(f"{many(len(unknowing), 'partition')} not served by their leader: {_name(first)}")
    return found.filter(pa.array(~wrong)), "; ".join(gaps) or None


def _started(rows: Rows, count: int, groups: Groups | None) -> npt.NDArray[np.bool_]:
    """By row, whether to read where its log starts: in a large cluster, only where groups have committed offsets."""
    if count <= EVERY_START or groups is None:
        return np.ones(count, dtype=np.bool_)
    found = np.zeros(count, dtype=np.bool_)
    place = rows.find_each({tp for group in groups.offsets for tp in group.committed})
    found[place[place != NOWHERE]] = True
    return found


def _name(row: Mapping[str, Any]) -> str:
    return str(TopicPartition(row["topic"], row["partition"]))
