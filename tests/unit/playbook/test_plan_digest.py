"""The digest of a plan: derived from its types, and the same for every plan that was ever approved."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import pytest

from kafka_medic.playbook.plan_digest import (
    EARLIER,
    LEFT_OUT,
    WHERE_ANY,
    covers_sizes,
    digest_fits,
    plan_digest,
    sealed,
)
from kafka_medic.resources.base import Model
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan

KEPT = json.loads((Path(__file__).parent / "kept_plans.json").read_text())
"""Plans of every playbook of earlier versions, with the digests that they took; the last two hold every field."""
SIZED = [k for k in KEPT if any("sizeBytes" in c for c in k["plan"].get("changes", ())) and "artifact" not in k["plan"]]


def run_of(kept: dict[str, Any], **plan: Any) -> Remediation:
    return Remediation.parse(
        {
            "apiVersion": "kafkamedic.dev/v1alpha1",
            "kind": "Remediation",
            "metadata": {"name": "r", "namespace": "ns", "uid": kept["uid"]},
            "spec": kept["spec"],
            "status": {"phase": "AwaitingApproval", "plan": kept["plan"] | plan},
        }
    )


def planned(run: Remediation) -> Plan:
    assert run.status.plan is not None
    return run.status.plan


@pytest.mark.parametrize("kept", KEPT, ids=lambda k: k["spec"]["playbook"]["name"])
def test_every_plan_of_an_earlier_version_keeps_its_digest(kept):
    run = run_of(kept)
    assert digest_fits(run, planned(run))
    assert covers_sizes(run, planned(run)) == (kept not in SIZED)


def test_they_are_of_every_playbook():
    shipped = {file.stem for file in (Path(__file__).parents[3] / "playbooks").glob("*.yaml")}
    assert {k["spec"]["playbook"]["name"] for k in KEPT} == shipped


def paths(model: type[Model], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        inner = next((m for m in _models(field.annotation)), None)
        if inner is None or path in LEFT_OUT:
            yield path
        else:
            yield from paths(inner, f"{path}.")


def _models(annotation: Any) -> Iterator[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    elif get_origin(annotation) in (tuple, Union, UnionType):
        for argument in get_args(annotation):
            yield from _models(argument)
    elif hasattr(annotation, "__metadata__"):
        yield from _models(get_args(annotation)[0])


COVERED = """
artifact.sha256 changes.partition changes.replicas changes.replicasBefore changes.sizeBytes changes.topic changes.wave
configChanges.after configChanges.before configChanges.name configChanges.resourceName configChanges.resourceType
drains.broker drains.partitions drains.replicas drains.replicasBefore drains.topic
elections.broker elections.partitions elections.topic
offsets.after offsets.afterEpoch offsets.afterMetadata offsets.before offsets.beforeEpoch offsets.beforeMetadata
offsets.group offsets.logEnd offsets.logStart offsets.partition offsets.readAgain offsets.reason offsets.skipped
offsets.topic offsets.topicId preconditions.name preconditions.value reorders.partition reorders.replicas
reorders.replicasBefore reorders.topic replicationFactor rescueTopic rescues.broker rescues.epoch rescues.fromOffset
rescues.partition rescues.topic resignations.broker resignations.epoch restarts.broker restarts.pod restarts.podUid
restarts.stale staticSettings.after staticSettings.before staticSettings.brokers staticSettings.name steps.action
steps.name throttleBytesPerSecond topics.id topics.topic workload.kind workload.name workload.replicas workload.uid
"""


def test_somebody_has_decided_about_each_field():
    """A new field of a plan belongs into LEFT_OUT, or into COVERED here and WHERE_ANY there: else every plan that waits
    for its approval loses it."""
    everything = set(paths(Plan))
    assert everything - LEFT_OUT == set(COVERED.split())
    assert everything >= LEFT_OUT
    known = everything | {path.partition(".")[0] for path in everything}
    assert known >= WHERE_ANY >= EARLIER


ANOTHER = {"str": lambda v: v + "x", "int": lambda v: v + 1, "bool": lambda v: not v, "list": lambda v: [*v, 9]}
ANOTHER_WORD = {
    "steps.action": "ReorderReplicas",
    "configChanges.resourceType": "BROKER",
    "workload.kind": "StatefulSet",
    "artifact.sha256": "b" * 64,
}


@pytest.mark.parametrize("path", COVERED.split())
def test_another_value_of_a_covered_field_is_another_plan(path):
    with_file = path.startswith("artifact.")
    kept = KEPT[-1] if with_file else KEPT[-2]
    first, _, inner = path.partition(".")
    value = kept["plan"][first]
    part = next(v for v in value if inner in v) if isinstance(value, list) else value
    if inner:
        other = part | {inner: ANOTHER_WORD.get(path) or ANOTHER[type(part[inner]).__name__](part[inner])}
        changed = [other, *value[1:]] if isinstance(value, list) else other
    else:
        changed = ANOTHER[type(value).__name__](value)
    before, after = run_of(kept), run_of(kept, **{first: changed})
    assert plan_digest(before, planned(before)) != plan_digest(after, planned(after))


@pytest.mark.parametrize("path", sorted(LEFT_OUT - {"digest"}))
def test_what_is_left_out_makes_no_other_plan(path):
    kept = KEPT[-1] if path.startswith("artifact.") else KEPT[-2]
    first, _, inner = path.partition(".")
    value = kept["plan"][first]
    if inner:
        part = value[0] if isinstance(value, list) else value
        other = part | {inner: ANOTHER[type(part[inner]).__name__](part[inner])}
        changed = [other] if isinstance(value, list) else other
    else:
        changed = "2026-01-01T01:00:00Z" if first.endswith("At") else ANOTHER[type(value).__name__](value)
    before, after = run_of(kept), run_of(kept, **{first: changed})
    assert plan_digest(before, planned(before)) == plan_digest(after, planned(after))


def test_sizes_are_inside_it_from_now_on():
    run = run_of(SIZED[0])
    plan = sealed(run, planned(run))
    assert plan.digest != planned(run).digest
    grown = plan.changes[0].model_copy(update={"size_bytes": 10**13})
    larger = plan.model_copy(update={"changes": (grown, *plan.changes[1:])})
    assert digest_fits(run, plan)
    assert covers_sizes(run, plan)
    assert not digest_fits(run, larger)
