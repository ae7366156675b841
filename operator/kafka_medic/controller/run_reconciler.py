"""The reconcile of one Remediation: decide from fresh reads, write the decision down, then send its effect."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kafka_medic.actuate.carry_out import carry_out
from kafka_medic.clients.failures import WriteFailed
from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.clients.workloads import ScaledWorkloads
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.controller.api_state import other_runs, read_api_state
from kafka_medic.controller.backoff import Backoff, pause_after
from kafka_medic.controller.clients import Clients
from kafka_medic.controller.compute_budget import ComputeBudget
from kafka_medic.controller.deletion import to_keep
from kafka_medic.controller.events import run_notes, so_far
from kafka_medic.controller.held_lease import HeldLease
from kafka_medic.controller.observer import Observer
from kafka_medic.controller.overtime import Overtime
from kafka_medic.controller.plan_parts import publish, to_publish
from kafka_medic.controller.proposals import in_order
from kafka_medic.controller.status_room import fitted_run
from kafka_medic.controller.writes import kubernetes_writes
from kafka_medic.diagnose.finding import Finding
from kafka_medic.guard.covered import uncovered
from kafka_medic.guard.freshness import MAX_AGE, seconds_since_read
from kafka_medic.guard.run import FleetUse
from kafka_medic.observe.extra_reads import answers
from kafka_medic.playbook.decision import SOON, Decision, DecisionContext
from kafka_medic.playbook.effects import Intent
from kafka_medic.playbook.engine import decide
from kafka_medic.playbook.holding import may_be_sent
from kafka_medic.playbook.planning import questions
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation import Remediation

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`requeue`: seconds until the next reconcile; None: when the cluster's interval is over. `waits`: why the run does
    not continue. `last`: the runs after this one get a reconcile of their own."""

    requeue: float | None = None
    waits: tuple[str, ...] = ()
    last: bool = False


@dataclass(slots=True)
class RunReconciler:
    """Reconciles the Remediations of the KafkaCluster `namespace`/`name`."""

    namespace: str
    name: str
    clients: Clients
    lease: HeldLease
    observer: Observer
    budget: ComputeBudget
    backoff: Backoff

    def reconcile_all(
        self,
        cluster: KafkaCluster,
        runs: Sequence[Remediation],
        snapshot: Snapshot,
        findings: Sequence[Finding],
        interval: float,
    ) -> tuple[float, list[str]]:
        """Seconds until the next reconcile, and why runs wait. Raises ApiFailure."""
        requeue, waits = interval, list[str]()
        for run in in_order(runs):
            outcome = self._reconcile(cluster, run, snapshot, findings)
            waits += outcome.waits
            if outcome.requeue is not None:
                requeue = min(requeue, outcome.requeue)
            if outcome.last:
                break
        return requeue, waits

    def _reconcile(
        self, cluster: KafkaCluster, run: Remediation, snapshot: Snapshot, findings: Sequence[Finding]
    ) -> Outcome:
        if self.budget.is_paused(run.uid or "", self.clients.monotonic()):
            lines = run.status.message.splitlines() or ["set aside"]
            return Outcome(waits=(f"{run.name}: {lines[0]}",))
        try:
            decision = self._start_or_continue(cluster, run, snapshot, findings)
        except ApiFailure:
            raise
        except Overtime as problem:
            return Outcome(0.0, (f"{run.name}: {self._set_aside(run, problem)}",), last=True)
        except Exception:  # noqa: BLE001
            # A fault of ours with one run: no effect follows it, and the other runs and the status continue.
            _LOG.exception("%s: internal fault", run.name)
            return Outcome(waits=(f"internal fault with Remediation {run.name}; see the operator's log",))
        waits = decision.status.message.splitlines()[:1] if decision.status.waiting_for else []
        # With a finalizer to add or to remove, the next reconcile begins with that.
        finalizer_due = to_keep(run, decision.status.restore_owed) is not None
        return Outcome(0.0 if finalizer_due else decision.requeue, tuple(f"{run.name}: {line}" for line in waits))

    def _set_aside(self, run: Remediation, problem: Overtime) -> str:
        """Reported on the run, and left alone for a while. What the run has to put back waits too."""
        pause = self.budget.pause(run.uid or "", self.clients.monotonic())
        message = (
            f"{problem}; the operator retries in {pause:g} s. Delete this Remediation. Create another one with fewer "
            "topics, groups or partitions in spec.parameters"
        )
        _LOG.warning("%s: %s", run.name, message)
        status = run.status.model_copy(update={"message": message})
        if status.phase is not None and self.lease.kept():
            self.clients.store.write_status(run, status)
        self.clients.record(run, ("Warning", "TookTooLong", message))
        return message

    def _start_or_continue(
        self, cluster: KafkaCluster, run: Remediation, snapshot: Snapshot, findings: Sequence[Finding]
    ) -> Decision:
        if not self._is_limited_start(run):
            return self._decide_and_act(cluster, run, snapshot, findings)
        with self.clients.starts.passing() as ours:
            if not ours:
                return Decision(run.status, requeue=SOON)
            return self._decide_and_act(cluster, run, snapshot, findings)

    def _is_limited_start(self, run: Remediation) -> bool:
        return self.clients.most_at_once is not None and run.status.phase is Phase.APPROVED

    def _decide_and_act(
        self, cluster: KafkaCluster, run: Remediation, snapshot: Snapshot, findings: Sequence[Finding]
    ) -> Decision:
        context = self._context(cluster, run, snapshot, findings)
        if context.lease_held is not True:
            return Decision(run.status)  # the Lease is lost: not even the status is ours to write
        decision = self._decide(run, context)
        version = run.metadata.resource_version
        if decision.status != run.status:
            # The intent is in the journal before the effect: after a crash, observation shows whether it was sent.
            written = self._write_down(run, decision)
            if written is None:
                return Decision(run.status)
            version = written
        if decision.intent is None:
            return decision
        metadata = run.metadata.model_copy(update={"resource_version": version})
        begun = run.model_copy(update={"status": decision.status, "metadata": metadata})
        return self._act(cluster, begun, decision, decision.intent, findings)

    def _decide(self, run: Remediation, context: DecisionContext) -> Decision:
        """Raises Overtime."""
        limit = self.clients.compute_seconds
        return self.budget.within(limit, f"deciding about {run.name}", lambda: decide(run, context))

    def _context(
        self, cluster: KafkaCluster, run: Remediation, snapshot: Snapshot, findings: Sequence[Finding]
    ) -> DecisionContext:
        """Everything but the snapshot is read here and now, so that the check before an effect is a fresh one."""
        store, files, now = self.clients.store, self.clients.files, self.clients.now()
        playbook = store.playbook(run.spec.playbook.name)
        # Before all else: Kafka may take long to respond, and what permits an effect must not be older than that.
        extra = questions(run, cluster, playbook, snapshot, lambda: other_runs(store, cluster, run), now)
        workloads, kept = ScaledWorkloads(store.api, self.namespace), self.observer.kept_state
        extra_reads = replace(answers(self.observer.kafka, extra, workloads.read, kept.paces), growth=kept.growth)
        state = read_api_state(store, run, cluster, snapshot.cluster.id, now)
        return DecisionContext(
            snapshot=snapshot,
            cluster=cluster,
            playbook=playbook,
            approvals=state.approvals,
            policies=state.policies,
            others=state.others,
            lease_held=self.lease.confirm(),
            namesakes=state.namesakes,
            findings=findings,
            now=self.clients.now(),
            reads=extra_reads,
            fleet=self._fleet(run),
            skew=store.api.skew,
            files=str(files.directory) if files.directory else None,
        )

    def _fleet(self, run: Remediation) -> FleetUse | None:
        """Only for a run that is to start: one that has begun is finished."""
        limit = self.clients.most_at_once
        if limit is None or run.status.phase is not Phase.APPROVED:
            return None
        return FleetUse(limit, self.clients.store.acting_elsewhere(self.namespace, self.name))

    def _write_down(self, run: Remediation, decision: Decision) -> str | None:
        """The run's version after its status is written; None: the operator may not write it, or has no file for its
        plan."""
        if not self.lease.kept() or (self._is_limited_start(run) and not self.clients.starts.still()):
            return None
        try:
            status = self.clients.files.filed(decision.status)
        except OSError as problem:
            self.clients.record(
                run,
                (
                    "Warning",
                    "PlanNotWritten",
                    f"the run does not start, because its plan's file was not written: {problem}",
                ),
            )
            return None
        if (plan := to_publish(run.status, decision.status)) is not None:
            unpublished = publish(self.clients.store.api, run, plan)
            if unpublished is not None:
                message = f"the changes are only in the plan's file: {unpublished}"
                self.clients.record(run, ("Warning", "PlanNotPublished", message))
        version = self.clients.store.write_status(run, fitted_run(status))
        for note in run_notes(run.status, decision.status):
            self.clients.record(run, note)
        if decision.warning is not None:
            self.clients.record(run, ("Warning", *decision.warning))
        return version

    def _act(
        self, cluster: KafkaCluster, run: Remediation, decision: Decision, intent: Intent, findings: Sequence[Finding]
    ) -> Decision:
        if pause := self.backoff.left((run.uid or "", intent.id), self.clients.monotonic()):
            return Decision(decision.status, requeue=pause)
        until, requeue = self._check_again(cluster, run, decision, intent, findings)
        if until is None:
            return Decision(decision.status, requeue=requeue)
        return self._send(run, decision, intent, until)

    def _check_again(
        self, cluster: KafkaCluster, run: Remediation, decision: Decision, intent: Intent, findings: Sequence[Finding]
    ) -> tuple[float | None, float]:
        """Until when the effect may be sent, by the clock that only goes forwards; or None, and the seconds until the
        next reconcile.

        Everything is read once more, Kafka too: Kafka has no compare-and-set for what the operator sends. The effect is
        sent only if it is still what is due, and every guard still permits it."""
        concerned = intent.concern()
        began = self.clients.monotonic()
        self.observer.kept_state.before_observation(cluster, began, acting=True, concern=concerned)
        latest = self.observer.observe(cluster)
        until = self.clients.monotonic() - seconds_since_read(latest, self.clients.now()) + MAX_AGE
        cluster = self.clients.store.cluster(self.namespace, self.name)
        present = self.clients.store.remediation(self.namespace, run.name)
        if present.metadata.resource_version != run.metadata.resource_version:
            return None, 0.0  # somebody wrote it, or deleted it
        again = self._decide(run, self._context(cluster, run, latest, findings))
        if again.intent != intent:
            _LOG.warning("%s: held back %s: %s", run.name, intent.id, again.status.message)
            return None, SOON
        if not decision.restores and (missing := uncovered(latest, concerned)) is not None:
            _LOG.warning("%s: held back %s: %s", run.name, intent.id, missing)
            return None, SOON
        (entry,) = (e for e in decision.status.journal if e.id == intent.id)
        if not may_be_sent(entry, self.clients.now()):
            return None, 0.0
        if decision.status.restore_owed and not decision.restores and not (run.held and cluster.held):
            return None, 0.0  # both get their finalizer before the effect is sent
        return until, 0.0

    def _send(self, run: Remediation, decision: Decision, intent: Intent, until: float) -> Decision:
        kafka, store = self.observer.kafka, self.clients.store
        assert kafka is not None
        key = run.uid or "", intent.id
        try:
            writes = kubernetes_writes(store.api, self.namespace)
            fresh: Callable[[], bool] = lambda: self.clients.monotonic() <= until  # noqa: E731
            carry_out(kafka, writes, intent, self.lease.may_send, fresh, self.observer.zookeeper)
        except WriteFailed as problem:
            self.clients.series.effect((self.namespace, self.name), "failed")
            count = self.backoff.failed(key, self.clients.monotonic())
            if count == 1:
                note = f"{intent.describe()}: {problem}; the operator retries after a pause"
                self.clients.record(run, ("Warning", "EffectFailed", note))
            _LOG.warning("%s: %s failed %d times: %s", run.name, intent.id, count, problem)
            return Decision(decision.status, requeue=pause_after(count))
        self.clients.series.effect((self.namespace, self.name), "sent")
        self.backoff.succeeded(key)
        self.clients.record(run, ("Normal", "Effect", f"{intent.describe()}{so_far(decision.status)}"))
        return decision
