"""Each finding on real clusters of both kinds, and the twins that must not fire: `make gameday`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import ConfigChange, Connection
from kafka_medic.cluster.snapshot import TopicPartition as Partition
from tests.gameday.scenario import Scenario, Scene, Twin
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, Shape, deploy_kafka, faults, get, kubectl, wait_for

SLOTS: dict[Shape, int] = {"kraft": 7, "zookeeper": 8}
SETTINGS = {"auto.leader.rebalance.enable": "false", "replica.lag.time.max.ms": 6000}
RATE = "leader.replication.throttled.rate"


@pytest.fixture(scope="module")
def scenes(installed: None) -> Iterator[list[Scene]]:
    made = []
    for shape, slot in SLOTS.items():
        KafkaDeployment(f"gameday-{shape}", shape, {}, {0: ""}).undeploy()  # what a killed run left
        kafka = deploy_kafka(f"gameday-{shape}", shape, SETTINGS, slot, wait=False)
        made.append(Scene(kafka, f"gameday-{uuid.uuid4().hex[:4]}"))
    for scene in made:
        scene.kafka.wait_ready()
    yield made
    for scene in made:
        scene.kafka.undeploy()


def test_each_finding_and_each_twin(scenes: list[Scene]) -> None:
    with ThreadPoolExecutor() as pool:
        plays = [pool.submit(play, scene) for scene in scenes]
    for row in sorted(row for scene in scenes for row in scene.table):
        name, shape, finding, lasts, fired, gone = row
        print(
            f"{name:<42} {shape:<10} {finding:<22} for {lasts:4.0f} s, fired after {fired:5.1f} s, gone {gone:5.1f} s"
        )
    problems = [f"{s.kafka.shape}: {p!r}" for s, played in zip(scenes, plays, strict=True) if (p := played.result())]
    assert not problems, "\n".join(problems)


def play(scene: Scene) -> list[str]:
    """Everything, one after the other; what failed, each in a line."""
    records.create_topic(scene.kafka.bootstrap, "orders", [[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    records.write(scene.kafka.bootstrap, "orders", [f"order-{n}" for n in range(21)])
    records.read_group(scene.kafka.bootstrap, "billing", "orders", 10)
    scene.watch()
    place = ("kafkaclusters.kafkamedic.dev", scene.name, "-n", scene.kafka.namespace)
    wait_for("the first look", lambda: "status" in get(*place), 60)
    failed = []
    for act in acts(scene):
        try:
            act()
        except AssertionError as problem:
            failed.append(str(problem)[:600])
            faults_gone(scene)
    return failed


def acts(scene: Scene) -> Iterator[Callable[[], None]]:
    kafka, boot = scene.kafka, scene.kafka.bootstrap
    real = RealKafka(Connection(boot))

    def play(name: str, finding: str, lasts: float, fault: Callable[[], None], cure: Callable[[], None],
             **more: object) -> Callable[[], None]:  # fmt: skip
        return partial(scene.play, Scenario(name, finding, lasts, fault, cure, **more))  # type: ignore[arg-type]

    def hold(
        name: str, act: Callable[[], None], undo: Callable[[], None] = lambda: None, **more: object
    ) -> Callable[[], None]:
        return partial(scene.hold, Twin(name, act, undo, **more))  # type: ignore[arg-type]

    yield hold("a healthy, idle cluster", lambda: None)
    yield play(
        "a throttle left behind", "LeftoverThrottle", 60,
        lambda: real.alter_configs([ConfigChange("BROKER", "1", RATE, "1000000")]),
        lambda: real.alter_configs([ConfigChange("BROKER", "1", RATE, None)]),
        words=RATE,
    )  # fmt: skip
    yield play(
        "a topic of one replica", "ReplicationFactorLow", 0,
        lambda: records.create_topic(boot, "thin", [[0]]), lambda: records.delete_topic(boot, "thin"), words="thin",
    )  # fmt: skip
    yield play(
        "an offset committed past the end", "OffsetBeyondLogEnd", 60,
        partial(commit, boot, 5000), partial(commit, boot, 10), words="5000",
    )  # fmt: skip
    node = kafka.node_of(2)
    yield play(
        "a node cordoned", "NodeMaintenance", 0,
        lambda: kubectl("cordon", node), lambda: kubectl("uncordon", node), words=node,
    )  # fmt: skip
    down = frozenset({"PartitionUnderReplicated", "NodeMaintenance", "QuorumDegraded", "LeadersImbalanced"})
    yield play(
        "a broker down", "BrokerDown", 30,
        lambda: kafka.stop_broker(1), partial(back_and_elected, kafka, real, 1), words="broker-1", also=down,
        settle=10, clears_within=120,
    )  # fmt: skip
    yield hold("a broker restarted in good order", lambda: kafka.restart_broker(2), partial(elect, real), seconds=20)
    yield play(
        "a broker back without its leaderships", "LeadersImbalanced", 60,
        partial(restart_quickly, kafka, 0), partial(elect, real), also=frozenset(),
    )  # fmt: skip
    yield hold("every preferred leader elected at once", partial(elect, real))
    yield play(
        "a broker that hangs", "BrokerDown", 30,
        lambda: faults.pause_broker(kafka, 2), partial(resumed, kafka, real, 2), words="broker-2", also=down,
        settle=15, clears_within=150,
    )  # fmt: skip
    if kafka.shape == "zookeeper":
        yield play(
            "a registration lost: a zombie", "BrokerZombie", 30,
            partial(forget, kafka, 1), partial(back_and_elected, kafka, real, 1, restart=True), words="not registered",
            also=frozenset({"ViewDiverged", "PartitionUnderReplicated", "LeadersImbalanced"}), clears_within=120,
        )  # fmt: skip
        yield play(
            "an ensemble without majority", "QuorumDegraded", 30,
            partial(servers, kafka, faults.pause), partial(servers, kafka, faults.resume), words="no majority",
            settle=10, clears_within=150,
            # A controller without its session, and brokers that nobody can tell to be registered.
            also=frozenset({"ControllerMissing", "BrokerZombie", "BrokerDown"}),
        )  # fmt: skip
    yield play(
        "the operator cut off", "OperatorIsolated", 30, partial(cut_off, kafka), faults.mend, settle=10,
        clears_within=120,
    )  # fmt: skip
    yield play(
        "a whole cluster gone", "ClusterUnreachable", 30, partial(all_gone, kafka), partial(all_back, kafka, real),
        also=frozenset({"NodeMaintenance", "ControllerMissing"}), settle=30, clears_within=240,
    )  # fmt: skip


def faults_gone(scene: Scene) -> None:
    """Whatever a failed act left."""
    faults.mend()
    kubectl("uncordon", *(scene.kafka.node_of(b) for b in (0, 1, 2)))
    scene.kafka.wait_ready()
    elect(RealKafka(Connection(scene.kafka.bootstrap)))


def commit(boot: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": boot})
    wanted = ConsumerGroupTopicPartitions("billing", [TopicPartition("orders", 0, offset)])
    admin.alter_consumer_group_offsets([wanted])["billing"].result(30)


def elect(real: RealKafka) -> None:
    """Every preferred leader, as an administrator would."""
    real.elect_preferred([Partition("orders", n) for n in range(3)])
    offsets = [p for v in real.views([0]).values() for p in getattr(v, "partitions", ()) if p.topic.startswith("__")]
    if offsets:
        real.elect_preferred([Partition(p.topic, p.partition) for p in offsets])


def restart_quickly(kafka: KafkaDeployment, broker: int) -> None:
    kafka.restart_broker(broker)


def back_and_elected(kafka: KafkaDeployment, real: RealKafka, broker: int, restart: bool = False) -> None:
    if restart:
        kafka.restart_broker(broker)
    else:
        kafka.start_broker(broker)
    in_sync(real)
    elect(real)


def resumed(kafka: KafkaDeployment, real: RealKafka, broker: int) -> None:
    faults.resume_broker(kafka, broker)
    kafka.wait_ready()
    in_sync(real)
    elect(real)


def in_sync(real: RealKafka) -> None:
    def all_in() -> bool:
        view = real.views([0])[0]
        return all(set(p.isr) == set(p.replicas) for p in getattr(view, "partitions", ())) and hasattr(view, "states")

    wait_for("every replica in sync", all_in, 120)


def forget(kafka: KafkaDeployment, broker: int) -> None:
    """The broker's registration goes; the broker does not notice."""
    client = KazooClient(kafka.zookeeper_connect)
    client.start(timeout=20)
    try:
        client.delete(f"/brokers/ids/{broker}")
    finally:
        client.stop()
        client.close()


def servers(kafka: KafkaDeployment, change: Callable[[str, str], None]) -> None:
    for number in (1, 2):
        change(kafka.namespace, f"zookeeper-{number}")


def cut_off(kafka: KafkaDeployment) -> None:
    (pod,) = get("pods", "-n", operator.NAMESPACE)["items"]
    for broker in (0, 1, 2):
        faults.cut(pod["status"]["podIP"], faults.pod_address(kafka.namespace, kafka.pod_name(broker)))


def all_gone(kafka: KafkaDeployment) -> None:
    kubectl("scale", "statefulset/kafka", "-n", kafka.namespace, "--replicas=0")
    namespace = kafka.namespace

    def none_left() -> bool:
        return not any(p["metadata"]["name"].startswith("kafka-") for p in get("pods", "-n", namespace)["items"])

    wait_for("no broker", none_left, 90)


def all_back(kafka: KafkaDeployment, real: RealKafka) -> None:
    kubectl("scale", "statefulset/kafka", "-n", kafka.namespace, "--replicas=3")
    kafka.wait_ready()
    in_sync(real)
    elect(real)
