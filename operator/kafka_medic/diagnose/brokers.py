"""Findings about single brokers: down, zombie, silent, and on a node that is about to go."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafka_medic.cluster.snapshot import Broker
from kafka_medic.diagnose.canary import probed
from kafka_medic.diagnose.columns import some
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene, blind, broker_name
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Severity

DOWN_FOR = 30.0
ZOMBIE_FOR = 30.0
SILENT_FOR = 60.0
STARTING_FOR = 300.0
"""Seconds. A broker whose Pod is not Ready may be starting; a start is given five minutes before it is called
down. A broker known to be recovering its log is given longer still, since killing it would only start that
over."""
RECOVERING_FOR = 1800.0


def detect(scene: Scene) -> Iterator[Finding]:
    """BrokerDown, BrokerZombie, BrokerSilent, NodeMaintenance."""
    if not blind(scene):
        for broker in scene.brokers:
            if _zombie(broker):
                yield _zombie_finding(scene, broker)
            elif scene.down(broker.id):
                yield _down_finding(scene, broker)
        yield from _unlisted(scene)
        yield from _silent(scene)
    for broker in scene.brokers:
        signs = _maintenance_signs(broker)
        if signs:
            yield _maintenance_finding(scene, broker, signs)


def _zombie(broker: Broker) -> bool:
    return broker.reachable is True and broker.registered is False


def _grace(broker: Broker, usual: float) -> float:
    if broker.recovering is True:
        return RECOVERING_FOR
    # A broker that starts is not registered yet: one that is and whose Pod is not Ready has lost its clients.
    starting = broker.registered is not True and broker.pod is not None and broker.pod.ready is False
    return STARTING_FOR if starting else usual


def _zombie_finding(scene: Scene, broker: Broker) -> Finding:
    authority = scene.read_from("zookeeper", "quorum", "kafka")
    return Finding(
        id=f"BrokerZombie/{broker_name(broker.id)}",
        type="BrokerZombie",
        severity=Severity.CRITICAL,
        message=f"broker {broker.id} answers clients but is not registered with the cluster",
        affected=(broker_name(broker.id),),
        evidence=(
            f"not among the registered brokers, {authority}",
            f"answered a request of its own, {scene.read_from('views', 'kafka')}",
            "clients that still use its address may write records that the cluster never receives",
        ),
        playbook="restart-broker",
        for_seconds=_grace(broker, ZOMBIE_FOR),
    )


def _down_finding(scene: Scene, broker: Broker) -> Finding:
    evidence = []
    if broker.registered is False:
        evidence.append(f"not registered, {scene.read_from('zookeeper', 'quorum', 'kafka')}")
    if broker.reachable is False:
        state = "registered, yet does not answer" if broker.registered else "does not answer"
        evidence.append(f"{state}, {scene.read_from('views', 'kafka')}")
    if broker.pod is not None:
        state = {True: "Ready", False: "not Ready", None: "in a state that is not known"}[broker.pod.ready]
        evidence.append(f"Pod {broker.pod.name} is {state}, {scene.read_from('kubernetes')}")
    if broker.recovering is True:
        evidence.append(f"it is recovering its log{_left(broker)}; a restart would begin the recovery again")
    gone = broker.registered is False and broker.reachable is False and not broker.recovering
    return Finding(
        id=f"BrokerDown/{broker_name(broker.id)}",
        type="BrokerDown",
        severity=Severity.CRITICAL,
        message=f"broker {broker.id} is down",
        affected=(broker_name(broker.id),),
        evidence=(*evidence, *_held(scene, broker.id)),
        playbook="replace-broker" if gone and _replaceable(scene, broker.id)[1] else None,
        for_seconds=_grace(broker, DOWN_FOR),
    )


def _replaceable(scene: Scene, broker_id: int) -> tuple[int, int]:
    """How many replicas the broker holds, and how many of these others could copy: a broker is in sync that can send
    it, and one that is up does not hold it yet."""
    found = scene.partitions
    if found is None:
        return 0, 0
    rows = found.replicas.rows[found.replicas.ids == broker_id]
    sent = found.isr.per_row(found.isr.ids != broker_id)[rows] > 0
    taken = found.replicas.counts[rows] <= len(scene.live or ())
    return len(rows), int(np.count_nonzero(sent & taken))


def _held(scene: Scene, broker_id: int) -> tuple[str, ...]:
    held, others = _replaceable(scene, broker_id)
    if not held:
        return ()
    return (
        f"holds {many(held, 'replica')}, of which other brokers can copy {others}, {scene.read_from('views', 'kafka')}",
    )


def _left(broker: Broker) -> str:
    left = [(broker.remaining_logs, "log"), (broker.remaining_segments, "segment")]
    parts = [many(n, what) for n, what in left if n is not None]
    return f" ({' and '.join(parts)} left)" if parts else ""


def _unlisted(scene: Scene) -> Iterator[Finding]:
    """Brokers that partitions name as replicas and that nobody else has heard of."""
    if scene.snapshot.brokers is None or scene.partitions is None:
        return
    named = set(np.unique(scene.partitions.replicas.ids).tolist())
    for broker_id in sorted(named - {b.id for b in scene.brokers}):
        yield Finding(
            id=f"BrokerDown/{broker_name(broker_id)}",
            type="BrokerDown",
            severity=Severity.CRITICAL,
            message=f"broker {broker_id} holds replicas but is not part of the cluster",
            affected=(broker_name(broker_id),),
            evidence=(
                f"named as a replica and not among the brokers, {scene.read_from('kafka')}",
                *_held(scene, broker_id),
            ),
            playbook="replace-broker" if _replaceable(scene, broker_id)[1] else None,
            for_seconds=DOWN_FOR,
        )


def _silent(scene: Scene) -> Iterator[Finding]:
    """Leads partitions, yet no client sends it anything while most of its peers are sent something. A broker
    that leads nothing, and a cluster where everybody is idle, are both silent for good reason."""
    if scene.partitions is None:
        return
    leaders = scene.partitions.leader
    leading = np.unique(leaders.values[leaders.known]).tolist()
    rates = {b.id: b.bytes_in_rate for b in scene.brokers if b.live and b.id in leading and b.bytes_in_rate is not None}
    busy = [b for b, rate in rates.items() if rate > 0]
    failing, _ = probed(scene)
    for broker_id in sorted(b for b, rate in rates.items() if rate == 0):
        peers = len(rates) - 1
        if len(busy) * 2 <= peers:
            continue
        led = int(np.count_nonzero(leaders.known & (leaders.values == broker_id)))
        yield Finding(
            id=f"BrokerSilent/{broker_name(broker_id)}",
            type="BrokerSilent",
            severity=Severity.WARNING,
            message=f"broker {broker_id} leads {many(led, 'partition')} but receives no client bytes",
            affected=(broker_name(broker_id),),
            evidence=(
                f"0 client bytes per second into broker {broker_id}, {scene.read_from('metrics', 'kafka')}",
                "peers that receive client bytes: "
                + some([f"broker {b} ({rates[b]:.0f} bytes/s)" for b in sorted(busy)]),
                *(f"the canary fails for {p.name}, which it leads: {p.error}" for p in failing.get(broker_id, ())[:3]),
            ),
            for_seconds=SILENT_FOR,
        )


def _maintenance_signs(broker: Broker) -> tuple[str, ...]:
    """What says that the node under a broker, or its Pod, is about to go or already gone."""
    pod = broker.pod
    if pod is None:
        return ()
    node = pod.node or "(name not known)"
    signs = []
    if pod.cordoned is True:
        signs.append(f"node {node} of Pod {pod.name} is cordoned")
    if pod.node_ready is False:
        signs.append(f"node {node} of Pod {pod.name} is not Ready")
    return (*signs, *(pod.maintenance or ()))


def _maintenance_finding(scene: Scene, broker: Broker, signs: tuple[str, ...]) -> Finding:
    going = broker.in_its_pod
    return Finding(
        id=f"NodeMaintenance/{broker_name(going)}",
        type="NodeMaintenance",
        severity=Severity.WARNING,
        message=f"the node or Pod of broker {going} is going ({signs[0]}); the broker will stop",
        affected=(broker_name(going),),
        evidence=tuple(f"{sign}, {scene.read_from('kubernetes')}" for sign in signs),
        playbook="drain-broker",
    )
