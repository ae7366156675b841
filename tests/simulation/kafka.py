"""A Kafka cluster in memory, behind the same port as the real one.

It does what decisions depend on: reassignments take reconciles to catch up, a target joins the ISR later than the move
is reported complete, a broker that is down answers nothing and leads nothing, a cancelled reassignment goes back.
tests/contract holds it to the real Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa

from kafka_medic.clients import kafka_admin
from kafka_medic.clients.answers import Groups, LogDirs
from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.ports import (
    Address,
    BrokerView,
    ClusterDescription,
    ConfigChange,
    LogRecord,
    MaySend,
    NewTopic,
    Node,
    OwnRecord,
    PodAddress,
    Reassignment,
    always,
)
from kafka_medic.clients.tables import BOUNDS_SCHEMA, LED_SCHEMA, table_of
from kafka_medic.cluster.groups import Committed, GroupMember, GroupOffsets
from kafka_medic.cluster.snapshot import ConfigValue, Quorum, TopicPartition
from tests.simulation import brokers as sim
from tests.simulation.brokers import MIN_ISR, SimPartition
from tests.simulation.volumes import SimVolumes

READ_ONLY = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
)
"""What brokers read when they start, and at no other time."""
CLOCK_MS = 1_767_268_800_000
"""The true time at the beginning."""


class SimKafka(SimVolumes):
    def describe_cluster(self) -> ClusterDescription:
        self._readable("kafka")
        asked = self.answering()
        nodes = tuple(Node(b, f"broker-{b}", 9092, self.racks[b]) for b in self.image(asked).members)
        controller = self.controller()
        return ClusterDescription(self.cluster_id, nodes, controller if controller in self.racks else asked)

    def answering(self) -> int:
        """The broker that a request goes to which any broker can answer: with ZooKeeper the controller, which KRaft's
        brokers do not name."""
        near = self.controller() if self.zookeeper else self.near
        return near if near is not None and near in self.up else min(self.up - self.stale.keys() or self.up)

    def views(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        return self._answers(brokers)

    def _answers(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        self._readable("views")
        return {
            b: replace(self.image(b).view, broker=b)
            if b in self.up and b not in self.deaf
            else ReadFailed(FailureKind.UNREACHABLE, f"broker {b}")
            for b in brokers
        }

    def memberships(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        self._readable("views")
        return {
            b: replace(a, states=None) if isinstance(a, BrokerView) else a for b, a in self._answers(brokers).items()
        }

    def slices(self, topics: Mapping[int, Sequence[str]]) -> Mapping[int, BrokerView | ReadFailed]:
        def about(view: BrokerView | ReadFailed, covers: frozenset[str]) -> BrokerView | ReadFailed:
            if isinstance(view, ReadFailed):
                return view
            rows = [p for p in view.partitions if p.topic in covers]
            return replace(BrokerView.of(view.broker, view.members, view.controller, rows), covers=covers)

        return {b: about(view, frozenset(topics[b])) for b, view in self._answers(list(topics)).items()}

    def unnamed_views(self, brokers: Mapping[int, Sequence[Address]]) -> Mapping[int, BrokerView | ReadFailed]:
        """Nobody answers who is not given an address to be asked at."""
        self._readable("views")
        return {
            b: replace(self.stale[b], broker=b)
            if brokers[b] and b in self.zombies - self.deaf
            else ReadFailed(FailureKind.UNREACHABLE, f"broker {b}: no server answers as that broker")
            for b in brokers
        }

    def identities(self, pods: Mapping[int, PodAddress], ids: Sequence[int]) -> Mapping[int, int | ReadFailed]:
        self._readable("identities")
        silent = ReadFailed(FailureKind.UNREACHABLE, "simulated: no answer")
        able = (self.nodes - self.deaf - self.closed).intersection(ids)
        answering = {ip: b for ip, b in self.housed.items() if b in able}
        return {said: answering.get(pod.ip, silent) for said, pod in pods.items()}

    def reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        self._readable("reassignments")
        return {
            tp: Reassignment(tuple(p.replicas), tuple(p.adding), tuple(p.removing))
            for tp, p in self.partitions.items()
            if p.adding or p.removing
        }

    def topic_configs(
        self, topics: Sequence[str], among: Sequence[int] | None = None, names: Sequence[str] | None = None
    ) -> Mapping[str, Mapping[str, ConfigValue] | ReadFailed]:
        """Of one broker, which knows the topics of its own image."""
        self._readable("configs")
        asked = self.answering() if among is None else next((b for b in among if b in self.up), self.answering())
        there = {tp.topic for tp in self.image(asked).rows}
        gone = ReadFailed(FailureKind.OTHER, "UnknownTopicOrPartitionError: simulated")
        # Of a topic without a value of its own, each broker shows its own default.
        shown = {MIN_ISR: ConfigValue(self.default_minimum(asked), False)}
        return {t: _named(shown | self._set("TOPIC", t, asked), names) if t in there else gone for t in topics}

    def broker_configs(
        self, brokers: Sequence[int], names: Sequence[str] | None = None
    ) -> Mapping[int, Mapping[str, ConfigValue] | ReadFailed]:
        self._readable("configs")
        away = ReadFailed(FailureKind.UNREACHABLE, "simulated")
        told = {b: self._static(b) | self._set("BROKER", str(b), b) for b in brokers if b in self.up}
        return {b: _named(told[b], names) if b in told else away for b in brokers}

    def cluster_configs(self, among: Sequence[int] | None = None) -> Mapping[str, ConfigValue]:
        self._readable("configs")
        return self._set("BROKER", "")

    def _static(self, broker: int) -> dict[str, ConfigValue]:
        """What it read when it was started, and what is set at run time for all brokers."""
        delay = f"{sim.FILE_DELETE_DELAY * 1000:.0f}"
        started_with = {MIN_ISR: "1", "log.segment.delete.delay.ms": delay} | self.started_with[broker]
        told = {name: ConfigValue(value, False) for name, value in started_with.items()}
        return told | {name: ConfigValue(v.value, False) for name, v in self._set("BROKER", "", broker).items()}

    def _set(self, kind: str, resource: str, asked: int | None = None) -> dict[str, ConfigValue]:
        """As the broker that is `asked` has heard of it."""
        known = self.dynamic if asked is None else self.heard_settings.get(asked, self.dynamic)
        return {k[2]: ConfigValue(v, True) for k, v in known.items() if k[:2] == (kind, resource)}

    def log_dirs(self, brokers: Sequence[int]) -> Mapping[int, LogDirs | ReadFailed]:
        self._readable("log-dirs")
        away = ReadFailed(FailureKind.UNREACHABLE, "simulated")
        return {b: self._directories(b) if b in self.up else away for b in brokers}

    def _directories(self, broker: int) -> LogDirs:
        return self.log_dirs_of(broker)

    def log_bounds(self, led: pa.Table) -> Mapping[int, pa.Table | ReadFailed]:
        """Each serves what it believes it leads, and answers NOT_LEADER_OR_FOLLOWER for the rest, or with an error for
        another epoch than it knows (KIP-320)."""
        self._readable("log-ends")
        served: dict[int, list[tuple[str, int, int | None, int, None]]] = {}
        columns = (led[name].to_pylist() for name in LED_SCHEMA.names)
        for topic, number, broker, epoch, start in zip(*columns, strict=True):
            tp, rows = TopicPartition(topic, number), served.setdefault(broker, [])
            belief, part = self.led_by(broker, tp), self.log_of(broker, tp)
            if belief is not None and part is not None and epoch in (None, -1, belief.epoch):
                end = (self.halted | self.parted).get((broker, tp), part.end)
                rows.append((topic, number, 0 if start else None, end, None))
        return {
            b: table_of(rows, BOUNDS_SCHEMA)
            if b in self.up - self.mute
            else ReadFailed(FailureKind.UNREACHABLE, f"broker {b}")
            for b, rows in served.items()
        }

    def own_log_ends(self, broker: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self._answers_for_logs(broker)
        self.fenced_ones_fetch()
        parts = {tp: part for tp in partitions if (part := self.log_of(broker, tp)) is not None}
        ends = self.halted | self.parted
        held = {tp: ends.get((broker, tp), p.end) for tp, p in parts.items()}
        return held | {tp: log[-1].offset + 1 for tp in held if (log := self.alone.get((broker, tp)))}

    def epoch_ends(self, broker: int, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self._answers_for_logs(broker)
        ends = self.own_log_ends(broker, list(epochs))
        found = {}
        for tp, asked in epochs.items():
            belief, part = self.led_by(broker, tp), self.log_of(broker, tp)
            if belief is not None and part is not None and asked <= belief.epoch:
                found[tp] = min([ends[tp], *(at for e, at in part.began.items() if asked < e <= belief.epoch)])
        return found

    def _answers_for_logs(self, broker: int) -> None:
        self._readable("log-ends")
        if broker not in self.up:
            raise ReadFailed(FailureKind.UNREACHABLE, f"broker {broker}")

    def read_log(self, broker: int, tp: TopicPartition, start: int, end: int) -> tuple[Sequence[LogRecord], int]:
        if broker not in self.up:
            raise ReadFailed(FailureKind.UNREACHABLE, f"broker {broker}")
        part = self.log_of(broker, tp)
        if part is None:
            raise ReadFailed(FailureKind.OTHER, f"log of {tp}: not here")
        alone = self.alone.get((broker, tp), [])
        shared = self.logs.get(tp, []) if part is self.partitions.get(tp) else []
        last = alone[0].offset if alone else self.halted.get((broker, tp), end)
        log = [r for r in shared if r.offset < last] + alone
        return [r for r in log if start <= r.offset < end], end

    def read_topic(self, topic: str, partition: int) -> list[LogRecord]:
        self._readable("log-ends")
        tp = TopicPartition(topic, partition)
        if tp in self.partitions and not self.served(tp):
            raise ReadFailed(FailureKind.UNREACHABLE, f"{tp}: its leader does not serve it")
        return list(self.logs.get(tp, []))

    def append(self, topic: str, partition: int, records: Iterable[OwnRecord]) -> int:
        self._writable()
        tp = TopicPartition(topic, partition)
        if tp not in self.partitions or not self.served(tp):
            raise WriteFailed(FailureKind.UNREACHABLE, f"{tp}: its leader does not serve it")
        log, before = self.logs.setdefault(tp, []), self.partitions[tp].end
        for record in records:
            end = self.partitions[tp].end
            log.append(LogRecord(tp, end, record.timestamp_ms, record.key, record.value, record.headers))
            self.partitions[tp].end += 1
        self.writes.append(f"append to {topic}-{partition}")
        return self.partitions[tp].end - before

    def groups(self, wanted: Callable[[str], bool], brokers: Sequence[int] | None = None) -> Groups:
        self._readable("groups")
        told = [
            GroupOffsets(g, self.states.get(g, "Empty"), {tp: self._said(g, tp, o) for tp, o in offsets.items()})
            for g, offsets in self.committed.items()
            if wanted(g)
        ]
        return Groups(told)

    def _said(self, group: str, tp: TopicPartition, offset: int) -> Committed:
        """What was committed without a word more, or changed since behind its back, has none."""
        told = self.said.get((group, tp))
        return told if told is not None and told.offset == offset else Committed(offset)

    def group_members(self, groups: Sequence[str]) -> Mapping[str, Sequence[GroupMember]]:
        self._readable("groups")
        return {g: self.members_of.get(g, []) for g in groups}

    def unsettled(self, group: str) -> Sequence[TopicPartition]:
        self._readable("groups")
        return self.unsettled_of.get(group, [])

    def offsets_at(self, partitions: Sequence[TopicPartition], ms: int) -> Mapping[TopicPartition, int | None]:
        self._readable("log-ends")
        return {
            tp: next((o for o, at in sorted(self.written_at.get(tp, {}).items()) if at >= ms), None)
            for tp in partitions
        }

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> Mapping[TopicPartition, str]:
        self._writable()
        self.writes.append(f"commit {group} {sorted((str(tp), c.offset) for tp, c in offsets.items())}")
        if self.states.get(group, "Empty") != "Empty":
            return dict.fromkeys(offsets, "UnknownMemberIdError")
        for tp, committed in offsets.items():
            if tp in self.partitions:
                self.committed.setdefault(group, {})[tp] = committed.offset
                self.said[group, tp] = committed
        return {tp: "UnknownTopicOrPartitionError" for tp in offsets if tp not in self.partitions}

    def quorum(self) -> Quorum:
        """As the real client reads it from the leader's answer, whose times are of the leader's own clock."""
        self._readable("quorum")
        if self.heard[0] != self.controller():
            self.heard = self.controller(), self.elapsed
        leader, since = self.heard
        clock = CLOCK_MS + int(self.elapsed * 1000) + (leader * 7919 % 121 - 60) * 1000
        unheard = {v for v, at in self.left_at.items() if at < since}
        told = []
        for voter in self.apart or sorted(self.racks):
            lag, age = self._fetched(voter)
            at = (clock // 500 - lag, clock - age) if voter not in unheard else (-1, -1)
            told.append(SimpleNamespace(replica_id=voter, log_end_offset=at[0], last_caught_up_timestamp=at[1]))
        return kafka_admin.quorum(SimpleNamespace(leader_id=leader, current_voters=told))

    def _fetched(self, voter: int) -> tuple[int, int]:
        """How many records it is behind, and how many milliseconds ago it was not: a record comes twice a second
        (NoOpRecord, KIP-835), and a voter fetches it some milliseconds later."""
        now = int(self.elapsed * 1000)
        if (since := self.behind.get(voter, self.left_at.get(voter))) is not None:
            age = now - int(since * 1000)
            return 1 + age // 500, age
        return (0, 0) if voter == self.controller() else ((now + voter) % 10 // 9, (now + 37 * voter) % 480)

    def version(self) -> str | None:
        return "4.3"

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, str]:
        self._writable()
        self.writes.append(f"reassign {sorted(map(str, targets))}" + (" cancel" if None in targets.values() else ""))
        refused = {}
        for tp, replicas in targets.items():
            part = self.partitions.get(tp)
            if part is None:
                refused[tp] = "UnknownTopicOrPartitionError"
            elif replicas is None:
                if part.adding and not part.withdraw(self.up):
                    refused[tp] = "InvalidReplicationAssignmentError"
            else:
                base = part.before or part.replicas
                able = self.members if self.zookeeper else set(self.racks)
                if set(replicas) - able - set(base):
                    refused[tp] = "InvalidReplicationAssignmentError"
                else:
                    new = [b for b in replicas if b not in base and b not in part.adding]
                    self.reassigned(part, list(base), list(replicas))
                    for broker in new:
                        self.comes_to(broker, tp)
        return refused

    def reassigned(self, part: SimPartition, base: list[int], replicas: list[int]) -> None:
        """Another order is there at once. With ZooKeeper each phase is a leader epoch of its own
        (KafkaController.onPartitionReassignment)."""
        part.adding = [b for b in replicas if b not in base]
        part.removing = [b for b in base if b not in replicas]
        part.before = base if part.adding or part.removing else []
        part.replicas = replicas + part.removing
        if self.zookeeper and (part.adding or not part.removing):
            part.bump()
        if not part.adding:
            self.completes(part)

    def alter_configs(self, changes: Sequence[ConfigChange], may_send: MaySend = always) -> None:
        self._writable()
        self.writes.append(f"configs {sorted({c.name for c in changes})} {sorted({str(c.value) for c in changes})[:1]}")
        asked: set[str | None] = set()
        for c in sorted(changes, key=lambda c: c.resource_type != "TOPIC"):
            request = c.resource if c.resource_type == "BROKER" else None
            if request not in asked and not may_send():
                raise WriteFailed(FailureKind.REFUSED, f"stopped after {len(asked)} requests")
            asked.add(request)
            if c.resource_type == "TOPIC" and c.resource not in {tp.topic for tp in self.partitions}:
                raise WriteFailed(FailureKind.OTHER, f"topic {c.resource}: UnknownTopicOrPartitionError")
            if c.resource_type == "BROKER" and c.name in READ_ONLY:
                raise WriteFailed(FailureKind.OTHER, f"{c.name}: cannot be updated dynamically")
            if c.resource_type == "BROKER" and c.resource and int(c.resource) not in self.up:
                raise WriteFailed(FailureKind.UNREACHABLE, f"broker {c.resource}")
            if c.value is None:
                self.dynamic.pop((c.resource_type, c.resource, c.name), None)
            else:
                self.dynamic[c.resource_type, c.resource, c.name] = c.value

    def create_topic(self, topic: NewTopic) -> None:
        self._writable()
        self.writes.append(f"create {topic.name}")
        if any(tp.topic == topic.name for tp in self.partitions):
            return
        if any(set(ids) - self.racks.keys() or not set(ids) & self.members for ids in topic.assignment):
            raise WriteFailed(FailureKind.REFUSED, f"topic {topic.name}: InvalidReplicaAssignmentError")
        self.topic(topic.name, *topic.assignment, size=0, end=0)
        for number, ids in enumerate(topic.assignment):  # also on brokers that are away
            part = self.partitions[TopicPartition(topic.name, number)]
            part.isr = [b for b in ids if b in self.members]
            part.leader = part.isr[0]
        self.dynamic |= {("TOPIC", topic.name, name): value for name, value in topic.configs.items()}

    def add_partitions(self, topic: str, total: int, assignment: Sequence[Sequence[int]]) -> None:
        self._writable()
        self.writes.append(f"partitions {topic} {total}")
        there = sum(tp.topic == topic for tp in self.partitions)
        if there == 0:
            raise WriteFailed(FailureKind.REFUSED, f"topic {topic}: UnknownTopicOrPartitionError")
        if total <= there:
            return
        born = next(p.born for tp, p in self.partitions.items() if tp.topic == topic)
        for number, ids in enumerate(assignment, there):
            self.partitions[TopicPartition(topic, number)] = SimPartition(
                list(ids), list(ids), ids[0], size=0, end=0, born=born
            )

    def elect_preferred(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, str]:
        self._writable()
        self.writes.append(f"elect {sorted(map(str, partitions))}")
        refused = {}
        for tp in partitions:
            part = self.partitions.get(tp)
            if part is None:
                refused[tp] = "UnknownTopicOrPartition"
            elif part.replicas[0] not in part.isr or part.replicas[0] not in self.members:
                refused[tp] = "PreferredLeaderNotAvailable"
            elif part.leader != part.replicas[0]:
                part.elect(part.replicas[0])
        return refused

    def close(self) -> None:
        pass

    def _readable(self, source: str) -> None:
        if not self.reachable or not self.up or source in self.unreadable:
            raise ReadFailed(FailureKind.UNREACHABLE, f"{source}: simulated")

    def _writable(self) -> None:
        if not self.reachable:
            raise WriteFailed(FailureKind.UNREACHABLE, "simulated")


def _named(told: Mapping[str, ConfigValue], names: Sequence[str] | None) -> Mapping[str, ConfigValue]:
    return told if names is None else {name: value for name, value in told.items() if name in names}
