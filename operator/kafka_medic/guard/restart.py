"""May this broker be restarted now? Every guard that a snapshot can answer, all of them asked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from kafka_medic.cluster.certificates import SOURCE as CERTIFICATES
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.context import RestartContext, RestartQuestion
from kafka_medic.guard.evaluate import Answer, evaluate
from kafka_medic.guard.freshness import MAX_AGE, SOURCES_FRESH, metadata_sources, sources_fresh
from kafka_medic.guard.identity import POD_IS_THAT_BROKER, pod_is_that_broker
from kafka_medic.guard.peers import (
    NO_FOREIGN_ROLLOUT,
    NO_OTHER_BROKER_DISTURBED,
    PODS_READY_NODE_SCHEDULABLE,
    TARGET_MAY_BE_TOUCHED,
    no_foreign_rollout,
    no_other_broker_disturbed,
    pods_ready_node_schedulable,
    target_may_be_touched,
)
from kafka_medic.guard.quorum import (
    CONTROLLER_LAST,
    QUORUM_KEEPS_MAJORITY,
    controller_last,
    quorum_keeps_majority,
)
from kafka_medic.guard.replicas import (
    ISR_STAYS_ABOVE_MIN,
    NO_REASSIGNMENT,
    isr_stays_above_min,
    no_reassignment,
)
from kafka_medic.guard.rows import troubled_rows
from kafka_medic.guard.verdict import Judgement
from kafka_medic.guard.views import VIEWS_AGREE, views_agree
from kafka_medic.resources.vocabulary import Guard

STALE_LOG = "stale-log-"
"""Each stale leader's log is a source of its own."""

RestartGuard = Callable[[Snapshot, RestartQuestion], Answer]

RESTART_GUARDS: tuple[tuple[Guard, RestartGuard], ...] = (
    (TARGET_MAY_BE_TOUCHED, target_may_be_touched),
    (VIEWS_AGREE, views_agree),
    (ISR_STAYS_ABOVE_MIN, isr_stays_above_min),
    (NO_REASSIGNMENT, no_reassignment),
    (QUORUM_KEEPS_MAJORITY, quorum_keeps_majority),
    (CONTROLLER_LAST, controller_last),
    (NO_OTHER_BROKER_DISTURBED, no_other_broker_disturbed),
    (PODS_READY_NODE_SCHEDULABLE, pods_ready_node_schedulable),
    (NO_FOREIGN_ROLLOUT, no_foreign_rollout),
    (POD_IS_THAT_BROKER, pod_is_that_broker),
)
"""Mandatory for every restart; SourcesFresh comes before them, since it alone looks at the time."""


def judge_restart(
    snapshot: Snapshot,
    broker: int,
    now: datetime,
    *,
    context: RestartContext | None = None,
    max_age: float = MAX_AGE,
) -> Judgement:
    """All guards on restarting `broker` at `now`. `max_age` is in seconds; a saved snapshot is judged with
    `now` its own `taken_at`. Raises GuardFaultError when a guard itself fails."""
    context = context or RestartContext()
    needed = ["kafka", "views", "reassignments", *metadata_sources(snapshot)]
    if not context.outside_kubernetes:
        needed.append("kubernetes")
    # How far a stale leader's log has parted concerns that broker's own restart, which throws those records away.
    others = {
        name for s in snapshot.sources if (name := s.name).startswith(STALE_LOG) and name != f"{STALE_LOG}{broker}"
    }
    # What the records of disputed topics would have decided is null where the accounts did not, and refused there.
    others.add("zookeeper-topics")
    # Whether a certificate ends soon decides about no restart: a restart may be how a new one is loaded.
    others.add(CERTIFICATES)
    question = RestartQuestion(broker, context, troubled_rows(snapshot, broker))

    def ask(guard: RestartGuard) -> Callable[[], Answer]:
        return lambda: guard(snapshot, question)

    return evaluate(
        [
            (SOURCES_FRESH, lambda: sources_fresh(snapshot, now, needed, every=True, but=others, max_age=max_age)),
            *((name, ask(guard)) for name, guard in RESTART_GUARDS),
        ]
    )
