"""Deploys Kafka as a person's chart would, and breaks and mends it as maintenance does."""

from __future__ import annotations

import base64
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.testbed import build, cluster, kafka_manifests, kafka_settings
from tests.testbed.class_archives import class_archives
from tests.testbed.kafka_manifests import Member, Object
from tests.testbed.kafka_settings import BROKERS, CLIENT_PORT, Settings, Shape
from tests.testbed.kubectl import apply, get, kafka_image, kubectl
from tests.testbed.places import DNS_DOMAIN, NODES, own_state
from tests.testbed.preflight import java_home
from tests.testbed.steps import wait_for

READY_SECONDS = 180.0
SLOTS = 14


def slot_addresses(slot: int) -> tuple[dict[int, str], dict[int, str]]:
    """The fixed Service addresses of one slot: brokers, and ZooKeeper servers.

    They lie in the part of the Service range that Kubernetes does not hand out by itself.
    """
    if not 0 <= slot < SLOTS:
        raise ValueError(f"slot {slot} is not one of 0 to {SLOTS - 1}")
    base = 16 * (slot + 1)
    brokers = {number: f"10.96.0.{base + number}" for number in range(BROKERS)}
    servers = {number: f"10.96.0.{base + 8 + number}" for number in range(BROKERS)}
    return brokers, servers


@dataclass(frozen=True)
class KafkaDeployment:
    """A Kafka cluster of three brokers, one a node, in one namespace."""

    namespace: str
    shape: Shape
    broker_addresses: dict[int, str]
    zookeeper_addresses: dict[int, str] = field(default_factory=dict)
    controllers_apart: bool = False
    _last_nodes: dict[int, str] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{address}:{CLIENT_PORT}" for address in self.broker_addresses.values())

    @property
    def zookeeper_connect(self) -> str | None:
        addresses = list(self.zookeeper_addresses.values())
        return kafka_settings.zookeeper_connect(addresses) if addresses else None

    def broker_address(self, broker: int) -> str:
        """Host and port of one broker, the same over its restarts."""
        return f"{self.broker_addresses[broker]}:{CLIENT_PORT}"

    def pod_name(self, broker: int) -> str:
        return _kafka(self.namespace).pod(broker)

    def node_of(self, broker: int) -> str:
        """The node that a broker's disk pins it to; of a Pod that waits for a node, the one it last ran on."""
        if cluster.external_kubeconfig() is None:
            return NODES[broker].name
        if (found := self.pod(broker)["spec"].get("nodeName")) is not None:
            self._last_nodes[broker] = found
        return self._last_nodes[broker]

    def pod(self, broker: int) -> Object:
        return get("pod", self.pod_name(broker), namespace=self.namespace)

    def is_ready(self, broker: int) -> bool:
        return self.pod_name(broker) in self._ready_pods()

    def _ready_pods(self) -> list[str]:
        return [
            pod["metadata"]["name"]
            for pod in get("pods", namespace=self.namespace)["items"]
            for condition in pod["status"].get("conditions", [])
            if condition["type"] == "Ready" and condition["status"] == "True"
            if "deletionTimestamp" not in pod["metadata"]
        ]

    def members(self) -> list[Member]:
        servers = [_zookeeper(self.namespace)] if self.shape == "zookeeper" else []
        controllers = [_controllers(self.namespace)] if self.controllers_apart else []
        return [*servers, *controllers, _kafka(self.namespace)]

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until every Pod of the deployment is Ready."""
        wanted = {member.pod(number) for member in self.members() for number in range(BROKERS)}
        wait_for(f"Kafka in {self.namespace}", lambda: wanted <= set(self._ready_pods()), seconds)

    def stop_broker(self, broker: int) -> None:
        """Take a broker away as node maintenance does: cordon its node, delete its Pod, wait until it is gone."""
        kubectl("cordon", self.node_of(broker))
        kubectl("delete", "pod", self.pod_name(broker), "-n", self.namespace, "--wait=true", "--timeout=60s")

    def start_broker(self, broker: int, seconds: float = READY_SECONDS) -> None:
        """Let a stopped broker come back, with its address and its disk, and wait until it is Ready."""
        kubectl("uncordon", self.node_of(broker))
        wait_for(f"{self.pod_name(broker)} in {self.namespace}", lambda: self.is_ready(broker), seconds)

    def restart_broker(self, broker: int, seconds: float = READY_SECONDS) -> None:
        """Delete a broker's Pod and wait until its successor is Ready."""
        kubectl("delete", "pod", self.pod_name(broker), "-n", self.namespace, "--wait=true", "--timeout=60s")
        wait_for(f"{self.pod_name(broker)} in {self.namespace}", lambda: self.is_ready(broker), seconds)

    def undeploy(self, *, delete_namespace: bool = True, wait: bool = True) -> None:
        """Remove the deployment with its disks; the nodes it ran on are uncordoned. `wait`: until its namespace has
        gone."""
        names = [member.name for member in self.members()]
        if cluster.external_kubeconfig() is None:
            kubectl("uncordon", *(node.name for node in NODES))
        # The data goes as well: nobody has to stop in good order.
        kubectl("delete", "statefulset", *names, "-n", self.namespace, "--ignore-not-found", "--cascade=orphan")
        selector = f"{kafka_manifests.NAME_LABEL} in ({','.join(names)})"
        kubectl("delete", "pods", "-n", self.namespace, "-l", selector, "--grace-period=1")
        kinds = "services,configmaps,poddisruptionbudgets,persistentvolumeclaims"
        kubectl("delete", kinds, "-n", self.namespace, "-l", selector, "--ignore-not-found")
        if cluster.external_kubeconfig() is None:
            disks = [member.volume(number) for member in self.members() for number in range(BROKERS)]
            kubectl("delete", "persistentvolume", *disks, "--ignore-not-found")
            shutil.rmtree(_disks(self.namespace), ignore_errors=True)
        if delete_namespace:
            kubectl(
                "delete", "namespace", self.namespace, "--ignore-not-found", f"--wait={str(wait).lower()}", timeout=180
            )


def deploy_kafka(
    namespace: str,
    shape: Shape = "kraft",
    overrides: Settings | None = None,
    slot: int = 0,
    *,
    broker_overrides: Mapping[int, Settings] | None = None,
    zookeeper_overrides: Settings | None = None,
    broker_ports: Mapping[str, int] | None = None,
    zookeeper_ports: Mapping[str, int] | None = None,
    zookeeper_files: Mapping[str, str] | None = None,
    disruption_budget: bool = True,
    exporter: bool = False,
    controllers_apart: bool = False,
    heap: str = "",
    disks: Mapping[str, str] | None = None,
    wait: bool = True,
) -> KafkaDeployment:
    """Deploy three brokers (and, in the shape `zookeeper`, three ZooKeeper servers) into a namespace; with
    `controllers_apart` three KRaft controllers beside brokers that are none, without a disruption budget. What a killed
    run left of it goes first.

    Deployments in different slots can be up at the same time. `overrides` are broker settings for all brokers,
    `broker_overrides` for single ones; a value of None takes a default away. With `exporter`, each broker has a
    Prometheus exporter on EXPORTER_PORT. The ports are listeners besides the usual ones, by name;
    `zookeeper_files` lie in /config of every server. `heap`: the brokers', in options of the JVM.
    `disks`: file systems in each Pod, path -> size, of which full disks can be made.
    """
    KafkaDeployment(namespace, shape, {}, controllers_apart=controllers_apart).undeploy()
    own = cluster.external_kubeconfig() is None
    image = kafka_image("KAFKA_MEDIC_KAFKA_IMAGE")
    server_image = kafka_image("KAFKA_MEDIC_ZOOKEEPER_IMAGE") if shape == "zookeeper" else ""
    java, folders, classpath = "java", list[Path](), "/opt/kafka/libs/*"
    server_java, agent = java, Path("/opt/exporter")
    if own:
        home, jars = java_home(), build.kafka(shape)
        assert home is not None, "the preflight has asked for a Java"
        classes = class_archives(shape, home)
        java, server_java = (_java(home, classes / f"{of}.jsa") for of in ("kafka", "zookeeper"))
        folders, classpath = [home, jars, classes], kafka_settings.classpath(jars)
        if exporter:
            agent = build.kafka("exporter")
            folders.append(agent)
    kafka, servers = _kafka(namespace, broker_ports), _zookeeper(namespace, zookeeper_ports)
    fixed_brokers, fixed_servers = slot_addresses(slot)
    controllers = _controllers(namespace)
    members = [servers, kafka] if shape == "zookeeper" else [controllers, kafka] if controllers_apart else [kafka]
    apply([kafka_manifests.namespace(namespace)])
    objects: list[Object] = []
    for member, addresses in ((kafka, fixed_brokers), (servers, fixed_servers), (controllers, fixed_servers)):
        if member in members:
            objects += kafka_manifests.services(member, addresses if own else None, BROKERS)
    if own:
        objects += _volumes(members)
    apply(objects)
    brokers = fixed_brokers if own else _given_addresses(kafka)
    ensemble = {} if shape == "kraft" else fixed_servers if own else _given_addresses(servers)
    quorum: dict[int, str] = {}
    if controllers_apart:
        quorum = fixed_servers if own else _given_addresses(controllers)

    files = {"log4j.properties": kafka_settings.LOG4J, "log4j2.properties": kafka_settings.LOG4J2}
    for number in range(BROKERS):
        extra = {**(overrides or {}), **(broker_overrides or {}).get(number, {})}
        places = [list(addresses.values()) for addresses in (brokers, ensemble, quorum)]
        # A cluster's names are known in it alone, and the tests of a caller's cluster run outside.
        host = f"{kafka.pod(number)}.{namespace}.svc.{DNS_DOMAIN}" if own else None
        text = kafka_settings.broker(shape, number, places[0], places[1], extra, places[2], host)
        files[f"{number}.properties"] = text
    if exporter:
        files["exporter.yaml"] = kafka_settings.EXPORTER
    command = kafka_settings.start_broker(shape, java, classpath, _cluster_id(), str(agent) if exporter else None, heap)
    objects = [
        kafka_manifests.settings(kafka, files),
        kafka_manifests.stateful_set(kafka, image, command, folders, BROKERS, disks),
    ]
    if disruption_budget:
        objects.append(kafka_manifests.disruption_budget(kafka))
    if controllers_apart:
        texts = {
            f"{controllers.first + number}.properties": kafka_settings.controller(
                number, list(quorum.values()), overrides or {}
            )
            for number in range(BROKERS)
        }
        files = {"log4j2.properties": kafka_settings.LOG4J2, **texts}
        objects.insert(0, kafka_manifests.settings(controllers, files))
        objects.insert(1, kafka_manifests.stateful_set(controllers, image, command, folders, BROKERS))
    if shape == "zookeeper":
        text = kafka_settings.zookeeper(list(ensemble.values()), zookeeper_overrides or {})
        files = {**(zookeeper_files or {}), "log4j.properties": kafka_settings.LOG4J, "zookeeper.cfg": text}
        command = kafka_settings.start_zookeeper(server_java, classpath)
        objects.insert(0, kafka_manifests.settings(servers, files))
        objects.insert(1, kafka_manifests.stateful_set(servers, server_image, command, folders, BROKERS))
    apply(objects)
    deployment = KafkaDeployment(namespace, shape, brokers, ensemble, controllers_apart)
    if wait:
        try:
            deployment.wait_ready()
        except BaseException:
            # Brokers that go on trying would slow down all that comes after.
            deployment.undeploy(wait=False)
            raise
    return deployment


@contextmanager
def deployed(
    namespace: str, shape: Shape, overrides: Settings | None = None, slot: int = 0, **more: Any
) -> Iterator[KafkaDeployment]:
    """As by `deploy_kafka`, for as long as the block lasts."""
    deployment = deploy_kafka(namespace, shape, overrides, slot, **more)
    try:
        yield deployment
    finally:
        deployment.undeploy()


def _java(home: Path, archive: Path) -> str:
    """A Java that has Kafka's classes ready, if an archive of them could be made."""
    return f"{home}/bin/java" + (f" -XX:SharedArchiveFile={archive}" if archive.is_file() else "")


def _kafka(namespace: str, more: Mapping[str, int] | None = None) -> Member:
    ports = {"client": CLIENT_PORT, "controller": kafka_settings.CONTROLLER_PORT, **(more or {})}
    return Member("kafka", namespace, ports, CLIENT_PORT)


def _controllers(namespace: str) -> Member:
    port = kafka_settings.CONTROLLER_PORT
    return Member("controller", namespace, {"controller": port}, port, kafka_settings.FIRST_CONTROLLER)


def _zookeeper(namespace: str, more: Mapping[str, int] | None = None) -> Member:
    ports = {"client": kafka_settings.ZOOKEEPER_PORT, "follower": 2888, "election": 3888, **(more or {})}
    return Member("zookeeper", namespace, ports, kafka_settings.ZOOKEEPER_PORT)


def _disks(namespace: str) -> Path:
    return own_state().disks / namespace


def _volumes(members: list[Member]) -> list[Object]:
    objects: list[Object] = []
    for member in members:
        disks = _disks(member.namespace)
        for number in range(BROKERS):
            (disks / member.claim(number)).mkdir(parents=True, exist_ok=True)
        objects += kafka_manifests.volumes(member, disks, BROKERS)
    return objects


def _given_addresses(member: Member) -> dict[int, str]:
    return {
        number: get("service", member.pod(number), namespace=member.namespace)["spec"]["clusterIP"]
        for number in range(BROKERS)
    }


def _cluster_id() -> str:
    """A random identity in the form Kafka wants it, which may not begin with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
