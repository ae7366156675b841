"""What every detector reads: the snapshot, the snapshot before, expectations and memory. Columns are read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_medic.cluster.clock import Skew
from kafka_medic.cluster.document import timestamp
from kafka_medic.cluster.snapshot import NO_LEADER, Broker, Snapshot, TopicPartition
from kafka_medic.diagnose.columns import Partitions, partitions_of
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.memory import DetectorMemory


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """One observation of a cluster. `ours`: partitions that this project's own runs are moving now. `memory` already
    holds this snapshot. Without memory, detectors that need several observations report nothing."""

    snapshot: Snapshot
    expectations: Expectations
    previous: Snapshot | None = None
    ours: frozenset[TopicPartition] = frozenset()
    being_set: frozenset[str] = frozenset()
    """Topics whose settings a run of this project changes once it has added their replicas."""
    throttling: bool = False
    """A run of this project that moves replicas is Running or Verifying. It removes its throttle at its end."""
    memory: DetectorMemory | None = None
    skew: Skew | None = None
    """Of the API server's clock to the one that dates the snapshot; None while it is not measured."""
    leaving: Mapping[int, str] = field(default_factory=dict)
    """Brokers that are up and are to hold no replica, and who says so."""
    partitions: Partitions | None = field(init=False)
    brokers: tuple[Broker, ...] = field(init=False)
    """Empty when the brokers are not known: ask `live` first where that matters."""
    live: frozenset[int] | None = field(init=False)
    """Registered and answering, both known to be so; None when the brokers are not known."""

    def __post_init__(self) -> None:
        brokers = self.snapshot.brokers
        object.__setattr__(self, "partitions", partitions_of(self.snapshot))
        object.__setattr__(self, "brokers", brokers or ())
        object.__setattr__(self, "live", None if brokers is None else frozenset(b.id for b in brokers if b.live))

    def down(self, broker_id: int) -> bool:
        """Known to be gone: not registered, not answering, or not among the brokers at all."""
        if self.snapshot.brokers is None or broker_id == NO_LEADER:
            return False
        broker = self.snapshot.broker(broker_id)
        return broker is None or broker.registered is False or broker.reachable is False

    def unknown(self, source: str) -> bool:
        """This source did not answer, by the snapshot."""
        found = self.snapshot.source(source)
        return found is not None and not found.known

    def read_from(self, *names: str) -> str:
        """The source and its time, for the evidence: the first of these sources that the snapshot names."""
        for name in names:
            source = self.snapshot.source(name)
            if source is not None and source.observed_at is not None:
                return f"read from {name} at {timestamp(source.observed_at)}"
        return f"in the snapshot of {timestamp(self.snapshot.taken_at)}"


def blind(scene: Scene) -> bool:
    """No broker answers. What the snapshot holds of single brokers then means nothing."""
    if scene.unknown("kafka"):
        return True
    if scene.snapshot.brokers is None:
        return scene.snapshot.partitions is None
    return bool(scene.brokers) and all(b.reachable is False for b in scene.brokers)


def broker_name(broker_id: int) -> str:
    """How a broker is named in `affected`."""
    return f"broker-{broker_id}"
