"""VersionAdvisory: software of a version with a known bug, or past its maintainers' support."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kafka_medic.cluster.snapshot import Broker, Mode, Snapshot
from kafka_medic.cluster.software_version import Version, librdkafka_version, parse_protocol, parse_version, within
from kafka_medic.diagnose.advisories import Advisory, Component, shipped
from kafka_medic.diagnose.columns import some
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene, broker_name
from kafka_medic.resources.vocabulary import Severity

PROTOCOL = "inter.broker.protocol.version"
JAVA_CLIENT = "apache-kafka-java"


@dataclass(frozen=True, slots=True)
class _Seen:
    """Something with a version: who it is, how it is named in `affected`, and who said so."""

    who: str
    text: str
    version: Version
    source: str


def detect(scene: Scene) -> Iterator[Finding]:
    """One finding an advisory. Of a version that is not known, or is a vendor's own, nothing is said."""
    brokers = tuple(_brokers(scene))
    seen: dict[Component, tuple[_Seen, ...]] = {
        Component.BROKER: brokers,
        Component.INTER_BROKER_PROTOCOL: tuple(_protocols(scene)),
        Component.JAVA_CLIENT: tuple(_clients(scene, Component.JAVA_CLIENT)),
        Component.LIBRDKAFKA: tuple(_clients(scene, Component.LIBRDKAFKA)),
    }
    for advisory in shipped():
        hit = [s for s in seen[advisory.component] if _affected(advisory, s.version)]
        if hit and _applies(advisory, scene):
            yield _finding(advisory, hit)
    yield from _too_old(scene, brokers)


def unjudged(snapshot: Snapshot) -> str | None:
    """Why nothing can be said of some broker's version; None when every one is known and Apache Kafka's own."""
    if not snapshot.brokers:
        return "the brokers are not known"
    for broker in snapshot.brokers:
        version = broker.version or snapshot.cluster.version
        if version is None:
            return f"the version of broker {broker.id} is not known"
        if parse_version(version) is None:
            return f"broker {broker.id} reports {version[:64]}, which is no version of Apache Kafka"
    return None


def _brokers(scene: Scene) -> Iterator[_Seen]:
    derived = scene.snapshot.cluster.version
    for broker in scene.brokers:
        version = parse_version(broker.version or derived)
        if version is not None:
            yield _Seen(broker_name(broker.id), broker.version or derived or "", version, _teller(scene, broker))


def _teller(scene: Scene, broker: Broker) -> str:
    if broker.version:
        return f"from its metrics, {scene.read_from('metrics')}"
    return f"from the requests that the cluster supports, {scene.read_from('version', 'kafka')}"


def _protocols(scene: Scene) -> Iterator[_Seen]:
    for broker in scene.brokers:
        found = scene.snapshot.config("BROKER", str(broker.id), PROTOCOL)
        version = parse_protocol(found.value) if found else None
        if found is not None and version is not None:
            yield _Seen(broker_name(broker.id), f"{found.value}", version, f"{PROTOCOL}, {scene.read_from('configs')}")


def _clients(scene: Scene, component: Component) -> Iterator[_Seen]:
    found: dict[tuple[str, str], list[int]] = {}
    for broker in scene.brokers:
        for client in broker.clients or ():
            found.setdefault((client.name, client.version), []).append(broker.id)
    for (name, text), brokers in sorted(found.items()):
        if component is Component.JAVA_CLIENT:
            version = parse_version(text) if name == JAVA_CLIENT else None
        else:
            version = librdkafka_version(name, text)
        if version is not None:
            where = some([f"broker {b}" for b in brokers])
            yield _Seen(f"{name} {text}", text, version, f"connected to {where}, {scene.read_from('metrics')}")


def _affected(advisory: Advisory, version: Version) -> bool:
    ranges = [(parse_version(r.start), parse_version(r.before)) for r in advisory.affected]
    return any(within(version, start, before) is True for start, before in ranges)


def _applies(advisory: Advisory, scene: Scene) -> bool:
    mode = scene.snapshot.cluster.mode
    if advisory.mode is not None and (mode is None or Mode(advisory.mode.value) is not mode):
        return False
    return advisory.largest_topic_from is None or _largest_topic(scene) >= advisory.largest_topic_from


def _largest_topic(scene: Scene) -> int:
    p = scene.partitions
    return 0 if p is None or not len(p) else int(np.bincount(p.topic).max())


def _finding(advisory: Advisory, hit: list[_Seen]) -> Finding:
    versions = sorted({s.text for s in hit})
    return Finding(
        id=f"VersionAdvisory/{advisory.id}",
        type="VersionAdvisory",
        severity=advisory.severity,
        message=f"{advisory.id}: {advisory.component} {some(versions)}: {advisory.effect}",
        affected=tuple(s.who for s in hit),
        evidence=(
            *_evidence(hit),
            f"fix: {advisory.fix}",
            f"see {', '.join(advisory.sources)}",
        ),
    )


def _evidence(hit: list[_Seen]) -> Iterator[str]:
    """One line for each version and teller, whoever has it."""
    lines: dict[tuple[str, str], list[str]] = {}
    for one in hit:
        lines.setdefault((one.text, one.source), []).append(one.who)
    for (text, source), who in lines.items():
        yield f"{some(who)}: {text}, {source}"


def _too_old(scene: Scene, brokers: tuple[_Seen, ...]) -> Iterator[Finding]:
    least = scene.expectations.minimum_version
    wanted = parse_version(least)
    if wanted is None:
        return
    hit = [s for s in brokers if within(s.version, None, wanted) is True]
    if hit:
        yield Finding(
            id="VersionAdvisory/minimum-version",
            type="VersionAdvisory",
            severity=Severity.WARNING,
            message=f"brokers run {some(sorted({s.text for s in hit}))}; expectations.minimumVersion is {least}",
            affected=tuple(s.who for s in hit),
            evidence=(*_evidence(hit), f"fix: upgrade to {least} or later"),
        )
