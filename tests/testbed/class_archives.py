"""What a JVM of Kafka's loads at its start, kept so that the next one maps it instead (JEP 350, dynamic CDS archives).

Starting brokers is most of what the testbed's processors do, and loading classes is most of that.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.testbed import build, kafka_settings
from tests.testbed.cache import digest, ensure
from tests.testbed.kafka_settings import JVM, Shape
from tests.testbed.steps import StepFailedError, say, tail, wait_for

_START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def class_archives(shape: Shape, java: Path) -> Path:
    """The folder with `kafka.jsa` and, where the shape has it, `zookeeper.jsa`: of these jars and this Java alone.

    A JVM that an archive does not fit goes on without it. One that cannot be made is left out, and said so.
    """
    jars = build.kafka(shape)

    def make(folder: Path, log: Path) -> None:
        try:
            _run_once(shape, java, jars, folder, log)
        except (StepFailedError, subprocess.TimeoutExpired) as problem:
            say(f"  no archive of Kafka's classes ({shape}), brokers will start more slowly: {problem} (log: {log})")

    release = java / "release"
    version = release.read_text() if release.is_file() else str(java)
    key = digest(str(jars), version, JVM, Path(__file__).read_text())
    return ensure("kafka-classes", shape, key, f"archive of Kafka's classes ({shape})", make)


def _run_once(shape: Shape, java: Path, jars: Path, folder: Path, log: Path) -> None:
    """Start one broker (and one ZooKeeper server) on loopback, and let each write its archive as it stops."""
    program = str(java / "bin" / "java")
    classpath = kafka_settings.classpath(jars)
    port, second = _free_ports(2)
    with tempfile.TemporaryDirectory(prefix="kafka-medic-classes-") as scratch, contextlib.ExitStack() as running:
        place = Path(scratch)
        (place / "log4j.properties").write_text(kafka_settings.LOG4J)
        (place / "log4j2.properties").write_text(kafka_settings.LOG4J2)
        logging = [
            f"-Dlog4j.configuration=file:{place}/log4j.properties",
            f"-Dlog4j2.configurationFile={place}/log4j2.properties",
        ]

        def command(name: str, *arguments: str) -> list[str]:
            archive = [f"-XX:ArchiveClassesAtExit={folder / name}.jsa"] if name else []
            return [program, *JVM.split(), *archive, *logging, "-cp", classpath, *arguments]

        settings = {
            "log.dirs": f"{place}/kafka",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "offsets.topic.replication.factor": 1,
            "log.cleaner.dedupe.buffer.size": 16777216,
        }
        if shape == "kraft":
            settings |= {
                "process.roles": "broker,controller",
                "node.id": 1,
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": f"1@127.0.0.1:{second}",
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{second}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            }
        else:
            settings |= {"broker.id": 1, "zookeeper.connect": f"127.0.0.1:{second}"}
            server = place / "zookeeper.cfg"
            server.write_text(
                f"dataDir={place}/zookeeper\nclientPort={second}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
            )
            main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
            running.enter_context(_running(command("zookeeper", main, str(server)), second, log))
        broker = place / "server.properties"
        broker.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        if shape == "kraft":
            tool = command("", "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(broker))
            with log.open("ab") as output:
                subprocess.run(tool, stdout=output, stderr=subprocess.STDOUT, check=False, timeout=_START_SECONDS)
        with _running(command("kafka", "kafka.Kafka", str(broker)), port, log):
            pass


@contextlib.contextmanager
def _running(command: Sequence[str], port: int, log: Path) -> Iterator[None]:
    """A server until its port takes connections; at the end it is stopped in good order."""
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)

    def listening() -> bool:
        if process.poll() is not None:
            raise StepFailedError(f"it ended (exit {process.returncode}): {tail(log, 3)}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_for("a first start of Kafka", listening, _START_SECONDS)
        yield
        process.terminate()
        process.wait(_STOP_SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        taken = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]
