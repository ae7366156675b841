"""One turn of the loop for one KafkaCluster: observe, diagnose, propose, decide, write down, act.

Synchronous on purpose: a cluster has one worker and a turn has one order. Whatever fails ends the turn and the next one
starts from fresh reads; nothing that matters is kept in memory.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from kafka_medic.actuate.carry_out import carry_out
from kafka_medic.clients.destinations import Destinations
from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.clients.ports import Connection, EnsembleConnection, Kafka, ReadFailed, WriteFailed
from kafka_medic.clients.workloads import ScaledWorkloads
from kafka_medic.clients.zookeeper import ZooKeeper
from kafka_medic.cluster.concern import Concern
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.controller.backoff import Backoff, pause_after
from kafka_medic.controller.canary import CanaryKeeper, ConnectCanary
from kafka_medic.controller.deletion import gone, keep, to_keep
from kafka_medic.controller.events import Recorder, finding_notes, run_notes, so_far
from kafka_medic.controller.facts import other_runs, read_facts
from kafka_medic.controller.lease import ClusterLease, Starts
from kafka_medic.controller.memory import Recollection
from kafka_medic.controller.metrics import Metrics
from kafka_medic.controller.not_ready import write_not_ready
from kafka_medic.controller.overtime import Overtime, within
from kafka_medic.controller.pace import INVALID_SECONDS, NOT_OURS_SECONDS, retold_after, shortest_pause
from kafka_medic.controller.plan_files import PlanFiles
from kafka_medic.controller.plan_parts import publish, to_publish
from kafka_medic.controller.proposals import due, in_order
from kafka_medic.controller.status import cluster_status, remediation_allowed, unseen, without_times
from kafka_medic.controller.store import Store
from kafka_medic.controller.writes import kubernetes_writes
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.finding import Finding, FindingState
from kafka_medic.guard.breaker import BreakerState, breaker
from kafka_medic.guard.covered import uncovered
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.freshness import MAX_AGE, seconds_since_read
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.run import FleetUse
from kafka_medic.observe.connect import connection, ensemble_connection
from kafka_medic.observe.metrics import exporters
from kafka_medic.observe.offset_reads import answers
from kafka_medic.observe.pods import BrokerPods
from kafka_medic.observe.snapshot import ClusterReaders, MetricsReads, observe_cluster, unread_cluster
from kafka_medic.playbook.decision import SOON, Decision, DecisionContext
from kafka_medic.playbook.engine import decide
from kafka_medic.playbook.holding import may_be_sent
from kafka_medic.playbook.planning import questions
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import ACTING_PHASES, TERMINAL_PHASES, Phase
from kafka_medic.resources.remediation import Remediation

_LOG = logging.getLogger(__name__)


T = TypeVar("T")
DIAGNOSIS = "diagnosis"
COMPUTE_SECONDS = 60.0
"""Of processor time, for all that is computed of one cluster in a turn. Diagnosing 200,000 partitions takes one."""
OVERTIME_SECONDS, OVERTIME_MOST = 60.0, 3600.0
"""What was cut off is tried again after so long: the first time, and at most."""


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Clients:
    """How the outside is reached; tests put their own in its place."""

    store: Store
    record: Recorder
    kafka: Callable[[Connection], Kafka]
    zookeeper: Callable[[EnsembleConnection], ZooKeeper]
    canary: ConnectCanary
    metrics: Callable[[int, float, Destinations | None], MetricsReads] = exporters
    destinations: Callable[[str], Destinations | None] = lambda _: None
    """Where the operator may connect to for a namespace."""
    now: Callable[[], datetime] = utc_now
    series: Metrics = field(default_factory=Metrics)
    monotonic: Callable[[], float] = time.monotonic
    files: PlanFiles = field(default_factory=lambda: PlanFiles(None))
    most_at_once: int | None = None
    """KafkaClusters with a run under way at once; None: as many as there are."""
    compute_seconds: float = COMPUTE_SECONDS
    starts: Starts = field(default_factory=Starts)
    """Asked where there is such a limit."""


@dataclass(slots=True)
class Turn:
    """The turns of one KafkaCluster. `run()` answers after how many seconds the next one is due."""

    namespace: str
    name: str
    clients: Clients
    lease: Callable[[KafkaCluster], ClusterLease]
    _connected: tuple[Connection, Kafka] | None = None
    _zookeeper: tuple[object, ZooKeeper] | None = None
    _metrics: tuple[object, MetricsReads] | None = None
    _held: ClusterLease | None = None
    _begun: float = 0.0
    _previous: Snapshot | None = None
    _canary: CanaryKeeper = field(init=False)
    _recollection: Recollection = field(default_factory=Recollection)
    backoff: Backoff = field(default_factory=Backoff)
    _aside: dict[str, tuple[float, int]] = field(default_factory=dict)
    """What took too long to compute, a run by its uid: until when it is left alone, and how often it took too long."""
    _computed: float = 0.0
    """Seconds of processor time in this turn so far."""

    def __post_init__(self) -> None:
        self._canary = CanaryKeeper(self.clients.canary, self.clients.now, self.clients.series.canary(self.key))

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    def run(self) -> float:
        """One turn. Raises ApiFailure when the API server does not play along; `not_found` when the KafkaCluster is
        gone."""
        try:
            return self._run()
        finally:
            if self._held is not None:
                self._held.rested()

    def _run(self) -> float:
        cluster = self._present()
        if cluster is None:
            return INVALID_SECONDS
        interval = parse_duration(cluster.spec.probes.interval)
        if (held := self._hold(cluster)) is not True:
            return self._stand_by(interval, held)
        pause = self._reconcile(cluster, interval)
        return self._stand_by(interval) if pause is None else pause

    def _present(self) -> KafkaCluster | None:
        """None: this version cannot read it, and says so on it. Another version may, and so may take the Lease."""
        store = self.clients.store
        try:
            raw = store.cluster_raw(self.namespace, self.name)
        except ApiFailure as problem:
            if problem.not_found:
                self._let_go()
            raise
        try:
            return store.typed(KafkaCluster, raw)
        except ResourceError as problem:
            self._let_go()
            store.write_invalid(KafkaCluster, "Ready", raw, str(problem))
            return None

    def _reconcile(self, cluster: KafkaCluster, interval: float) -> float | None:
        """With the Lease held. Answers as `run`; None: the Lease was lost meanwhile, and nothing was written after
        that."""
        store = self.clients.store
        runs, unreadable = store.remediations(self.namespace, self.name)
        cluster, kept = keep(store, cluster, runs, unreadable)
        if gone(cluster):
            return interval
        runs = [self.clients.files.with_file(run) for run in kept]
        self.backoff.forget_but({run.uid or "" for run in runs if run.status.phase not in TERMINAL_PHASES})
        # A plan, a start and an effect all rest on guards that need every broker's view.
        needing = {*ACTING_PHASES, Phase.APPROVED, Phase.PLANNING}
        acting = bool(unreadable) or self._canary.changes or any(r.status.phase in needing for r in runs)
        resting = all(r.status.phase in TERMINAL_PHASES for r in runs)
        # The canary's topic gives each broker a leadership.
        about = Concern(everybody=self._canary.changes)
        self._recollection.before_look(cluster, self.clients.monotonic(), acting=acting, concern=about, resting=resting)
        snapshot = self._observe(cluster)
        if not self._kept():
            return None
        self._recollection.take_in(cluster, snapshot, self.clients.monotonic())
        self._computed = 0.0
        try:
            seen = self._within("the diagnosis", lambda: self._diagnose(cluster, snapshot, runs))
        except Overtime as problem:
            return self._not_diagnosed(problem)
        self._aside.pop(DIAGNOSIS, None)
        findings = seen + unseen(cluster.status.findings, seen, snapshot)
        self._previous = snapshot
        for note in finding_notes(cluster.status.findings, findings):
            self.clients.record(cluster, note)
        blocked = [f"Remediation {name} cannot be read by this version, so nothing is done" for name in unreadable]
        if cluster.metadata.deletion_timestamp is None and not unreadable:
            runs += self._propose(cluster, seen, runs, blocked)
        told = self._canary.keep(cluster, snapshot, self._connected, runs, unreadable, self._may_still_write)
        if told is not None:
            self.clients.record(cluster, told)
        requeue = self._advance_all(cluster, runs, snapshot, findings, blocked, interval)
        if not self._kept():
            return None
        self._write_status(cluster, snapshot, findings, runs, blocked)
        longest = cluster.status.longest_leaderless_ms
        self.clients.series.turned(self.key, self.clients.now(), snapshot, findings, runs, longest)
        return max(requeue, shortest_pause(snapshot))

    def _advance_all(
        self,
        cluster: KafkaCluster,
        runs: Sequence[Remediation],
        snapshot: Snapshot,
        findings: Sequence[Finding],
        blocked: list[str],
        requeue: float,
    ) -> float:
        """Seconds until the next turn. `blocked` gets why runs wait."""
        for run in in_order(runs):
            until, _ = self._aside.get(run.uid or "", (0.0, 0))
            if until > self.clients.monotonic():
                blocked.append(
                    f"{run.name}: {run.status.message.splitlines()[0] if run.status.message else 'set aside'}"
                )
                continue
            try:
                wanted = self._advance(cluster, run, snapshot, findings)
            except ApiFailure:
                raise
            except Overtime as problem:
                blocked.append(f"{run.name}: {self._set_aside(run, problem)}")
                return 0.0  # the others in a turn of their own, with all of its time
            except Exception:  # noqa: BLE001
                # A fault of ours with one run: no effect follows it, and the others and the status go on.
                _LOG.exception("%s: internal fault", run.name)
                blocked.append(f"internal fault with Remediation {run.name}; see the operator's log")
                continue
            if wanted.status.waiting_for:
                blocked += [f"{run.name}: {line}" for line in wanted.status.message.splitlines()[:1]]
            if wanted.requeue is not None:
                requeue = min(requeue, wanted.requeue)
            if to_keep(run, wanted.status.restore_owed) is not None:
                requeue = 0.0  # the next turn begins with holding it, or with letting it go
        return requeue

    def _within(self, what: str, compute: Callable[[], T]) -> T:
        """What is computed of one cluster in a turn shares one limit. Raises Overtime."""
        began = time.thread_time()
        try:
            return within(max(1.0, self.clients.compute_seconds - self._computed), what, compute)
        finally:
            self._computed += time.thread_time() - began

    def _paused(self, what: str) -> float:
        """Seconds for which it is left alone, longer each time."""
        count = self._aside.get(what, (0.0, 0))[1] + 1
        pause: float = min(OVERTIME_SECONDS * 2 ** (count - 1), OVERTIME_MOST)
        self._aside[what] = self.clients.monotonic() + pause, count
        return pause

    def _not_diagnosed(self, problem: Overtime) -> float:
        pause = self._paused(DIAGNOSIS)
        way_out = "Restrict spec.probes.consumerGroups, so that the operator has less to diagnose"
        message = f"{problem}; the operator retries within {OVERTIME_MOST:g} s. {way_out}"
        _LOG.warning("%s/%s: %s", self.namespace, self.name, message)
        write_not_ready(self.clients.store.api, self.namespace, self.name, "TookTooLong", message)
        return pause

    def _set_aside(self, run: Remediation, problem: Overtime) -> str:
        """Reported on the run, and left alone for a while. What it is to put back waits too."""
        pause = self._paused(run.uid or "")
        message = (
            f"{problem}; the operator retries in {pause:g} s. Delete this Remediation. Create another one with fewer "
            "topics, groups or partitions in spec.parameters"
        )
        _LOG.warning("%s: %s", run.name, message)
        status = run.status.model_copy(update={"message": message})
        if status.phase is not None and self._kept():
            self.clients.store.write_status(run, status)
        self.clients.record(run, ("Warning", "TookTooLong", message))
        return message

    def close(self) -> None:
        """Leave the cluster: the lease is free for the next operator, the connections are closed."""
        self._canary.stop()
        self.clients.series.gone(self.key)
        if self._held is not None:
            self._held.close()
        if self._connected is not None:
            self._connected[1].close()
        if self._zookeeper is not None:
            self._zookeeper[1].close()

    def _observe(self, cluster: KafkaCluster) -> Snapshot:
        def secret(name: str) -> Mapping[str, bytes]:
            return self.clients.store.secret(cluster, name)

        try:
            # Read anew in each turn: a rotated password or certificate counts from the next one.
            bounds = self._destinations
            wanted, ensemble = connection(cluster, secret, bounds), ensemble_connection(cluster, secret, bounds)
            if self._connected is None or self._connected[0] != wanted:
                if self._connected is not None:
                    self._connected[1].close()
                    self._connected = None
                self._connected = (wanted, self.clients.kafka(wanted))
        except ReadFailed as problem:
            return unread_cluster(cluster.name, str(problem), self.clients.now())
        if ensemble is not None and (self._zookeeper is None or self._zookeeper[0] != ensemble):
            if self._zookeeper is not None:
                self._zookeeper[1].close()
            self._zookeeper = (ensemble, self.clients.zookeeper(ensemble))
        brokers = cluster.spec.brokers
        pods = BrokerPods(self.clients.store.api, self.namespace, brokers) if brokers else None
        controllers = cluster.spec.controllers
        apart = BrokerPods(self.clients.store.api, self.namespace, controllers) if controllers else None
        readers = ClusterReaders(
            kafka=self._connected[1],
            zookeeper=self._zookeeper[1] if ensemble is not None and self._zookeeper else None,
            pods=pods.pods if pods else None,
            rollouts=(lambda: (*pods.rollouts(), *(apart.rollouts() if apart else ()))) if pods else None,
            controllers=apart.pods if apart else None,
            metrics=self._metrics_of(cluster, wanted.timeout_seconds),
            canary=self._canary.reader(cluster),
            groups=cluster.spec.probes.consumer_groups.wanted(),
        )
        seen = self._recollection
        kept = (seen.rotation, seen.addresses, seen.identities, seen.at_rest)
        snapshot = observe_cluster(cluster.name, readers, self.clients.now, *kept)
        self.clients.series.observed(self.key, snapshot)
        return snapshot

    def _metrics_of(self, cluster: KafkaCluster, seconds: float) -> MetricsReads | None:
        """The probe of the exporters, the same one turn after turn: a rate needs the page before."""
        port = cluster.spec.probes.metrics_port
        if port is None:
            self._metrics = None
        elif self._metrics is None or self._metrics[0] != (port, seconds):
            self._metrics = ((port, seconds), self.clients.metrics(port, seconds, self._destinations))
        return self._metrics[1] if self._metrics else None

    @property
    def _destinations(self) -> Destinations | None:
        return self.clients.destinations(self.namespace)

    def _diagnose(self, cluster: KafkaCluster, snapshot: Snapshot, runs: Sequence[Remediation]) -> tuple[Finding, ...]:
        plans = [r.status.plan for r in runs if r.status.phase in ACTING_PHASES and r.status.plan is not None]
        ours = frozenset(TopicPartition(c.topic, c.partition) for plan in plans for c in plan.changes)
        adding = [plan for plan in plans if plan.replication_factor is not None]
        ours |= self._canary.ours
        return diagnose(
            snapshot,
            previous=self._previous,
            expectations=Expectations.from_spec(cluster.spec.expectations),
            remembered={f.id: f.since for f in cluster.status.findings},
            fired=[f.id for f in cluster.status.findings if f.state is FindingState.FIRING],
            ours=ours,
            being_set=frozenset(c.resource_name for plan in adding for c in plan.config_changes),
            memory=self._recollection.memory,
        )

    def _propose(
        self, cluster: KafkaCluster, findings: Sequence[Finding], runs: Sequence[Remediation], blocked: list[str]
    ) -> list[Remediation]:
        """What is created now; what keeps a proposal from being created is added to `blocked`."""
        if not findings and not runs:
            return []
        playbooks = {p.name: p for p in self.clients.store.playbooks()}
        created = []
        for body in due(cluster, findings, playbooks, runs, self.clients.now()):
            run, taken = self.clients.store.propose(body)
            if run is not None:
                self.clients.record(cluster, ("Normal", "RemediationProposed", f"created Remediation {run.name}"))
                created.append(run)
            if taken:
                instead = f"it is proposed as {run.name}" if run is not None else "it is tried again"
                told = f"a proposal of {body['spec']['playbook']['name']} found its name taken by {some(taken, 3)}"
                self.clients.record(cluster, ("Warning", "NameTaken", f"{told}; {instead}"))
                blocked += [] if run is not None else [told]
        return created

    def _context(
        self, cluster: KafkaCluster, run: Remediation, snapshot: Snapshot, findings: Sequence[Finding]
    ) -> DecisionContext:
        """Everything but the snapshot is read here and now, so that the check before an effect is a fresh one."""
        store, now = self.clients.store, self.clients.now()
        playbook = store.playbook(run.spec.playbook.name)
        # Before all else: an answer of Kafka's may take long, and what permits an effect must not be older than it.
        asked = questions(run, cluster, playbook, snapshot, lambda: other_runs(store, cluster, run), now)
        kafka = None if self._connected is None else self._connected[1]
        told = answers(kafka, asked, ScaledWorkloads(store.api, self.namespace).read, self._recollection.paces)
        facts = read_facts(store, run, cluster, snapshot.cluster.id, now)
        return DecisionContext(
            snapshot=snapshot,
            cluster=cluster,
            playbook=playbook,
            approvals=facts.approvals,
            policies=facts.policies,
            others=facts.others,
            lease_held=self._held.confirm() if self._held else None,
            namesakes=facts.namesakes,
            findings=findings,
            now=self.clients.now(),
            reads=told,
            fleet=self._fleet(run),
            skew=store.api.skew,
            files=str(self.clients.files.directory) if self.clients.files.directory else None,
        )

    def _fleet(self, run: Remediation) -> FleetUse | None:
        """Read for a run that is to start alone: one that has begun is finished."""
        limit = self.clients.most_at_once
        if limit is None or run.status.phase is not Phase.APPROVED:
            return None
        return FleetUse(limit, self.clients.store.acting_elsewhere(self.namespace, self.name))

    def _advance(
        self, cluster: KafkaCluster, run: Remediation, snapshot: Snapshot, findings: Sequence[Finding]
    ) -> Decision:
        if self.clients.most_at_once is not None and run.status.phase is Phase.APPROVED:
            with self.clients.starts.passing() as ours:
                if not ours:
                    return Decision(run.status, requeue=SOON)
                return self._decide(cluster, run, snapshot, findings)
        return self._decide(cluster, run, snapshot, findings)

    def _decide(
        self, cluster: KafkaCluster, run: Remediation, snapshot: Snapshot, findings: Sequence[Finding]
    ) -> Decision:
        context = self._context(cluster, run, snapshot, findings)
        if context.lease_held is not True:
            return Decision(run.status)  # not ours any more: not even the status
        decision = self._within(f"deciding about {run.name}", lambda: decide(run, context))
        version = run.metadata.resource_version
        if decision.status != run.status:
            if not self._kept() or not self._may_begin(run):
                return Decision(run.status)
            # The intent is in the journal before the effect: a crash from here on is found out by observation.
            try:
                written = self.clients.files.filed(decision.status)
            except OSError as problem:
                self.clients.record(run, ("Warning", "PlanNotWritten", f"nothing is done without its file: {problem}"))
                return Decision(run.status)
            if (plan := to_publish(run.status, decision.status)) is not None:
                unpublished = publish(self.clients.store.api, run, plan)
                if unpublished is not None:
                    told = f"its changes can be read in its file alone: {unpublished}"
                    self.clients.record(run, ("Warning", "PlanNotPublished", told))
            version = self.clients.store.write_status(run, written)
            for note in run_notes(run.status, decision.status):
                self.clients.record(run, note)
            if decision.warning is not None:
                self.clients.record(run, ("Warning", *decision.warning))
        if decision.intent is None:
            return decision
        metadata = run.metadata.model_copy(update={"resource_version": version})
        begun = run.model_copy(update={"status": decision.status, "metadata": metadata})
        return self._act(cluster, begun, decision, findings)

    def _act(
        self, cluster: KafkaCluster, run: Remediation, decision: Decision, findings: Sequence[Finding]
    ) -> Decision:
        intent = decision.intent
        assert intent is not None
        key = run.uid or "", intent.id
        if left := self.backoff.left(key, self.clients.monotonic()):
            return Decision(decision.status, requeue=left)
        # Once more from fresh reads of everything, Kafka too: only if the same effect is still what is due, and every
        # guard still permits it, is it sent. Kafka has no compare-and-set for what we send.
        concerned = intent.concern()
        self._recollection.before_look(cluster, self.clients.monotonic(), acting=True, concern=concerned)
        latest = self._observe(cluster)
        until = self.clients.monotonic() - seconds_since_read(latest, self.clients.now()) + MAX_AGE  # it may take long
        cluster = self.clients.store.cluster(self.namespace, self.name)
        present = self.clients.store.remediation(self.namespace, run.name)
        if present.metadata.resource_version != run.metadata.resource_version:
            return Decision(decision.status, requeue=0.0)  # somebody wrote it, or asked for its deletion
        latest_context = self._context(cluster, run, latest, findings)
        again = self._within(f"deciding about {run.name}", lambda: decide(run, latest_context))
        if again.intent != intent:
            _LOG.warning("%s: held back %s: %s", run.name, intent.id, again.status.message)
            return Decision(decision.status, requeue=SOON)
        if not decision.restores and (missing := uncovered(latest, concerned)) is not None:
            _LOG.warning("%s: held back %s: %s", run.name, intent.id, missing)
            return Decision(decision.status, requeue=SOON)
        (entry,) = (e for e in decision.status.journal if e.id == intent.id)
        if not may_be_sent(entry, self.clients.now()):
            return Decision(decision.status, requeue=0.0)
        if decision.status.restore_owed and not decision.restores and not (run.held and cluster.held):
            return Decision(decision.status, requeue=0.0)  # first neither can be deleted, then it is sent
        assert self._connected is not None
        try:
            kafka, writes = self._connected[1], kubernetes_writes(self.clients.store.api, self.namespace)
            ensemble = self._zookeeper and self._zookeeper[1]
            carry_out(kafka, writes, intent, self._still_ours, lambda: self.clients.monotonic() <= until, ensemble)
        except WriteFailed as problem:
            self.clients.series.effect(self.key, "failed")
            count = self.backoff.failed(key, self.clients.monotonic())
            if count == 1:
                note = f"{intent.describe()}: {problem}; what is not done by then is tried again after a pause"
                self.clients.record(run, ("Warning", "EffectFailed", note))
            _LOG.warning("%s: %s failed %d times: %s", run.name, intent.id, count, problem)
            return Decision(decision.status, requeue=pause_after(count))
        self.clients.series.effect(self.key, "sent")
        self.backoff.succeeded(key)
        self.clients.record(run, ("Normal", "Effect", f"{intent.describe()}{so_far(decision.status)}"))
        return decision

    def _hold(self, cluster: KafkaCluster) -> bool | None:
        self._begun = self.clients.monotonic()
        self._held = self._held or self.lease(cluster)
        held = self._held.hold()
        self.clients.series.lease(self.key, held)
        return held

    def _stand_by(self, interval: float, held: bool | None = None) -> float:
        self._canary.stop()
        self.clients.series.lease(self.key, held)
        _LOG.info("%s/%s: another operator holds the lease, or it cannot be told", self.namespace, self.name)
        return min(interval, NOT_OURS_SECONDS)

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.release()

    def _kept(self) -> bool:
        """Whether the Lease was kept since the turn began. Sends no request: for what the API server itself fences, by
        the version of the object that is written."""
        return self._held is not None and self._held.held()

    def _may_begin(self, run: Remediation) -> bool:
        limited = self.clients.most_at_once is not None and run.status.phase is Phase.APPROVED
        return not limited or self.clients.starts.still()

    def _still_ours(self) -> bool:
        """For what Kafka and Kubernetes do not fence. The compare-and-set sees another operator's takeover, whatever
        the clocks say. The time is read after its answer: a process that stood still in it sends nothing."""
        return self._held is not None and self._held.confirm() is True and self._held.has_room()

    def _may_still_write(self) -> bool:
        """With what this turn has read, which a process that was stopped for a while may have read long ago."""
        return self._still_ours() and self.clients.monotonic() - self._begun <= MAX_AGE

    def _write_status(
        self,
        cluster: KafkaCluster,
        snapshot: Snapshot,
        findings: Sequence[Finding],
        runs: Sequence[Remediation],
        blocked: Sequence[str],
    ) -> None:
        treated = {
            r.spec.cause.finding_id: r.name for r in runs if r.spec.cause and r.status.phase not in TERMINAL_PHASES
        }
        reading = breaker(cluster.spec.remediation.breaker, [OtherRun.of(r) for r in runs], self.clients.now())
        tripped = reading.describe() if reading.state is BreakerState.OPEN else None
        store = self.clients.store
        # Words only: whatever acts reads the policies anew.
        policies = store.policies() if runs else store.policies_seen(self.clients.monotonic())
        skew = store.api.skew
        allowed = remediation_allowed(cluster, policies, blocked, tripped, skew)
        status = cluster_status(cluster, snapshot, findings, treated, allowed, self._recollection.memory)
        told = cluster.status.last_observed_at
        retold = told is None or snapshot.taken_at - told >= retold_after(parse_duration(cluster.spec.probes.interval))
        if retold or without_times(status) != without_times(cluster.status):
            self.clients.store.write_status(cluster, status)
