"""Brokers that are up and are to hold no replica, so that nothing is moved onto them unasked."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.resources.kafkacluster_status import StrimziStatus
from kafka_medic.resources.phases import ACTING_PHASES, Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import ReplicaRemovals

SETTLED = ACTING_PHASES | {Phase.APPROVED, Phase.SUCCEEDED}
"""Phases of a run that somebody has approved. What people only ask for keeps no cure from being proposed."""


def leaving_brokers(strimzi: StrimziStatus | None, runs: Sequence[OtherRun]) -> dict[int, str]:
    """Each of them, and who says so. A run that has emptied a broker says so for as long as its object exists: nobody
    else knows that the broker is not a new one."""
    pools = strimzi.pools if strimzi is not None else ()
    found = {broker: f"KafkaNodePool {pool.name} is scaled down" for pool in pools for broker in pool.leaving}
    for run in runs:
        if run.plan is None or run.phase not in SETTLED:
            continue
        verb = "emptied" if run.phase is Phase.SUCCEEDED else "empties"
        found |= dict.fromkeys(run.plan.part(ReplicaRemovals).emptied, f"{Remediation.KIND} {run.name} {verb} it")
    return found
