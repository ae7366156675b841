"""When the operator stops trusting itself: the circuit breaker of one KafkaCluster.

It opens after runs in a row that failed, or that succeeded and did not cure. Open, nothing starts and what waits is
dropped. After a time, or at a person's word, it is half open: one run is tried. That one failing opens it again; its
success closes it. All of it is read off the Remediations themselves, so nothing is remembered that a crash could lose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.report.units import many
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.kafkacluster_remediation import Breaker
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation_plan import Plan, ReplicaMoves, ReplicaRemovals, SettingChanges

RELAPSE = timedelta(hours=1)
"""A cure that has to be proposed again within this time did not cure."""


class BreakerState(Enum):
    """Whether a run may start, as far as the last ones tell."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"


@dataclass(frozen=True, slots=True)
class BreakerReading:
    """`bad`: the runs in a row that opened it, or have brought it so far; `until`: when it is half open by itself."""

    state: BreakerState
    bad: tuple[str, ...] = ()
    until: datetime | None = None

    def describe(self) -> str:
        named = ", ".join(self.bad[-5:])
        text = f"the last {many(len(self.bad), 'remediation')} failed or did not cure ({named})"
        if self.state is BreakerState.OPEN:
            return (
                f"{text}. The breaker is open until {self.until:%Y-%m-%d %H:%M:%S} UTC; find the cause, then set "
                "spec.remediation.breaker.tryAgainAt to the current time to allow one try"
            )
        return f"{text}; the breaker is {self.state.value}"


def breaker(policy: Breaker, runs: Sequence[OtherRun], now: datetime) -> BreakerReading:
    """How the breaker stands. `runs`: all of the cluster, those that wait too: one may show that an earlier one did
    not cure. A run that a person stopped, or that the cluster's change ended, is neither good nor bad."""
    ended = sorted((r for r in runs if r.started_at and r.finished_at), key=lambda r: (r.finished_at or now, r.name))
    bad: list[OtherRun] = []
    for run in reversed(ended):
        if run.phase is Phase.FAILED or (run.phase is Phase.SUCCEEDED and relapsed(run, runs)):
            bad.append(run)
        elif run.phase is Phase.SUCCEEDED:
            break
    names = tuple(r.name for r in reversed(bad))
    last = bad[0].finished_at if bad else None
    if last is None or len(bad) < policy.failures:
        return BreakerReading(BreakerState.CLOSED, names)
    until = last + timedelta(seconds=parse_duration(policy.open_for))
    asked = policy.try_again_at
    half = now >= until or (asked is not None and last <= asked <= now)
    return BreakerReading(BreakerState.HALF_OPEN if half else BreakerState.OPEN, names, until)


def relapsed(run: OtherRun, runs: Sequence[OtherRun]) -> bool:
    """Whether a run that succeeded was proposed again soon, for the same finding and the same partitions, brokers or
    settings; or a setting that it has set is to be set again, whatever the finding is called by then. A plan that only
    goes on where the last one had no more room touches others; one that was made before the finding had gone finds
    nothing to do, and has no plan.

    Nothing is proposed for a finding while a run for it goes on. So what was created later was proposed after its end,
    and both were dated by the API server."""
    if run.cause is None or run.plan is None or run.finished_at is None or run.created_at is None:
        return False
    later = [
        r
        for r in runs
        if r.cause is not None
        and r.plan is not None
        and r.created_at is not None
        and run.created_at <= r.created_at <= run.finished_at + RELAPSE
        and r.name != run.name
    ]
    same = [r for r in later if (r.playbook, r.cause) == (run.playbook, run.cause)]
    # For another finding something may be proposed while the run goes on: its plan has to be younger than its end.
    after = [r for r in later if r.plan is not None and r.plan.proposed_at > run.finished_at]
    return _meet(run, same, _touches) or _meet(run, after, _settings)


def _meet(run: OtherRun, others: Sequence[OtherRun], of: Callable[[Plan], Set[tuple[str, int]]]) -> bool:
    return run.plan is not None and any(r.plan is not None and of(run.plan) & of(r.plan) for r in others)


def _touches(plan: Plan) -> frozenset[tuple[str, int]]:
    removals = plan.part(ReplicaRemovals).each()
    if not removals:
        return frozenset(touched for part in plan.parts for touched in part.touched())
    # Of a partition whose replicas are exchanged, another replica may follow later.
    exchanged = (*plan.part(ReplicaMoves).changes, *removals)
    replicas = {(f"{c.topic}-{c.partition}", b) for c in exchanged for b in {*c.replicas_before} ^ {*c.replicas}}
    others = (part for part in plan.parts if not isinstance(part, ReplicaMoves | ReplicaRemovals))
    return frozenset(replicas | {touched for part in others for touched in part.touched()})


def _settings(plan: Plan) -> frozenset[tuple[str, int]]:
    return frozenset(plan.part(SettingChanges).touched())
