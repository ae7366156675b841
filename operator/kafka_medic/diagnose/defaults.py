"""The brokers' defaults, which topics are created with or fall back on, against what is expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.min_isr import MIN_ISR, whole
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene
from kafka_medic.resources.vocabulary import Severity

PLAYBOOK = "raise-defaults"
FACTORS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)
"""What new topics, `__consumer_offsets` and `__transaction_state` are created with."""
STATIC = (*FACTORS, "transaction.state.log.min.isr")
"""Read-only at run time: a broker reads them from its configuration when it starts. MIN_ISR has the update mode
cluster-wide (https://kafka.apache.org/documentation/#brokerconfigs, "Update Mode")."""
DEFAULTS = (*STATIC, MIN_ISR)
BROKER_DEFAULTS = "broker defaults"
"""Where a Snapshot keeps them (`Snapshot.worked_out`)."""


@dataclass(frozen=True, slots=True)
class Default:
    """A broker's setting, with what it is and the least that is expected of it."""

    name: str
    broker: int
    value: int
    wanted: int


def expected(name: str, expectations: Expectations) -> int:
    """The least that is expected of that setting of a broker."""
    return expectations.replication_factor if name in FACTORS else expectations.min_in_sync_replicas


def broker_defaults(snapshot: Snapshot) -> Mapping[tuple[str, int], int]:
    """By setting and broker, what each broker that was asked has read or was given at run time. What is no number is
    not known, and left out."""
    if snapshot.configs is None:
        return {}
    if BROKER_DEFAULTS not in snapshot.worked_out:
        snapshot.worked_out[BROKER_DEFAULTS] = MappingProxyType(_broker_defaults(snapshot.configs))
    found: Mapping[tuple[str, int], int] = snapshot.worked_out[BROKER_DEFAULTS]
    return found


def _broker_defaults(configs: pa.Table) -> dict[tuple[str, int], int]:
    of_brokers = configs.filter(pc.equal(configs["resourceType"], pa.scalar("BROKER")))
    columns: list[list[Any]] = [of_brokers[name].to_pylist() for name in ("name", "resource", "value")]
    return {
        (name, broker): value
        for name, resource, text in zip(*columns, strict=True)
        if name in DEFAULTS and (value := whole(text)) is not None and (broker := whole(resource)) is not None
    }


def low_defaults(snapshot: Snapshot, expectations: Expectations) -> tuple[Default, ...]:
    """What is below what is expected, by setting and then by broker."""
    return tuple(
        Default(name, broker, value, wanted)
        for (name, broker), value in sorted(broker_defaults(snapshot).items(), key=_in_order)
        if value < (wanted := expected(name, expectations))
    )


def detect(scene: Scene) -> Iterator[Finding]:
    """ReplicationFactorLow/broker-defaults."""
    low = low_defaults(scene.snapshot, scene.expectations)
    if not low:
        return
    brokers: dict[tuple[str, int], list[str]] = {}
    for default in low:
        brokers.setdefault((default.name, default.value), []).append(str(default.broker))
    names = tuple(dict.fromkeys(default.name for default in low))
    fewer = set(names) & set(FACTORS)
    what = (
        f"fewer than {scene.expectations.replication_factor} replicas" if fewer else f"a lower {MIN_ISR} than expected"
    )
    yield Finding(
        id="ReplicationFactorLow/broker-defaults",
        type="ReplicationFactorLow",
        severity=Severity.WARNING,
        message=f"the brokers' defaults create topics with {what}",
        affected=names,
        evidence=(
            *(
                f"{name}={value} on broker {', '.join(ids)}: {_cure(name, expected(name, scene.expectations))}"
                for (name, value), ids in brokers.items()
            ),
            scene.read_from("configs", "kafka"),
        ),
        playbook=PLAYBOOK,
    )


def _cure(name: str, wanted: int) -> str:
    if name == MIN_ISR:
        return f"{wanted} is expected; it can be set at run time for all brokers once every topic has the replicas"
    return (
        f"set {wanted} in their configuration file and restart them one at a time (Kafka cannot change it at run time)"
    )


def _in_order(entry: tuple[tuple[str, int], int]) -> tuple[int, int]:
    (name, broker), _ = entry
    return DEFAULTS.index(name), broker
