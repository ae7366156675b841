"""What the API server tells about a run besides the run itself, read side by side: it is read in every turn, and again
before each effect."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from kafka_medic.controller.store import Store
from kafka_medic.guard.namesakes import Namesake
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.playbook.approval import Word
from kafka_medic.playbook.offsets.offset_step import set_by
from kafka_medic.resources.admission import Standing
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.remediation import Remediation


@dataclass(frozen=True, slots=True)
class Facts:
    """None: it could not be read, or does not tell."""

    approvals: list[Word]
    policies: Standing | None
    others: list[OtherRun] | None
    namesakes: list[Namesake] | None


def other_runs(store: Store, cluster: KafkaCluster, run: Remediation) -> list[OtherRun] | None:
    """None when one cannot be read by this version, or this run is gone: what is being done is not known then."""
    runs, unreadable = store.remediations(run.namespace or "", cluster.name)
    if unreadable or all(r.uid != run.uid for r in runs):
        return None
    return [OtherRun.of(r, set_by(r)) for r in runs if r.uid != run.uid]


def read_facts(store: Store, run: Remediation, cluster: KafkaCluster, cluster_id: str | None, now: datetime) -> Facts:
    """`cluster_id`: Kafka's own. `now`: by this operator's clock. Raises ApiFailure, of whichever failed first
    in this order."""
    with ThreadPoolExecutor(4, "facts") as pool:
        approvals = pool.submit(store.approvals, run)
        policies = pool.submit(store.policies)
        beside = pool.submit(other_runs, store, cluster, run)
        namesakes = pool.submit(store.namesakes, cluster, cluster_id, now)
    return Facts(approvals.result(), policies.result(), beside.result(), namesakes.result())
