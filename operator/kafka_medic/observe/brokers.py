"""The brokers, put together from everybody who has a word on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.clients.answers import LogDirs
from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.ports import BrokerView, ClusterDescription
from kafka_medic.clients.zookeeper import Registrations
from kafka_medic.cluster.authority import membership
from kafka_medic.cluster.snapshot import Broker, Mode, Pod, TopicPartition
from kafka_medic.observe.checks import BadAnswer
from kafka_medic.observe.directories import directories
from kafka_medic.observe.metrics import BrokerSigns

_NOTHING = BrokerSigns()


@dataclass(frozen=True, slots=True)
class Members:
    """`ids`: the registered brokers; `unsure`: those of which it is not known."""

    ids: frozenset[int]
    unsure: frozenset[int] = frozenset()

    def has(self, broker: int) -> bool | None:
        return None if broker in self.unsure else broker in self.ids


@dataclass(frozen=True, slots=True)
class Sighting:
    """What each source reported; None where it did not answer. `states`: the decided partitions, with STATES_SCHEMA.
    `disks`: of the brokers that reported them. `offline`: the replicas on failed ones. `unknown`: topics that only they
    list."""

    described: ClusterDescription | None
    members: Members | None
    answers: Mapping[int, BrokerView | ReadFailed] | None
    states: pa.Table | None
    pods: Mapping[int, Pod] | None
    signs: Mapping[int, BrokerSigns | ReadFailed] | None
    disks: Mapping[int, LogDirs] = field(default_factory=dict)
    offline: Mapping[int, tuple[TopicPartition, ...] | None] = field(default_factory=dict)
    unknown: Mapping[int, tuple[str, ...] | None] = field(default_factory=dict)


def brokers_of(seen: Sighting) -> tuple[Broker, ...] | None:
    """None when nobody told of any broker."""
    members = seen.members
    if seen.described is None and members is None and seen.pods is None:
        return None
    nodes = {n.id: n for n in seen.described.nodes} if seen.described else {}
    named = named_by(seen.states)
    ids = sorted(set(nodes) | (members.ids if members else set()) | named | set(seen.pods or ()))

    def one(broker_id: int) -> Broker:
        node = nodes.get(broker_id)
        is_member = None if members is None else members.has(broker_id)
        answer = (seen.answers or {}).get(broker_id)
        found = (seen.signs or {}).get(broker_id)
        signs = found if isinstance(found, BrokerSigns) else _NOTHING
        disks = seen.disks.get(broker_id)
        return Broker(
            id=broker_id,
            rack=node.rack if node else None,
            host=node.host if node else None,
            port=node.port if node else None,
            registered=is_member,
            # What does not answer as Kafka does has answered all the same.
            reachable=None if answer is None or isinstance(answer, BadAnswer) else isinstance(answer, BrokerView),
            recovering=_recovering(seen, is_member, signs),
            bytes_in_rate=signs.bytes_in_rate,
            pod=(seen.pods or {}).get(broker_id),
            remaining_logs=signs.page.remaining_logs,
            remaining_segments=signs.page.remaining_segments,
            version=signs.page.version,
            clients=signs.page.clients,
            disk_free=disks.usable if disks else None,
            directories=directories(disks) if disks else None,
            offline_replicas=seen.offline.get(broker_id),
            unknown_topics=seen.unknown.get(broker_id),
        )

    return tuple(one(b) for b in ids)


def members_of(
    mode: Mode,
    described: ClusterDescription | None,
    registered: Registrations | None,
    answers: Mapping[int, BrokerView | ReadFailed] | None,
    controller: int | None,
) -> Members | None:
    """Which brokers are registered: with ZooKeeper by its registrations, with KRaft by `authority.membership`. None
    when nothing reported any."""
    if mode is Mode.ZOOKEEPER:
        return None if registered is None else Members(frozenset(registered.brokers))
    if described is None:
        return None
    accounts = {b: frozenset(a.members) for b, a in (answers or {}).items() if isinstance(a, BrokerView)}
    return Members(*membership(accounts, controller, frozenset(n.id for n in described.nodes)))


def named_by(states: pa.Table | None) -> set[int]:
    """Brokers that partitions have replicas on."""
    if states is None:
        return set()
    ids: Any = pc.unique(pc.list_flatten(states["replicas"]))
    return set(ids.to_pylist())


def _recovering(seen: Sighting, is_member: bool | None, signs: BrokerSigns) -> bool | None:
    recovering = signs.page.recovering
    if recovering is not None:
        return recovering
    # A broker registers (KRaft: is unfenced) only once its logs are loaded and recovered.
    return False if is_member and seen.described is not None else None


def software_version(derived: str | None, signs: Mapping[int, BrokerSigns | ReadFailed] | None) -> str | None:
    """The cluster's version: what its brokers' software calls itself when all that tell agree, else `derived` from the
    requests that a broker knows, which gives no patch release and is a lower bound for one newer than this program."""
    versions = {s.page.version for s in (signs or {}).values() if isinstance(s, BrokerSigns)} - {None}
    agreed = next(iter(versions)) if len(versions) == 1 else None
    return agreed or derived
