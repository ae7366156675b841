"""An operator of the simulation, and its lines to Kafka, ZooKeeper and the API server, each request on which passes the
stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafka_medic.clients.zookeeper import Registrations
from kafka_medic.cluster.accounts import TopicRecord
from kafka_medic.cluster.snapshot import Controller, Quorum, Voter
from kafka_medic.controller.reconciler import Reconciler
from kafka_medic.controller.renewals import Renewals
from tests.simulation.kafka import SimKafka
from tests.simulation.serial import Rounds

if TYPE_CHECKING:
    from tests.simulation.stage import Stage

EFFECTS = frozenset(
    {
        "alter_reassignments",
        "alter_configs",
        "alter_log_dirs",
        "create_topic",
        "append",
        "add_partitions",
        "elect_preferred",
        "commit_offsets",
    }
)
LATE = frozenset(
    {"alter_reassignments", "alter_configs", "alter_log_dirs", "elect_preferred", "commit_offsets", "create"}
)
"""Effects that may be carried out after their caller gave up."""
KAFKA_CALLS = EFFECTS | {
    "describe_cluster", "views", "memberships", "slices", "unnamed_views", "reassignments", "topic_configs",
    "broker_configs", "cluster_configs", "log_dirs", "log_bounds", "own_log_ends", "epoch_ends", "read_log",
    "read_topic", "groups", "group_members", "unsettled", "offsets_at", "quorum", "identities",
    "version", "registrations", "ensemble", "topics",
}  # fmt: skip
API_CALLS = frozenset({"get", "list", "create", "replace", "merge"})


@dataclass
class Operator:
    """A process: how many requests of each kind it has sent, and what this reconcile has read (kept by the oracle).
    `skew`: by how many seconds the clock of its machine is ahead of the API server's. `process`: each one has a number
    of its own. `beside`: the present request is not the reconcile's but one that renews a lease. `stopped_until`: the
    end of a pause, in which none of its threads runs; `hung_until`: the end of a renewal that is not answered."""

    name: str
    counts: dict[str, int] = field(default_factory=lambda: {"effect": 0, "status": 0, "call": 0, "renewal": 0})
    busy: bool = False
    skew: float = 0.0
    reconciler: Reconciler | None = None
    seen: dict[str, Any] = field(default_factory=dict)
    canaries: list[Rounds] = field(default_factory=list)
    renewals: Renewals | None = None
    process: int = 0
    beside: bool = False
    stopped_until: float = 0.0
    hung_until: float = 0.0


class Line:
    """An operator's line to Kafka or to the API server: each request takes its time, and may meet its fault."""

    def __init__(self, stage: Stage, operator: Operator, inner: Any, names: frozenset[str]) -> None:
        self._stage, self._operator, self._inner, self._names = stage, operator, inner, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in self._names:
            return found
        stage, operator = self._stage, self._operator

        def call(*args: Any, **kwargs: Any) -> Any:
            return stage.request(operator, name, lambda: found(*args, **kwargs), args)

        self.__dict__[name] = call
        return call


class SimZooKeeper:
    """The ensemble of a cluster that keeps its metadata in ZooKeeper: three servers of its own."""

    def __init__(self, kafka: SimKafka) -> None:
        self._kafka = kafka

    def registrations(self) -> Registrations:
        self._kafka._readable("zookeeper")
        holder = self._kafka.controller()  # without one there is no znode /controller
        named = Controller(holder, 1) if holder >= 0 else Controller(None, None)
        return Registrations(tuple(sorted(self._kafka.members)), named)

    def ensemble(self) -> Quorum:
        self._kafka._readable("ensemble")
        return Quorum(0, tuple(Voter(n) if n in self._kafka.behind else Voter(n, 0) for n in range(3)))

    def topics(self, names: Sequence[str]) -> Mapping[str, TopicRecord | None]:
        self._kafka._readable("zookeeper")
        found: dict[str, TopicRecord | None] = dict.fromkeys(names)
        for tp, p in self._kafka.partitions.items():
            if tp.topic in found:
                record = found[tp.topic] or TopicRecord(f"id-{p.born}-{tp.topic}", {})
                state = p.leader, p.epoch, (*p.isr,), (*p.replicas,)
                found[tp.topic] = TopicRecord(record.topic_id, {**record.partitions, tp.partition: state})
        return found

    def close(self) -> None:
        pass
