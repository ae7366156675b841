"""What Kafka and ZooKeeper are told in the testbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

Shape = Literal["kraft", "zookeeper"]
Settings = Mapping[str, object]

CLIENT_PORT = 9092
CONTROLLER_PORT = 9093
ZOOKEEPER_PORT = 2181
EXPORTER_PORT = 9404
BROKERS = 3
FIRST_CONTROLLER = 10
"""The id of the first controller, where they are no brokers."""
JVM = "-Xms128m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"

FACTOR_ONE: dict[str, object] = {
    "default.replication.factor": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "min.insync.replicas": 1,
}
"""The settings of a cluster that was grown from one broker and never told of it."""

_COMMON: dict[str, object] = {
    "auto.create.topics.enable": "false",
    "controlled.shutdown.enable": "true",
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "num.partitions": 3,
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "group.initial.rebalance.delay.ms": 0,
    "num.network.threads": 2,
    "num.io.threads": 4,
    # The default of 128 MB is half of the small heap.
    "log.cleaner.dedupe.buffer.size": 16777216,
    "log.dirs": "/data/kafka",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "listeners": f"PLAINTEXT://:{CLIENT_PORT},CONTROLLER://:{CONTROLLER_PORT}",
}


def broker(
    shape: Shape,
    number: int,
    brokers: Sequence[str],
    ensemble: Sequence[str],
    overrides: Settings,
    controllers: Sequence[str] = (),
    host: str | None = None,
) -> str:
    """One broker's properties file. An override of None takes a setting away. `controllers`: the addresses of those
    that are no brokers. `host`: the name to advertise instead of the address."""
    own = host or brokers[number]
    settings = {
        **_COMMON,
        "advertised.listeners": f"PLAINTEXT://{own}:{CLIENT_PORT},CONTROLLER://{own}:{CONTROLLER_PORT}",
        "broker.rack": f"zone-{number + 1}",
    }
    if controllers:
        settings |= {
            **_quorum(controllers, FIRST_CONTROLLER),
            "process.roles": "broker",
            "node.id": number,
            "listeners": f"PLAINTEXT://:{CLIENT_PORT}",
            "advertised.listeners": f"PLAINTEXT://{own}:{CLIENT_PORT}",
        }
    elif shape == "kraft":
        settings |= {**_quorum(brokers), "process.roles": "broker,controller", "node.id": number}
    else:
        settings |= {
            "broker.id": number,
            "zookeeper.connect": zookeeper_connect(ensemble),
            "zookeeper.session.timeout.ms": 6000,
            # What the controller tells a broker has a port of its own, so that a test can cut just that.
            "control.plane.listener.name": "CONTROLLER",
        }
    settings |= overrides
    return "".join(f"{key}={value}\n" for key, value in settings.items() if value is not None)


def controller(number: int, controllers: Sequence[str], overrides: Settings) -> str:
    """The properties file of a controller that is no broker."""
    settings = {
        **_COMMON,
        **_quorum(controllers, FIRST_CONTROLLER),
        "process.roles": "controller",
        "node.id": FIRST_CONTROLLER + number,
        "listeners": f"CONTROLLER://:{CONTROLLER_PORT}",
        **overrides,
        "inter.broker.listener.name": None,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items() if value is not None)


def _quorum(addresses: Sequence[str], first: int = 0) -> Settings:
    voters = ",".join(f"{first + index}@{address}:{CONTROLLER_PORT}" for index, address in enumerate(addresses))
    return {"controller.listener.names": "CONTROLLER", "controller.quorum.voters": voters}


def zookeeper_connect(ensemble: Sequence[str]) -> str:
    return ",".join(f"{address}:{ZOOKEEPER_PORT}" for address in ensemble)


def zookeeper(ensemble: Sequence[str], overrides: Settings) -> str:
    settings: dict[str, object] = {
        "tickTime": 1000,
        "initLimit": 20,
        "syncLimit": 10,
        "dataDir": "/data/zookeeper",
        "clientPort": ZOOKEEPER_PORT,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "*",
        # A server's own address in the list is a Service's, which no device of its Pod carries.
        "quorumListenOnAllIPs": "true",
    }
    settings |= {f"server.{index + 1}": f"{address}:2888:3888" for index, address in enumerate(ensemble)}
    settings |= overrides
    return "".join(f"{key}={value}\n" for key, value in settings.items() if value is not None)


LOG4J = """log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
LOG4J2 = """rootLogger.level=INFO
rootLogger.appenderRef.stdout.ref=stdout
appender.stdout.type=Console
appender.stdout.name=stdout
appender.stdout.layout.type=PatternLayout
appender.stdout.layout.pattern=[%d] %p %m (%c)%n
"""

EXPORTER = """rules:
- pattern: "kafka.server<type=app-info, id=(.+)><>Version: (.+)"
  name: kafka_server_app_version
  value: 1
  labels: {version: "$2"}
- pattern: ".*"
"""
"""docs/metrics.md's rule, and all else under the names that the exporter makes by itself."""

_NUMBER = "n=${HOSTNAME##*-}"


def classpath(jars: Path) -> str:
    """The jars in an order that does not depend on the file system, since an archive of classes is of one order."""
    return ":".join(str(jar) for jar in sorted(jars.glob("*.jar")))


def start_broker(
    shape: Shape, java: str, classpath: str, cluster_id: str, exporter: str | None = None, heap: str = ""
) -> str:
    """The shell line that becomes the broker; `exec`, so that the signal to stop reaches Kafka itself.

    `java` may bring options; `exporter` is the folder of the exporter's jar; `heap`: options instead of JVM's.
    """
    jvm = f"{JVM} {heap}".rstrip()
    agent = f" -javaagent:$(echo {exporter}/*.jar)={EXPORTER_PORT}:/config/exporter.yaml" if exporter else ""
    if shape == "zookeeper":
        logging = "-Dlog4j.configuration=file:/config/log4j.properties"
        return f"{_NUMBER}; exec {java}{agent} {jvm} {logging} -cp '{classpath}' kafka.Kafka /config/$n.properties"
    run = f"{jvm} -Dlog4j2.configurationFile=/config/log4j2.properties -cp '{classpath}'"
    first = f"{java} {run} kafka.tools.StorageTool format -t {cluster_id} -c /config/$n.properties"
    formatted = "[ -e /data/kafka/meta.properties ]"
    return f"{_NUMBER}; {formatted} || {first} || exit; exec {java}{agent} {run} kafka.Kafka /config/$n.properties"


def start_zookeeper(java: str, classpath: str) -> str:
    logging = "-Dlog4j.configuration=file:/config/log4j.properties"
    identity = f"{_NUMBER}; mkdir -p /data/zookeeper; echo $((n + 1)) > /data/zookeeper/myid"
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    return f"{identity}; exec {java} {JVM} {logging} -cp '{classpath}' {main} /config/zookeeper.cfg"
