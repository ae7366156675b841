"""The brokers, put together from everybody who has a word on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.clients.ports import BrokerView, ClusterDescription, ReadFailed
from kafka_medic.clients.zookeeper import Registrations
from kafka_medic.cluster.snapshot import Broker, Mode, Pod
from kafka_medic.observe.checks import BadAnswer
from kafka_medic.observe.metrics import BrokerSigns

_NOTHING = BrokerSigns()


@dataclass(frozen=True, slots=True)
class Sighting:
    """What each source said; None where it did not answer. `authority` has STATES_SCHEMA: each partition's newest
    state. `controller`: the active controller's id, which with KRaft may be no broker's. `rooms`: bytes free."""

    mode: Mode
    described: ClusterDescription | None
    registered: Registrations | None
    answers: Mapping[int, BrokerView | ReadFailed] | None
    authority: pa.Table | None
    pods: Mapping[int, Pod] | None
    signs: Mapping[int, BrokerSigns | ReadFailed] | None
    controller: int | None = None
    rooms: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Members:
    """Who is registered, and of whom that cannot be told."""

    ids: frozenset[int]
    unsure: frozenset[int] = frozenset()

    def has(self, broker: int) -> bool | None:
        return None if broker in self.unsure else broker in self.ids


def brokers_of(seen: Sighting) -> tuple[Broker, ...] | None:
    """None when nobody told of any broker."""
    if seen.described is None and seen.registered is None and seen.pods is None:
        return None
    nodes = {n.id: n for n in seen.described.nodes} if seen.described else {}
    members = _members(seen)
    named = named_by(seen.authority)
    ids = sorted(set(nodes) | (members.ids if members else set()) | named | set(seen.pods or ()))

    def one(broker_id: int) -> Broker:
        node = nodes.get(broker_id)
        is_member = None if members is None else members.has(broker_id)
        answer = (seen.answers or {}).get(broker_id)
        told = (seen.signs or {}).get(broker_id)
        signs = told if isinstance(told, BrokerSigns) else _NOTHING
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
            disk_free=seen.rooms.get(broker_id),
        )

    return tuple(one(b) for b in ids)


def named_by(authority: pa.Table | None) -> set[int]:
    """Brokers that partitions have replicas on."""
    if authority is None:
        return set()
    ids: Any = pc.unique(pc.list_flatten(authority["replicas"]))
    return set(ids.to_pylist())


def _members(seen: Sighting) -> Members | None:
    """Who is registered. With ZooKeeper only the ensemble's word counts. A fenced KRaft broker is left out of the
    metadata answer: of whoever knows it, which is not any broker that happens to be asked. A broker that is cut off
    from the quorum answers as well, and counts itself and all that were there when it was cut off."""
    if seen.mode is Mode.ZOOKEEPER:
        return None if seen.registered is None else Members(frozenset(seen.registered.brokers))
    if seen.described is None:
        return None
    named = frozenset(n.id for n in seen.described.nodes)
    views = {b: a for b, a in (seen.answers or {}).items() if isinstance(a, BrokerView)}
    if not views:
        return Members(named)
    if seen.controller in views:  # the same process: nobody's metadata is newer
        return Members(frozenset(views[seen.controller].members))
    told = {frozenset(view.members) for view in views.values()}
    if len(told) == 1:
        (agreed,) = told
        return Members(agreed, agreed ^ named if len(views) == 1 else frozenset())
    current = [v.members for v in views.values() if not _behind(v.states, seen.authority)] or [
        v.members for v in views.values()
    ]
    agreed = frozenset.intersection(*map(frozenset, current))
    return Members(agreed, frozenset.union(*map(frozenset, current)) - agreed)


def _behind(states: pa.Table | None, authority: pa.Table | None) -> bool:
    """Whether these are older than the newest known: leader epochs only rise (KIP-101)."""
    if states is None or authority is None:
        return False
    keys = ["topic", "partition"]
    newest = authority.select([*keys, "leaderEpoch"]).rename_columns([*keys, "newest"])
    both = newest.join(states.select([*keys, "leaderEpoch"]), keys, join_type="inner")
    older: Any = pc.any(pc.less(both["leaderEpoch"], both["newest"]))
    return bool(older.as_py())


def _recovering(seen: Sighting, is_member: bool | None, signs: BrokerSigns) -> bool | None:
    told = signs.page.recovering
    if told is not None:
        return told
    # A broker registers (KRaft: is unfenced) only once its logs are loaded and recovered.
    return False if is_member and seen.described is not None else None


def software_version(derived: str | None, signs: Mapping[int, BrokerSigns | ReadFailed] | None) -> str | None:
    """The cluster's version: what its brokers' software calls itself when all that tell agree, else `derived` from the
    requests that a broker knows, which gives no patch release and is a lower bound for one newer than this program."""
    told = {s.page.version for s in (signs or {}).values() if isinstance(s, BrokerSigns)} - {None}
    agreed = next(iter(told)) if len(told) == 1 else None
    return agreed or derived
