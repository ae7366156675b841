"""Brokers that differ from their peers in a setting that matters here: a change of configuration is half finished.

Replication throttles are left out: a copy sets them on some brokers alone, and `LeftoverThrottle` is about them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.min_isr import MIN_ISR, whole
from kafka_medic.diagnose.brokers import RECOVERING_FOR
from kafka_medic.diagnose.columns import some
from kafka_medic.diagnose.defaults import FACTORS, STATIC
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.leaders import REBALANCE
from kafka_medic.diagnose.scene import Scene, broker_name
from kafka_medic.diagnose.versions import PROTOCOL
from kafka_medic.resources.vocabulary import Severity

STANDSTILL = RECOVERING_FOR
"""Seconds in which no value changed and no broker came or went. A rolling change in good order waits for one restart
at a time, and a restarted broker gets as long to recover its log."""
ON_CREATION = "each broker creates topics with its own value"
CONTROLLER = "the active controller's value counts, and any broker may become controller"
COMPARED: Mapping[str, str] = {
    **dict.fromkeys(FACTORS, ON_CREATION),
    STATIC[-1]: ON_CREATION,
    MIN_ISR: "each leader enforces its own value for topics that set none",
    "unclean.leader.election.enable": CONTROLLER,
    REBALANCE: CONTROLLER,
    PROTOCOL: "each broker uses its own version towards the others",
}
"""The settings that are compared, and whose value counts."""
SHOWN = 10
Accounts: TypeAlias = dict[str, dict[int, str]]
"""By setting and broker the value that this broker reports. What could not be read is left out."""


def detect(scene: Scene) -> Iterator[Finding]:
    """BrokerConfigDiffers, one for each setting."""
    if scene.snapshot.configs is None:
        return
    differing = {
        name: values for name, values in _accounts(scene.snapshot.configs).items() if len(set(values.values())) > 1
    }
    before = scene.previous.configs if differing and scene.previous is not None else None
    earlier = None if before is None else _accounts(before)
    for name, values in differing.items():
        moved = earlier is not None and earlier.get(name) != values
        yield _finding(scene, name, values, moved=moved)


def _finding(scene: Scene, name: str, values: Mapping[int, str], *, moved: bool) -> Finding:
    by_value: dict[str, list[int]] = {}
    for broker, value in sorted(values.items()):
        by_value.setdefault(value, []).append(broker)
    silent = sorted({b.id for b in scene.brokers} - set(values))
    # Whoever does not report may have either: only more than half of all brokers outvote the others.
    most = [value for value, ids in by_value.items() if 2 * len(ids) > len(values) + len(silent)]
    others = {value: ids for value, ids in by_value.items() if value not in most}
    words = ", ".join(f"{value[:60]} on broker {some(list(map(str, ids)), SHOWN)}" for value, ids in others.items())
    peers = f"; most brokers have {most[0][:60]}" if most else ", and no value has a majority"
    evidence = [
        *(f"{name}={value[:60]}: broker {some(list(map(str, ids)), SHOWN)}" for value, ids in by_value.items()),
        f"{COMPARED[name]}; finish the change on every broker, or revert it",
    ]
    if silent:
        evidence.append(f"not reported by broker {some(list(map(str, silent)), SHOWN)}")
    return Finding(
        id=f"BrokerConfigDiffers/{name}",
        type="BrokerConfigDiffers",
        severity=Severity.WARNING,
        message=f"{name} differs between brokers: {words}{peers}",
        affected=tuple(broker_name(b) for b in sorted(chain(*others.values()))),
        evidence=(*evidence, scene.read_from("configs", "kafka")),
        for_seconds=STANDSTILL,
        since=scene.snapshot.taken_at if moved else None,
    )


def _accounts(configs: pa.Table) -> Accounts:
    wanted = pc.and_(
        pc.equal(configs["resourceType"], pa.scalar("BROKER")),
        pc.is_in(configs["name"], value_set=pa.array(list(COMPARED), pa.string())),
    )
    chosen = configs.filter(wanted)
    columns: list[list[Any]] = [chosen[name].to_pylist() for name in ("name", "resource", "value")]
    found: Accounts = {name: {} for name in COMPARED}
    for name, resource, value in zip(*columns, strict=True):
        broker = whole(resource)
        if broker is not None and value is not None:
            found[name][broker] = value
    return found
