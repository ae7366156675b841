"""What a broker's Prometheus exporter says of it: bytes from clients, their software, log recovery, version.

Understood are the names of the JMX exporter, both those that it makes without rules and those of the rules that Strimzi
and the JMX exporter's own example for Kafka come with. docs/metrics.md lists them.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_medic.clients.destinations import Destinations
from kafka_medic.clients.exporter import Sample, scrape
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.cluster.snapshot import ClientSoftware

WINDOW = 10.0
"""Seconds that a rate is measured over at least: a reconcile reads everything twice within moments before an effect.
In so short a time a busy broker may have nothing to show."""
MAX_CLIENTS = 100
MAX_WORD = 128
_HISTORY = 64
_GRACE = 1.0

_TOPICS = "kafka_server_brokertopicmetrics_"
_STATE = ("kafka_server_kafkaserver_value", "kafka_server_kafkaserver_brokerstate")
_LOGS = "kafka_log_logmanager_"
_CLIENTS = (
    "kafka_server_socket_server_metrics_connections",
    "kafka_server_socket_server_metrics_connections_software",
)
_VERSION = "kafka_server_app"
"""Of a rule's name `kafka_server_app_info` the exporter leaves this much."""
_BYTES_IN = ("bytesin_total", "bytesinpersec_total", "bytesin_count", "bytesinpersec_count")

RECOVERY = 2
SERVING = (3, 6, 7)
"""Values of the metric BrokerState: recovering, running, and on its way down in good order."""


@dataclass(frozen=True, slots=True)
class BrokerMetrics:
    """One page, read. `bytes_in` counts since the broker started; `bytes_in_last_minute` is the exporter's own rate,
    in bytes per second. What the page does not hold is None."""

    bytes_in: float | None = None
    bytes_in_last_minute: float | None = None
    state: int | None = None
    remaining_logs: int | None = None
    remaining_segments: int | None = None
    version: str | None = None
    clients: tuple[ClientSoftware, ...] | None = None

    @property
    def recovering(self) -> bool | None:
        """In the state RECOVERY, or with something left to recover. A broker that is only starting may yet begin."""
        if self.state == RECOVERY or self.remaining_logs or self.remaining_segments:
            return True
        return False if self.state in SERVING else None


@dataclass(frozen=True, slots=True)
class BrokerSigns:
    """A page, and the rate (bytes per second) that follows from it and the pages before it."""

    page: BrokerMetrics = field(default_factory=BrokerMetrics)
    bytes_in_rate: float | None = None


def wanted(line: bytes) -> bool:
    """Whether a line, in small letters, is one that is read. Single topics are not: there may be many thousands."""
    if line.startswith(b"kafka_server_brokertopicmetrics_"):
        return b'topic="' not in line
    if line.startswith(b"kafka_server_socket_server_metrics_connections"):
        return b"clientsoftwarename=" in line
    return line.startswith((b"kafka_server_kafkaserver_", b"kafka_log_logmanager_", b"kafka_server_app"))


def read_page(samples: Sequence[Sample]) -> BrokerMetrics:
    """Raises ReadFailed when nothing of Kafka is on the page."""
    if not samples:
        raise ReadFailed(FailureKind.OTHER, "the page has no Kafka metric of a name that is understood")
    page = BrokerMetrics(
        bytes_in=_one(s.value for s in samples if _is_bytes_in(s)),
        bytes_in_last_minute=_one(
            s.value for s in samples if s.name == f"{_TOPICS}oneminuterate" and _named(s, "bytesinpersec")
        ),
        state=_count(
            s.value for s in samples if s.name in _STATE and (s.name != _STATE[0] or _named(s, "brokerstate"))
        ),
        remaining_logs=_left(samples, "remaininglogstorecover"),
        remaining_segments=_left(samples, "remainingsegmentstorecover"),
        version=next((v for s in samples if s.name.startswith(_VERSION) and (v := _word(s, "version"))), None),
        clients=_clients(samples),
    )
    if page == BrokerMetrics():
        raise ReadFailed(FailureKind.OTHER, "the page has no Kafka metric of a name that is understood")
    return page


def _named(sample: Sample, name: str) -> bool:
    return sample.labels.get("name", "").lower() == name


def _is_bytes_in(sample: Sample) -> bool:
    if not sample.name.startswith(_TOPICS):
        return False
    rest = sample.name.removeprefix(_TOPICS)
    return rest in _BYTES_IN or (rest in ("count", "count_total") and _named(sample, "bytesinpersec"))


def _one(values: Iterable[float]) -> float | None:
    """The only value; None when there is none, or several that differ, or one that is no quantity."""
    found = set(values)
    value = found.pop() if len(found) == 1 else None
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def _count(values: Iterable[float]) -> int | None:
    value = _one(values)
    return int(value) if value is not None and value == int(value) and value < 2**53 else None


def _left(samples: Sequence[Sample], what: str) -> int | None:
    """The sum over the log directories and threads; None as soon as one of them is no count."""
    values = [
        _count([s.value])
        for s in samples
        if s.name == f"{_LOGS}{what}" or (s.name == f"{_LOGS}value" and _named(s, what))
    ]
    return sum(v for v in values if v is not None) if values and None not in values else None


def _word(sample: Sample, label: str) -> str | None:
    text = sample.labels.get(label, "").strip()
    return text if text and len(text) <= MAX_WORD and text.isprintable() else None


def _clients(samples: Sequence[Sample]) -> tuple[ClientSoftware, ...] | None:
    found: dict[tuple[str, str], int] = {}
    reported = False
    for sample in samples:
        if sample.name not in _CLIENTS:
            continue
        reported = True
        name, version = _word(sample, "clientsoftwarename"), _word(sample, "clientsoftwareversion")
        connections = _count([sample.value])
        if name and version and connections:
            found[name, version] = found.get((name, version), 0) + connections
    # Who has most connections is kept, should somebody invent a name for each of his own.
    most = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:MAX_CLIENTS]
    return tuple(ClientSoftware(n, v, c) for (n, v), c in sorted(most)) if reported else None


Scrape = Callable[
    [Mapping[int, tuple[str, int]], Callable[[bytes], bool], float], Mapping[int, list[Sample] | ReadFailed]
]
Answer = Mapping[int, BrokerSigns | ReadFailed]


@dataclass(slots=True)
class MetricsProbe:
    """Reads the exporters of one cluster, time after time: a rate is the difference of two counters, and the probe
    remembers the earlier ones. Not shared between threads."""

    port: int
    seconds: float
    scrape: Scrape = scrape
    now: Callable[[], float] = time.monotonic
    _history: dict[int, deque[tuple[float, float]]] = field(default_factory=dict)

    def begin(self, hosts: Mapping[int, str]) -> Callable[[], Answer]:
        """Start to read, beside whatever else is being read. The function that is returned waits for the answer, no
        longer than `seconds` after the beginning; it raises ReadFailed when no broker's page could be read."""
        pages: dict[int, list[Sample] | ReadFailed] = {}
        faults: list[Exception] = []
        addresses = {broker: (host, self.port) for broker, host in hosts.items()}

        def read() -> None:
            try:
                pages.update(self.scrape(addresses, wanted, self.seconds))
            except Exception as fault:  # noqa: BLE001
                faults.append(fault)  # raised where somebody hears it

        deadline = self.now() + self.seconds + _GRACE
        reader = threading.Thread(target=read, name="metrics", daemon=True)
        reader.start()

        def answer() -> Answer:
            reader.join(max(0.0, deadline - self.now()))
            if faults:
                raise faults[0]
            if reader.is_alive():
                raise ReadFailed(FailureKind.UNREACHABLE, f"the exporters did not answer within {self.seconds:g} s")
            return self._signs(pages)

        return answer

    def _signs(self, pages: Mapping[int, list[Sample] | ReadFailed]) -> Answer:
        found: dict[int, BrokerSigns | ReadFailed] = {}
        for broker, samples in sorted(pages.items()):
            try:
                if isinstance(samples, ReadFailed):
                    raise samples
                page = read_page(samples)
                found[broker] = BrokerSigns(page, self._rate(broker, page))
            except ReadFailed as problem:
                found[broker] = problem
        self._history = {b: h for b, h in self._history.items() if b in pages}
        failed = {b: p for b, p in found.items() if isinstance(p, ReadFailed)}
        if failed and len(failed) == len(found):
            first = next(iter(failed.values()))
            raise ReadFailed(first.kind, named_failures(found) or "")
        return found

    def _rate(self, broker: int, page: BrokerMetrics) -> float | None:
        """Bytes per second over the shortest time of WINDOW or more; the exporter's own rate while there is no page
        old enough. A counter that went back is a broker that started anew: nothing is known until the next one."""
        if page.bytes_in is None:
            self._history.pop(broker, None)
            return page.bytes_in_last_minute
        now, history = self.now(), self._history.setdefault(broker, deque(maxlen=_HISTORY))
        if history and page.bytes_in < history[-1][1]:
            history.clear()
        while len(history) > 1 and now - history[1][0] >= WINDOW:
            history.popleft()
        rate = page.bytes_in_last_minute
        if history and now - history[0][0] >= WINDOW:
            rate = (page.bytes_in - history[0][1]) / (now - history[0][0])
        history.append((now, page.bytes_in))
        return rate


def named_failures(answer: Mapping[int, object], most: int = 5) -> str | None:
    """Which brokers failed, and why; None when none did."""
    failed = [f"broker {b}: {p}" for b, p in answer.items() if isinstance(p, ReadFailed)]
    more = f"; and {len(failed) - most} more" if len(failed) > most else ""
    return "; ".join(failed[:most]) + more if failed else None


def exporters(port: int, seconds: float, destinations: Destinations | None) -> MetricsProbe:
    """The real ones, within the bounds of a namespace."""
    return MetricsProbe(port, seconds, functools.partial(scrape, destinations=destinations))
