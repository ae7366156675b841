"""Looks at a real cluster one of whose brokers hangs: how long they take, and what they see."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection, EnsembleConnection
from kafka_medic.clients.zookeeper import ZooKeeper
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from kafka_medic.observe.unnamed import AddressBook
from kafka_medic.observe.view_reads import ViewRotation
from tests.testbed import KafkaDeployment, faults

TIMEOUT = 2.0
HUNG = 2


@dataclass
class Watcher:
    """Looks as the operator does, reconcile after reconcile, with `spec.probes.timeout` 2 s."""

    kafka: KafkaDeployment
    book: AddressBook = field(default_factory=dict)
    rotation: ViewRotation = field(default_factory=ViewRotation)

    def __post_init__(self) -> None:
        self._client = RealKafka(Connection(self.kafka.bootstrap, timeout_seconds=TIMEOUT))
        connect = self.kafka.zookeeper_connect
        self._ensemble = ZooKeeper(EnsembleConnection(connect, timeout_seconds=TIMEOUT)) if connect else None

    def look(self) -> tuple[float, Snapshot]:
        began = time.monotonic()
        readers = ClusterReaders(self._client, self._ensemble)
        snapshot = observe_cluster("hung", readers, rotation=self.rotation, book=self.book)
        return time.monotonic() - began, snapshot

    def close(self) -> None:
        self._client.close()
        if self._ensemble is not None:
            self._ensemble.close()


@contextlib.contextmanager
def stopped(kafka: KafkaDeployment) -> Iterator[None]:
    """The broker's process is stopped: its port takes connections and nobody answers on them. After its session it is
    not registered any more."""
    faults.pause_broker(kafka, HUNG)
    try:
        yield
    finally:
        faults.resume_broker(kafka, HUNG)


@contextlib.contextmanager
def black_holed(kafka: KafkaDeployment) -> Iterator[None]:
    """No packet of ours reaches the broker, which is well and stays registered."""
    with faults.black_hole(kafka.broker_addresses[HUNG]):
        yield


FAULTS: dict[str, Callable[[KafkaDeployment], contextlib.AbstractContextManager[None]]] = {
    "stopped": stopped,
    "black-holed": black_holed,
}


def looks_while(kafka: KafkaDeployment, fault: str, count: int = 6) -> tuple[list[tuple[float, Snapshot]], float]:
    """So many looks at a cluster with this fault, one after the other, by somebody who has watched it before; and the
    seconds that the first look of a newcomer takes."""
    watcher, newcomer = Watcher(kafka), None
    try:
        for _ in range(2):
            watcher.look()
        with FAULTS[fault](kafka):
            found = [watcher.look() for _ in range(count)]
            newcomer = Watcher(kafka)
            return found, newcomer.look()[0]
    finally:
        watcher.close()
        if newcomer is not None:
            newcomer.close()


def told(kafka: KafkaDeployment, fault: str, found: list[tuple[float, Snapshot]], first: float) -> str:
    """One line for a person."""
    each = ", ".join(f"{seconds:.1f}" for seconds, _ in found)
    return f"{kafka.shape}, broker {fault}, timeout {TIMEOUT:g} s: looks of {each} s; a newcomer's first {first:.1f} s"
