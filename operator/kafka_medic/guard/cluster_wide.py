"""Guards about the cluster as a whole, which a Playbook may add to any step: they are true or not whatever the effect.

A guard that an action demands is asked about the action's own effect, and is often narrower than the one of the same
name here: PartitionsKnown is about the partitions to elect there, and about all of them here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.context import RestartContext, RestartQuestion
from kafka_medic.guard.elect import controller_active
from kafka_medic.guard.evaluate import Answer, NamedGuard, evaluate, some
from kafka_medic.guard.freshness import CORE, MAX_AGE, metadata_sources, sources_fresh
from kafka_medic.guard.peers import nobody_disturbed, nothing_rolls_out, pods_ready_node_schedulable
from kafka_medic.guard.quorum import spares_any_voter
from kafka_medic.guard.reassign import brokers_stable, cluster_reachable
from kafka_medic.guard.replicas import no_reassignment
from kafka_medic.guard.rows import known_ids, troubled_rows
from kafka_medic.guard.verdict import Judgement, Reason, Verdict
from kafka_medic.guard.views import all_views_agree
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Guard

NO_BROKER = -1
"""What Kafka uses for nobody: the question is about no broker in particular."""


def _about_all(snapshot: Snapshot) -> RestartQuestion:
    return RestartQuestion(NO_BROKER, RestartContext(), troubled_rows(snapshot))


def _partitions_known(snapshot: Snapshot) -> Reason:
    """The leader, replicas, ISR and reassignment of every partition are known."""
    guard, troubled = Guard.PARTITIONS_KNOWN, troubled_rows(snapshot)
    if snapshot.partitions is None or troubled is None:
        return Reason(guard, Verdict.UNKNOWN, "the partitions are not known")
    lists = {r.tp for r in troubled if any(known_ids(i) is None for i in (r.replicas, r.isr, r.adding, r.removing))}
    leaderless: pa.Table = snapshot.partitions.filter(pc.is_null(snapshot.partitions["leader"]))
    unknown = lists | {r.tp for r in Snapshot(snapshot.cluster, snapshot.taken_at, partitions=leaderless).rows()}
    if unknown:
        message = f"leader, replicas, ISR or reassignment not known: {some(sorted(unknown))}"
        return Reason(guard, Verdict.UNKNOWN, message)
    return Reason(guard, Verdict.ALLOW, f"{many(snapshot.partitions.num_rows, 'partition')} known in full")


CLUSTER_WIDE: Mapping[Guard, Callable[[Snapshot], Answer]] = {
    Guard.CLUSTER_REACHABLE: cluster_reachable,
    Guard.BROKERS_STABLE: brokers_stable,
    Guard.NO_OTHER_BROKER_DISTURBED: nobody_disturbed,
    Guard.PARTITIONS_KNOWN: _partitions_known,
    Guard.NO_REASSIGNMENT: lambda snapshot: no_reassignment(snapshot, _about_all(snapshot)),
    Guard.CONTROLLER_ACTIVE: controller_active,
    Guard.QUORUM_KEEPS_MAJORITY: spares_any_voter,
    Guard.VIEWS_AGREE: all_views_agree,
    Guard.NO_FOREIGN_ROLLOUT: nothing_rolls_out,
    Guard.PODS_READY_NODE_SCHEDULABLE: lambda snapshot: pods_ready_node_schedulable(snapshot, _about_all(snapshot)),
}
"""Each guard that can be added, with what it asks."""


def judge_cluster(snapshot: Snapshot, guards: Iterable[Guard], now: datetime, *, max_age: float = MAX_AGE) -> Judgement:
    """What these say, and whether what they rest on is fresh; nothing where there are none."""
    asked = list(dict.fromkeys(guards))
    if not asked:
        return Judgement(())
    needed = list(CORE)
    if Guard.QUORUM_KEEPS_MAJORITY in asked:
        needed += metadata_sources(snapshot)
    if Guard.PODS_READY_NODE_SCHEDULABLE in asked:
        needed.append("kubernetes")

    def ask(guard: Guard) -> Callable[[], Answer]:
        return lambda: CLUSTER_WIDE[guard](snapshot)

    named: list[NamedGuard] = [(guard, ask(guard)) for guard in asked]
    return evaluate(
        [(Guard.SOURCES_FRESH, lambda: sources_fresh(snapshot, now, needed, max_age=max_age)), *named],
    )
