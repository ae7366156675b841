"""The plan of the playbook that corrects the brokers' defaults: what has to be changed in whose configuration, who is
then restarted to read it, and what is set at run time afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kafka_medic.cluster.elements import BROKER, settings_unread
from kafka_medic.cluster.min_isr import MIN_ISR
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.defaults import DEFAULTS, FACTORS, STATIC, Default, broker_defaults, low_defaults
from kafka_medic.diagnose.expectations import Expectations, below_factor
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.effects import dynamic_value
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.playbook.restart.restart_plan import restart_plan, sentence_for_reading
from kafka_medic.playbook.settings.defaults_step import KEY, fallback
from kafka_medic.report.units import many
from kafka_medic.resources.kafkacluster import KafkaCluster, RestartMethod
from kafka_medic.resources.remediation_plan import (
    MAX_STATIC,
    ConfigChange,
    ConfigResourceType,
    Plan,
    Restarts,
    SettingChanges,
    StaticSetting,
)
from kafka_medic.resources.vocabulary import ActionName, Guard

MOST = 150
"""Brokers of one run: its journal has 200 entries, and some brokers may have to be restarted once more."""


def defaults_plan(request: PlanRequest) -> Plan | Refusal:
    """The whole plan, its digest included, or why not. Topics come first: while any has fewer replicas than expected,
    its own cure is due, and a restart would take it away."""
    snapshot = request.snapshot
    if snapshot.partitions is None or snapshot.brokers is None or snapshot.configs is None:
        return unread(snapshot)
    expectations = Expectations.from_spec(request.cluster.spec.expectations)
    refused = _not_yet(snapshot, expectations)
    if refused is not None:
        return refused
    low = low_defaults(snapshot, expectations)
    if not low:
        return Refusal("every broker's defaults are as expected", nothing_to_do=True)
    static = _static(low)
    brokers = frozenset(b for setting in static for b in setting.brokers)
    change, left_out = _min_isr(snapshot, expectations, low, brokers)
    if change is not None and _strimzi_configures(request.cluster):
        left_out = (
            f"{MIN_ISR} stays unchanged: Strimzi sets brokers back to what the Kafka resource says; "
            f'write {MIN_ISR}: "{change.after}" under its spec.kafka.config, and Strimzi sets it'
        )
        change = None
    if not static and change is None:
        return Refusal(left_out, (Reason(Guard.PRECONDITIONS_HOLD, Verdict.WAIT, left_out),))
    plan = request.draft()
    if static:
        rolled = restart_plan(request, only=brokers)
        if isinstance(rolled, Refusal):
            # Somebody may restart them by hand, and then nothing is left to do.
            return replace(rolled, permanent=False)
        plan = rolled
    sets = f"set {MIN_ISR}={change.after} for all brokers" if change is not None else left_out
    # The restarts come first; what they are for is said by whoever knows how they go.
    words = dict.fromkeys((s.action for s in request.playbook.spec.steps), sentence_for_reading(plan))
    steps = request.draft(words=words | {ActionName.SET_CLUSTER_DEFAULTS: sets}).steps
    plan = plan.with_parts(
        plan.part(Restarts).model_copy(update={"static_settings": static}),
        SettingChanges(config_changes=() if change is None else (change,)),
    )
    plan = plan.model_copy(update={"steps": steps, "summary": _summary(plan, snapshot, left_out)})
    return request.sealed(plan)


def _not_yet(snapshot: Snapshot, expectations: Expectations) -> Refusal | None:
    """What has to be known, and to be so, before anything is planned."""
    assert snapshot.brokers is not None  # defaults_plan saw to it
    defaults = broker_defaults(snapshot)
    silent = [b.id for b in snapshot.brokers if any((name, b.id) not in defaults for name in DEFAULTS)]
    if why := settings_unread(snapshot, BROKER, ""):
        message = f"the run-time settings of all brokers are not known: {why}"
        return Refusal(message, (Reason(Guard.SOURCES_FRESH, Verdict.UNKNOWN, message),))
    if silent:
        message = f"the defaults of broker {some(silent)} are not known: it did not answer or did not report them"
        return Refusal(message, (Reason(Guard.SOURCES_FRESH, Verdict.UNKNOWN, message),))
    if len(snapshot.brokers) < expectations.replication_factor:
        message = (
            f"no topic could be created with a default factor of {expectations.replication_factor} and "
            f"{many(len(snapshot.brokers), 'broker')}: add brokers, or lower the expected factor"
        )
        return Refusal(message, (Reason(Guard.ENOUGH_LIVE_BROKERS, Verdict.DENY, message),))
    low = below_factor(snapshot, expectations)
    if low is None:
        return unread(snapshot)
    if low:
        topics = list(dict.fromkeys(row.topic for row in low))
        message = (
            "topics with fewer replicas than expected must be raised first (raise-replication-factor): "
            f"{some(topics, 5)}; or lower spec.expectations.topics for them"
        )
        return Refusal(message, (Reason(Guard.PRECONDITIONS_HOLD, Verdict.WAIT, message),))
    return None


def _static(low: Sequence[Default]) -> tuple[StaticSetting, ...]:
    """By setting and value, so many brokers as one run can restart."""
    due = sorted({d.broker for d in low if d.name in STATIC})[:MOST]
    found: dict[tuple[str, int, int], list[int]] = {}
    for default in low:
        if default.name in STATIC and default.broker in due:
            found.setdefault((default.name, default.value, default.wanted), []).append(default.broker)
    return tuple(
        StaticSetting(name=name, before=str(value), after=str(wanted), brokers=tuple(brokers))
        for (name, value, wanted), brokers in found.items()
    )[:MAX_STATIC]


def _min_isr(
    snapshot: Snapshot, expectations: Expectations, low: Sequence[Default], restarted: frozenset[int]
) -> tuple[ConfigChange | None, str]:
    """The change for all brokers, or why there is none. What the restarts are to correct does not stand against it; the
    step asks again."""
    least = expectations.min_in_sync_replicas
    if all(default.name != MIN_ISR for default in low):
        return None, f"{MIN_ISR} of the brokers is as expected"
    found = fallback(snapshot, least)
    corrected = {f"{d.name}={d.value} on broker {d.broker}" for d in low if d.broker in restarted and d.name in FACTORS}
    found = replace(found, unborn=tuple(u for u in found.unborn if u not in corrected))
    if found.unread:
        return None, f"{MIN_ISR} stays unchanged: replicas, ISR or settings are not known: {some(found.unread, 5)}"
    if never := found.never(least):
        return None, f"{MIN_ISR} stays unchanged: {never}"
    change = ConfigChange(
        resource_type=ConfigResourceType.BROKER,
        resource_name="",
        name=MIN_ISR,
        before=dynamic_value(snapshot, KEY),
        after=str(least),
    )
    return change, ""


def _strimzi_configures(cluster: KafkaCluster) -> bool:
    """It compares each broker's settings with the Kafka resource, also those that somebody set at run time for all
    brokers (KafkaConfigurationDiff of Strimzi 1.2.0)."""
    brokers = cluster.spec.brokers
    asks = brokers is not None and brokers.restart is RestartMethod.STRIMZI_ANNOTATION
    return asks or cluster.spec.strimzi is not None


def _summary(plan: Plan, snapshot: Snapshot, left_out: str) -> str:
    own = plan.part(Restarts)
    ids = ", ".join(str(r.broker) for r in own.restarts)
    change = next(iter(plan.part(SettingChanges).config_changes), None)
    does = [f"restart broker {ids}, one at a time"] if own.restarts else []
    does += [f"set {MIN_ISR}={change.after} for all brokers at run time"] if change is not None else []
    lines = [f"correct the brokers' defaults: {', then '.join(does)}"]
    if own.restarts:
        lines.append(
            "BEFORE YOU APPROVE, change these brokers' configuration at its origin (a ConfigMap, a chart's "
            "values, a Kafka resource); the operator does not:"
        )
        lines += [f"  {s.name}={s.after} on broker {some(s.brokers, 20)} (now {s.before})" for s in own.static_settings]
        lines.append(
            "if a broker comes back with an old value, the run pauses and names the broker; to restart it again, "
            "approve the same plan again"
        )
        apart = [v.id for v in snapshot.controllers_apart()]
        if apart:
            lines.append(
                f"controllers {some(apart)} are not brokers, and their value applies where a client names no factor. "
                f"They do not report it: change {FACTORS[0]} there too, and restart them"
            )
        lines += plan.summary.splitlines()[1:]  # of the restarts, without what the first line says
    if change is not None:
        before = "is not set" if change.before is None else f"is {change.before}"
        lines.append(
            f"at last {MIN_ISR}={change.after} for all brokers (it {before} at run time now): every topic without its "
            "own value uses it at once, and has spare replicas for it"
        )
    elif left_out:
        lines.append(left_out)
    return "\n".join(lines)[:8000]
