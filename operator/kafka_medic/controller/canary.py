"""The canary of one KafkaCluster, for as long as the KafkaCluster asks for one: its topic and its records.

Enabling it in the KafkaCluster is the permission for its two kinds of write: records into its own topic, and making
and keeping that topic. A topic that does not carry the marks of ours is never touched, nor written to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa

from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.ports import CanaryClient, Connection, Kafka, NewTopic
from kafka_medic.cluster.snapshot import ConfigValue, Snapshot, TopicPartition
from kafka_medic.controller.backoff import pause_after
from kafka_medic.controller.canary_topic import (
    Add,
    Change,
    Create,
    Elect,
    Place,
    hindrances,
    next_change,
    receivers,
    recognised,
    rows_of,
)
from kafka_medic.controller.events import Note
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.guard.fit import fit_to_receive
from kafka_medic.guard.verdict import Verdict
from kafka_medic.observe.canary import Canary, Outcome
from kafka_medic.report.units import many
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.kafkacluster import Canary as CanarySpec
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import ACTING_PHASES
from kafka_medic.resources.remediation import Remediation

_LOG = logging.getLogger(__name__)

SETTLED_SECONDS = 60.0
"""A change of the topic, once it is there, is made when it has been due for so long: leaders that moved for a restart
or an election mostly move back."""

ConnectCanary = Callable[[Connection, str, float], CanaryClient]
"""(how to reach the cluster, topic, seconds from send to delivery report at most)"""


@dataclass(slots=True)
class CanaryKeeper:
    """Started and stopped with the KafkaCluster's worker, and called from it alone."""

    connect: ConnectCanary
    now: Callable[[], datetime]
    report: Callable[[Outcome], None] = lambda _: None
    _running: tuple[object, Canary] | None = None
    _problem: str = "not begun yet"
    _due: tuple[Change, datetime] | None = None
    _failures: int = 0
    _not_before: datetime | None = None
    _ours: frozenset[TopicPartition] = field(default_factory=frozenset)

    @property
    def changes(self) -> bool:
        """Whether a change of the topic is due, for which every broker's view is needed."""
        return self._due is not None

    @property
    def ours(self) -> frozenset[TopicPartition]:
        """The canary's own partitions, once they are known to be so: moving them is nobody else's reassignment."""
        return self._ours

    def reader(self, cluster: KafkaCluster) -> Callable[[], pa.Table] | None:
        """What the snapshot's source `canary` is read with; None when the KafkaCluster asks for no canary."""
        return self._reading if cluster.spec.probes.canary.enabled else None

    def _reading(self) -> pa.Table:
        if self._running is None:
            raise ReadFailed(FailureKind.OTHER, self._problem)
        return self._running[1].reading()

    def keep(
        self,
        cluster: KafkaCluster,
        snapshot: Snapshot,
        connected: tuple[Connection, Kafka] | None,
        runs: Sequence[Remediation],
        unreadable: Sequence[str],
        may_write: Callable[[], bool],
    ) -> Note | None:
        """Called once in each reconcile. `unreadable`: names of Remediations that cannot be read. `may_write` is called
        right before a change: for the Lease, and whether all of this is still fresh. Returns what was changed or could
        not be, if it is news. A fault of ours in here does not end the reconcile."""
        try:
            return self._keep(cluster, snapshot, connected, runs, unreadable, may_write)
        except Exception as problem:  # noqa: BLE001
            _LOG.exception("%s: canary: internal fault", cluster.name)
            self.stop()
            self._problem = f"internal fault: {type(problem).__name__}; see the operator's log"
            return None

    def _keep(
        self,
        cluster: KafkaCluster,
        snapshot: Snapshot,
        connected: tuple[Connection, Kafka] | None,
        runs: Sequence[Remediation],
        unreadable: Sequence[str],
        may_write: Callable[[], bool],
    ) -> Note | None:
        spec = cluster.spec.probes.canary
        if not spec.enabled:
            self.stop()
            return None
        if connected is None or snapshot.partitions is None:
            # The topic is unknown: the canary continues to send, and its results show why.
            self._watch(None)
            return None
        connection, kafka = connected
        rows = rows_of(snapshot, spec.topic)
        try:
            if rows and not recognised(_settings(kafka, spec.topic)):
                self.stop()
                self._problem = (
                    f"topic {spec.topic} exists but was not made by kafka-medic, so the canary leaves it alone; "
                    "name another topic in spec.probes.canary.topic"
                )
                return None
        except ReadFailed as problem:
            self._watch(None)
            _LOG.info("%s: whether topic %s is the canary's own is not known: %s", cluster.name, spec.topic, problem)
            return None
        if rows:
            self._ours = frozenset(r.tp for r in rows)
            self._run(cluster, spec, connection)
            self._watch({r.partition: r.leader for r in rows})
        else:
            self.stop()
        hindered = tuple(f"Remediation {r.name} is acting" for r in runs if r.status.phase in ACTING_PHASES)
        hindered += tuple(f"Remediation {name} cannot be read by this version" for name in unreadable)
        if cluster.spec.remediation.paused:
            hindered += ("spec.remediation.paused is true",)
        change = self._wanted(cluster, spec, snapshot, hindered)
        if change is None or not may_write():
            return None
        return self._carry_out(spec.topic, change, kafka)

    def stop(self) -> None:
        running, self._running = self._running, None
        self._ours = frozenset()
        if running is not None:
            running[1].close()

    def _run(self, cluster: KafkaCluster, spec: CanarySpec, connection: Connection) -> None:
        interval, timeout = parse_duration(cluster.spec.probes.interval), parse_duration(spec.timeout)
        wanted = (connection, spec.topic, interval, timeout)
        if self._running is not None and self._running[0] == wanted:
            return
        ours = self._ours
        self.stop()
        self._ours = ours
        canary = Canary(
            spec.topic, lambda delivery: self.connect(connection, spec.topic, delivery), interval, timeout, self.report
        )
        self._running = (wanted, canary)
        canary.start()

    def _watch(self, leaders: dict[int, int | None] | None) -> None:
        if self._running is not None:
            self._running[1].watch(leaders)

    def _wanted(
        self, cluster: KafkaCluster, spec: CanarySpec, snapshot: Snapshot, hindered: tuple[str, ...]
    ) -> Change | None:
        """The change of the topic that is due now."""
        hindered += hindrances(snapshot, spec.topic)
        if hindered:
            self._due = None
            self._problem = f"topic {spec.topic} cannot be made yet: {'; '.join(hindered[:3])}"
            return None
        expected = Expectations.from_spec(cluster.spec.expectations)
        change = next_change(
            snapshot,
            spec.topic,
            expected.factor_of(spec.topic) or expected.replication_factor,
            expected.min_isr_of(spec.topic) or expected.min_in_sync_replicas,
        )
        now = self.now()
        if change is None:
            self._due = None
            return None
        if self._due is None or self._due[0] != change:
            self._due = (change, now)
        if not isinstance(change, Create) and now - self._due[1] < timedelta(seconds=SETTLED_SECONDS):
            return None
        fit = fit_to_receive(snapshot, receivers(change, snapshot, spec.topic))
        if unfit := [r.message for r in fit if r.verdict is not Verdict.ALLOW]:
            self._problem = f"topic {spec.topic} cannot be made yet: {'; '.join(unfit[:3])}"
            return None
        return None if self._not_before is not None and now < self._not_before else change

    def _carry_out(self, topic: str, change: Change, kafka: Kafka) -> Note | None:
        self._due = None
        try:
            done = _send(topic, change, kafka)
        except WriteFailed as problem:
            self._failures += 1
            self._not_before = self.now() + timedelta(seconds=pause_after(self._failures))
            self._problem = f"topic {topic} could not be made: {problem}"
            _LOG.warning("canary topic %s: %s", topic, problem)
            return ("Warning", "CanaryTopicFailed", self._problem) if self._failures == 1 else None
        self._failures, self._not_before = 0, None
        self._problem = f"topic {topic} was made but is not visible yet"
        return ("Normal", "CanaryTopic", done)


def _send(topic: str, change: Change, kafka: Kafka) -> str:
    """Do it, and say what was done. Raises WriteFailed."""
    match change:
        case Create(assignment, configs):
            kafka.create_topic(NewTopic(topic, assignment, configs))
            return f"made topic {topic} for the canary, one partition for each of {many(len(assignment), 'broker')}"
        case Add(total, assignment):
            kafka.add_partitions(topic, total, assignment)
            return f"raised canary topic {topic} to {many(total, 'partition')}"
        case Place(targets):
            refused = kafka.alter_reassignments(dict(targets))
            done = f"moved partitions of canary topic {topic}: {', '.join(str(tp) for tp, _ in targets[:5])}"
        case Elect(partitions):
            refused = kafka.elect_preferred(partitions)
            done = f"elected preferred leaders of canary topic {topic}: {', '.join(map(str, partitions[:5]))}"
    if refused:
        tp, why = next(iter(refused.items()))
        raise WriteFailed(FailureKind.REFUSED, f"{tp}: {why}")
    return done


def _settings(kafka: Kafka, topic: str) -> Mapping[str, ConfigValue]:
    """Raises ReadFailed, also when the topic is gone."""
    found = kafka.topic_configs([topic])[topic]
    if isinstance(found, ReadFailed):
        raise found
    return found
