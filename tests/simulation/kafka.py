"""A Kafka cluster in memory, behind the same port as the real one.

It does what decisions depend on: reassignments take turns to catch up, a target joins the ISR later than the move
is reported complete, a broker that is down answers nothing and leads nothing, a cancelled reassignment goes back.
tests/contract holds it to the real Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from kafka_medic.clients.ports import (
    Address,
    BrokerView,
    ClusterDescription,
    ConfigChange,
    FailureKind,
    LogDirs,
    LogRecord,
    MaySend,
    NewTopic,
    Node,
    OwnRecord,
    PartitionState,
    ReadFailed,
    Reassignment,
    WriteFailed,
    unasked,
)
from kafka_medic.cluster.groups import Committed, GroupMember, GroupOffsets
from kafka_medic.cluster.snapshot import ConfigValue, Quorum, TopicPartition, Voter
from tests.simulation.brokers import SimBrokers, SimPartition

READ_ONLY = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
)
"""What brokers read when they start, and at no other time."""


class SimKafka(SimBrokers):
    def describe_cluster(self) -> ClusterDescription:
        self._readable("kafka")
        asked = self.stale.get(min(self.up))
        members = sorted(self.members) if asked is None else asked.members
        nodes = tuple(Node(b, f"broker-{b}", 9092, self.racks[b]) for b in members)
        controller = self.controller()
        return ClusterDescription(self.cluster_id, nodes, controller if controller in self.racks else min(self.up))

    def view(self) -> BrokerView:
        """What a broker that is cut off from nothing tells; the same object until something changes."""
        now = [(tp, p.leader, p.epoch, (*p.replicas,), (*p.isr,), p.born) for tp, p in sorted(self.partitions.items())]
        controller = self.controller() if self.zookeeper else None
        key = (now, sorted(self.members), controller)
        if self._told is None or self._told[0] != key:
            rows = [
                PartitionState(*tp, leader, epoch, replicas, isr, f"id-{born}-{tp.topic}")
                for tp, leader, epoch, replicas, isr, born in now
            ]
            self._told = key, BrokerView.of(-1, sorted(self.members), controller, rows)
        return self._told[1]

    def views(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        return self._answers(brokers)

    def _answers(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        self._readable("views")
        told = self.view()
        return {
            b: replace(self.stale.get(b, told), broker=b)
            if b in self.up and b not in self.deaf
            else ReadFailed(FailureKind.UNREACHABLE, f"broker {b}")
            for b in brokers
        }

    def memberships(self, brokers: Sequence[int]) -> Mapping[int, BrokerView | ReadFailed]:
        self._readable("views")
        return {
            b: replace(a, states=None) if isinstance(a, BrokerView) else a for b, a in self._answers(brokers).items()
        }

    def unnamed_views(self, brokers: Mapping[int, Sequence[Address]]) -> Mapping[int, BrokerView | ReadFailed]:
        self._readable("views")
        return {
            b: replace(self.stale[b], broker=b)
            if b in self.zombies - self.deaf
            else ReadFailed(FailureKind.UNREACHABLE, f"broker {b}: nobody answers as that broker")
            for b in brokers
        }

    def reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        self._readable("reassignments")
        return {
            tp: Reassignment(tuple(p.replicas), tuple(p.adding), ()) for tp, p in self.partitions.items() if p.adding
        }

    def topic_configs(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, ConfigValue]]:
        self._readable("configs")
        least = {"min.insync.replicas": ConfigValue(self.least(), False)}
        return {t: least | self._set("TOPIC", t) for t in topics}

    def least(self) -> str:
        """The min.insync.replicas of a topic that has none of its own."""
        static = self.started_with[min(self.racks)].get("min.insync.replicas", "1")
        return self.dynamic.get(("BROKER", "", "min.insync.replicas"), static)

    def broker_configs(self, brokers: Sequence[int]) -> Mapping[int, Mapping[str, ConfigValue]]:
        self._readable("configs")
        return {b: self._static(b) | self._set("BROKER", str(b)) for b in brokers}

    def cluster_configs(self) -> Mapping[str, ConfigValue]:
        self._readable("configs")
        return self._set("BROKER", "")

    def _static(self, broker: int) -> dict[str, ConfigValue]:
        """What it read when it was started, and what is set at run time for all brokers."""
        told = {name: ConfigValue(value, False) for name, value in self.started_with[broker].items()}
        return told | {name: ConfigValue(v.value, False) for name, v in self._set("BROKER", "").items()}

    def _set(self, kind: str, resource: str) -> dict[str, ConfigValue]:
        return {k[2]: ConfigValue(v, True) for k, v in self.dynamic.items() if k[:2] == (kind, resource)}

    def log_dirs(self, brokers: Sequence[int]) -> Mapping[int, LogDirs]:
        self._readable("log-dirs")
        held = {b: {tp: p.size for tp, p in self.partitions.items() if b in p.replicas} for b in brokers}
        return {b: LogDirs(sizes, self.free) for b, sizes in held.items()}

    def log_bounds(
        self, leaders: Mapping[TopicPartition, int]
    ) -> Mapping[int, Mapping[TopicPartition, tuple[int, int]] | ReadFailed]:
        self._readable("log-ends")
        return {
            b: {
                tp: (0, self.partitions[tp].end)
                for tp, leader in leaders.items()
                if leader == b and self.partitions[tp].leader == b
            }
            if b in self.up - self.mute
            else ReadFailed(FailureKind.UNREACHABLE, f"broker {b}")
            for b in set(leaders.values())
        }

    def own_log_ends(self, broker: int, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self._readable("log-ends")
        if broker not in self.up:
            raise ReadFailed(FailureKind.UNREACHABLE, f"broker {broker}")
        parts = {tp: p for tp in partitions if (p := self.partitions.get(tp)) and broker in p.replicas}
        held = {tp: self.parted.get((broker, tp), p.end) for tp, p in parts.items()}
        return held | {tp: log[-1].offset + 1 for tp in held if (log := self.alone.get((broker, tp)))}

    def epoch_ends(self, broker: int, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self._readable("log-ends")
        if broker not in self.up:
            raise ReadFailed(FailureKind.UNREACHABLE, f"broker {broker}")
        led = {tp: p for tp in epochs if (p := self.partitions.get(tp)) and p.leader == broker}
        known = {tp: p for tp, p in led.items() if epochs[tp] <= p.epoch}
        return {tp: min([p.end, *(at for e, at in p.began.items() if e > epochs[tp])]) for tp, p in known.items()}

    def read_log(self, broker: int, tp: TopicPartition, start: int, end: int) -> tuple[Sequence[LogRecord], int]:
        if broker not in self.up:
            raise ReadFailed(FailureKind.UNREACHABLE, f"broker {broker}")
        if broker not in self.partitions[tp].replicas:
            raise ReadFailed(FailureKind.OTHER, f"log of {tp}: not here")
        alone = self.alone.get((broker, tp), [])
        log = [r for r in self.logs.get(tp, []) if not alone or r.offset < alone[0].offset] + alone
        return [r for r in log if start <= r.offset < end], end

    def read_topic(self, topic: str, partition: int) -> list[LogRecord]:
        self._readable("log-ends")
        return list(self.logs.get(TopicPartition(topic, partition), []))

    def append(self, topic: str, partition: int, records: Iterable[OwnRecord]) -> int:
        self._writable()
        tp = TopicPartition(topic, partition)
        log, before = self.logs.setdefault(tp, []), self.partitions[tp].end
        for record in records:
            end = self.partitions[tp].end
            log.append(LogRecord(tp, end, record.timestamp_ms, record.key, record.value, record.headers))
            self.partitions[tp].end += 1
        self.writes.append(f"append to {topic}-{partition}")
        return self.partitions[tp].end - before

    def groups(self, wanted: Callable[[str], bool]) -> Sequence[GroupOffsets]:
        self._readable("groups")
        return [
            GroupOffsets(g, self.states.get(g, "Empty"), {tp: self._said(g, tp, o) for tp, o in offsets.items()})
            for g, offsets in self.committed.items()
            if wanted(g)
        ]

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
        self._readable("quorum")
        up = self.up | self.controllers
        return Quorum(
            self.controller(),
            tuple(
                Voter(v, 900, 60_000) if v in self.behind else Voter(v, 0, 0) if v in up else Voter(v)
                for v in self.apart or sorted(self.racks)
            ),
        )

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
                    refused[tp] = "InvalidReplicaAssignmentError"
            elif set(replicas) - set(self.racks):
                refused[tp] = "InvalidReplicaAssignmentError"
            else:
                base = part.before or part.replicas
                part.adding = [b for b in replicas if b not in base]
                part.before = list(base) if part.adding else []
                part.replicas = list(replicas)
        return refused

    def alter_configs(self, changes: Sequence[ConfigChange], may_send: MaySend = unasked) -> None:
        self._writable()
        self.writes.append(f"configs {sorted({c.name for c in changes})} {sorted({str(c.value) for c in changes})[:1]}")
        asked: set[str | None] = set()
        for c in sorted(changes, key=lambda c: c.resource_type != "TOPIC"):
            request = c.resource if c.resource_type == "BROKER" else None
            if request not in asked and not may_send():
                raise WriteFailed(FailureKind.REFUSED, f"stopped after {len(asked)} requests")
            asked.add(request)
            if c.resource_type == "TOPIC" and c.resource not in {tp.topic for tp in self.partitions}:
                raise WriteFailed(FailureKind.REFUSED, f"topic {c.resource}: UnknownTopicOrPartitionError")
            if c.resource_type == "BROKER" and c.name in READ_ONLY:
                raise WriteFailed(FailureKind.REFUSED, f"{c.name}: cannot be updated dynamically")
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
        if {b for ids in topic.assignment for b in ids} - self.up:
            raise WriteFailed(FailureKind.REFUSED, f"topic {topic.name}: InvalidReplicaAssignmentError")
        self.topic(topic.name, *topic.assignment, size=0, end=0)
        self.dynamic |= {("TOPIC", topic.name, name): value for name, value in topic.configs.items()}

    def add_partitions(self, topic: str, total: int, assignment: Sequence[Sequence[int]]) -> None:
        self._writable()
        self.writes.append(f"partitions {topic} {total}")
        there = sum(tp.topic == topic for tp in self.partitions)
        if there == 0:
            raise WriteFailed(FailureKind.REFUSED, f"topic {topic}: UnknownTopicOrPartitionError")
        if total <= there:
            return
        for number, ids in enumerate(assignment, there):
            self.partitions[TopicPartition(topic, number)] = SimPartition(list(ids), list(ids), ids[0], size=0, end=0)

    def elect_preferred(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, str]:
        self._writable()
        self.writes.append(f"elect {sorted(map(str, partitions))}")
        refused = {}
        for tp in partitions:
            part = self.partitions.get(tp)
            if part is None:
                refused[tp] = "UnknownTopicOrPartition"
            elif part.replicas[0] not in part.isr or part.replicas[0] not in self.up:
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
