"""SetClusterDefaults: min.insync.replicas for all brokers, once no topic that falls back on it would be stopped by it.

It is Kafka's cluster-wide dynamic default (KIP-226), which every topic without a value of its own takes on in that very
moment, those too of which nothing is expected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafka_medic.cluster.elements import BROKER, TOPIC, settings_unread
from kafka_medic.cluster.min_isr import MIN_ISR
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.defaults import FACTORS, broker_defaults
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.rows import known_ids, target_of
from kafka_medic.playbook.effects import ChangeSettings, SettingKey, dynamic_value, setting_text
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import Plan, SettingChanges
from kafka_medic.resources.remediation_status import JournalEntry, Progress

KEY: SettingKey = ("BROKER", "", MIN_ISR)


@dataclass(frozen=True, slots=True)
class Fallback:
    """Whoever falls back on the default, were it this high. `few`: topics with partitions that have no more replicas
    than that; `thin`: partitions whose ISR is no larger at the moment; `unread`: partitions of which one of both is not
    known, or whether they fall back on it, and brokers whose defaults are not. `unborn`: settings by which topics would
    be created with no more replicas. `own`: brokers with a lower value of their own at run time, over which the default
    does not count."""

    few: tuple[str, ...]
    thin: tuple[str, ...]
    unread: tuple[str, ...]
    unborn: tuple[str, ...]
    own: tuple[int, ...]

    def never(self, least: int) -> str | None:
        """What no waiting changes."""
        sentence = list(self._never(least))
        return "; ".join(sentence) or None

    def _never(self, least: int) -> Iterator[str]:
        if self.few:
            yield (
                f"topics without their own {MIN_ISR} have partitions with {many(least, 'replica')} or fewer, and would "
                f"refuse acks=all, at the latest with one replica down: {some(self.few, 5)}; first raise them, "
                "or set their own value"
            )
        if self.unborn:
            yield f"new topics would still get {many(least, 'replica')} or fewer: {some(self.unborn, 5)}"
        if self.own:
            yield f"broker {some(self.own)} has its own {MIN_ISR} at run time, which wins there"


def fallback(snapshot: Snapshot, least: int) -> Fallback:
    """Of a snapshot whose partitions and settings are known."""
    few: dict[str, None] = {}
    thin, unread = [], []
    own = {t for t in _topics(snapshot) if (c := snapshot.config("TOPIC", t, MIN_ISR)) is not None and c.dynamic}
    for row in snapshot.rows():
        if row.topic in own:
            continue
        replicas, isr = target_of(row), known_ids(row.isr)
        short = replicas is None or isr is None or len(isr & replicas) <= least
        if replicas is None or isr is None or (short and settings_unread(snapshot, TOPIC, row.topic)):
            unread.append(str(row.tp))
        elif len(replicas) <= least:
            few[row.topic] = None
        elif len(isr & replicas) <= least:
            thin.append(str(row.tp))
    defaults = broker_defaults(snapshot)
    # The third creates __transaction_state, which has a min.insync.replicas of its own from the start.
    unborn = {
        f"{n}={v} on broker {b}": None for (n, b), v in sorted(defaults.items()) if n in FACTORS[:2] and v <= least
    }
    lower = [b for (n, b), v in sorted(defaults.items()) if n == MIN_ISR and v < least]
    dynamic = [b for b in lower if dynamic_value(snapshot, ("BROKER", str(b), MIN_ISR)) is not None]
    brokers = ((b.id, settings_unread(snapshot, BROKER, str(b.id))) for b in snapshot.brokers or ())
    unread += [f"settings of broker {b}: {why}" for b, why in brokers if why]
    return Fallback(tuple(few), tuple(thin), tuple(unread), tuple(unborn), tuple(dynamic))


def assess(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """Where the step stands: as the plan saw it, or set and taken in by every broker."""
    change = next(iter(plan.part(SettingChanges).config_changes), None)
    if change is None or change.after is None:
        return StepReport(StepState.REACHED, f"{MIN_ISR} of all brokers stays unchanged")
    least, intent_id = int(change.after), f"{step}/set"
    open_ = Progress(done=0, total=1, unit="settings")
    if snapshot.configs is None or snapshot.partitions is None:
        return StepReport(StepState.UNKNOWN, "the settings of brokers and topics could not be read", progress=open_)
    if why := settings_unread(snapshot, BROKER, ""):
        return StepReport(StepState.UNKNOWN, f"the settings of all brokers could not be read: {why}", progress=open_)
    now = dynamic_value(snapshot, KEY)
    if now == change.after:
        return _taken_in(snapshot, least, (intent_id,) if intent_id in journal else (), open_)
    if now != change.before:
        message = f"{MIN_ISR} of all brokers is {now or 'not set'} (planned from: {change.before or 'none'})"
        return StepReport(StepState.DRIFTED, message, progress=open_)
    found = fallback(snapshot, least)
    if never := found.never(least):
        return StepReport(StepState.DRIFTED, never, progress=open_)
    if found.unread:
        message = f"replicas, ISR or settings are not known: {some(found.unread, 5)}"
        return StepReport(StepState.UNKNOWN, message, progress=open_)
    if found.thin:
        message = f"{many(len(found.thin), 'partition')} without a spare in-sync replica: {some(found.thin, 5)}"
        return StepReport(StepState.WAIT, message, progress=open_)
    return StepReport(
        StepState.ACT,
        f"setting {MIN_ISR}={least} for all brokers",
        intent=ChangeSettings(intent_id, {KEY: change.after}),
        target="all brokers",
        saved={setting_text(KEY): change.before},
        progress=open_,
    )


def _taken_in(snapshot: Snapshot, least: int, observed: tuple[str, ...], open_: Progress) -> StepReport:
    defaults = broker_defaults(snapshot)
    late = [b.id for b in snapshot.brokers or () if defaults.get((MIN_ISR, b.id), 0) < least]
    if late:
        message = f"{MIN_ISR} is set; broker {some(late)} has not applied it yet"
        return StepReport(StepState.WAIT, message, observed=observed, progress=open_)
    done = open_.model_copy(update={"done": 1})
    return StepReport(StepState.REACHED, f"every broker has {MIN_ISR}={least}", observed=observed, progress=done)


def _topics(snapshot: Snapshot) -> set[str]:
    assert snapshot.partitions is not None  # both callers saw to it
    return {str(topic) for topic in snapshot.partitions["topic"].unique().to_pylist()}
