"""What the API server holds about a run besides the run itself.

The reads run side by side: every reconcile needs them, and each effect needs them again.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from kafka_medic.controller.store import Store
from kafka_medic.guard.namesakes import Namesake
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.playbook.approval import Word
from kafka_medic.playbook.registry import offsets_set_by
from kafka_medic.resources.admission import Standing
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.remediation import Remediation


@dataclass(frozen=True, slots=True)
class ApiState:
    """None: it could not be read, or does not say."""

    approvals: list[Word]
    policies: Standing | None
    others: list[OtherRun] | None
    namesakes: list[Namesake] | None


def other_runs(store: Store, cluster: KafkaCluster, run: Remediation) -> list[OtherRun] | None:
    """None when one cannot be read by this version, or this run is gone: what is being done is not known then."""
    runs, unreadable = store.remediations(run.namespace or "", cluster.name)
    if unreadable or all(r.uid != run.uid for r in runs):
        return None
    return [OtherRun.of(r, offsets_set_by(r)) for r in runs if r.uid != run.uid]


def read_api_state(
    store: Store, run: Remediation, cluster: KafkaCluster, cluster_id: str | None, now: datetime
) -> ApiState:
    """`cluster_id`: Kafka's own. `now`: by this operator's clock. Raises ApiFailure, of whichever failed first
    in this order."""
    with ThreadPoolExecutor(4, "api-state") as pool:
        approvals = pool.submit(store.approvals, run)
        policies = pool.submit(store.policies)
        beside = pool.submit(other_runs, store, cluster, run)
        namesakes = pool.submit(store.namesakes, cluster, cluster_id, now)
    return ApiState(approvals.result(), policies.result(), beside.result(), namesakes.result())
