"""Where schedules begin: worlds with something to do, and the undisturbed run of each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.snapshot import TopicPartition
from tests.simulation.brokers import MIN_ISR
from tests.simulation.effects import FACTORS
from tests.simulation.grounds import START
from tests.simulation.kafka import SimKafka
from tests.simulation.oracle import CLUSTER
from tests.simulation.pods import OWNER, STRIMZI
from tests.simulation.stage import Stage
from tests.simulation.world import BROKERS, four_broker_cluster


def _healthy_kafka() -> SimKafka:
    kafka = SimKafka()
    kafka.topic("orders", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    kafka.topic("__consumer_offsets", [1, 0, 2])
    for topic in ("orders", "__consumer_offsets"):
        kafka.dynamic["TOPIC", topic, "min.insync.replicas"] = "2"
    return kafka


def _apart_kafka() -> SimKafka:
    """The controllers are no brokers, and leaders have changed often."""
    kafka = SimKafka(controllers={10, 11, 12}, voted=11)
    kafka.topic("orders", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    kafka.topic("ledger", [2, 1, 0])
    for topic in ("orders", "ledger"):
        kafka.dynamic["TOPIC", topic, "min.insync.replicas"] = "2"
    for part in kafka.partitions.values():
        part.epoch = 57
    return kafka


def _spared_kafka() -> SimKafka:
    """A topic has brokers that it is not on, so that somebody may be moving it."""
    kafka = SimKafka()
    kafka.topic("orders", [0, 1, 2], [1, 2, 0])
    kafka.topic("spared", [2, 0], [0, 1], [1, 2])
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    return kafka


def _can_spare(kafka: SimKafka) -> None:
    """Topics with too few replicas for the brokers' own minimum were given a lower one by their owners."""
    for tp, part in kafka.partitions.items():
        if any(len(part.replicas) <= int(kafka.default_minimum(b)) for b in part.replicas):
            kafka.dynamic.setdefault(("TOPIC", tp.topic, "min.insync.replicas"), "1")


ELECT, DRAIN = ("elect-preferred-leaders",), ("drain-broker", "undrain-broker")


def _stage(
    kafka: SimKafka,
    *,
    cooldown: str = "0s",
    wanted: tuple[str, ...] = (),
    canary: bool = False,
    crossed: dict[int, int] | None = None,
    owner: dict[str, Any] = OWNER,
    **how: Any,
) -> Stage:
    """`wanted`: which of the playbooks may be proposed that a broker asks for which is restarted, or whose node is
    cordoned, since it leads less. `crossed`: brokers that run in the Pod of another number."""
    _can_spare(kafka)
    stage = Stage(kafka, **how)
    metadata = {"metadata": {"zookeeper": {"connect": "zk:2181"}}} if kafka.zookeeper else {}
    observed = {"playbooks": [{"name": name, "mode": "Observe"} for name in (*DRAIN, *ELECT) if name not in wanted]}
    limits = {"limits": {"cooldown": cooldown, "perDay": 100}} | observed
    exempt = {"topics": [{"pattern": "spared|kafka-medic.*", "exempt": True}]}
    if canary:
        metadata["probes"] = {"canary": {"enabled": True}}
        stage.later(1.0, "canary")
    stage.world.install(brokers=BROKERS, remediation=limits, expectations=exempt, **metadata)
    stage.with_pods(owner, crossed)
    return stage


def _roll(playbook: str = "rolling-restart", **how: Any) -> Stage:
    stage = _stage(_healthy_kafka(), **how)
    stage.world.ask(playbook)
    return stage


def _strimzi() -> Stage:
    """Brokers are restarted by Strimzi, when it next reconciles."""
    stage = _roll(owner=STRIMZI)
    stage.api.touch(CLUSTER)["spec"]["brokers"]["restart"] = "StrimziAnnotation"
    stage.later(10.0, "strimzi")
    return stage


def _spared(*, zookeeper: bool = False, **parameters: str) -> Stage:
    stage = _stage(_spared_kafka(), zookeeper=zookeeper)
    stage.world.ask("rolling-restart", **parameters)
    return stage


def _apart() -> Stage:
    """The controllers are no brokers, and are restarted as well."""
    kafka = SimKafka(controllers={10, 11, 12}, voted=11)
    kafka.topic("orders", [0, 1, 2], [1, 2, 0])
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    stage = _stage(kafka)
    stage.api.touch(CLUSTER)["spec"]["controllers"] = {"podSelector": {"matchLabels": {"app": "controller"}}}
    stage.world.ask("rolling-restart")
    return stage


def _parallel() -> Stage:
    """Five brokers, of which 1 may be away with 3 or 4, and no two others."""
    kafka = SimKafka(racks={0: "a", 1: "b", 2: "c", 3: "a", 4: "b"})
    kafka.topic("orders", [0, 1, 2], [2, 3, 4], [4, 0, 3])
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    kafka.topic("spared", [1, 0])
    stage = _stage(kafka)
    stage.world.ask("rolling-restart", maxParallel="2")
    return stage


def _stale(broker: int, **how: Any) -> Stage:
    """A broker is cut off from the controller, still leads two partitions as far as it knows, and takes writes."""
    kafka = _spared_kafka()
    kafka.topic("ledger", [2, 1, 0])
    kafka.dynamic["TOPIC", "ledger", "min.insync.replicas"] = "2"
    kafka.voted = 1
    stage = _stage(kafka, **how)
    stage._stale(broker, 1e9)
    led = [(tp, part) for tp, part in sorted(kafka.partitions.items()) if part.leader == broker]
    for tp, part in led:
        kafka.parted[broker, tp] = part.end
        part.isr.remove(broker)
        part.elect(part.successor(kafka.up))
    stage._written(0)
    return stage


def _stale_pair() -> Stage:
    """Two brokers are cut off from the controller, serve what they lead, and have missed a change elsewhere."""
    kafka = SimKafka(racks={0: "a", 1: "b", 2: "c", 3: "a", 4: "b"})
    kafka.topic("orders", [2, 3, 4], [3, 4, 0])
    kafka.topic("calm", [0, 1, 4], [1, 0, 4])
    for topic in ("orders", "calm"):
        kafka.dynamic["TOPIC", topic, MIN_ISR] = "2"
    kafka.voted = 0
    stage = _stage(kafka)
    for broker in (2, 3):
        stage._stale(broker, 1e9)
    kafka.partitions[TopicPartition("calm", 0)].elect(1)
    return stage


def _overtaken() -> Stage:
    """Leaderships go home one at a time, to a broker that hangs for minutes. Meanwhile another broker becomes stale,
    and its restart cures something graver."""
    stage = _batches()
    stage.kafka.voted = 1
    stage._mute(0, 450.0)
    stage.later(15.0, "fault", "diverges", 2, 0, 1e9)
    return stage


def _zombie(broker: int, **how: Any) -> Stage:
    """The same, and the controller has taken it for gone: out of every ISR, and not a member any more."""
    stage = _stale(broker, **how)
    stage.kafka.zombies.add(broker)
    for part in stage.kafka.partitions.values():
        if broker in part.isr:
            part.isr.remove(broker)
    return stage


def _drain() -> Stage:
    """A node is cordoned for two minutes."""
    stage = _stage(_spared_kafka(), wanted=DRAIN)
    stage._cordoned(0, 120.0)
    stage.until = 240.0
    return stage


def _cooling() -> Stage:
    """A run has just ended, and the KafkaCluster asks for an hour's rest."""
    stage = _roll(cooldown="1h")
    (run,) = stage.runs()
    ended = START.strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"phase": "Succeeded", "startedAt": ended, "finishedAt": ended, "message": "done"}
    meta = {"name": "before", "namespace": "ns"}
    body = {k: run[k] for k in ("apiVersion", "kind", "spec")}
    stage.world.put("remediations", body | {"metadata": meta, "status": status})
    return stage


def _thin() -> Stage:
    """One topic has no replica to spare: nothing may be restarted."""
    kafka = _healthy_kafka()
    kafka.topic("thin", [2, 0])
    kafka.dynamic["TOPIC", "thin", "min.insync.replicas"] = "2"
    stage = _stage(kafka)
    stage.world.ask("rolling-restart")
    return stage


def _uneven() -> Stage:
    """A topic has no min.insync.replicas of its own, and broker 1 was started with a higher one than the others: what
    it leads has no replica to spare."""
    stage = _stage(_spared_kafka())
    stage.kafka.dynamic.pop(("TOPIC", "spared", MIN_ISR))
    for broker, read in stage.kafka.started_with.items():
        read[MIN_ISR] = "2" if broker == 1 else "1"
    stage.api.touch(CLUSTER)["spec"]["expectations"]["minInSyncReplicas"] = 1
    stage.world.ask("rolling-restart")
    return stage


def _failed_disk() -> Stage:
    """A log directory of broker 2 has failed and is not replaced. What is on it can spare another replica."""
    kafka = _spared_kafka()
    for topic in ("orders", "spared"):
        kafka.dynamic["TOPIC", topic, MIN_ISR] = "1"
    stage = _stage(kafka)
    kafka.disk_fails(2, {TopicPartition("orders", 0)})
    stage.world.ask("rolling-restart", brokers="0,1")
    return stage


def _crossed() -> Stage:
    """Two brokers run in each other's Pods, which do not let the operator in: nobody can know, so neither may go."""
    stage = _roll("restart-controller", crossed={0: 1, 1: 0})
    stage.kafka.closed = {0, 1}
    return stage


def _raise(
    *, throttled: bool = False, size: int = 5_000_000, beside: bool = False, wide: dict[int, str | None] | None = None
) -> Stage:
    """`beside`: there is a topic that is fine, and that somebody may be moving. `wide`: racks of more brokers than one
    partition needs."""
    if wide:
        kafka = SimKafka(racks=wide)
        kafka.topic("orders", [1], size=size)
        kafka.topic("__consumer_offsets", [0, 1, 2])
        return _stage(kafka)
    kafka = SimKafka()
    if beside:
        kafka.topic("spared", [2, 0], [0, 1])
    kafka.topic("orders", [1], size=size)
    kafka.topic("payments", [0], [2], size=size)
    kafka.topic("__consumer_offsets", [0, 1, 2])
    if throttled:
        kafka.dynamic["BROKER", "1", "follower.replication.throttled.rate"] = "777"
        kafka.dynamic["TOPIC", "orders", "leader.replication.throttled.replicas"] = "*"
    return _stage(kafka)


def _lost_broker(*, serves: bool = False, **how: Any) -> Stage:
    """A broker has gone with its volume, half an hour ago, and nobody brings it back. `serves`: it has not gone, and
    the controller alone has lost it."""
    kafka = four_broker_cluster()
    stage = _stage(kafka, **how)
    if serves:
        kafka.fence(3)
    else:
        kafka.stop(3)
        assert stage.pods is not None
        stage.pods._put(3, ready=False, keep=True)
    stage.world.ask("replace-broker", brokers="3")
    return stage


def _broken_disk(**how: Any) -> Stage:
    """One of two log directories of a broker has failed half an hour ago, with most of what it holds."""
    kafka = four_broker_cluster()
    stage = _stage(kafka, **how)
    kafka.disk_fails(3, {TopicPartition("orders", 0), TopicPartition("orders", 1)})
    stage.world.ask("restore-log-dir", brokers="3")
    return stage


def _leaving_broker(**how: Any) -> Stage:
    """A broker is to be removed, and somebody asks for it to be emptied."""
    kafka = four_broker_cluster()
    stage = _stage(kafka, **how)
    stage.world.ask("evacuate-broker", brokers="3", batchSize="1")
    return stage


def _filling(**how: Any) -> Stage:
    """The volume of a broker fills up, and somebody asks for two of its replicas to be moved off it, one at a time."""
    kafka = SimKafka(racks={0: "a", 1: "b", 2: "c", 3: "a"})
    kafka.topic("orders", [3, 1, 2], [1, 2, 3], [2, 0, 1], size=20_000)
    kafka.topic("__consumer_offsets", [0, 3, 1], size=45_000)
    kafka.volumes = dict.fromkeys(range(3), (1_000_000,)) | {3: (100_000,)}
    for topic in ("orders", "__consumer_offsets"):
        kafka.dynamic["TOPIC", topic, "min.insync.replicas"] = "2"
    stage = _stage(kafka, **how)
    stage.world.ask("relieve-disk", brokers="3", freeSharePercent="50", batchSize="1")
    return stage


def _volumes(**how: Any) -> Stage:
    """One of two volumes of a broker fills up, and somebody asks for two of its replicas to be moved to the other one,
    one at a time."""
    kafka = SimKafka(racks={0: "a", 1: "b", 2: "c", 3: "a"})
    kafka.topic("orders", [3, 1, 2], [1, 2, 3], [2, 0, 1], size=20_000)
    kafka.topic("__consumer_offsets", [0, 3, 1], size=45_000)
    kafka.volumes = {3: (100_000, 80_000, 4_000)}
    for topic in ("orders", "__consumer_offsets"):
        kafka.dynamic["TOPIC", topic, "min.insync.replicas"] = "2"
    stage = _stage(kafka, **how)
    stage.world.ask("relieve-disk", brokers="3", freeSharePercent="50", batchSize="1")
    return stage


def _owned(*, raised: bool = True, **how: Any) -> Stage:
    """Topics that have a KafkaTopic: raised, or given another minimum."""
    kafka = SimKafka()
    if raised:
        kafka.topic("orders", [1])
        kafka.topic("payments", [0], [2])
    else:
        kafka.topic("orders", [0, 1, 2], [1, 2, 0])
    kafka.topic("__consumer_offsets", [0, 1, 2])
    kafka.dynamic["TOPIC", "orders", MIN_ISR] = "1"
    stage = _stage(kafka, owner=STRIMZI)
    selector = {"matchLabels": {"strimzi.io/cluster": "kafka"}}
    stage.api.touch(CLUSTER)["spec"]["brokers"] = {"podSelector": selector, "restart": "StrimziAnnotation"}
    stage.with_topic_operator("orders", **how)
    return stage


def _elect() -> Stage:
    """Broker 0 was away, and leads nothing since."""
    kafka = _healthy_kafka()
    for part in kafka.partitions.values():
        if part.leader == 0:
            part.leader, part.epoch = part.replicas[1], 1
    return _stage(kafka, wanted=ELECT)


def _elect_apart() -> Stage:
    """Broker 2 was away, no broker is a controller, and so none knows better than another."""
    kafka = _apart_kafka()
    for part in kafka.partitions.values():
        if part.leader == 2:
            part.elect(part.replicas[1])
    return _stage(kafka, wanted=ELECT)


def _batches() -> Stage:
    """The same, and its leaderships are to come home one at a time."""
    kafka = _healthy_kafka()
    kafka.topic("ledger", [0, 1, 2], [0, 2, 1])
    kafka.dynamic["TOPIC", "ledger", "min.insync.replicas"] = "2"
    for part in kafka.partitions.values():
        if part.leader == 0:
            part.leader, part.epoch = part.replicas[1], 1
    stage = _stage(kafka, wanted=ELECT)
    stage.world.ask("elect-preferred-leaders", batchSize="1")
    return stage


def _offsets(**how: Any) -> Stage:
    """Two groups have committed what two logs do not have, one of them with all that a commit can carry."""
    kafka = _healthy_kafka()
    kafka.topic("ledger", [0, 1, 2])
    kafka.dynamic["TOPIC", "ledger", "min.insync.replicas"] = "2"
    orders, ledger = [TopicPartition("orders", n) for n in range(3)], TopicPartition("ledger", 0)
    kafka.commit_offsets("audit", {orders[0]: Committed(9_000), ledger: Committed(20)})
    kafka.commit_offsets("billing", {orders[1]: Committed(7_000, 3, "a note"), ledger: Committed(8_000)})
    kafka.commit_offsets("quiet", {orders[2]: Committed(21, 0)})
    stage = _stage(kafka, **how)
    stage.world.ask("reset-consumer-offsets")
    return stage


def _defaults(**how: Any) -> Stage:
    """Brokers that were never told of each other read a configuration that is right by now, but for one of them."""
    right = dict.fromkeys((*FACTORS, "transaction.state.log.replication.factor"), "3")
    right |= {"transaction.state.log.min.isr": "2", "min.insync.replicas": "1"}
    kafka = SimKafka(files={b: dict.fromkeys(right, "1") for b in (0, 1, 2)})
    kafka.files = {b: dict(right) for b in (0, 1, 2)}
    kafka.files[2]["offsets.topic.replication.factor"] = "1"
    kafka.topic("orders", [0, 1, 2], [1, 2, 0])
    kafka.topic("spared", [2, 0], [0, 1])
    kafka.topic("__consumer_offsets", [1, 0, 2])
    kafka.dynamic["TOPIC", "spared", "min.insync.replicas"] = "1"
    return _stage(kafka, **how)


def _minimum(**how: Any) -> Stage:
    """A topic acknowledges what one broker has, and has replicas for more."""
    kafka = _healthy_kafka()
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "1"
    return _stage(kafka, **how)


SCENARIOS: dict[str, Callable[[], Stage]] = {
    "roll": _roll,
    "roll-zookeeper": lambda: _roll(zookeeper=True),
    "strimzi": _strimzi,
    "spared": _spared,
    "spared-zookeeper": lambda: _spared(zookeeper=True),
    "drained": lambda: _spared(drainFirst="true"),
    "drained-zookeeper": lambda: _spared(zookeeper=True, drainFirst="true", brokers="1,2"),
    "controller": lambda: _roll("restart-controller"),
    "apart": _apart,
    "parallel": _parallel,
    "stale": lambda: _stale(2),
    "stale-zookeeper": lambda: _stale(0, zookeeper=True),
    "stale-pair": _stale_pair,
    "overtaken": _overtaken,
    "zombie": lambda: _zombie(2),
    "zombie-zookeeper": lambda: _zombie(0, zookeeper=True),
    "cooling": _cooling,
    "thin": _thin,
    "uneven": _uneven,
    "failed-disk": _failed_disk,
    "crossed": _crossed,
    "canary": lambda: _roll(canary=True),
    "elect": _elect,
    "elect-batches": _batches,
    "elect-apart": _elect_apart,
    "drain": _drain,
    "offsets": _offsets,
    "offsets-zookeeper": lambda: _offsets(zookeeper=True),
    "defaults": _defaults,
    "defaults-zookeeper": lambda: _defaults(zookeeper=True),
    "minimum": _minimum,
    "minimum-zookeeper": lambda: _minimum(zookeeper=True),
    "lost-broker": _lost_broker,
    "lost-broker-zookeeper": lambda: _lost_broker(zookeeper=True),
    "fenced-broker": lambda: _lost_broker(serves=True),
    "broken-disk": _broken_disk,
    "broken-disk-zookeeper": lambda: _broken_disk(zookeeper=True),
    "leaving-broker": _leaving_broker,
    "leaving-broker-zookeeper": lambda: _leaving_broker(zookeeper=True),
    "filling": _filling,
    "filling-zookeeper": lambda: _filling(zookeeper=True),
    "volumes": _volumes,
    "volumes-zookeeper": lambda: _volumes(zookeeper=True),
    "owned": _owned,
    "owned-minimum": lambda: _owned(raised=False),
    "owned-cruise-control": lambda: _owned(cruise_control=True),
    "raise": _raise,
    "raise-beside": lambda: _raise(beside=True),
    "raise-wide": lambda: _raise(wide={0: "a", 1: "b", 2: "c", 3: "a"}),
    "raise-throttled": lambda: _raise(throttled=True),
    "raise-waves": lambda: _raise(size=30_000_000_000),
    "healthy": lambda: _stage(_healthy_kafka()),
    "resting": lambda: _stage(_apart_kafka(), wanted=ELECT),
}
WEIGHTS = {
    "roll": 3,
    "roll-zookeeper": 2,
    "strimzi": 4,
    "spared": 7,
    "spared-zookeeper": 4,
    "drained": 4,
    "drained-zookeeper": 2,
    "controller": 2,
    "apart": 3,
    "parallel": 3,
    "failed-disk": 2,
    "stale": 3,
    "stale-zookeeper": 2,
    "stale-pair": 3,
    "overtaken": 4,
    "zombie": 2,
    "zombie-zookeeper": 2,
    "canary": 3,
    "elect": 2,
    "elect-batches": 2,
    "elect-apart": 2,
    "drain": 4,
    "offsets": 3,
    "offsets-zookeeper": 1,
    "defaults": 3,
    "defaults-zookeeper": 2,
    "minimum": 1,
    "minimum-zookeeper": 1,
    "lost-broker": 4,
    "lost-broker-zookeeper": 3,
    "broken-disk": 3,
    "broken-disk-zookeeper": 2,
    "leaving-broker": 4,
    "leaving-broker-zookeeper": 3,
    "filling": 3,
    "filling-zookeeper": 2,
    "volumes": 3,
    "volumes-zookeeper": 2,
    "owned": 4,
    "owned-minimum": 2,
    "owned-cruise-control": 3,
    "raise": 2,
    "raise-beside": 3,
    "raise-wide": 2,
    "raise-throttled": 2,
    "raise-waves": 3,
}


class Prefix:
    """An undisturbed run, as far as it was asked for: the world before each reconcile, and what each one wrote."""

    def __init__(self, scenario: str) -> None:
        self._scenario, self._stage = scenario, SCENARIOS[scenario]()
        self._stage.oracle.begin()
        self._stage.start("one")
        self._stage.later(1.0, "people")
        self._stage.later(0.1, "produce")
        self._moments: list[bytes] = []
        self._sharp: dict[int, list[str]] = {}
        self._over = False

    def moment(self, number: int) -> bytes:
        while len(self._moments) <= number:
            self._reconcile()
        return self._moments[number]

    def to_the_end(self) -> tuple[range, dict[int, list[str]]]:
        """Every moment's number, and by number what the reconcile after it wrote."""
        while not self._over:
            self._reconcile()
        return range(len(self._moments)), self._sharp

    def _reconcile(self) -> None:
        stage, here = self._stage, len(self._moments)
        self._moments.append(stage.freeze())
        before, reconciles = len(stage.oracle.effects), stage.reconciles
        while stage.reconciles == reconciles:
            stage.next()
        if wrote := stage.oracle.effects[before:]:
            self._sharp[here] = wrote
        if self._scenario in WEIGHTS:
            self._over = stage.quiet() or here == 80
            phases = {r["status"].get("phase") for r in stage.runs() if "status" in r}
            well = stage.quiet() and "Succeeded" in phases <= {"Succeeded", "Superseded"}
            assert well or not self._over, [(r["status"]["phase"], r["status"]["message"]) for r in stage.runs()]
            return
        self._over = here == 7
        if self._scenario in ("healthy", "resting"):
            findings = stage.world.cluster()["status"].get("findings", [])
            assert not findings, findings
            assert not stage.oracle.effects, stage.oracle.effects


@functools.cache
def prefix(scenario: str) -> Prefix:
    return Prefix(scenario)
