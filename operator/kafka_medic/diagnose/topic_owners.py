"""Topics whose owner's object says less than is expected of them: what is raised would not last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafka_medic.cluster.min_isr import MIN_ISR
from kafka_medic.cluster.owner_commands import REPLICAS, edit_command
from kafka_medic.cluster.snapshot import TopicOwner
from kafka_medic.diagnose.columns import some
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Severity

LASTS = 60.0
SHOWN = 5


def detect(scene: Scene) -> Iterator[Finding]:
    """TopicOwnedElsewhere."""
    owners = scene.snapshot.owners or ()
    differing = {o.topic: (o, edit) for o in owners if (edit := owners_edit(o, scene.expectations))}
    if not differing:
        return
    kept = sorted({o.kept_by for o, _ in differing.values() if o.kept_by})
    yield Finding(
        id="TopicOwnedElsewhere",
        type="TopicOwnedElsewhere",
        severity=Severity.WARNING,
        message=(
            f"{many(len(differing), 'KafkaTopic')} below what is expected; Strimzi would revert what the operator "
            "raises"
        ),
        affected=tuple(sorted(differing)),
        evidence=(
            *(
                edit_command(scene.snapshot.cluster, owner.kind, owner.name, edit)
                for owner, edit in list(differing.values())[:SHOWN]
            ),
            *((f"edit them in Git: {some(kept)} applies them from there",) if kept else ()),
            "a plan that raises such a topic first pauses its KafkaTopic; this edit is one of its steps",
            scene.read_from("topic-owners"),
        ),
        for_seconds=LASTS,
    )


def owners_edit(owner: TopicOwner, expectations: Expectations) -> Mapping[str, str]:
    """What has to change in the owner's spec for its topic to be as expected; empty where it says nothing else."""
    factor, least = expectations.factor_of(owner.topic), expectations.min_isr_of(owner.topic)
    edit: dict[str, str] = {}
    if factor is None or least is None:
        return edit
    if owner.factor is not None and owner.factor < factor:
        edit[REPLICAS] = str(factor)
    if owner.min_isr is not None and owner.min_isr < least:
        edit[MIN_ISR] = str(least)
    return edit
