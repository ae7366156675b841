"""The reconcile of one KafkaCluster: observe, diagnose, propose, decide, write down, act.

Synchronous on purpose: a cluster has one worker and a reconcile has one order. Whatever fails ends the reconcile, and
the next one starts from fresh reads; nothing that matters is kept in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.cluster.concern import Concern
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.controller.backoff import Backoff
from kafka_medic.controller.canary import CanaryKeeper
from kafka_medic.controller.clients import Clients
from kafka_medic.controller.compute_budget import LONGEST_PAUSE, ComputeBudget
from kafka_medic.controller.deletion import gone, keep
from kafka_medic.controller.events import finding_notes
from kafka_medic.controller.held_lease import HeldLease
from kafka_medic.controller.lease import ClusterLease
from kafka_medic.controller.not_ready import write_not_ready
from kafka_medic.controller.observer import Observer
from kafka_medic.controller.overtime import Overtime
from kafka_medic.controller.pace import (
    INVALID_SECONDS,
    NOT_OURS_SECONDS,
    STRIMZI_SECONDS,
    rewritten_after,
    shortest_pause,
)
from kafka_medic.controller.proposals import delete_delays, due
from kafka_medic.controller.run_reconciler import RunReconciler
from kafka_medic.controller.status import cluster_status, remediation_allowed, unseen, without_times
from kafka_medic.controller.strimzi import with_strimzi
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.finding import Finding, FindingState
from kafka_medic.guard.breaker import BreakerReading, BreakerState, breaker
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.leaving import departed_brokers, leaving_brokers
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.observe.strimzi_cluster import NotDerivedError
from kafka_medic.playbook.registry import sent_away_by
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.kafkacluster_status import StrimziStatus
from kafka_medic.resources.phases import ACTING_PHASES, TERMINAL_PHASES, Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import LogDirMoves, ReplicaMoves, SettingChanges

_LOG = logging.getLogger(__name__)

DIAGNOSIS = "diagnosis"
NEEDS_EVERY_VIEW = frozenset({*ACTING_PHASES, Phase.APPROVED, Phase.PLANNING})
"""A plan, a start and an effect all rest on guards that need every broker's view."""


@dataclass(slots=True)
class Reconciler:
    """Reconciles one KafkaCluster. `reconcile()` returns after how many seconds the next one is due."""

    namespace: str
    name: str
    clients: Clients
    lease: Callable[[KafkaCluster], ClusterLease]
    backoff: Backoff = field(default_factory=Backoff)
    _canary: CanaryKeeper = field(init=False)
    _observer: Observer = field(init=False)
    _held: HeldLease = field(init=False)
    _budget: ComputeBudget = field(default_factory=ComputeBudget)
    _runs: RunReconciler = field(init=False)
    _previous: Snapshot | None = None
    _strimzi: StrimziStatus | None = None

    def __post_init__(self) -> None:
        clients = self.clients
        self._canary = CanaryKeeper(clients.canary, clients.now, clients.series.canary(self.key))
        self._observer = Observer(self.namespace, self.name, clients, self._canary.reader)
        self._held = HeldLease(clients.monotonic)
        parts = self._held, self._observer, self._budget, self.backoff
        self._runs = RunReconciler(self.namespace, self.name, clients, *parts)

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    def reconcile(self) -> float:
        """One reconcile. Raises ApiFailure when a request to the API server fails; `not_found` when the KafkaCluster is
        gone."""
        try:
            cluster = self._read_cluster()
            if isinstance(cluster, float):
                return cluster
            interval = parse_duration(cluster.spec.probes.interval)
            held = self._held.take(lambda: self.lease(cluster))
            self.clients.series.lease(self.key, held)
            if held is not True:
                return self._stand_by(interval, held)
            pause = self._reconcile(cluster, interval)
            return self._stand_by(interval) if pause is None else pause
        finally:
            self._held.rest()

    def close(self) -> None:
        """Leave the cluster: the lease is free for the next operator, the connections are closed."""
        self._canary.stop()
        self.clients.series.gone(self.key)
        self._held.close()
        self._observer.close()

    def _read_cluster(self) -> KafkaCluster | float:
        """Seconds until it is read again, if this version cannot read it, or Strimzi's resources do not say enough. Its
        status then reports that. Another version may be able to, so that the Lease is free for it."""
        store = self.clients.store
        try:
            raw = store.cluster_raw(self.namespace, self.name)
        except ApiFailure as problem:
            if problem.not_found:
                self._held.release()
            raise
        try:
            cluster, self._strimzi = with_strimzi(store.api, store.typed(KafkaCluster, raw))
        except ResourceError as problem:
            self._held.release()
            store.write_invalid(KafkaCluster, "Ready", raw, str(problem))
            return INVALID_SECONDS
        except NotDerivedError as problem:
            self._held.release()
            write_not_ready(store.api, self.namespace, self.name, "StrimziNotUsable", str(problem))
            return STRIMZI_SECONDS
        return cluster

    def _stand_by(self, interval: float, held: bool | None = None) -> float:
        self._canary.stop()
        self.clients.series.lease(self.key, held)
        pause = min(interval, NOT_OURS_SECONDS)
        why = "held by another operator" if held is False else "held by another operator or unreadable"
        _LOG.info("%s/%s: Lease %s; retrying in %g s", self.namespace, self.name, why, pause)
        return pause

    def _reconcile(self, cluster: KafkaCluster, interval: float) -> float | None:
        """With the Lease held. Returns as `reconcile`; None: the Lease was lost meanwhile, and nothing was written
        after that."""
        cluster, runs, unreadable = self._read_runs(cluster)
        if gone(cluster):
            return interval
        snapshot = self._observe(cluster, runs, unreadable)
        if not self._held.kept():
            return None
        self.clients.history.offer(cluster, snapshot)
        try:
            seen = self._diagnose_within_budget(cluster, snapshot, runs)
        except Overtime as problem:
            return self._report_no_diagnosis(problem)
        findings = seen + unseen(cluster.status.findings, seen, snapshot)
        restarting = {broker: f"{run.KIND} {run.name}" for run in runs for broker in sent_away_by(run)}
        for note in finding_notes(cluster.status.findings, findings, restarting):
            self.clients.record(cluster, note)
        blocked = [
            f"Remediation {name} cannot be read by this version, so the operator changes nothing" for name in unreadable
        ]
        if cluster.metadata.deletion_timestamp is None and not unreadable:
            created, taken = self._propose(cluster, snapshot, seen, runs)
            runs, blocked = runs + created, blocked + taken
        self._keep_canary(cluster, snapshot, runs, unreadable)
        requeue, waits = self._runs.reconcile_all(cluster, runs, snapshot, findings, interval)
        if not self._held.kept():
            return None
        self._write_status(cluster, snapshot, findings, runs, blocked + waits)
        longest, now = cluster.status.longest_leaderless_ms, self.clients.now()
        tripped = self._breaker(cluster, runs)
        self.clients.series.reconciled(self.key, now, snapshot, findings, runs, longest, tripped)
        return max(requeue, shortest_pause(snapshot))

    def _read_runs(self, cluster: KafkaCluster) -> tuple[KafkaCluster, list[Remediation], list[str]]:
        """The cluster and its Remediations, with their finalizers as they should be, and the names of Remediations that
        cannot be read."""
        runs, unreadable = self.clients.store.remediations(self.namespace, self.name)
        cluster, kept = keep(self.clients.store, cluster, runs, unreadable)
        if gone(cluster):
            return cluster, [], unreadable
        runs = [self.clients.files.with_file(run) for run in kept]
        self.backoff.forget_but({run.uid or "" for run in runs if run.status.phase not in TERMINAL_PHASES})
        return cluster, runs, unreadable

    def _observe(self, cluster: KafkaCluster, runs: Sequence[Remediation], unreadable: Sequence[str]) -> Snapshot:
        phases = [run.status.phase for run in runs]
        acting = bool(unreadable) or self._canary.changes or any(phase in NEEDS_EVERY_VIEW for phase in phases)
        resting = all(phase in TERMINAL_PHASES for phase in phases)
        # The canary's topic gives each broker a leadership.
        about = Concern(everybody=self._canary.changes, topics=_planned_topics(runs))
        kept_state, now = self._observer.kept_state, self.clients.monotonic()
        kept_state.before_observation(cluster, now, acting=acting, concern=about, resting=resting)
        return self._observer.observe(cluster)

    def _diagnose_within_budget(
        self, cluster: KafkaCluster, snapshot: Snapshot, runs: Sequence[Remediation]
    ) -> tuple[Finding, ...]:
        """Raises Overtime."""
        self._observer.kept_state.update(cluster, snapshot, self.clients.monotonic())
        self._budget.begin()
        limit = self.clients.compute_seconds
        seen = self._budget.within(limit, "the diagnosis", lambda: self._diagnose(cluster, snapshot, runs))
        self._budget.succeeded(DIAGNOSIS)
        self._previous = snapshot
        return seen

    def _diagnose(self, cluster: KafkaCluster, snapshot: Snapshot, runs: Sequence[Remediation]) -> tuple[Finding, ...]:
        acting = [(r.status, r.status.plan) for r in runs if r.status.phase in ACTING_PHASES]
        plans = [plan for _, plan in acting if plan is not None]
        moves = [plan.part(ReplicaMoves) for plan in plans]
        ours = frozenset(TopicPartition(c.topic, c.partition) for own in moves for c in own.changes)
        adding = [plan for plan, own in zip(plans, moves, strict=True) if own.replication_factor is not None]
        return diagnose(
            snapshot,
            previous=self._previous,
            expectations=Expectations.from_spec(cluster.spec.expectations),
            remembered={f.id: f.since for f in cluster.status.findings},
            fired=[f.id for f in cluster.status.findings if f.state is FindingState.FIRING],
            ours=ours | self._canary.ours,
            being_set=frozenset(c.resource_name for plan in adding for c in plan.part(SettingChanges).config_changes),
            throttling=any(
                (status.phase in (Phase.RUNNING, Phase.VERIFYING) or status.restore_owed)
                and plan is not None
                and (plan.part(ReplicaMoves).changes or plan.part(LogDirMoves).each())
                for status, plan in acting
            ),
            memory=self._observer.kept_state.memory,
            skew=self.clients.store.api.skew,
            leaving=leaving_brokers(self._strimzi, [OtherRun.of(run) for run in runs], cluster.status.departed_brokers),
        )

    def _report_no_diagnosis(self, problem: Overtime) -> float:
        """Seconds until the next reconcile."""
        pause = self._budget.pause(DIAGNOSIS, self.clients.monotonic())
        way_out = "Restrict spec.probes.consumerGroups"
        message = f"{problem}; the operator retries within {LONGEST_PAUSE:g} s. {way_out}"
        _LOG.warning("%s/%s: %s", self.namespace, self.name, message)
        write_not_ready(self.clients.store.api, self.namespace, self.name, "TookTooLong", message)
        return pause

    def _propose(
        self, cluster: KafkaCluster, snapshot: Snapshot, findings: Sequence[Finding], runs: Sequence[Remediation]
    ) -> tuple[list[Remediation], list[str]]:
        """The Remediations created now, and the proposals that could not be created because their name was taken."""
        if not findings and not runs:
            return [], []
        playbooks = {p.name: p for p in self.clients.store.playbooks()}
        created, not_created = list[Remediation](), list[str]()
        for body in due(cluster, findings, playbooks, runs, self.clients.now(), delete_delays(snapshot)):
            run, taken = self.clients.store.propose(body)
            if run is not None:
                self.clients.record(cluster, ("Normal", "RemediationProposed", f"created Remediation {run.name}"))
                created.append(run)
            if taken:
                instead = f"proposed as {run.name}" if run is not None else "the operator retries"
                message = f"the name of a proposal of {body['spec']['playbook']['name']} is taken by {some(taken, 3)}"
                self.clients.record(cluster, ("Warning", "NameTaken", f"{message}; {instead}"))
                not_created += [] if run is not None else [message]
        return created, not_created

    def _keep_canary(
        self, cluster: KafkaCluster, snapshot: Snapshot, runs: Sequence[Remediation], unreadable: Sequence[str]
    ) -> None:
        connected, may_write = self._observer.connected, self._held.may_send_as_read
        note = self._canary.keep(cluster, snapshot, connected, runs, unreadable, may_write)
        if note is not None:
            self.clients.record(cluster, note)

    def _breaker(self, cluster: KafkaCluster, runs: Sequence[Remediation]) -> BreakerReading:
        return breaker(cluster.spec.remediation.breaker, [OtherRun.of(r) for r in runs], self.clients.now())

    def _write_status(
        self,
        cluster: KafkaCluster,
        snapshot: Snapshot,
        findings: Sequence[Finding],
        runs: Sequence[Remediation],
        blocked: Sequence[str],
    ) -> None:
        open_runs = [r for r in runs if r.status.phase not in TERMINAL_PHASES]
        treated = {r.spec.cause.finding_id: r.name for r in open_runs if r.spec.cause}
        reading = self._breaker(cluster, runs)
        tripped = reading.describe() if reading.state is BreakerState.OPEN else None
        store = self.clients.store
        # For messages only: whatever acts reads the policies anew.
        policies = store.policies() if runs else store.policies_seen(self.clients.monotonic())
        allowed = remediation_allowed(cluster, policies, blocked, tripped, store.api.skew)
        status = cluster_status(cluster, snapshot, findings, treated, allowed, self._observer.kept_state.memory)
        seen = cluster.status
        departed = departed_brokers(
            seen.departed_brokers, [OtherRun.of(r) for r in runs], snapshot, seen.last_observed_at
        )
        status = status.model_copy(update={"strimzi": self._strimzi, "departed_brokers": departed})
        last, interval = cluster.status.last_observed_at, parse_duration(cluster.spec.probes.interval)
        late = last is None or snapshot.taken_at - last >= rewritten_after(interval)
        if late or without_times(status) != without_times(cluster.status):
            store.write_status(cluster, status)


def _planned_topics(runs: Sequence[Remediation]) -> dict[str, str | None]:
    """By topic that an approved run changes, its id; None: not known."""
    plans = [run.status.plan for run in runs if run.status.phase in {*ACTING_PHASES, Phase.APPROVED}]
    named: dict[str, str | None] = {}
    for plan in filter(None, plans):
        named |= dict.fromkeys(plan.changed_topics())
        named |= {t.topic: t.id for t in plan.topics}
    return named
