"""Guards that concern the run and not the cluster: may it act at all, now, under these rules?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kafka_medic.guard import precedence
from kafka_medic.guard.breaker import BreakerState, breaker
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.report.units import many
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.kafkacluster_remediation import Day, RemediationPolicy, Window
from kafka_medic.resources.remediation_plan import Reorders
from kafka_medic.resources.vocabulary import Guard

_DAYS = list(Day)


@dataclass(frozen=True, slots=True)
class FleetUse:
    """`limit`: KafkaClusters with a run under way at once, over all that the operator watches. `acting`: the others
    that have one; None: that could not be read."""

    limit: int
    acting: Sequence[str] | None


def within_fleet(use: FleetUse | None) -> Reason:
    """Whether one more KafkaCluster may have a run under way. None: there is no limit."""
    guard = Guard.WITHIN_LIMITS
    if use is None:
        return Reason(guard, Verdict.ALLOW, "no limit over all KafkaClusters")
    if use.acting is None:
        message = "whether runs are active on other KafkaClusters could not be read"
        return Reason(guard, Verdict.UNKNOWN, message)
    if len(use.acting) >= use.limit:
        named = ", ".join(use.acting[:5])
        others = f"runs are active on {many(len(use.acting), 'other KafkaCluster')} ({named})"
        message = f"{others}; the operator's limit is {use.limit}"
        return Reason(guard, Verdict.WAIT, message)
    return Reason(guard, Verdict.ALLOW, f"within the operator's limit of {many(use.limit, 'active KafkaCluster')}")


def judge_run(
    policy: RemediationPolicy,
    others: Sequence[OtherRun] | None,
    lease_held: bool | None,
    now: datetime,
    *,
    starting: bool,
    itself: OtherRun | None = None,
    takes_back: bool = False,
) -> tuple[Reason, ...]:
    """Every rule of the KafkaCluster about when to act. The limits on how often concern only a run that is to start:
    one that has begun is better finished than left half-way. `itself`: the run that is to act, as its status has it; it
    may show that an earlier one did not cure. `takes_back`: its playbook puts back what a drain changed."""
    reasons = [_not_paused(policy), within_window(policy.windows, now), _lease(lease_held)]
    if others is None:
        unknown = "the other Remediations of this cluster could not be read"
        return (*reasons, Reason(Guard.NO_OTHER_REMEDIATION, Verdict.UNKNOWN, unknown))
    reasons.append(precedence.goes_first(itself, others))
    if starting:
        reasons.append(_within_limits(policy, others, itself, now, takes_back))
    return tuple(reasons)


def _not_paused(policy: RemediationPolicy) -> Reason:
    if policy.paused:
        why = f": {policy.pause_reason}" if policy.pause_reason else ""
        message = f"remediation is paused on the KafkaCluster{why}; set spec.remediation.paused to false to resume"
        return Reason(Guard.NOT_PAUSED, Verdict.WAIT, message)
    return Reason(Guard.NOT_PAUSED, Verdict.ALLOW, "not paused")


def _lease(held: bool | None) -> Reason:
    guard = Guard.LEASE_HELD
    if held is None:
        return Reason(guard, Verdict.UNKNOWN, "the cluster's Lease could not be read or renewed")
    if not held:
        return Reason(guard, Verdict.WAIT, "another operator holds this cluster's Lease")
    return Reason(guard, Verdict.ALLOW, "this operator holds the cluster's Lease")


def _within_limits(
    policy: RemediationPolicy, others: Sequence[OtherRun], itself: OtherRun | None, now: datetime, takes_back: bool
) -> Reason:
    guard = Guard.WITHIN_LIMITS
    recent = [o for o in others if o.started_at is not None and now - o.started_at < timedelta(days=1)]
    if len(recent) >= policy.limits.per_day:
        message = (
            f"{many(len(recent), 'remediation')} started within 24 hours; limits.perDay is {policy.limits.per_day}"
        )
        return Reason(guard, Verdict.WAIT, message)
    begun = (o for o in others if o.finished_at and o.started_at)
    counted = (o for o in begun if not _same_maintenance(itself, o, takes_back))
    rest = timedelta(seconds=parse_duration(policy.limits.cooldown))
    resting = sorted(
        (o for o in counted if o.finished_at and now - o.finished_at < rest), key=lambda o: o.finished_at or now
    )
    # The cooldown is there so that a cure can be seen to work. The cure of a graver finding does not wait for that.
    known = itself.gravity if itself is not None and itself.cures is not None else 0
    waited_for = [o for o in resting if o.gravity >= known]
    if waited_for and waited_for[-1].finished_at is not None:
        since = now - waited_for[-1].finished_at
        message = (
            f"{waited_for[-1].name} ended {since.total_seconds():.0f} s ago; "
            f"limits.cooldown is {policy.limits.cooldown}"
        )
        return Reason(guard, Verdict.WAIT, message)
    reading = breaker(policy.breaker, (*others, itself) if itself is not None else others, now)
    if reading.state is BreakerState.OPEN:
        return Reason(guard, Verdict.DENY, reading.describe())
    if resting and itself is not None and itself.cures is not None:
        cured = f"{itself.cures.finding_id} ({itself.cures.severity.value})"
        message = f"within the limits; the cure of {cured} is exempt from the cooldown of {resting[-1].name}"
        return Reason(guard, Verdict.ALLOW, message)
    return Reason(guard, Verdict.ALLOW, "within the limits")


def _same_maintenance(itself: OtherRun | None, other: OtherRun, takes_back: bool) -> bool:
    """Whether the run is the next part of a maintenance of which the other one was a part: it puts orders of replicas
    back that the other one changed, or changes more of them for the same cause, which one plan did not hold. Nobody
    expects the one to wait for the other."""
    if itself is None or itself.plan is None:
        return False
    orders = itself.plan.part(Reorders).reorders
    if not takes_back:
        same = (other.playbook, other.cause) == (itself.playbook, itself.cause) and itself.cause is not None
        return same and bool(orders) and bool(other.reorders)
    left = {(c.topic, c.partition, c.replicas, c.replicas_before) for c in other.reorders}
    return any((c.topic, c.partition, c.replicas_before, c.replicas) in left for c in orders)


def within_window(windows: Sequence[Window], now: datetime) -> Reason:
    """Inside one of them, or there are none."""
    guard = Guard.WITHIN_WINDOW
    if not windows:
        return Reason(guard, Verdict.ALLOW, "no windows are set, so any time is allowed")
    for window in windows:
        try:
            if _inside(window, now):
                return Reason(guard, Verdict.ALLOW, f"inside the window from {window.start} to {window.end}")
        except (ZoneInfoNotFoundError, OSError, ValueError):
            return Reason(
                guard, Verdict.UNKNOWN, f"spec.remediation.windows: time zone {window.time_zone!r} does not exist"
            )
    return Reason(guard, Verdict.WAIT, "outside every window of spec.remediation.windows")


def _inside(window: Window, now: datetime) -> bool:
    """Wall-clock time in the window's zone, so that 22:00 stays 22:00 when daylight saving changes."""
    local = now.astimezone(ZoneInfo(window.time_zone))
    clock = local.strftime("%H:%M")
    today, yesterday = _DAYS[local.weekday()], _DAYS[local.weekday() - 1]
    if window.start < window.end:
        return today in window.days and window.start <= clock < window.end
    return (today in window.days and clock >= window.start) or (yesterday in window.days and clock < window.end)
