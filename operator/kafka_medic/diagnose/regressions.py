"""LogEndRegressed: logs that became shorter, so that offsets of lost records name other records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kafka_medic.cluster.document import timestamp
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.diagnose.columns import some
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.log_ends import Regression, committed_on
from kafka_medic.diagnose.scene import Scene
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Severity


def detect(scene: Scene) -> Iterator[Finding]:
    """LogEndRegressed, one for each topic. Critical while a group's committed offset lies in the doubtful range, since
    then it can still be set back; Warning after that, as long as it is remembered."""
    memory = scene.memory
    if memory is None:
        return
    by_topic: dict[str, list[Regression]] = defaultdict(list)
    for regression in memory.regressions:
        by_topic[regression.topic].append(regression)
    inside = _inside(memory.regressions, scene)
    for topic, found in sorted(by_topic.items()):
        evidence = [_described(r) for r in found]
        if len(evidence) > 10:
            evidence = [*evidence[:10], f"and {many(len(found) - 10, 'more partition')}"]
        waiting = sorted({group for r in found for group in inside.get(r.tp, ())})
        if waiting:
            evidence.append(
                f"committed offsets of {some(waiting)} are still in the lost range: these groups will skip new "
                "records there; request a run of reset-consumer-offsets to set them to the log end of the regression"
            )
        if memory.dropped:
            evidence.append(
                f"{many(memory.dropped, 'smaller regression was', 'smaller regressions were')} seen and not kept"
            )
        groups = sorted({g for r in found for g in r.groups or ()})
        yield Finding(
            id=f"LogEndRegressed/{topic}",
            type="LogEndRegressed",
            severity=Severity.CRITICAL if waiting else Severity.WARNING,
            message=f"{many(len(found), 'partition')} of {topic} lost written records: the log became shorter",
            affected=(*(str(r.tp) for r in found), *groups),
            evidence=(*evidence, scene.read_from("log-ends", "kafka")),
            playbook="reset-consumer-offsets" if waiting else None,
            since=min(*(r.at for r in found), scene.snapshot.taken_at),
        )


def _described(r: Regression) -> str:
    epochs = f"leader epoch {_or_unknown(r.epoch_before)} then {_or_unknown(r.epoch_after)}"
    if r.groups is None:
        groups = "which groups had committed beyond it is not known"
    elif r.groups:
        groups = f"groups that had committed beyond it: {', '.join(r.groups)}"
    else:
        groups = "no group had committed beyond it"
    return (
        f"{r.tp}: log end {r.before}, at {timestamp(r.at)} only {r.after} ({epochs}); at least "
        f"{many(r.records, 'record')} "
        f"lost. Offsets {r.after} to {r.before - 1} name other records since then; {groups}"
    )


def _inside(regressions: tuple[Regression, ...], scene: Scene) -> dict[TopicPartition, set[str]]:
    """Groups whose committed offset is in (after, before] now."""
    groups = scene.snapshot.groups
    if groups is None or not regressions:
        return {}
    wanted = {r.tp: r for r in regressions}
    found: dict[TopicPartition, set[str]] = defaultdict(set)
    for group, tp, committed in committed_on(groups, {r.topic for r in regressions}):
        r = wanted.get(tp)
        if r is not None and r.after < committed <= r.before:
            found[tp].add(group)
    return found


def _or_unknown(epoch: int | None) -> str:
    return "not known" if epoch is None else str(epoch)
