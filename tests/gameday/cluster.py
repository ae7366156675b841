"""What is on each of these clusters, and how it is broken and mended."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from kafka_medic.clients.failures import WriteFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, ConfigChange, PartitionState
from kafka_medic.cluster.snapshot import TopicPartition
from tests.gameday.scenario import Scene
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, faults, get, kubectl, own_state, wait_for
from tests.testbed.kafka_settings import CLIENT_PORT, CONTROLLER_PORT, ZOOKEEPER_PORT

BROKERS = (0, 1, 2)
ORDERS, THIN, MOVING, BILLING = "orders", "scratch-ledger", "moving", "billing"
THIN_ON = 1
EXPECTATIONS = {
    "topics": [{"pattern": "scratch-.*", "exempt": True}, {"pattern": MOVING, "replicationFactor": 2}],
}
"""THIN has one replica and is exempt: a twin that stands there all the while."""
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")

_NODES = threading.RLock()
"""Held while a node is cordoned or a Pod has to find one: the deployments share the nodes."""


def fill(scene: Scene) -> None:
    """Topics, records and a group whose offsets lag behind, as in the incident of factor 1: committed 10 of 21."""
    boot = scene.boot
    records.create_topic(boot, ORDERS, [[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    records.create_topic(boot, THIN, [[THIN_ON]], {"min.insync.replicas": "1"})
    for topic in (ORDERS, THIN):
        assert records.write(boot, topic, [f"{topic}-{n}" for n in range(21)]) == 21
        assert records.read_group(boot, f"{BILLING}-{topic}", topic, 10)
        records.commit_offset(boot, f"{BILLING}-{topic}", topic, 10)


def restore(scene: Scene) -> None:
    """Whatever a failed act left."""
    kafka = scene.kafka
    with _NODES:
        kubectl("uncordon", *(kafka.node_of(b) for b in BROKERS))
        kubectl("scale", "statefulset/kafka", "-n", kafka.namespace, "--replicas=3")
        kafka.wait_ready()
    home(scene)


def states(client: RealKafka, broker: int) -> list[PartitionState]:
    """The partitions as that broker has them; empty when it does not answer."""
    view = client.views([broker])[broker]
    return list(view.partitions) if isinstance(view, BrokerView) else []


def home(scene: Scene) -> None:
    """Every replica back in sync, then every leader elected that is preferred, as an administrator would."""
    with scene.client() as client:

        def in_sync() -> bool:
            told = [states(client, b) for b in BROKERS]
            return all(t and all(set(p.isr) == set(p.replicas) for p in t) for t in told)

        def at_home() -> bool:
            # A controller that has only just become it may not answer in time, and elects all the same.
            with contextlib.suppress(WriteFailed):
                client.elect_preferred([TopicPartition(p.topic, p.partition) for p in states(client, 0)])
            told = states(client, 0)
            return bool(told) and all(p.leader == p.replicas[0] for p in told)

        wait_for(f"{scene.kafka.namespace}: every replica in sync", in_sync, 150)
        wait_for(f"{scene.kafka.namespace}: every leader at home", at_home, 120)


def elect_everything(scene: Scene) -> None:
    """Away from home and back again, all at once: no leader stays where it was."""
    with scene.client() as client:
        parts = {TopicPartition(p.topic, p.partition): tuple(p.replicas) for p in states(client, 0)}
        turned = {tp: (*r[1:], r[0]) for tp, r in parts.items() if len(r) > 1}
        for wanted in (turned, {tp: parts[tp] for tp in turned}):
            assert client.alter_reassignments(wanted) == {}
            wait_for("the new order", lambda w=wanted: orders(client) >= w.items(), 30)  # type: ignore[misc]
            client.elect_preferred(list(wanted))


def orders(client: RealKafka) -> set[tuple[TopicPartition, tuple[int, ...]]]:
    return {(TopicPartition(p.topic, p.partition), tuple(p.replicas)) for p in states(client, 0)}


def controller(scene: Scene) -> int:
    if scene.kafka.shape == "kraft":
        with scene.client() as client:
            leader = client.quorum().leader
        assert leader is not None
        return leader
    admin = AdminClient({"bootstrap.servers": scene.boot})
    return int(admin.describe_cluster().result(30).controller.id)


def others(broker: int) -> list[int]:
    return [b for b in BROKERS if b != broker]


def looked_at(scene: Scene) -> None:
    """The operator has looked twice more, so that it has seen what is there now."""
    for _ in range(2):
        before = _at(scene)
        wait_for("another look", lambda b=before: _at(scene) > b, 60)  # type: ignore[misc]


def _at(scene: Scene) -> str:
    return str(scene.status().get("lastObservedAt", ""))


# Pods and nodes.


def stop(scene: Scene, broker: int) -> None:
    """In good order, and kept away by its node, which is cordoned."""
    _NODES.acquire()
    scene.kafka.stop_broker(broker)


def start(scene: Scene, broker: int) -> None:
    try:
        scene.kafka.start_broker(broker)
    finally:
        _NODES.release()
    home(scene)


def cordon(scene: Scene, broker: int) -> None:
    _NODES.acquire()
    kubectl("cordon", scene.kafka.node_of(broker))


def uncordon(scene: Scene, broker: int) -> None:
    kubectl("uncordon", scene.kafka.node_of(broker))
    _NODES.release()


def restart(scene: Scene, broker: int) -> None:
    with _NODES:
        scene.kafka.restart_broker(broker)


def roll(scene: Scene) -> None:
    """As somebody does who changed a setting."""
    with _NODES:
        kubectl("rollout", "restart", "statefulset/kafka", "-n", scene.kafka.namespace)
        wait = ("rollout", "status", "statefulset/kafka", "-n", scene.kafka.namespace, "--timeout=240s")
        kubectl(*wait, timeout=250)
        scene.kafka.wait_ready()


def resume(scene: Scene, broker: int) -> None:
    faults.resume_broker(scene.kafka, broker)
    scene.kafka.wait_ready()
    home(scene)


def all_gone(scene: Scene) -> None:
    namespace = scene.kafka.namespace
    kubectl("scale", "statefulset/kafka", "-n", namespace, "--replicas=0")

    def none_left() -> bool:
        return not any(p["metadata"]["name"].startswith("kafka-") for p in get("pods", namespace=namespace)["items"])

    wait_for("no broker", none_left, 90)


def all_back(scene: Scene) -> None:
    with _NODES:
        kubectl("scale", "statefulset/kafka", "-n", scene.kafka.namespace, "--replicas=3")
        scene.kafka.wait_ready()
    home(scene)


def lose_log(scene: Scene, topic: str, broker: int, meanwhile: Callable[[], None] = lambda: None) -> None:
    """The broker comes back with an empty log of that topic, as after a disk was replaced. `meanwhile`: while it is
    away."""
    kafka = scene.kafka
    with _NODES, _uncordoned(scene, broker):
        kafka.stop_broker(broker)
        meanwhile()
        shutil.rmtree(own_state().disks / kafka.namespace / f"data-kafka-{broker}" / "kafka" / f"{topic}-0")
        kafka.start_broker(broker)
    home(scene)


@contextlib.contextmanager
def led_uncleanly(scene: Scene, leader: int, follower: int, alone: Callable[[], None]) -> Iterator[None]:
    """The follower goes, `alone` writes what only the leader has, the leader goes, and the follower comes back and
    leads without that, as its topic's unclean.leader.election.enable has it. As long as this lasts the old leader is
    away; then it comes back, and its log is cut to what the new one has."""
    kafka = scene.kafka
    with _NODES, _uncordoned(scene, leader, follower):
        kafka.stop_broker(follower)
        alone()
        kafka.stop_broker(leader)
        kafka.start_broker(follower)
        yield
        kafka.start_broker(leader)
    home(scene)


@contextlib.contextmanager
def _uncordoned(scene: Scene, *brokers: int) -> Iterator[None]:
    """In the end, whatever happens."""
    try:
        yield
    finally:
        kubectl("uncordon", *(scene.kafka.node_of(b) for b in brokers))


def operator_memory() -> int:
    """Resident bytes of all processes of the operator's Pod."""
    (pod,) = get("pods", namespace=operator.NAMESPACE, selector="app.kubernetes.io/name=kafka-medic")["items"]
    return sum(_resident(number) for number in faults.processes_of(pod))


def _resident(number: int) -> int:
    with open(f"/proc/{number}/status") as status:
        return sum(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))


# Links.


class Cuts:
    """Links of one deployment's Pods that are cut and mended together. Addresses are those of when they were cut."""

    def __init__(self) -> None:
        self.made: list[Callable[[], None]] = []

    def cut(self, source: str, destination: str, port: int | None = None) -> None:
        faults.cut(source, destination, port)
        self.made.append(partial(faults.rejoin, source, destination, port))

    def cut_clients(self, destination: str, port: int, peers: Sequence[str]) -> None:
        faults.cut_clients(destination, port, peers)
        self.made.append(partial(faults.rejoin_clients, destination, port, peers))

    def mend(self) -> None:
        while self.made:
            self.made.pop()()


def address(kafka: KafkaDeployment, pod: str) -> str:
    return faults.pod_address(kafka.namespace, pod)


def cut_operator(scene: Scene, cuts: Cuts) -> None:
    (pod,) = get("pods", namespace=operator.NAMESPACE, selector="app.kubernetes.io/name=kafka-medic")["items"]
    for broker in BROKERS:
        cuts.cut(pod["status"]["podIP"], address(scene.kafka, scene.kafka.pod_name(broker)))


def cut_from_authority(scene: Scene, broker: int, cuts: Cuts) -> None:
    """From every ZooKeeper server, or from the whole rest of the KRaft quorum; clients and replicas still reach it."""
    kafka = scene.kafka
    own = address(kafka, kafka.pod_name(broker))
    if kafka.shape == "zookeeper":
        for server in BROKERS:
            cuts.cut(own, address(kafka, f"zookeeper-{server}"), ZOOKEEPER_PORT)
        return
    for other in others(broker):
        there = address(kafka, kafka.pod_name(other))
        cuts.cut(own, there, CONTROLLER_PORT)
        cuts.cut(there, own, CONTROLLER_PORT)


def cut_from_controller(scene: Scene, broker: int, cuts: Cuts) -> None:
    """What the controller tells the brokers does not reach this one; all else does."""
    kafka = scene.kafka
    source = address(kafka, kafka.pod_name(controller(scene)))
    cuts.cut(source, address(kafka, kafka.pod_name(broker)), CONTROLLER_PORT)


def cut_clients(scene: Scene, broker: int, cuts: Cuts) -> None:
    """Its client listener: neither the operator, nor a program of this machine, nor the kubelet gets through; the other
    brokers do, so that it stays registered and in every ISR."""
    kafka = scene.kafka
    peers = [address(kafka, kafka.pod_name(other)) for other in others(broker)]
    cuts.cut_clients(address(kafka, kafka.pod_name(broker)), CLIENT_PORT, peers)


def forget(scene: Scene, broker: int) -> None:
    """The broker's registration goes; the broker does not notice."""
    with zookeeper(scene) as client:
        client.delete(f"/brokers/ids/{broker}")


@contextlib.contextmanager
def zookeeper(scene: Scene) -> Iterator[KazooClient]:
    """A session of our own."""
    client = KazooClient(scene.kafka.zookeeper_connect)
    client.start(timeout=20)
    try:
        yield client
    finally:
        client.stop()
        client.close()


# Settings and reassignments.


def throttle(client: RealKafka, rate: str | None) -> None:
    client.alter_configs([ConfigChange("BROKER", str(b), name, rate) for b in BROKERS for name in RATES])


def begin_move(scene: Scene) -> None:
    """A reassignment of somebody else's that does not get on: 20 MB at 50 kB/s."""
    boot = scene.boot
    records.create_topic(boot, MOVING, [[0, 1]], {"min.insync.replicas": "1"})
    assert records.write(boot, MOVING, ["x" * 500_000] * 40) == 40
    with scene.client() as client:
        throttle(client, "50000")
        client.alter_configs([ConfigChange("TOPIC", MOVING, name, "*") for name in REPLICAS])
        assert client.alter_reassignments({TopicPartition(MOVING, 0): (2, 0, 1)}) == {}


def end_move(scene: Scene) -> None:
    with scene.client() as client:
        throttle(client, None)
        client.alter_configs([ConfigChange("TOPIC", MOVING, name, None) for name in REPLICAS])
        wait_for("the reassignment's end", lambda: not client.reassignments(), 60)
    records.delete_topic(scene.boot, MOVING)
