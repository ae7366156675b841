"""What Prometheus may scrape from the operator.

By its conventions: one prefix, base units, `_total` for what only grows, times as timestamps and not as ages. The
gauges of a cluster are as of its last reconcile, so that its series end with it; counters are removed by name.
Labels hold names of KafkaClusters, Remediations, Playbooks, sources, brokers, partitions of the canary and words of
closed vocabularies: no topic, no address, no message. Names of consumer groups only where an administrator wants them.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from platform import python_version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    start_http_server,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kafka_medic.cluster.clock import Skew
from kafka_medic.cluster.snapshot import NO_LEADER, Snapshot
from kafka_medic.controller.run_series import Family, run_families, shown
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.lag import Lag, Lags, lags
from kafka_medic.guard.breaker import BreakerReading, BreakerState
from kafka_medic.observe.canary import Outcome
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation import Remediation

Key = tuple[str, str]
"""(namespace, name) of a KafkaCluster."""

CLUSTER = ["namespace", "cluster"]
PROBE_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
MOST_GROUPS = 500
"""Consumer groups of one cluster that have series of their own: those below zero first, then those furthest behind."""
CANARY_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class _Now:
    """One KafkaCluster as of its last good reconcile."""

    at: datetime
    snapshot: Snapshot
    findings: tuple[Finding, ...]
    phases: tuple[Phase | None, ...]
    longest_leaderless_ms: int | None
    runs: tuple[Remediation, ...]
    breaker: BreakerReading | None
    lags: Lags | None


class Metrics(Collector):
    """All series of one operator process. Safe to be called from every worker and from the server's threads."""

    def __init__(self, skew: Callable[[], Skew | None] = lambda: None, consumer_groups: bool = False) -> None:
        """`skew`: of the API server's clock to this process's. `consumer_groups`: whether groups are named."""
        # A time of creation doubles each counter's series and serves no query here.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._consumer_groups = consumer_groups
        self._skew = skew
        self._now: dict[Key, _Now] = {}
        self._lease: dict[Key, bool | None] = {}
        registry = self.registry
        self._probe = Histogram(
            "kafka_medic_probe_duration_seconds", "How long one source took to read.", [*CLUSTER, "source"],
            buckets=PROBE_BUCKETS, registry=registry,
        )  # fmt: skip
        self._probes: dict[tuple[str, str, str], Histogram] = {}
        self._probe_failures = Counter(
            "kafka_medic_probe_failures_total", "Reads of a source that did not answer in full.", [*CLUSTER, "source"],
            registry=registry,
        )  # fmt: skip
        self._canary = Histogram(
            "kafka_medic_canary_latency_seconds",
            "From sending a record to its acknowledgement (stage produce) or to reading it back (stage consume).",
            [*CLUSTER, "broker", "partition", "stage"], buckets=CANARY_BUCKETS, registry=registry,
        )  # fmt: skip
        self._canary_failures = Counter(
            "kafka_medic_canary_failures_total", "Rounds in which a record did not get through.",
            [*CLUSTER, "broker", "partition"], registry=registry,
        )  # fmt: skip
        self._canary_dropped = Counter(
            "kafka_medic_canary_dropped_total",
            "Records not sent because the last one was still under way or the queue was full.", CLUSTER,
            registry=registry,
        )  # fmt: skip
        self._effects = Counter(
            "kafka_medic_effects_total", "Effects of Remediations, by outcome: sent or failed.", [*CLUSTER, "outcome"],
            registry=registry,
        )  # fmt: skip
        self._reconciles = Counter(
            "kafka_medic_reconciles_total", "Reconciles that ended well.", CLUSTER, registry=registry
        )
        registry.register(self)

    def serve(self, port: int) -> tuple[Callable[[], None], int]:
        """Answer /metrics on every address of this Pod (port 0: any free one). What ends it, and the port. Raises
        OSError when the port is taken."""
        server, thread = start_http_server(port, registry=self.registry)

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join(5)

        return stop, int(server.server_port)

    # -- called by the workers --------------------------------------------------------------------

    def observed(self, key: Key, snapshot: Snapshot) -> None:
        """A snapshot was taken."""
        for source in snapshot.sources:
            if source.duration_ms is not None:
                probe = self._probes.get((*key, source.name))
                if probe is None:
                    probe = self._probes[*key, source.name] = self._probe.labels(*key, source.name)
                probe.observe(source.duration_ms / 1000)
            if not source.known:
                self._probe_failures.labels(*key, source.name).inc()

    def reconciled(
        self,
        key: Key,
        at: datetime,
        snapshot: Snapshot,
        findings: Sequence[Finding],
        runs: Sequence[Remediation],
        longest_leaderless_ms: int | None,
        breaker: BreakerReading | None = None,
    ) -> None:
        """A reconcile has ended well."""
        before = self._now.get(key)
        phases = tuple(r.status.phase for r in runs)
        # Of a run that ended long ago its phase is enough: its plan may be long.
        self._now[key] = _Now(
            at, snapshot, tuple(findings), phases, longest_leaderless_ms, shown(runs, at), breaker, lags(snapshot)
        )
        self._reconciles.labels(*key).inc()
        if before is not None:
            for broker, partition in _led(before.snapshot) - _led(snapshot):
                gone = {"namespace": key[0], "cluster": key[1], "broker": broker, "partition": partition}
                self._canary.remove_by_labels(gone)
                self._canary_failures.remove_by_labels(gone)

    def lease(self, key: Key, held: bool | None) -> None:
        """Whether this process holds the cluster's Lease; None: unknown. The operator that holds
        it exports the cluster's series."""
        self._lease[key] = held
        if held is False:
            self._now.pop(key, None)

    def effect(self, key: Key, outcome: str) -> None:
        """An effect was `sent`, or `failed`."""
        self._effects.labels(*key, outcome).inc()

    def canary(self, key: Key) -> Callable[[Outcome], None]:
        """What the canary of one cluster calls with its outcomes."""

        def record(outcome: Outcome) -> None:
            if outcome.dropped:
                self._canary_dropped.labels(*key).inc()
                return
            where = (*key, _id(outcome.leader), str(outcome.partition))
            if outcome.produce_seconds is not None:
                self._canary.labels(*where, "produce").observe(outcome.produce_seconds)
            if outcome.consume_seconds is not None:
                self._canary.labels(*where, "consume").observe(outcome.consume_seconds)
            if outcome.error is not None:
                self._canary_failures.labels(*where).inc()

        return record

    def gone(self, key: Key) -> None:
        """The KafkaCluster is not watched any more: so are its series."""
        self._now.pop(key, None)
        self._lease.pop(key, None)
        self._probes = {labels: probe for labels, probe in self._probes.items() if labels[:2] != key}
        mine = {"namespace": key[0], "cluster": key[1]}
        for metric in (self._probe, self._probe_failures, self._canary, self._canary_failures, self._canary_dropped,
                       self._effects, self._reconciles):  # fmt: skip
            metric.remove_by_labels(mine)

    # -- called by Prometheus ---------------------------------------------------------------------

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What each cluster is like as of its last good reconcile."""
        build = GaugeMetricFamily(
            "kafka_medic_build_info", "Always 1; the labels say what runs.", labels=["version", "python"]
        )
        build.add_metric([_version(), python_version()], 1)
        lease = _family("kafka_medic_lease_held", "1 if this process holds the cluster's Lease.")
        for key, held in sorted(self._lease.items()):
            lease.add_metric(key, held is True)
        yield from (build, lease)
        skew = self._skew()
        if skew is not None:
            name = "kafka_medic_api_clock_skew_seconds"
            yield GaugeMetricFamily(name, "By how much the API server's clock is ahead of this process's.", skew.about)
        states = sorted(self._now.items())
        last = _family("kafka_medic_last_reconcile_timestamp_seconds", "When the last good reconcile ended.")
        findings = _family("kafka_medic_findings", "Findings.", "type", "severity", "state")
        known = _family("kafka_medic_source_known", "1 if the last read of the source answered.", "source")
        phases = _family("kafka_medic_remediations", "Remediations that exist.", "phase")
        diverged = _family("kafka_medic_diverged_brokers", "Brokers with a finding ViewDiverged.")
        leaderless = _family("kafka_medic_leaderless_partitions", "Partitions known to have no leader.")
        current = _family(
            "kafka_medic_leaderless_seconds",
            "How long some partition has had no leader, as of the last reconcile.",
        )
        longest = _family("kafka_medic_longest_leaderless_seconds", "The longest time that was ever seen.")
        for key, now in states:
            last.add_metric(key, now.at.timestamp())
            kinds = Tally((f.type, str(f.severity.value), str(f.state.value)) for f in now.findings)
            for labels, count in sorted(kinds.items()):
                findings.add_metric([*key, *labels], count)
            for source in now.snapshot.sources:
                known.add_metric([*key, source.name], source.known)
            for phase, count in sorted(Tally(str(p.value) if p else "New" for p in now.phases).items()):
                phases.add_metric([*key, phase], count)
            if now.snapshot.views is not None:
                diverged.add_metric(key, len(_diverged(now.findings)))
            number = _leaderless(now.snapshot)
            if number is not None:
                leaderless.add_metric(key, number)
                since = [f.since for f in now.findings if f.type == "PartitionLeaderless" and f.since is not None]
                lasted = max((now.at - moment).total_seconds() for moment in since) if since and number else 0.0
                current.add_metric(key, max(0.0, lasted))
            if now.longest_leaderless_ms is not None:
                longest.add_metric(key, now.longest_leaderless_ms / 1000)
        yield from (last, findings, known, phases, diverged, leaderless, current, longest)
        yield from _breaker_families([(key, now.breaker) for key, now in states if now.breaker is not None])
        yield from _exported(run_families([(key, run) for key, now in states for run in now.runs]))
        yield from self._lag_families([(key, now.lags) for key, now in states if now.lags is not None])

    def _lag_families(self, found: Sequence[tuple[Key, Lags]]) -> Iterator[GaugeMetricFamily]:
        """Records between committed offsets and log ends. Below zero where a group committed beyond the log end."""
        overall = _lag_of("kafka_medic_consumer_lag", "all consumer groups")
        each = _lag_of("kafka_medic_group_lag", "one consumer group", "group")
        left_out = _family("kafka_medic_groups_left_out", "Consumer groups without series of their own.")
        for key, read in found:
            if read.overall is not None:
                _add_lag(overall, [*key], read.overall)
            ranked = sorted(read.groups.items(), key=lambda g: (min(0, g[1].lowest), -g[1].highest, g[0]))
            for group, lag in ranked[:MOST_GROUPS] if self._consumer_groups else ():
                _add_lag(each, [*key, group], lag)
            left_out.add_metric(key, max(0, len(ranked) - MOST_GROUPS))
        yield from overall
        if self._consumer_groups:
            yield from (*each, left_out)


def _family(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=[*CLUSTER, *labels])


def _exported(families: Iterable[Family]) -> Iterator[GaugeMetricFamily]:
    for family in families:
        exported = GaugeMetricFamily(family.name, family.text, labels=family.labels)
        for labels, value in family.samples:
            exported.add_metric(labels, value)
        yield exported


def _breaker_families(found: Sequence[tuple[Key, BreakerReading]]) -> tuple[GaugeMetricFamily, ...]:
    states = _family("kafka_medic_breaker_state", "1 for the state of the circuit breaker, 0 for others.", "state")
    failures = _family("kafka_medic_breaker_failures", "Remediations in a row that failed or did not cure.")
    for key, reading in found:
        failures.add_metric(key, len(reading.bad))
        for state in BreakerState:
            states.add_metric([*key, state.value], reading.state is state)
    return states, failures


def _lag_of(prefix: str, whose: str, *labels: str) -> tuple[GaugeMetricFamily, ...]:
    behind = f"records behind the log end, over the partitions of {whose}; below zero: beyond the log end."
    lowest = _family(f"{prefix}_lowest", f"The fewest {behind}", *labels)
    highest = _family(f"{prefix}_highest", f"The most {behind}", *labels)
    return lowest, highest, _family(f"{prefix}_sum", f"The sum of {behind}", *labels)


def _add_lag(families: tuple[GaugeMetricFamily, ...], labels: Sequence[str], lag: Lag) -> None:
    for family, value in zip(families, (lag.lowest, lag.highest, lag.total), strict=True):
        family.add_metric(labels, value)


def _version() -> str:
    try:
        return version("kafka-medic")
    except PackageNotFoundError:  # run from a checkout
        return "unknown"


def _id(broker: int | None) -> str:
    return "none" if broker is None or broker == NO_LEADER else str(broker)


def _led(snapshot: Snapshot) -> set[tuple[str, str]]:
    """The series of the canary that are of today: who leads which of its partitions."""
    rows = [] if snapshot.canary is None else snapshot.canary.to_pylist()
    return {(_id(row["leader"]), str(row["partition"])) for row in rows}


def _diverged(findings: Sequence[Finding]) -> set[str]:
    return {name for f in findings if f.type == "ViewDiverged" for name in f.affected if name.startswith("broker-")}


def _leaderless(snapshot: Snapshot) -> int | None:
    """None when partitions are not known."""
    if snapshot.partitions is None:
        return None
    leaders = snapshot.partitions["leader"].to_numpy(zero_copy_only=False)
    return int((leaders == NO_LEADER).sum())
