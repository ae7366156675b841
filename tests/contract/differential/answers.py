"""Everything that a cluster's ports answer, in a form in which two clusters can be compared: path -> value.

Topic ids become the number of the incarnation, in the order in which they were seen. Sizes are left out, since a
record's bytes and an index's preallocation are Kafka's own; times too, since two clusters have two clocks. The version
is what the cluster was started with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_medic.clients.failures import ClientFailure, ReadFailed
from kafka_medic.clients.ports import BrokerView, Kafka
from kafka_medic.cluster.snapshot import TopicPartition
from tests.contract.differential.scripts import BROKERS
from tests.simulation.log_bounds import log_bounds

Answers = Mapping[str, Any]
TOPIC_SETTINGS = ("min.insync.replicas", "leader.replication.throttled.replicas")
BROKER_SETTINGS = ("min.insync.replicas", "default.replication.factor", "leader.replication.throttled.rate")
NEAR, RECENT_MS = 20, 5_000
"""A voter that is so near to the end, and caught up so recently, keeps up: a quorum writes without a break."""
FOREVER_MS = 1 << 50


@dataclass
class Incarnations:
    """The topic ids of one cluster, each with a number of its own among those of its name."""

    numbers: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def of(self, topic: str, topic_id: str | None) -> str | None:
        if topic_id is not None and topic_id not in self.numbers:
            self.counts[topic] = self.counts.get(topic, 0) + 1
            self.numbers[topic_id] = f"{topic}#{self.counts[topic]}"
        return None if topic_id is None else self.numbers[topic_id]


@dataclass
class Asked:
    """What is asked about. `names`: each topic's name in the script, by its name in the cluster."""

    names: dict[str, str]
    partitions: dict[str, int]
    groups: dict[str, str]
    up: set[int]
    zookeeper: bool
    incarnations: Incarnations = field(default_factory=Incarnations)

    def tps(self) -> list[TopicPartition]:
        return [TopicPartition(t, p) for t in self.names for p in range(self.partitions[t])]

    def called(self, tp: TopicPartition) -> str:
        return f"{self.names[tp.topic]}-{tp.partition}"


def answers(kafka: Kafka, asked: Asked) -> dict[str, Any]:
    found: dict[str, Any] = {}
    views = kafka.views(BROKERS)
    found |= _of_views(views, asked)
    found |= _of_cluster(kafka, asked)
    found |= _of_settings(kafka, asked)
    found |= _of_logs(kafka, asked, found)
    found |= _of_groups(kafka, asked)
    return found


def failed(problem: ClientFailure) -> str:
    return f"failed: {problem.kind.value}"


def _try(read: Callable[[], Any]) -> Any:
    try:
        found = read()
        return failed(found) if isinstance(found, ReadFailed) else found
    except ReadFailed as problem:
        return failed(problem)
    except Exception as problem:  # noqa: BLE001 - the port promises ReadFailed alone, so anything else is a difference
        return f"raised {problem!r}"


def _of_views(views: Mapping[int, BrokerView | ReadFailed], asked: Asked) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for broker, view in sorted(views.items()):
        path = f"view/{broker}"
        if isinstance(view, ReadFailed):
            found[path] = failed(view)
            continue
        found[f"{path}/members"] = view.members
        if asked.zookeeper:
            found[f"{path}/controller"] = view.controller
        for state in view.partitions:
            if state.topic in asked.names:
                at = f"{path}/{asked.called(TopicPartition(state.topic, state.partition))}"
                found[f"{at}/leader"], found[f"{at}/epoch"] = state.leader, state.leader_epoch
                # The order of the ISR is that in which replicas joined, which is a race.
                found[f"{at}/replicas"], found[f"{at}/isr"] = state.replicas, tuple(sorted(state.isr))
                found[f"{at}/id"] = asked.incarnations.of(asked.names[state.topic], state.topic_id)
    return found


def _of_cluster(kafka: Kafka, asked: Asked) -> dict[str, Any]:
    found: dict[str, Any] = {}
    described = kafka.describe_cluster()
    found["described/nodes"] = tuple(node.id for node in described.nodes)
    if asked.zookeeper:
        found["described/controller"] = described.controller
    for broker, member in sorted(kafka.memberships(BROKERS).items()):
        path = f"membership/{broker}"
        found[path] = failed(member) if isinstance(member, ReadFailed) else (member.members, member.states)
    moving = _try(kafka.reassignments)
    if isinstance(moving, str):
        found["reassignments"] = moving
    else:
        for tp, move in moving.items():
            if tp.topic in asked.names:
                found[f"reassignments/{asked.called(tp)}"] = (
                    tuple(sorted(move.replicas)), tuple(sorted(move.adding)), tuple(sorted(move.removing)),
                )  # fmt: skip
    quorum = "none" if asked.zookeeper else _try(kafka.quorum)
    if isinstance(quorum, str):
        return found | {"quorum": quorum}
    found["quorum/leader"] = quorum.leader
    for voter in quorum.voters:
        near = voter.lag is not None and voter.lag <= NEAR
        keeps_up = near and voter.last_caught_up_ms is not None and voter.last_caught_up_ms <= RECENT_MS
        found[f"quorum/voter/{voter.id}"] = "keeps up" if keeps_up else "unknown" if voter.lag is None else "behind"
    return found


def _of_settings(kafka: Kafka, asked: Asked) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for topic, name in asked.names.items():
        told = _try(lambda topic=topic: kafka.topic_configs([topic])[topic])  # type: ignore[misc]
        found |= _settings(f"settings/topic/{name}", told, TOPIC_SETTINGS)
    for broker in BROKERS:
        told = _try(lambda broker=broker: kafka.broker_configs([broker])[broker])  # type: ignore[misc]
        found |= _settings(f"settings/broker/{broker}", told, BROKER_SETTINGS)
    return found | _settings("settings/all", _try(kafka.cluster_configs), BROKER_SETTINGS)


def _settings(path: str, told: Any, names: Iterable[str]) -> dict[str, Any]:
    """An empty value is the same as none."""
    if isinstance(told, str):
        return {path: told}
    return {f"{path}/{n}": (told[n].value, told[n].dynamic) for n in names if n in told and told[n].value}


def _of_logs(kafka: Kafka, asked: Asked, found: Mapping[str, Any]) -> dict[str, Any]:
    logs: dict[str, Any] = {}
    tps = asked.tps()
    for broker in BROKERS:
        bounds = _try(lambda b=broker: log_bounds(kafka, dict.fromkeys(tps, b))[b]) if tps else {}  # type: ignore[misc]
        logs |= _told(f"bounds/{broker}", bounds, asked)
        ends = _try(lambda b=broker: kafka.own_log_ends(b, tps))  # type: ignore[misc]
        logs |= _told(f"own-end/{broker}", ends, asked)
        epochs = {tp: e for tp in tps if (e := found.get(f"view/{broker}/{asked.called(tp)}/epoch")) is not None}
        for which, wanted in (("now", epochs), ("first", dict.fromkeys(epochs, 0))):
            told = _try(lambda b=broker, w=wanted: kafka.epoch_ends(b, w)) if wanted else {}  # type: ignore[misc]
            logs |= _told(f"epoch-end-{which}/{broker}", told, asked)
        dirs = _try(lambda b=broker: kafka.log_dirs([b])[b])  # type: ignore[misc]
        here = dirs if isinstance(dirs, str) else dict.fromkeys(dirs.sizes, "here")
        logs |= _told(f"log-dirs/{broker}", here, asked)
        for tp, end in ends.items() if not isinstance(ends, str) else ():
            if end > 0:
                at = f"log/{broker}/{asked.called(tp)}"
                logs[at] = _try(lambda b=broker, tp=tp, end=end: _whole(kafka, b, tp, end))  # type: ignore[misc]
    return logs


def _whole(kafka: Kafka, broker: int, tp: TopicPartition, end: int) -> tuple[str, ...]:
    values: list[str] = []
    start = 0
    while start < end:
        records, start = kafka.read_log(broker, tp, start, end)
        values += [(record.value or b"").decode() for record in records]
    return tuple(values)


def _told(path: str, told: Any, asked: Asked) -> dict[str, Any]:
    if isinstance(told, str):
        return {path: told}
    return {
        f"{path}/{asked.called(tp)}": failed(value) if isinstance(value, ReadFailed) else value
        for tp, value in told.items()
        if tp.topic in asked.names
    }


def _of_groups(kafka: Kafka, asked: Asked) -> dict[str, Any]:
    found: dict[str, Any] = {}
    groups = _try(lambda: kafka.groups(lambda name: name in asked.groups))
    if isinstance(groups, str):
        return {"groups": groups}
    for group in groups.offsets:
        path = f"group/{asked.groups[group.group]}"
        found[f"{path}/state"] = group.state
        found |= _told(f"{path}/committed", {tp: tuple(c) for tp, c in group.committed.items()}, asked)
        found[f"{path}/members"] = _try(lambda g=group.group: tuple(kafka.group_members([g])[g]))  # type: ignore[misc]
        found[f"{path}/unsettled"] = _try(lambda g=group.group: tuple(kafka.unsettled(g)))  # type: ignore[misc]
    return found


def at_times(kafka: Kafka, asked: Asked, led: Iterable[TopicPartition]) -> dict[str, Any]:
    """The first offset ever, and the first of a time that has not come: apart, since a partition that nobody serves
    keeps librdkafka waiting until time is up."""
    found: dict[str, Any] = {}
    for tp in led:
        for which, when in (("ever", 0), ("never", FOREVER_MS)):
            told = _try(lambda tp=tp, when=when: kafka.offsets_at([tp], when)[tp])  # type: ignore[misc]
            found[f"offset-at/{which}/{asked.called(tp)}"] = told
    return found
