"""Findings that are not seen now because one element could not be read, while its source is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_medic.cluster.elements import (
    CONFIGS,
    TOPIC,
    certificates_unread,
    group_unread,
    log_dirs_unread,
    resource_name,
)
from kafka_medic.cluster.snapshot import PartitionRow, Snapshot, TopicPartition
from kafka_medic.diagnose.load import clouded
from kafka_medic.report.units import many
from kafka_medic.resources.kafkacluster_status import FindingStatus

DEFAULTS = "ReplicationFactorLow/broker-defaults"


def hidden(old: FindingStatus, snapshot: Snapshot) -> str | None:
    """What the finding is about and could not be read, with the reason; None when all of it was."""
    return next(_shares(old, snapshot) if old.type == "LoadUneven" else _hidden(old, snapshot), None)


def _hidden(old: FindingStatus, snapshot: Snapshot) -> Iterator[str]:
    match old.type:
        case "LogDirFailed" | "DiskFilling":
            broker = old.id.rpartition("/broker-")[2]
            if broker.isdecimal() and (why := log_dirs_unread(snapshot, int(broker))):
                yield f"log directories of broker {broker}: {why}"
        case "CertificateExpiring":
            yield from _certificates(old, snapshot)
        case "OffsetBeyondLogEnd" | "ClientStalled":
            for group in old.affected[:1]:
                if why := group_unread(snapshot, group):
                    yield f"group {group}: {why}"
            yield from (f"log end of {r.tp}" for r in _rows(old.affected[1:], snapshot) if r.log_end is None)
        case "PartitionUnderMinIsr":
            yield from (f"min.insync.replicas of {r.tp}" for r in _rows(old.affected, snapshot) if r.min_isr is None)
        case "MinInsyncReplicasLow" | "LeftoverThrottle":
            names = {f"{TOPIC.lower()} {name}" for name in old.affected} | set(old.affected)
            yield from (message for name, message in _settings(snapshot) if name in names)
        case "ReplicationFactorLow" if old.id == DEFAULTS:
            yield from (message for name, message in _settings(snapshot) if not name.startswith(f"{TOPIC.lower()} "))


def _shares(old: FindingStatus, snapshot: Snapshot) -> Iterator[str]:
    if why := clouded(snapshot):
        yield why
    unsized = 0 if snapshot.partitions is None else snapshot.partitions["sizeBytes"].null_count
    if old.id.endswith("/bytes") and unsized:
        yield f"the size of {many(unsized, 'partition')}"
    if old.id.endswith("/traffic"):
        yield from (f"bytes in of broker {b.id}" for b in snapshot.brokers or () if b.live and b.bytes_in_rate is None)


def _settings(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    for element, why in snapshot.unread.items():
        if element.source == CONFIGS:
            name = resource_name(element.kind, element.name)
            yield name, f"settings of {name}: {why}"


def _certificates(old: FindingStatus, snapshot: Snapshot) -> Iterator[str]:
    """A broker that is away, and may come back with the same certificate, is one whose certificate is not known."""
    if snapshot.certificates is None:
        return
    unread, known = certificates_unread(snapshot), {chain.holder for chain in snapshot.certificates}
    every = old.affected_count > len(old.affected)
    for name, why in unread.items():
        # An authority is judged only when all that is trusted is known.
        if every or name in old.affected or (old.id.endswith("/authorities") and "/" in name):
            yield f"the certificate of {name}: {why}"
    brokers = snapshot.brokers
    if any(b.reachable for b in brokers or ()) and not any(name.startswith("broker-") for name in (*unread, *known)):
        return  # brokers answer, and no certificate of a listener is read: the listener uses none
    there = None if brokers is None else {f"broker-{b.id}" for b in brokers}
    for name in old.affected:
        if name.startswith("broker-") and name not in (*unread, *known) and (there is None or name in there):
            yield f"the certificate of {name}"


def _rows(names: Sequence[str], snapshot: Snapshot) -> Iterator[PartitionRow]:
    parts = (name.rpartition("-") for name in names)
    wanted = {TopicPartition(topic, int(number)) for topic, _, number in parts if topic and number.isdecimal()}
    return snapshot.rows(wanted) if wanted else iter(())
