"""Breaks things as they break in the field: a process that dies or hangs, a link that is cut.

Only in the testbed's own cluster: what is signalled and cut are its own processes and its own wires.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.testbed import cluster
from tests.testbed.cgroups import present
from tests.testbed.kafka import KafkaDeployment
from tests.testbed.kubectl import get, kubectl
from tests.testbed.places import own_state

_CHAIN = "KAFKA-MEDIC-CUTS"
_CLIENTS = "KAFKA-MEDIC-CLIENTS"
_MAKING = threading.Lock()


def processes_of(pod: dict[str, Any]) -> list[int]:
    """The numbers, on this machine, of the processes in a Pod's containers."""
    containers = {
        status["containerID"].partition("://")[2]
        for status in pod["status"].get("containerStatuses", [])
        if status.get("containerID")
    }
    found: set[int] = set()
    for group in present(own_state().cgroup):
        for folder in group.rglob("*"):
            if folder.name in containers and folder.is_dir():
                found.update(int(line) for line in (folder / "cgroup.procs").read_text().split())
    return sorted(found)


def _signal(deployment: KafkaDeployment, broker: int, number: signal.Signals) -> None:
    _signal_pod(deployment.namespace, deployment.pod_name(broker), number)


def _signal_pod(namespace: str, name: str, number: signal.Signals) -> None:
    targets = processes_of(get("pod", name, namespace=namespace))
    if not targets:
        raise RuntimeError(f"{name} runs no process")
    for target in targets:
        with contextlib.suppress(ProcessLookupError):
            os.kill(target, number)


def crash_broker(deployment: KafkaDeployment, broker: int, *, keep_down: bool = False) -> None:
    """Kill a broker without a word. It comes back by itself at once, unless it is to be kept down.

    Kept down, `deployment.start_broker` lets it come back.
    """
    if keep_down:
        kubectl("cordon", deployment.node_of(broker))
    _signal(deployment, broker, signal.SIGKILL)
    if keep_down:
        pod = deployment.pod_name(broker)
        kubectl("delete", "pod", pod, "-n", deployment.namespace, "--force", "--grace-period=0")


def fill_disk(deployment: KafkaDeployment, broker: int, place: str) -> None:
    """Write into a directory of the broker's Pod until nothing more fits on its file system."""
    process = processes_of(get("pod", deployment.pod_name(broker), namespace=deployment.namespace))[0]
    with contextlib.suppress(OSError), open(f"/proc/{process}/root{place}/filler", "wb", buffering=0) as file:
        while True:
            file.write(bytes(65536))


def pause_broker(deployment: KafkaDeployment, broker: int) -> None:
    """Freeze a broker: its port still accepts connections, nothing answers on them."""
    _signal(deployment, broker, signal.SIGSTOP)


def resume_broker(deployment: KafkaDeployment, broker: int) -> None:
    _signal(deployment, broker, signal.SIGCONT)


def pause(namespace: str, name: str) -> None:
    """Freeze any Pod's processes."""
    _signal_pod(namespace, name, signal.SIGSTOP)


def resume(namespace: str, name: str) -> None:
    _signal_pod(namespace, name, signal.SIGCONT)


def pod_address(namespace: str, name: str) -> str:
    """A Pod's present address; it changes with each restart."""
    address: str = get("pod", name, namespace=namespace)["status"]["podIP"]
    return address


def _iptables(*arguments: str, check: bool = True) -> int:
    command = cluster.enter_command(own_state(), ["iptables", "-w", "-t", "mangle", *arguments])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"iptables {' '.join(arguments)}: {done.stderr.strip()}")
    return done.returncode


def _make(chain: str, entered_from: str) -> None:
    with _MAKING:
        if _iptables("-n", "-L", chain, check=False) != 0:
            _iptables("-N", chain)
            _iptables("-I", entered_from, "-j", chain)


def cut(source: str, destination: str, port: int | None = None) -> None:
    """Let no packet pass between two Pod addresses, in either direction, until `mend`.

    With a port, only connections from the source to that port of the destination are cut.
    """
    _make(_CHAIN, "FORWARD")
    for rule in _rules(source, destination, port):
        _iptables("-A", _CHAIN, *rule)


def rejoin(source: str, destination: str, port: int | None = None) -> None:
    """Undo one cut, made with the same arguments, and no other."""
    for rule in _rules(source, destination, port):
        _iptables("-D", _CHAIN, *rule, check=False)


def _rules(source: str, destination: str, port: int | None) -> tuple[list[str], list[str]]:
    there = ["-p", "tcp", "--dport", str(port)] if port else []
    back = ["-p", "tcp", "--sport", str(port)] if port else []
    return ["-s", source, "-d", destination, *there, "-j", "DROP"], [
        "-s",
        destination,
        "-d",
        source,
        *back,
        "-j",
        "DROP",
    ]


def cut_clients(address: str, port: int, peers: Iterable[str]) -> None:
    """Let nobody but its peers reach that port of a Pod: the listener is there, its clients' packets are not."""
    # What programs of this machine send passes no FORWARD; by now a Service's address is the Pod's.
    _make(_CLIENTS, "POSTROUTING")
    for rule in _of_clients(address, port, peers):
        _iptables("-A", _CLIENTS, *rule)


def rejoin_clients(address: str, port: int, peers: Iterable[str]) -> None:
    """Undo one `cut_clients`, made with the same arguments, and no other."""
    for rule in _of_clients(address, port, peers):
        _iptables("-D", _CLIENTS, *rule, check=False)


def _of_clients(address: str, port: int, peers: Iterable[str]) -> list[tuple[str, ...]]:
    there = ("-d", address, "-p", "tcp", "--dport", str(port))
    return [*(("-s", peer, *there, "-j", "RETURN") for peer in peers), (*there, "-j", "DROP")]


def mend() -> None:
    """Undo every cut."""
    for chain in (_CHAIN, _CLIENTS):
        _iptables("-F", chain, check=False)


@contextlib.contextmanager
def black_hole(address: str) -> Iterator[None]:
    """Nothing that the testbed itself sends to the address arrives, as long as the block lasts. What Pods send does."""
    rule = ("OUTPUT", "-d", address, "-j", "DROP")
    _iptables("-A", *rule)
    try:
        yield
    finally:
        _iptables("-D", *rule)


@contextlib.contextmanager
def link_cut(source: str, destination: str, port: int | None = None) -> Iterator[None]:
    """A cut that is mended at the end of the block (with every other cut)."""
    cut(source, destination, port)
    try:
        yield
    finally:
        mend()


def tool_in_pod_network(namespace: str, name: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program of this machine in the network of a Pod (to see what the Pod sees)."""
    pod = get("pod", name, namespace=namespace)
    first = processes_of(pod)[0]
    network = Path(f"/proc/{first}/ns/net")
    return subprocess.run(["nsenter", f"--net={network}", "--", *command], capture_output=True, text=True, check=False)
