"""The effects a run may ask for. Each is idempotent, and each can be recognised afterwards in a Snapshot.

`actuate` has the one function that carries out each of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow.compute as pc

from kafka_medic.cluster.concern import NOTHING, Concern
from kafka_medic.cluster.elements import resource_name, settings_unread
from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.incarnations import deleted
from kafka_medic.cluster.owners import OwnerObject
from kafka_medic.cluster.snapshot import PartitionRow, Snapshot, TopicPartition
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import PartitionChange
from kafka_medic.resources.remediation_status import JournalEntry
from kafka_medic.resources.vocabulary import WorkloadKind

SettingKey = tuple[str, str, str]
"""(TOPIC or BROKER, its name, the setting's name). A BROKER without a name is all of them."""

NO_BROKER: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Intent:
    """What every effect answers. `id`: of its journal entry."""

    id: str

    def describe(self) -> str:
        """In words, for the journal and for events."""
        raise NotImplementedError

    def writes(self) -> Mapping[Hashable, str]:
        """Each thing that it would write, as `Action.may_write` has it, and its name for people. The first element says
        what kind of thing it is."""
        raise NotImplementedError

    def receivers(self, snapshot: Snapshot) -> frozenset[int]:  # noqa: ARG002
        """The brokers to which it gives a leadership, or a preference for one, or a replica that they do not hold yet:
        the guard FitToReceive is asked about them before every forward effect."""
        return NO_BROKER

    def concern(self) -> Concern:
        """On whose word about which partitions it rests."""
        return NOTHING

    @property
    def object_uid(self) -> str | None:
        """Of the object of Kubernetes that it is about."""
        return None


@dataclass(frozen=True, slots=True)
class ChangeSettings(Intent):
    """Set dynamic settings; None removes the dynamic value so that what is below it shows again."""

    settings: Mapping[SettingKey, str | None]
    why: str = field(default="", compare=False)
    """For the journal and the event, where it is not plain. It may be told otherwise at the next look."""

    def describe(self) -> str:
        kinds = sorted({key[2] for key in self.settings})
        text = f"set {', '.join(kinds)} on {len({key[:2] for key in self.settings})} resources"
        return f"{text}: {self.why}" if self.why else text

    def writes(self) -> Mapping[Hashable, str]:
        return {("setting", *key): setting_text(key) for key in self.settings}


def _newly_preferred(wanted: Mapping[TopicPartition, tuple[int, ...]], rows: Iterable[PartitionRow]) -> set[int]:
    """The brokers that come to stand first: Kafka elects those by itself (auto.leader.rebalance.enable)."""
    return {wanted[r.tp][0] for r in rows if wanted[r.tp] and wanted[r.tp][:1] != tuple(r.replicas or ())[:1]}


@dataclass(frozen=True, slots=True)
class Reassign(Intent):
    """Give partitions these replica sets; None cancels the reassignment in flight."""

    targets: Mapping[TopicPartition, tuple[int, ...] | None]

    def describe(self) -> str:
        verb = "cancel the reassignment of" if all(t is None for t in self.targets.values()) else "reassign"
        return f"{verb} {many(len(self.targets), 'partition')}"

    def writes(self) -> Mapping[Hashable, str]:
        return {("replicas", tp, target): str(tp) for tp, target in self.targets.items()}

    def receivers(self, snapshot: Snapshot) -> frozenset[int]:
        wanted = {tp: after for tp, after in self.targets.items() if after is not None}
        rows = {row.tp: row for row in snapshot.rows(set(wanted))}
        held = {tp: set(row.replicas or ()) - set(row.adding or ()) for tp, row in rows.items()}
        new = {b for tp, after in wanted.items() for b in set(after) - held.get(tp, set())}
        return frozenset(new | _newly_preferred(wanted, rows.values()))

    def concern(self) -> Concern:
        return Concern(partitions={tp: after or () for tp, after in self.targets.items()})


@dataclass(frozen=True, slots=True)
class DropReplicas(Intent):
    """Leave partitions these of their replicas. Where the leader goes, one of them becomes leader."""

    targets: Mapping[TopicPartition, tuple[int, ...]]

    def describe(self) -> str:
        return f"remove replicas of {many(len(self.targets), 'partition')}"

    def writes(self) -> Mapping[Hashable, str]:
        return {("replicas", tp, target): str(tp) for tp, target in self.targets.items()}

    def receivers(self, snapshot: Snapshot) -> frozenset[int]:
        rows = list(snapshot.rows(set(self.targets)))
        may_lead = {b for r in rows if r.leader not in self.targets[r.tp] for b in self.targets[r.tp]}
        return frozenset(may_lead | _newly_preferred(self.targets, rows))

    def concern(self) -> Concern:
        return Concern(partitions=self.targets)


@dataclass(frozen=True, slots=True)
class AlterLogDirs(Intent):
    """Move replicas of brokers to these log directories, by broker and partition. A replica that is being moved
    elsewhere, and is still there, stays there. gives_back: that is what it is for."""

    moves: Mapping[tuple[int, TopicPartition], str]
    gives_back: bool = field(default=False, compare=False)

    def describe(self) -> str:
        brokers = ", ".join(map(str, sorted({broker for broker, _ in self.moves})))
        verb = "keep" if self.gives_back else "move"
        where = "where they are" if self.gives_back else "to other log directories"
        return f"{verb} {many(len(self.moves), 'replica')} of broker {brokers} {where}"

    def writes(self) -> Mapping[Hashable, str]:
        return {("log dir", b, tp, path): f"{tp} of broker {b} in {path}" for (b, tp), path in self.moves.items()}

    def receivers(self, snapshot: Snapshot) -> frozenset[int]:  # noqa: ARG002
        return frozenset(broker for broker, _ in self.moves)

    def concern(self) -> Concern:
        return Concern(partitions={tp: () for _, tp in self.moves})


@dataclass(frozen=True, slots=True)
class RestartPod(Intent):
    """Have exactly this Pod of a broker replaced by its owner. `annotated`: Strimzi is asked to, by an annotation."""

    broker: int
    pod: str
    pod_uid: str
    annotated: bool = False

    def describe(self) -> str:
        verb = "make Strimzi restart" if self.annotated else "restart"
        return f"{verb} broker {self.broker} (Pod {self.pod}, uid {self.pod_uid})"

    def writes(self) -> Mapping[Hashable, str]:
        # A broker that came back as it was is restarted again in the Pod that it has by then.
        return {("restart", self.broker, self.pod): f"Pod {self.pod}"}

    def concern(self) -> Concern:
        return Concern(frozenset({self.broker}))

    @property
    def object_uid(self) -> str | None:
        return self.pod_uid


@dataclass(frozen=True, slots=True)
class CallOffRestarts(Intent):
    """Take the annotation off these Pods (name, uid) by which Strimzi was asked to restart them."""

    pods: tuple[tuple[str, str], ...]

    def describe(self) -> str:
        named = ", ".join(f"{name} (uid {uid})" for name, uid in self.pods)
        return f"remove the annotation that makes Strimzi restart Pod {named}"

    def writes(self) -> Mapping[Hashable, str]:
        return {("annotation", name): f"Pod {name}" for name, _ in self.pods}


@dataclass(frozen=True, slots=True)
class RescuePart:
    """A partition that `broker` leads by a stale belief under `epoch`; its log parts from the cluster's at `start`."""

    broker: int
    tp: TopicPartition
    epoch: int
    start: int


@dataclass(frozen=True, slots=True)
class RescueRecords(Intent):
    """Copy what only stale brokers hold into a topic of our own, created with these `replicas`."""

    topic: str
    replicas: tuple[int, ...]
    parts: tuple[RescuePart, ...]

    def describe(self) -> str:
        return (
            f"copy the records of {many(len(self.parts), 'partition')} that only stale brokers hold into topic "
            f"{self.topic}"
        )

    def writes(self) -> Mapping[Hashable, str]:
        return {("rescue", self.topic, p.broker, p.tp, p.epoch): str(p.tp) for p in self.parts}

    def receivers(self, snapshot: Snapshot) -> frozenset[int]:  # noqa: ARG002
        return frozenset(self.replicas)

    def concern(self) -> Concern:
        stale, saved = frozenset(part.broker for part in self.parts), {part.tp: () for part in self.parts}
        return Concern(stale, saved, frozenset(self.replicas))


@dataclass(frozen=True, slots=True)
class ElectPreferred(Intent):
    """Make these brokers, each the first replica of its partition, lead it."""

    preferred: Mapping[TopicPartition, int]

    def describe(self) -> str:
        return f"elect the preferred leaders of {many(len(self.preferred), 'partition')}"

    def writes(self) -> Mapping[Hashable, str]:
        return {("leader", tp, broker): f"{tp} on broker {broker}" for tp, broker in self.preferred.items()}

    def receivers(self, snapshot: Snapshot) -> frozenset[int]:  # noqa: ARG002
        return frozenset(self.preferred.values())

    def concern(self) -> Concern:
        return Concern(partitions={tp: (broker,) for tp, broker in self.preferred.items()})


@dataclass(frozen=True, slots=True)
class Reorder(Intent):
    """Put the replicas of partitions, which stay the same ones, into this order."""

    orders: Mapping[TopicPartition, tuple[int, ...]]

    def describe(self) -> str:
        return f"change the order of the replicas of {many(len(self.orders), 'partition')}"

    def writes(self) -> Mapping[Hashable, str]:
        return {("order", tp, tuple(order)): str(tp) for tp, order in self.orders.items()}

    def receivers(self, snapshot: Snapshot) -> frozenset[int]:  # noqa: ARG002
        return frozenset(order[0] for order in self.orders.values() if order)

    def concern(self) -> Concern:
        return Concern(partitions=self.orders)


@dataclass(frozen=True, slots=True)
class SetOffsets(Intent):
    """Commit for a group without members, where it has committed exactly what is `before`: (before, after)."""

    group: str
    offsets: Mapping[TopicPartition, tuple[Committed, Committed]]

    def describe(self) -> str:
        return f"set the committed offsets of group {self.group} on {many(len(self.offsets), 'partition')}"

    def writes(self) -> Mapping[Hashable, str]:
        after = {tp: after.offset for tp, (_, after) in self.offsets.items()}
        return {("offset", self.group, tp, offset): f"{self.group} on {tp}" for tp, offset in after.items()}

    def concern(self) -> Concern:
        return Concern(partitions=dict.fromkeys(self.offsets, ()))


@dataclass(frozen=True, slots=True)
class ScaleWorkload(Intent):
    """Have exactly this Deployment or StatefulSet run `after` replicas, if it is to run `before` still."""

    kind: WorkloadKind
    name: str
    uid: str
    before: int
    after: int

    def describe(self) -> str:
        return (
            f"scale {self.kind.value} {self.name} (uid {self.uid}) from {self.before} to {many(self.after, 'replica')}"
        )

    def writes(self) -> Mapping[Hashable, str]:
        return {("workload", self.uid, frozenset({self.before, self.after})): f"workload {self.name}"}

    @property
    def object_uid(self) -> str | None:
        return self.uid


@dataclass(frozen=True, slots=True)
class PauseObjects(Intent):
    """Ask the operators of these objects to leave their topics alone."""

    objects: tuple[OwnerObject, ...]

    def describe(self) -> str:
        return f"pause {_listed(self.objects)}"

    def writes(self) -> Mapping[Hashable, str]:
        return {("owner pause", each): str(each) for each in self.objects}


@dataclass(frozen=True, slots=True)
class EditObjects(Intent):
    """Have these objects say what is so: by name of the value, (before, after). Each only where it says what is
    before."""

    edits: Mapping[OwnerObject, Mapping[str, tuple[str | None, str]]]

    def describe(self) -> str:
        return f"edit {_listed(tuple(self.edits))}"

    def writes(self) -> Mapping[Hashable, str]:
        return {
            ("owner edit", each, name, after): f"{name} of {each}"
            for each, values in self.edits.items()
            for name, (_, after) in values.items()
        }


@dataclass(frozen=True, slots=True)
class ResumeObjects(Intent):
    """Take back the pause of these objects."""

    objects: tuple[OwnerObject, ...]

    def describe(self) -> str:
        return f"resume {_listed(self.objects)}"

    def writes(self) -> Mapping[Hashable, str]:
        return {("owner pause", each): str(each) for each in self.objects}


def _listed(objects: tuple[OwnerObject, ...]) -> str:
    more = f" and {len(objects) - 5} more" if len(objects) > 5 else ""
    return ", ".join(map(str, objects[:5])) + more


@dataclass(frozen=True, slots=True)
class ResignController(Intent):
    """Take the registration of a ZooKeeper cluster's controller away, so that another broker becomes it."""

    broker: int
    epoch: int

    def describe(self) -> str:
        return f"delete the registration of broker {self.broker} as controller (epoch {self.epoch}) in ZooKeeper"

    def writes(self) -> Mapping[Hashable, str]:
        return {("controller", self.broker, self.epoch): f"controller {self.broker}"}

    def concern(self) -> Concern:
        return Concern(frozenset({self.broker}))


def setting_key(text: str) -> SettingKey:
    """Inverse of `setting_text`."""
    kind, resource, name = text.split("/", 2)
    return kind, resource, name


def setting_text(key: SettingKey) -> str:
    """A key as the journal stores it. Topic names and setting names hold no slash (Kafka refuses it)."""
    return "/".join(key)


def asked_for(changes: Iterable[PartitionChange], journal: Iterable[JournalEntry]) -> frozenset[TopicPartition]:
    """The partitions of the waves that the journal has begun: any other reassignment in flight is somebody else's."""
    waves = {e.id.rpartition("/wave-")[2] for e in journal if e.kind == Reassign.__name__}
    return frozenset(TopicPartition(c.topic, c.partition) for c in changes if str(c.wave) in waves)


def dynamic_value(snapshot: Snapshot, key: SettingKey) -> str | None:
    """The value set at run time on that very resource; None when there is none, and when it was not read: ask
    `unknown_settings` before. Empty text counts as none: Kafka reports a removed list setting as an empty one."""
    found = snapshot.config(*key)
    return (found.value or None) if found is not None and found.dynamic else None


def topics_gone(snapshot: Snapshot, settings: Iterable[SettingKey]) -> frozenset[str]:
    """Topics of these settings that the cluster has no more; their settings went with them."""
    asked = dict.fromkeys(resource for kind, resource, _ in settings if kind == "TOPIC")
    return frozenset(topic for topic, gone in deleted(snapshot, asked).items() if gone)


def broker_gone(snapshot: Snapshot, broker: int) -> bool:
    """Whether the cluster has this broker no more: known not to be registered, no partition names it, and no Pod is to
    run it: an empty one that is only away has settings to come back to. A snapshot lists whoever is any of that; where
    no registration is known, some replicas or the Pods are not, or a Pod has not answered, nobody is called gone."""
    if snapshot.partitions is None or snapshot.partitions["replicas"].null_count:
        return False
    if all(b.registered is None for b in snapshot.brokers or ()):
        return False
    known = snapshot.broker(broker)
    if (known is not None and known.registered is not False) or not snapshot.without_pod(broker):
        return False
    return broker not in pc.unique(pc.list_flatten(snapshot.partitions["replicas"])).to_pylist()


def unknown_settings(snapshot: Snapshot, settings: Iterable[SettingKey]) -> dict[str, str]:
    """Of these settings the topics and brokers whose settings were not read, in words, and why. `dynamic_value` cannot
    tell them from those that have none."""
    resources = dict.fromkeys((kind, resource) for kind, resource, _ in settings)
    return {resource_name(*r): why for r in resources if (why := settings_unread(snapshot, *r))}


def settings_observed(snapshot: Snapshot, settings: Mapping[SettingKey, str | None]) -> bool | None:
    """Whether all of them are as asked; None when that cannot be told (a broker that did not answer, say)."""
    if unknown_settings(snapshot, settings):
        return None
    answered = {b.id for b in snapshot.brokers or () if b.live}
    for key in settings:
        if key[0] == "BROKER" and key[1] and int(key[1]) not in answered:
            return None
    return all(dynamic_value(snapshot, key) == value for key, value in settings.items())
