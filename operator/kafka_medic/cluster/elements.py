"""What fails one by one: log directories, and what a source could not report although it answered.

An element that could not be read is absent from its table, and so is one that does not exist. `Snapshot.unread` tells
the two apart. Code that acts on absence calls one of the functions here first.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.certificates import SECRET
from kafka_medic.cluster.certificates import SOURCE as CERTIFICATES
from kafka_medic.cluster.snapshot import Broker, Directory, Element, Snapshot, TopicPartition

CONFIGS, GROUPS, LOG_DIRS = "configs", "groups", "log-dirs"
TOPIC, BROKER, GROUP = "TOPIC", "BROKER", "GROUP"
"""Kinds of elements. A BROKER without a name is what is set at run time for all of them (KIP-226)."""


def settings_unread(snapshot: Snapshot, kind: str, resource: str) -> str | None:
    """Why the settings of this topic or broker are not known; None when they are."""
    if snapshot.configs is None:
        return _whole(snapshot, CONFIGS)
    return snapshot.unread.get(Element(CONFIGS, kind, resource))


def unread_settings(snapshot: Snapshot) -> dict[str, str]:
    """Everything whose settings were not read, by its name in words, and why."""
    found = ((e, why) for e, why in snapshot.unread.items() if e.source == CONFIGS)
    return {resource_name(e.kind, e.name): why for e, why in found}


def resource_name(kind: str, resource: str) -> str:
    """A topic, a broker, or all brokers, in words."""
    return f"{kind.lower()} {resource}" if resource else "all brokers"


def group_unread(snapshot: Snapshot, group: str) -> str | None:
    """Why it is not known what the group has committed; None when it is, also for a group that does not exist. A group
    that is in no list may belong to a broker that did not list its groups."""
    if snapshot.groups is None:
        return _whole(snapshot, GROUPS)
    if reason := snapshot.unread.get(Element(GROUPS, GROUP, group)):
        return reason
    unlisted = [(e.name, why) for e, why in snapshot.unread.items() if e[:2] == (GROUPS, BROKER)]
    if not unlisted or pc.any(pc.equal(snapshot.groups["group"], pa.scalar(group))).as_py():
        return None
    broker, why = unlisted[0]
    return f"broker {broker} did not list its groups: {why}"


def groups_unread(snapshot: Snapshot, wanted: Callable[[str], bool] = lambda _: True) -> tuple[str, ...]:
    """What was not read about groups whose name is `wanted`, in words; empty when all was. A broker that did not list
    its groups may have one of them."""
    if snapshot.groups is None:
        return (_whole(snapshot, GROUPS),)
    found = ((e, why) for e, why in snapshot.unread.items() if e.source == GROUPS)
    return tuple(f"{e.kind.lower()} {e.name}: {why}" for e, why in found if e.kind == BROKER or wanted(e.name))


def log_dirs_unread(snapshot: Snapshot, broker: int) -> str | None:
    """Why the log directories of this broker are not known; None when they are, or were never asked for."""
    return snapshot.unread.get(Element(LOG_DIRS, BROKER, str(broker)))


def certificates_unread(snapshot: Snapshot) -> dict[str, str]:
    """Brokers and keys of Secrets whose certificates are not known, by the name that a finding has for them, and
    why."""
    found = ((e, why) for e, why in snapshot.unread.items() if e.source == CERTIFICATES)
    return {e.name if e.kind == SECRET else f"broker-{e.name}": why for e, why in found}


def failed_directories(broker: Broker | None) -> tuple[Directory, ...]:
    """The log directories that the broker reports as failed."""
    return tuple(d for d in (broker.directories or () if broker else ()) if d.failed)


def on_failed_directory(broker: Broker | None) -> frozenset[TopicPartition]:
    """The replicas known to be on a failed log directory of this broker."""
    if broker is None or not failed_directories(broker):
        return frozenset()
    return frozenset(broker.offline_replicas or ())


def _whole(snapshot: Snapshot, name: str) -> str:
    source = snapshot.source(name)
    return (source.error if source else None) or f"{name} was not read"
