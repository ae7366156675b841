"""Brokers that are up and are to hold no replica, so that nothing is moved onto them unasked.

A broker that a run has emptied is one of them until it has been gone for a day. Nothing on Kafka's wire tells a broker
that comes back from a new one under the same id. Who scales down and up within a day may mean the same broker, a longer
time is no restart.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.resources.kafkacluster_status import MAX_DEPARTED, DepartedBrokerStatus, StrimziStatus
from kafka_medic.resources.phases import ACTING_PHASES, Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import ReplicaRemovals

SETTLED = ACTING_PHASES | {Phase.APPROVED, Phase.SUCCEEDED}
"""Phases of a run that somebody has approved. What people only ask for keeps no cure from being proposed."""


GONE_FOR = timedelta(days=1)
"""After this time without registration and Pod, a broker that comes back under the id is a new one."""
UNSEEN_FOR = timedelta(hours=4)
"""Time between two statuses, or back on the clock, after which nobody knows whether the broker was there meanwhile.
With the longest `spec.probes.interval`, an hour, a status stays as it is for up to 2.5 hours (`controller.pace`)."""


def leaving_brokers(
    strimzi: StrimziStatus | None, runs: Sequence[OtherRun], departed: Collection[DepartedBrokerStatus] = ()
) -> dict[int, str]:
    """Each of them, and who says so. A run that has emptied a broker says so for as long as its object exists, and
    until the broker is `departed` for good."""
    for_good = {(d.remediation, d.broker) for d in departed if d.for_good}
    pools = strimzi.pools if strimzi is not None else ()
    found = {broker: f"KafkaNodePool {pool.name} is scaled down" for pool in pools for broker in pool.leaving}
    for run in runs:
        if run.plan is None or run.phase not in SETTLED:
            continue
        verb = "emptied" if run.phase is Phase.SUCCEEDED else "empties"
        emptied = [b for b in run.plan.part(ReplicaRemovals).emptied if (run.uid, b) not in for_good]
        found |= dict.fromkeys(emptied, f"{Remediation.KIND} {run.name} {verb} it")
    return found


def departed_brokers(
    before: Sequence[DepartedBrokerStatus], runs: Sequence[OtherRun], snapshot: Snapshot, last: datetime | None
) -> tuple[DepartedBrokerStatus, ...]:
    """Of each broker that a run has emptied, since when it has been gone. One that is seen again within GONE_FOR was
    not gone. What cannot be seen stays as it was before. last: when the status was last written; only time in which
    the operator observed the cluster counts."""
    watched = last is not None and abs(snapshot.taken_at - last) <= UNSEEN_FOR
    known = {(d.remediation, d.broker): d for d in before if d.for_good or watched}
    found = list[DepartedBrokerStatus | None]()
    for run in runs:
        if run.plan is not None and run.phase is Phase.SUCCEEDED:
            for broker in run.plan.part(ReplicaRemovals).emptied:
                found.append(_departed(known.get((run.uid, broker)), run.uid, broker, snapshot))
    return tuple(d for d in found if d is not None)[:MAX_DEPARTED]


def _departed(
    last: DepartedBrokerStatus | None, run: str, broker: int, snapshot: Snapshot
) -> DepartedBrokerStatus | None:
    if last is not None and last.for_good:
        return last
    if snapshot.broker(broker) is not None:
        return None
    if snapshot.brokers is None or not snapshot.without_pod(broker):
        return last
    now = snapshot.taken_at
    since = now if last is None else min(last.since, now)
    return DepartedBrokerStatus(broker=broker, remediation=run, since=since, for_good=now - since >= GONE_FOR)
