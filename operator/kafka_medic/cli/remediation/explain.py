"""Why a run waits, and what would change that. Pure: from what the API server has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import TERMINAL_PHASES, Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.vocabulary import Guard, RemediationMode

WHAT_TO_DO: Mapping[Guard, str] = {
    Guard.SOURCES_FRESH: "See the KafkaCluster's condition Reachable, which names what could not be read.",
    Guard.CLUSTER_REACHABLE: "See the KafkaCluster's condition Reachable.",
    Guard.ENOUGH_LIVE_BROKERS: "Start the brokers that are down.",
    Guard.NO_FOREIGN_REASSIGNMENT: "Wait for the reassignment of the other client, or cancel it there.",
    Guard.TARGETS_ALIVE: "Start the named broker. If its view is stale, restart it first.",
    Guard.NO_OTHER_REMEDIATION: "Wait for the named run, or end it with `abort`.",
    Guard.NO_OTHER_KAFKA_CLUSTER: (
        "Keep one KafkaCluster for this Kafka cluster; delete the other or set its mode to Observe."
    ),
    Guard.BROKERS_STABLE: "Wait until no broker starts or stops.",
    Guard.WITHIN_WINDOW: "Wait for the next window, or change spec.remediation.windows.",
    Guard.WITHIN_LIMITS: "Wait, or change spec.remediation.limits; if the breaker is open, `resume` allows one try.",
    Guard.NOT_PAUSED: "When the reason of the pause is gone, `resume` with the KafkaCluster's name.",
    Guard.APPROVAL_VALID: "Read it with `show`, then `approve` or `reject`.",
    Guard.PRECONDITIONS_HOLD: "The cluster changed since the plan: let it settle, or `abort`.",
    Guard.LEASE_HELD: (
        "One operator acts on each cluster. If this lasts, read who holds the Lease: "
        "`kubectl get lease kafka-medic-CLUSTER -n NAMESPACE -o yaml`."
    ),
    Guard.TARGET_MAY_BE_TOUCHED: "Leave the named broker alone until it has recovered.",
    Guard.VIEWS_AGREE: "Brokers report different metadata; see the findings ViewDiverged and MetadataUndecided.",
    Guard.ISR_STAYS_ABOVE_MIN: "Let the partitions catch up, or raise their replication factor first.",
    Guard.NO_REASSIGNMENT: "Wait for the reassignment in flight.",
    Guard.QUORUM_KEEPS_MAJORITY: "Start the controllers or ZooKeeper servers that are down.",
    Guard.CONTROLLER_LAST: "The other brokers of the plan restart first.",
    Guard.NO_OTHER_BROKER_DISTURBED: "Wait until every other broker is up and in every ISR.",
    Guard.PODS_READY_NODE_SCHEDULABLE: "See the named Pods and nodes.",
    Guard.NO_FOREIGN_ROLLOUT: "Wait for the other rollout.",
    Guard.OWNERS_PAUSED: "Run the command in the message, which pauses the owner of the topic, or abort the run.",
    Guard.REPLACED_BROKERS_DOWN: "If the named broker is back, the run is not needed: `abort` it, or let it end.",
    Guard.REPLACEMENTS_IN_SYNC: "Let the partitions catch up, or `abort`: the run then gives back what it added.",
    Guard.DISK_HAS_ROOM: "Free space on the named broker, or lower the retention of its topics, or `abort`.",
    Guard.LOG_DIRS_ONLINE: "Replace the failed disk and restart its broker, or `abort`; see the finding LogDirFailed.",
    Guard.POD_IS_THAT_BROKER: "Let the broker answer at its Pod's own address; see the finding PodIdentityMismatch.",
    Guard.PARTITIONS_KNOWN: "See the KafkaCluster's condition Reachable: not every partition could be read.",
    Guard.CONTROLLER_ACTIVE: "Wait until the cluster has an active controller.",
    Guard.PREFERRED_IN_ISR: "Let the preferred replicas catch up.",
    Guard.FIT_TO_RECEIVE: "First cure the named broker: it cannot lead or hold a replica now.",
    Guard.PREFERRED_CAUGHT_UP: "Let the preferred replicas catch up.",
    Guard.NOT_REASSIGNING: "Wait for the reassignment of these partitions.",
    Guard.GROUP_EMPTY: "Stop all consumers of the group; start them again when the run has ended.",
    Guard.PARTITIONS_LED: "Wait until every partition of the group has a leader.",
    Guard.TARGET_WITHIN_LOG: "The log has moved since the plan; wait for the next plan.",
    Guard.PREVIOUS_OFFSETS_KNOWN: "See the KafkaCluster's condition OffsetsConsistent: the group could not be read.",
}
_UNSEEN = timedelta(minutes=1)
_GAVE_UP = frozenset({Phase.REJECTED, Phase.EXPIRED, Phase.FAILED, Phase.ABORTED})


@dataclass(frozen=True, slots=True)
class Hold:
    """One thing that keeps a run waiting. `what`: a guard's name, or a word of our own. `verdict`: empty where no guard
    has spoken."""

    what: str
    verdict: str
    why: str
    way_out: str


def holds(run: Remediation, cluster: KafkaCluster | None, now: datetime) -> list[Hold]:
    """Everything that holds the run; empty when nothing does. `cluster` None: it could not be read."""
    status = run.status
    if status.phase in TERMINAL_PHASES:
        return []
    found = list(_operator(run, cluster, now))
    found += [Hold(w.guard.value, w.verdict.value, w.message, _way_out(run, w.guard)) for w in status.waiting_for]
    if not status.waiting_for and status.phase is Phase.AWAITING_APPROVAL:
        # Planned in the operator's last reconcile: the guards are asked in the next one.
        found.append(Hold(Guard.APPROVAL_VALID, "", status.message, _way_out(run, Guard.APPROVAL_VALID)))
    if not status.waiting_for and status.phase in (Phase.PLANNING, Phase.BLOCKED, Phase.PAUSED):
        found.append(Hold(status.phase.value, "", status.message, ""))
    for approval in status.approvals:
        if not approval.counted:
            who = f"{approval.approver}'s {approval.decision.value} ({approval.name}) does not count: {approval.reason}"
            found.append(Hold("ApprovalIgnored", "", who, ""))
    return found


def summary(run: Remediation, found: list[Hold]) -> str:
    """The answer in one sentence."""
    status = run.status
    if status.phase in TERMINAL_PHASES:
        again = ""
        if status.phase in _GAVE_UP and run.spec.cause is not None:
            again = "; the operator proposes no new run for a lasting finding until you delete this Remediation"
        return f"It ended as {status.phase}: {status.message}{again}."
    if not found:
        return f"Nothing holds it: {status.phase}, {status.message or 'in progress'}."
    things = "One thing holds" if len(found) == 1 else f"{len(found)} things hold"
    return f"{things} it ({status.phase or 'not yet seen by the operator'})."


def stale_since(cluster: KafkaCluster, now: datetime) -> timedelta | None:
    """How long ago the cluster was last observed, where that is longer than a few intervals; else None."""
    observed = cluster.status.last_observed_at
    limit = max(_UNSEEN, timedelta(seconds=4 * parse_duration(cluster.spec.probes.interval)))
    return now - observed if observed is not None and now - observed > limit else None


def _operator(run: Remediation, cluster: KafkaCluster | None, now: datetime) -> list[Hold]:
    """What no guard reports, because the operator does not observe or does not act."""
    created = run.metadata.creation_timestamp
    found = []
    if run.status.phase is None and created is not None and now - created > _UNSEEN:
        way_out = "Check that the operator runs and watches this namespace, and that the KafkaCluster exists."
        found.append(Hold("NotSeen", "", f"the operator has not reconciled it since {created:%H:%M:%S} UTC", way_out))
    if cluster is None:
        return found
    if cluster.uid != run.spec.cluster_ref.uid:
        found.append(Hold("OtherCluster", "", "its KafkaCluster was replaced (other uid)", "Delete this run."))
    if stale_since(cluster, now) is not None:
        way_out = "Check that the operator runs; it decides nothing before its next observation."
        why = f"the operator last observed the cluster at {cluster.status.last_observed_at:%Y-%m-%d %H:%M:%S} UTC"
        found.append(Hold("NotObserved", "", why, way_out))
    if cluster.spec.remediation.mode_for(run.spec.playbook.name) is RemediationMode.OBSERVE:
        way_out = "Set spec.remediation.mode to Approve."
        found.append(
            Hold("ObserveMode", "", "the KafkaCluster's mode is Observe, so the operator carries out no plan", way_out)
        )
    allowed = next((c for c in cluster.status.conditions if c.type == "RemediationAllowed"), None)
    ways_out = {
        "PoliciesUnknown": "Check that the operator may read them (ClusterRole NAME-cluster).",
        "PoliciesMissing": "Install the chart's admission policies as the chart renders them.",
        "BreakerOpen": "Find out why the runs failed (`report`), then `resume` with the KafkaCluster's name.",
    }
    if allowed is not None and allowed.reason in ways_out:
        found.append(Hold(allowed.reason, "", allowed.message, ways_out[allowed.reason]))
    return found


def _way_out(run: Remediation, guard: Guard) -> str:
    plan = run.status.plan
    if guard is Guard.APPROVAL_VALID and run.status.phase is Phase.PAUSED:
        return "To resume, `approve` the same plan again, which restarts the step's timeout; or `abort` it."
    if guard is Guard.APPROVAL_VALID and plan is not None and run.status.started_at is None:
        return f"{WHAT_TO_DO[guard]} The plan waits until {plan.expires_at:%Y-%m-%d %H:%M:%S} UTC."
    return WHAT_TO_DO[guard]
