"""A cluster that scripts are carried out on: a real one that serves many scripts, or a simulated one made for each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kafka import errors
from kafka.protocol.producer import ProduceRequest
from kafka.record.memory_records import MemoryRecordsBuilder
from kazoo.client import KazooClient

from kafka_medic.clients.failures import ClientFailure, FailureKind, ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, ConfigChange, Connection, Kafka, LogRecord, NewTopic
from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.snapshot import TopicPartition
from tests.contract.differential.answers import failed
from tests.contract.differential.scripts import BROKERS
from tests.incident.records import delete_topic
from tests.simulation.kafka import SimKafka
from tests.testbed.kafka_processes import KafkaProcesses
from tests.testbed.kafka_settings import Shape
from tests.testbed.steps import granted, wait_for

SESSION_MS, LAG_MS = 4_000, 4_000
PATIENCE = 40.0
SETTLED = 30.0
"""Seconds of the simulation after which a voter that is away is behind."""
CREATED_SECONDS = 2.0
"""How long a name is tried that is marked for deletion: on a healthy cluster it is free after 0.1 s."""
SETTINGS: dict[str, object] = {
    "auto.leader.rebalance.enable": "false",
    "min.insync.replicas": 1,
    "replica.lag.time.max.ms": LAG_MS,
    "controlled.shutdown.retry.backoff.ms": 500,
}
SESSIONS: Mapping[Shape, dict[str, object]] = {
    "kraft": {"broker.session.timeout.ms": SESSION_MS, "broker.heartbeat.interval.ms": 500},
    "zookeeper": {"zookeeper.session.timeout.ms": SESSION_MS},
}
DEFAULTS = {"default.replication.factor": "3", "min.insync.replicas": "1"}
LEAST = ("BROKER", "", "min.insync.replicas")


class Subject(Protocol):
    """What a script does to a cluster. A broker's number is its own, a topic's name the cluster's."""

    @property
    def kafka(self) -> Kafka: ...
    @property
    def tries(self) -> int:
        """How often a write that is sent twice as well as once is sent until it is carried out."""
        ...

    def create(self, topic: str, replicas: list[list[int]], configs: dict[str, str]) -> str: ...
    def delete(self, topic: str) -> str: ...
    def produce(self, broker: int, tp: TopicPartition, values: list[str], acks: int) -> str:
        """To that very broker: "ok" or the error's name."""

    def stop(self, broker: int) -> None: ...
    def kill(self, broker: int) -> None: ...
    def start(self, broker: int) -> None: ...
    def cut(self, broker: int) -> None: ...
    def heal(self, broker: int) -> None: ...
    def rest(self) -> None:
        """Longer than any session or lag that Kafka allows."""


UNREACHABLE = f"failed: {FailureKind.UNREACHABLE.value}"


def outcome(call: Callable[[], Any], tries: int = 1) -> str:
    """What a write of the port came to: "ok", the refusals, or the failure. `tries`: while nobody is reached."""
    try:
        refused = call()
    except ClientFailure as problem:
        told = failed(problem)
        return outcome(call, tries - 1) if tries > 1 and told == UNREACHABLE else told
    return "ok" if not refused else ", ".join(sorted({str(r).removesuffix("Error") for r in refused.values()}))


class RealCluster:
    """Three brokers of one kind, started once. `settle` of a script waits, so nothing here waits for an effect but for
    a session that has to end before the broker may come back."""

    def __init__(self, kind: Shape) -> None:
        self.kind = kind
        self.broken = False  # nothing can be told from it any more, for instance since a broker does not start
        self.processes = KafkaProcesses(kind, SETTINGS | SESSIONS[kind])
        self.kafka = RealKafka(Connection(self.processes.bootstrap))
        self._cut: set[int] = set()
        self.whole()
        self.kafka.commit_offsets("first", {})  # the topic of offsets is made by the first one who asks
        wait_for("offsets", self._offsets_topic, PATIENCE)
        self.least = self.kafka.cluster_configs().get("min.insync.replicas")

    @property
    def tries(self) -> int:
        """With KRaft, what is sent by way of the cut broker is not carried out, and the port may choose that one."""
        return 6 if self._cut else 1

    def _offsets_topic(self) -> bool:
        """Made by the first commit, with all its replicas in sync."""
        try:
            self.kafka.groups(lambda _: True)
            self.kafka.group_members(["first"])
        except ReadFailed:
            return False
        view = self.kafka.views([0])[0]
        parts = [p for p in view.partitions if p.topic == "__consumer_offsets"] if isinstance(view, BrokerView) else []
        return len(parts) == 3 and all(len(p.isr) == 3 and p.leader >= 0 for p in parts)

    def controller(self) -> int | None:
        """As all brokers that hear of it have it."""
        if self.kind == "kraft":
            return self.kafka.quorum().leader
        views = self.kafka.memberships([b for b in BROKERS if b not in self._cut])
        told = {v.controller for v in views.values() if isinstance(v, BrokerView)}
        return told.pop() if len(told) == 1 else None

    def whole(self) -> None:
        """Every broker is up, a member for each, and one controller is known."""

        def so() -> bool:
            try:
                self.kafka.describe_cluster()
                views = self.kafka.memberships(BROKERS).values()
                all_there = all(isinstance(v, BrokerView) and v.members == BROKERS for v in views)
                return all_there and self.controller() in BROKERS
            except ReadFailed:
                return False

        wait_for(f"all brokers ({self.kind})", so, 60)

    def create(self, topic: str, replicas: list[list[int]], configs: dict[str, str]) -> str:
        def there() -> bool:
            views = self.kafka.views([b for b in BROKERS if b not in self._cut]).values()
            return any(isinstance(v, BrokerView) and any(p.topic == topic for p in v.partitions) for v in views)

        wanted = NewTopic(topic, tuple(map(tuple, replicas)), configs)
        end = granted() + CREATED_SECONDS
        while True:
            told = outcome(lambda: self.kafka.create_topic(wanted), self.tries)
            if told != "ok" or there():
                return told
            if granted() > end:
                return "ok, and it is not there"
            time.sleep(0.1)

    def delete(self, topic: str) -> str:
        delete_topic(self._reached(), topic)
        if self.kind == "zookeeper":
            self._unmarked(topic)
        return "ok"

    def _unmarked(self, topic: str) -> None:
        """Until the mark of a deletion is gone too, which the controller takes away last: a topic that is made between
        is deleted with it. While a broker is away the mark stays."""
        ensemble = KazooClient(self.processes.zookeeper_connect)
        ensemble.start(PATIENCE)
        try:
            end = granted() + CREATED_SECONDS
            while ensemble.exists(f"/admin/delete_topics/{topic}") and granted() < end:
                time.sleep(0.05)
        finally:
            ensemble.stop()
            ensemble.close()

    def _reached(self) -> str:
        return ",".join(self.processes.address(b) for b in self.processes.running - self._cut)

    def produce(self, broker: int, tp: TopicPartition, values: list[str], acks: int) -> str:
        builder = MemoryRecordsBuilder(2, 0, 1 << 20)
        for value in values:
            builder.append(int(time.time() * 1000), None, value.encode(), [])
        builder.close()
        topic = ProduceRequest.TopicProduceData
        part = topic.PartitionProduceData(index=tp.partition, records=bytes(builder.buffer()))
        request = ProduceRequest(
            transactional_id=None, acks=acks, timeout_ms=10_000, max_version=9,
            topic_data=[topic(name=tp.topic, partition_data=[part])],
        )  # fmt: skip
        link = self.kafka._admin._link
        try:
            answer = link.ask(broker, request, f"produce to broker {broker}")
        except ReadFailed as problem:
            return failed(problem)
        (told,) = (p for t in answer.responses for p in t.partition_responses)
        return "ok" if not told.error_code else errors.for_code(told.error_code).__name__.removesuffix("Error")

    def stop(self, broker: int) -> None:
        self.processes.stop(broker)
        self._gone(broker)

    def kill(self, broker: int) -> None:
        self.processes.kill(broker)
        self._gone(broker)

    def _gone(self, broker: int) -> None:
        """Its session ends with it; only then may it come back."""
        others = [b for b in BROKERS if b not in self._cut | {broker}]

        def so() -> bool:
            views = self.kafka.memberships(others).values()
            out = all(isinstance(v, BrokerView) and broker not in v.members for v in views)
            try:
                return out and self.controller() not in (None, broker)
            except ReadFailed:
                return False

        wait_for(f"broker {broker} to be missed", so, PATIENCE)

    def start(self, broker: int) -> None:
        self.processes.start(broker)

    def cut(self, broker: int) -> None:
        self.processes.cut(broker)
        self._cut.add(broker)
        if self.kind == "kraft":
            self._gone(broker)

    def heal(self, broker: int) -> None:
        self.processes.heal(broker)
        self._cut.discard(broker)

    def rest(self) -> None:
        time.sleep((SESSION_MS + LAG_MS) / 1000)

    def tidy(self, prefix: str) -> None:
        """As before the script: what it made is gone, what it broke is whole."""
        for broker in list(self._cut):
            self.heal(broker)
        for broker in set(BROKERS) - self.processes.running:
            self.start(broker)
        self.whole()
        changes = [ConfigChange("BROKER", str(b), "leader.replication.throttled.rate", None) for b in BROKERS]
        changes.append(ConfigChange(*LEAST, self.least.value if self.least else None))
        wait_for("the settings", lambda: outcome(lambda: self.kafka.alter_configs(changes)) == "ok", PATIENCE)
        for topic in self._topics(prefix):
            delete_topic(self.processes.bootstrap, topic)
        wait_for(f"{prefix} to be gone", lambda: not self._topics(prefix) and self._offsets_topic(), 60)

    def _topics(self, prefix: str) -> set[str]:
        views = self.kafka.views(BROKERS).values()
        return {p.topic for v in views if isinstance(v, BrokerView) for p in v.partitions if p.topic.startswith(prefix)}

    def close(self) -> None:
        self.kafka.close()
        self.processes.close()


class SimulatedCluster:
    """The simulation with the settings of the real one. Time passes until nothing changes any more."""

    def __init__(self, kind: Shape, controller: int, least: str | None) -> None:
        self.kafka = self._sim = SimKafka(
            racks={b: f"zone-{b + 1}" for b in BROKERS},
            zookeeper=kind == "zookeeper",
            elr=kind == "kraft",
            copies_per_tick=1000,
        )
        for broker in BROKERS:
            self._sim.files[broker] = dict(DEFAULTS)
            self._sim.started_with[broker] = dict(DEFAULTS)
        if least is not None:
            self._sim.dynamic[LEAST] = least
        self.chosen(controller)

    def chosen(self, controller: int) -> None:
        """Which broker becomes the controller is a race: the real one decides."""
        self._sim.voted = controller

    tries = 1

    def settle(self) -> None:
        self._sim.elapsed += SETTLED
        for _ in range(20):
            self._sim.tick()

    def create(self, topic: str, replicas: list[list[int]], configs: dict[str, str]) -> str:
        return outcome(lambda: self._sim.create_topic(NewTopic(topic, tuple(map(tuple, replicas)), configs)))

    def delete(self, topic: str) -> str:
        self._sim.delete(topic)
        self._sim.written_at = {tp: at for tp, at in self._sim.written_at.items() if tp.topic != topic}
        return "ok"

    def produce(self, broker: int, tp: TopicPartition, values: list[str], acks: int) -> str:
        sim = self._sim
        view = sim.views([broker])[broker]
        if isinstance(view, ReadFailed):
            return failed(view)
        state = next((p for p in view.partitions if (p.topic, p.partition) == tp), None)
        if state is None:
            return "UnknownTopicOrPartition"
        if state.leader != broker:
            return "NotLeaderForPartition"
        least = min(self._least(tp.topic), len(state.replicas))
        if acks == -1 and len(state.isr) < least:
            return "NotEnoughReplicas"
        true = next((p for p in sim.view().partitions if (p.topic, p.partition) == tp), None)
        part = sim.partitions.get(tp)
        if part is not None and true is not None and (true.leader, true.topic_id) == (broker, state.topic_id):
            log, end = sim.logs.setdefault(tp, []), part.end
            part.end += len(values)
        else:
            log = sim.alone.setdefault((broker, tp), [])
            end = log[-1].offset + 1 if log else sim.own_log_ends(broker, [tp]).get(tp, 0)
        log += [LogRecord(tp, end + n, 0, None, value.encode()) for n, value in enumerate(values)]
        sim.written_at.setdefault(tp, {}).update(dict.fromkeys(range(end, end + len(values)), 1))
        return "ok"

    def _least(self, topic: str) -> int:
        try:
            found = self._sim.topic_configs([topic])[topic]
        except ReadFailed as failure:
            found = failure
        if isinstance(found, ReadFailed):  # a topic that only a cut broker has
            return 1
        return int(found["min.insync.replicas"].value or 1)

    def stop(self, broker: int) -> None:
        self._sim.stop(broker)

    def kill(self, broker: int) -> None:
        getattr(self._sim, "kill", self._sim.stop)(broker)

    def start(self, broker: int) -> None:
        self._sim.start(broker)

    def cut(self, broker: int) -> None:
        self._sim.stale[broker] = self._sim.view()
        if not self._sim.zookeeper and (fence := getattr(self._sim, "fence", None)):
            fence(broker)

    def heal(self, broker: int) -> None:
        self._sim.heal(broker)

    def rest(self) -> None:
        self.settle()


def carry_out(subject: Subject, step: list[Any], names: Mapping[str, str], roles: Mapping[int, int], mark: str,
              leader: int, cut: int | None) -> str:  # fmt: skip
    """What the step came to. `mark`: what its records begin with; `leader`: of the partition that it writes to, as the
    brokers that hear of the controller have it; `cut`: the broker that does not."""
    what, *args = step
    if what in ("stop", "kill", "start", "cut", "heal"):
        getattr(subject, what)(roles[args[0]])
        return "ok"
    if what == "rest":
        subject.rest()
        return "ok"
    kafka, tries = subject.kafka, subject.tries
    topic = names.get(args[0], args[0])
    match what:
        case "create":
            return subject.create(topic, _placed(args[1], roles), args[2])
        case "delete":
            return subject.delete(topic)
        case "recreate":
            return f"{subject.delete(topic)}, {subject.create(topic, _placed(args[1], roles), {})}"
        case "write":
            _, partition, count, to, acks = args
            broker = leader if to == "leader" or cut is None else cut
            values = [f"{mark}-{n}" for n in range(count)]
            return (
                "no leader" if broker < 0 else subject.produce(broker, TopicPartition(topic, partition), values, acks)
            )
        case "reassign":
            wanted: list[int] | None = _placed([args[2]], roles)[0]
            return outcome(lambda: kafka.alter_reassignments({TopicPartition(topic, args[1]): wanted}), tries)
        case "cancel":
            return outcome(lambda: kafka.alter_reassignments({TopicPartition(topic, args[1]): None}), tries)
        case "elect":
            return outcome(lambda: kafka.elect_preferred([TopicPartition(topic, args[1])]), tries)
        case "commit":
            group, name, partition, offset = args
            tp = TopicPartition(names[name], partition)
            return outcome(lambda: kafka.commit_offsets(names[group], {tp: Committed(offset)}))
        case "configure":
            kind, resource, name, value = args
            if kind == "BROKER" and resource:
                resource = str(roles[int(resource)])
            change = ConfigChange(kind, names.get(resource, resource), name, value)
            return outcome(lambda: kafka.alter_configs([change]), tries)
    raise AssertionError(what)


def _placed(replicas: list[list[int]], roles: Mapping[int, int]) -> list[list[int]]:
    return [[roles[b] for b in ids] for ids in replicas]
