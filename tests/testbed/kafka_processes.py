"""Kafka as bare processes: three brokers, and with ZooKeeper one server, each on a network of its own.

Without Kubernetes a broker stops and starts within seconds, and each kind of cluster stays up for many scripts. The
networks hang on a bridge in the network that the caller is in, which must not be the machine's own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.testbed import build, kafka_settings
from tests.testbed.class_archives import class_archives
from tests.testbed.kafka_settings import BROKERS, CLIENT_PORT, CONTROLLER_PORT, JVM, ZOOKEEPER_PORT, Settings, Shape
from tests.testbed.places import STATE_VARIABLE, own_state
from tests.testbed.preflight import java_home
from tests.testbed.steps import StepFailedError, tail, wait_for

START_SECONDS = 180.0
STOP_SECONDS = 60.0
BRIDGE, _LINK = "wires-medic", "medic-"
NETWORK = "10.97.0"
HOSTS: Mapping[Shape, int] = {"kraft": 10, "zookeeper": 20}
_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL", "--"]


def _run(*command: str, check: bool = True) -> int:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise StepFailedError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.returncode


def in_a_network_apart() -> bool:
    """Whether what this process changes in the network stays there: as in the testbed, or under `unshare --net`."""
    devices = {name for _, name in socket.if_nameindex()}
    return STATE_VARIABLE in os.environ or BRIDGE in devices or devices == {"lo"}


def _bridge() -> None:
    if not in_a_network_apart():
        raise StepFailedError("this is the machine's own network: run it in the testbed, or under `unshare --net`")
    if _run("ip", "link", "show", BRIDGE, check=False) != 0:
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "name", BRIDGE, "type", "bridge")
        _run("ip", "address", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
        _run("ip", "link", "set", BRIDGE, "up")


def _unbridge() -> None:
    """Nothing of ours stays in the network once no host hangs on the bridge."""
    if not any(name.startswith(_LINK) for _, name in socket.if_nameindex()):
        _run("ip", "link", "delete", BRIDGE, check=False)


class Host:
    """A network of its own with one address on the bridge. It stays while the process on it comes and goes."""

    def __init__(self, number: int) -> None:
        self._link = f"{_LINK}{number}"
        self.address = f"{NETWORK}.{number}"
        self._holder = subprocess.Popen([*_DIES_WITH_US, "unshare", "--net", "sleep", "infinity"])
        own = os.readlink("/proc/self/ns/net")
        wait_for("a network", lambda: os.readlink(f"/proc/{self._holder.pid}/ns/net") != own, 10, every=0.01)
        _run("ip", "link", "delete", self._link, check=False)
        _run("ip", "link", "add", "name", self._link, "type", "veth", "peer", "name", "eth0",
             "netns", str(self._holder.pid))  # fmt: skip
        _run("ip", "link", "set", self._link, "master", BRIDGE, "up")
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def enter(self, *command: str) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", "--", *command]

    def run(self, *command: str) -> None:
        _run(*self.enter(*command))

    def cut(self, port: int, *, outgoing: bool) -> None:
        """Refuse connections to that port here, and with `outgoing` also those from here to that port elsewhere.

        A reset ends what is open at once; packets that vanish would only make both ends slower to notice."""
        self._refuse("INPUT", "-i", "eth0", "--dport", port)
        if outgoing:
            self._refuse("OUTPUT", "-o", "eth0", "--dport", port)
            self._refuse("INPUT", "-i", "eth0", "--sport", port)

    def _refuse(self, chain: str, direction: str, device: str, match: str, port: int) -> None:
        rule = ["-p", "tcp", direction, device, match, str(port), "-j", "REJECT", "--reject-with", "tcp-reset"]
        self.run("iptables", "-w", "-A", chain, *rule)

    def mend(self) -> None:
        self.run("iptables", "-w", "-F")

    def close(self) -> None:
        _run("ip", "link", "delete", self._link, check=False)
        self._holder.kill()
        self._holder.wait()


@dataclass
class KafkaProcesses:
    """A cluster of three brokers, or of fewer, each with so many log directories. Start and stop are not shared between
    threads."""

    shape: Shape
    overrides: Settings = field(default_factory=dict)
    brokers: int = BROKERS
    disks: int = 1
    _place: Path = field(init=False)
    _hosts: dict[int, Host] = field(init=False, default_factory=dict)
    _running: dict[int, subprocess.Popen[bytes]] = field(init=False, default_factory=dict)
    _server: subprocess.Popen[bytes] | None = field(init=False, default=None)
    _server_host: Host | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        home = java_home()
        assert home is not None, "the preflight has asked for a Java"
        _bridge()
        self._jars = build.kafka(self.shape)
        self._classes = class_archives(self.shape, home)
        self._java = str(home / "bin" / "java")
        self._place = own_state().root / f"processes-{self.shape}"
        shutil.rmtree(self._place, ignore_errors=True)  # what a killed run left
        self._place.mkdir(parents=True)
        (self._place / "log4j.properties").write_text(kafka_settings.LOG4J)
        (self._place / "log4j2.properties").write_text(kafka_settings.LOG4J2)
        first = HOSTS[self.shape]
        self._hosts = {number: Host(first + number) for number in range(self.brokers)}
        ensemble: list[str] = []
        if self.shape == "zookeeper":
            self._server_host = Host(first + BROKERS)
            ensemble = [self._server_host.address]
            self._start_server()
        addresses = [host.address for host in self._hosts.values()]
        for number in range(self.brokers):
            settings = {"log.dirs": ",".join(map(str, self.log_dirs(number))), **self.overrides}
            text = kafka_settings.broker(self.shape, number, addresses, ensemble, settings)
            self._file(number).write_text(text)
            if self.shape == "kraft":
                tool = self._command("", "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID)
                _run(*tool, "-c", str(self._file(number)))
        for number in range(self.brokers):
            self.start(number, wait=False)
        for number in range(self.brokers):
            self._wait_listening(number)

    @property
    def bootstrap(self) -> str:
        return ",".join(self.address(number) for number in self._hosts)

    def address(self, broker: int) -> str:
        return f"{self._hosts[broker].address}:{CLIENT_PORT}"

    @property
    def zookeeper_connect(self) -> str:
        assert self._server_host is not None
        return f"{self._server_host.address}:{ZOOKEEPER_PORT}"

    @property
    def running(self) -> set[int]:
        return {number for number, process in self._running.items() if process.poll() is None}

    def log(self, broker: int) -> Path:
        return self._place / f"broker-{broker}.log"

    def start(self, broker: int, *, wait: bool = True) -> None:
        assert broker not in self.running
        command = self._command("kafka", "kafka.Kafka", str(self._file(broker)))
        with self.log(broker).open("ab") as output:
            self._running[broker] = subprocess.Popen(
                [*_DIES_WITH_US, *self._hosts[broker].enter(*command)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        if wait:
            self._wait_listening(broker)

    def stop(self, broker: int) -> None:
        """In good order, as a Pod that is deleted: the signal, and time to hand over."""
        self._end(broker, signal.SIGTERM)

    def kill(self, broker: int) -> None:
        self._end(broker, signal.SIGKILL)

    def _end(self, broker: int, how: signal.Signals) -> None:
        process = self._running.pop(broker)
        process.send_signal(how)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise StepFailedError(f"broker {broker} did not end: {tail(self.log(broker), 5)}") from None

    def cut(self, broker: int) -> None:
        """What the controller decides does not reach the broker any more. On KRaft the broker is fenced for it; with
        ZooKeeper the broker keeps its session and stays a member."""
        self._hosts[broker].cut(CONTROLLER_PORT, outgoing=self.shape == "kraft")

    def heal(self, broker: int) -> None:
        self._hosts[broker].mend()

    def close(self) -> None:
        for process in [*self._running.values(), *([self._server] if self._server else [])]:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        for host in [*self._hosts.values(), *([self._server_host] if self._server_host else [])]:
            host.close()
        _unbridge()
        shutil.rmtree(self._place, ignore_errors=True)

    def log_dirs(self, broker: int) -> list[Path]:
        return [self._place / f"disk-{broker}{'' if not n else f'-{n}'}" for n in range(self.disks)]

    def _file(self, broker: int) -> Path:
        return self._place / f"{broker}.properties"

    def _command(self, archive: str, *arguments: str) -> list[str]:
        shared = [f"-XX:SharedArchiveFile={self._classes / archive}.jsa"] if archive else []
        logging = [
            f"-Dlog4j.configuration=file:{self._place}/log4j.properties",
            f"-Dlog4j2.configurationFile={self._place}/log4j2.properties",
        ]
        return [self._java, *shared, *JVM.split(), *logging, "-cp", kafka_settings.classpath(self._jars), *arguments]

    def _start_server(self) -> None:
        assert self._server_host is not None
        text = kafka_settings.zookeeper([self._server_host.address], {"dataDir": str(self._place / "zookeeper")})
        alone = "".join(line for line in text.splitlines(True) if not line.startswith("server."))
        file = self._place / "zookeeper.cfg"
        file.write_text(alone)
        command = self._command("zookeeper", "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(file))
        log = self._place / "zookeeper.log"
        with log.open("ab") as output:
            self._server = subprocess.Popen(
                [*_DIES_WITH_US, *self._server_host.enter(*command)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self._wait_for_port(self._server, self._server_host.address, ZOOKEEPER_PORT, log)

    def _wait_listening(self, broker: int) -> None:
        self._wait_for_port(self._running[broker], self._hosts[broker].address, CLIENT_PORT, self.log(broker))

    @staticmethod
    def _wait_for_port(process: subprocess.Popen[bytes], address: str, port: int, log: Path) -> None:
        def listening() -> bool:
            if process.poll() is not None:
                raise StepFailedError(f"it ended (exit {process.returncode}): {_faults(log)}\n{tail(log, 5)}")
            with socket.socket() as probe:
                probe.settimeout(1)
                return probe.connect_ex((address, port)) == 0

        wait_for(f"{address}:{port}", listening, START_SECONDS, every=0.05)


def _faults(log: Path) -> str:
    """The errors of a broker's log. Its last lines tell of its end alone."""
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join([line for line in lines if " ERROR " in line or " FATAL " in line or "Exception" in line][-20:])
