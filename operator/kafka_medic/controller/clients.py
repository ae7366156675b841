"""How the operator reaches everything outside its process; tests put their own in its place."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kafka_medic.clients.certificates import served_chains
from kafka_medic.clients.destinations import Destinations
from kafka_medic.clients.ports import Connection, EnsembleConnection, Kafka
from kafka_medic.clients.tls import certificate_outcomes
from kafka_medic.clients.zookeeper import ZooKeeper
from kafka_medic.controller.canary import ConnectCanary
from kafka_medic.controller.compute_budget import COMPUTE_SECONDS
from kafka_medic.controller.events import Recorder
from kafka_medic.controller.former_certificate import Ask
from kafka_medic.controller.history import History
from kafka_medic.controller.lease import Starts
from kafka_medic.controller.metrics import Metrics
from kafka_medic.controller.plan_files import PlanFiles
from kafka_medic.controller.store import Store
from kafka_medic.observe.certificates import ReadServed
from kafka_medic.observe.metrics import exporters
from kafka_medic.observe.snapshot import MetricsReads


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Clients:
    """Shared by the Reconcilers of all KafkaClusters."""

    store: Store
    record: Recorder
    kafka: Callable[[Connection], Kafka]
    zookeeper: Callable[[EnsembleConnection], ZooKeeper]
    canary: ConnectCanary
    metrics: Callable[[int, float, Destinations | None], MetricsReads] = exporters
    ask_by_certificate: Ask = certificate_outcomes
    served_chains: ReadServed = served_chains
    destinations: Callable[[str], Destinations | None] = lambda _: None
    """Where the operator may connect to for a namespace."""
    now: Callable[[], datetime] = utc_now
    series: Metrics = field(default_factory=Metrics)
    monotonic: Callable[[], float] = time.monotonic
    files: PlanFiles = field(default_factory=lambda: PlanFiles(None))
    history: History = field(default_factory=History)
    most_at_once: int | None = None
    """KafkaClusters with a run under way at once; None: no limit."""
    compute_seconds: float = COMPUTE_SECONDS
    starts: Starts = field(default_factory=Starts)
    """Used where there is such a limit."""
