"""The digest of a plan: derived from its types, and the same for every plan that was ever approved."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Union, get_args, get_origin

import pytest

from kafka_medic.playbook.plan_digest import (
    covers_sizes,
    digest_fits,
    plan_digest,
    sealed,
)
from kafka_medic.resources.base import Model
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import PARTS, Plan, PlanHeader, ReplicaMoves
from kafka_medic.resources.remediation_plan_part import Digested, Part

KINDS: tuple[type[PlanHeader] | type[Part], ...] = (PlanHeader, *PARTS)
KEPT = json.loads((Path(__file__).parent / "kept_plans.json").read_text())
"""Plans of every playbook of earlier versions, with the digests that they took; the last two hold every field."""
WHOLE = json.loads((Path(__file__).parent / "plans_of_one_record.json").read_text())
"""Plans that each playbook proposed in a simulated cluster, from the last version whose plan was one record with every
action's fields. Of each summary only its first characters are kept."""
SINCE = {
    "evacuate-broker", "rebalance", "rebalance-leaders", "relieve-disk", "replace-broker", "restore-log-dir",
    "spread-racks",
}  # fmt: skip
"""Playbooks of which no earlier version has a plan."""
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


@pytest.mark.parametrize("kept", WHOLE, ids=lambda k: k["spec"]["playbook"]["name"])
def test_every_plan_of_one_record_has_the_very_same_digest(kept):
    run = run_of(kept)
    assert planned(run).digest == plan_digest(run, planned(run))


@pytest.mark.parametrize("kept", [*KEPT, *WHOLE], ids=lambda k: k["spec"]["playbook"]["name"])
def test_every_plan_of_an_earlier_version_is_written_byte_for_byte_as_it_was(kept):
    plan, document = planned(run_of(kept)), json.dumps(kept["plan"])
    assert json.dumps(plan.to_kubernetes()) == document
    assert json.dumps(run_of(kept).to_kubernetes()["status"]["plan"]) == document
    assert plan.model_dump_json(by_alias=True, exclude_none=True) == json.dumps(
        kept["plan"], separators=(",", ":"), ensure_ascii=False
    )


@pytest.mark.parametrize("kept", [*KEPT, *WHOLE], ids=lambda k: k["spec"]["playbook"]["name"])
def test_a_plan_is_put_together_again_of_its_parts(kept):
    plan = planned(run_of(kept))
    bare = plan.with_parts(*(kind() for kind in PARTS))
    assert bare.parts == ()
    assert bare.with_parts(*reversed(plan.parts)) == plan
    assert Plan(**plan.model_dump()) == plan


@pytest.mark.parametrize("kept", [KEPT, WHOLE])
def test_they_are_of_every_playbook(kept):
    shipped = {file.stem for file in (Path(__file__).parents[3] / "playbooks").glob("*.yaml")}
    assert {k["spec"]["playbook"]["name"] for k in kept} == shipped - SINCE


def leaves(model: type[Model], prefix: str = "") -> Iterator[str]:
    """Fields without fields of their own."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        inner = next((m for m in _models(field.annotation)), None)
        if inner is None:
            yield path
        else:
            yield from leaves(inner, f"{path}.")


def _models(annotation: Any) -> Iterator[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    elif get_origin(annotation) in (tuple, Union, UnionType):
        for argument in get_args(annotation):
            yield from _models(argument)
    elif hasattr(annotation, "__metadata__"):
        yield from _models(get_args(annotation)[0])


def undecided(kind: type[PlanHeader] | type[Part]) -> set[str]:
    """Fields of which nobody has said how the digest covers them, and what is said of none or twice."""
    said = kind.digested
    found = set(leaves(kind))
    lists = {path.partition(".")[0] for path in found if "." in path}
    sets = (said.always, said.left_out, said.where_any - lists)
    twice = {path for path in found if sum(path in paths for paths in sets) > 1}
    named = frozenset().union(*sets)
    strangers = (said.where_any | said.left_out_before | said.shapes.keys() | said.names.keys()) - found - lists
    return (found ^ named) | twice | strangers


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_somebody_has_decided_about_each_field(kind):
    """A new field of a plan belongs into `left_out` or `where_any`: else every plan that waits for its approval loses
    it."""
    assert undecided(kind) == set()


class Item(Model):
    size: int


class Added(Part):
    items: tuple[Item, ...] = ()

    digested: ClassVar = Digested(always=frozenset(), where_any=frozenset({"items", "itmes"}))


def test_a_field_that_nobody_has_decided_about_is_found():
    assert undecided(Added) == {"items.size", "itmes"}


def test_an_empty_part_adds_nothing_to_a_digest_but_what_the_first_version_had():
    """Else a new part would change the digest of every plan that has nothing of it."""
    empty: set[str] = set()
    for kind in PARTS:
        said = kind.digested
        lists = {field.alias or name for name, field in kind.model_fields.items()}
        empty |= lists - said.where_any - said.left_out
    assert " ".join(sorted(empty)) == (
        "artifact changes configChanges elections offsets reorders replicationFactor rescueTopic rescues restarts "
        "throttleBytesPerSecond"
    )


def test_no_field_of_a_plan_stands_in_place_of_what_it_is_a_plan_for():
    """The digest has the fields of all parts beside the run's own."""
    named = {field.alias or name for name, field in Plan.document_fields().items()}
    assert named.isdisjoint({"cluster", "remediation", "playbook", "parameters"})


COVERED = sorted(
    path for kind in KINDS for path in leaves(kind) if path in kind.digested.always | kind.digested.where_any
)
LEFT_OUT = sorted(path for kind in KINDS for path in kind.digested.left_out)


ANOTHER = {"str": lambda v: v + "x", "int": lambda v: v + 1, "bool": lambda v: not v, "list": lambda v: [*v, 9]}
ANOTHER_WORD = {
    "steps.action": "ReorderReplicas",
    "configChanges.resourceType": "BROKER",
    "workload.kind": "StatefulSet",
    "ownedTopics.by": "Operator",
    "artifact.sha256": "b" * 64,
    "loads.racks": ["b"],
}


LATER = {
    "ownedTopics": [
        {"topic": "t", "kind": "KafkaTopic", "name": "t", "uid": "tu", "by": "Person", "paused": True, "reason": "r"}
        | {"edits": [{"name": "replicas", "before": "1", "after": "3"}]}
    ],
    "loads": {
        "brokers": [1], "racks": ["a"], "replicasBefore": [1], "replicasAfter": [2], "leadersBefore": [1],
        "leadersAfter": [1],
    },
    "replacedBrokers": [3],
    "emptiedBrokers": [3],
    "removals": [
        {"topic": "t", "partition": 0, "replicasBefore": [1, 2, 3], "replicas": [1, 2], "wave": 0, "sizeBytes": 7}
    ],
    "logDirMoves": [
        {"topic": "t", "partition": 0, "broker": 1, "source": "/a", "target": "/b", "batch": 0, "sizeBytes": 7}
    ],
    "logDirThrottleBytesPerSecond": 1000,
    "reorderedForGood": True,
}  # fmt: skip
"""Fields that no kept plan has, since they are later."""


def holding(path: str) -> dict[str, Any]:
    """A kept plan that holds that field."""
    kept = KEPT[-1] if path.startswith("artifact.") else KEPT[-2]
    first = path.partition(".")[0]
    return kept | {"plan": kept["plan"] | {first: LATER[first]}} if first in LATER else kept


def another(value: Any, inner: str, path: str) -> Any:
    """The value with another one at that place inside of it, in the first item of a list that has it."""
    if not inner:
        word = ANOTHER_WORD.get(path)
        return ANOTHER[type(value).__name__](value) if word is None else word
    first, _, rest = inner.partition(".")
    if isinstance(value, list):
        at = next(n for n, item in enumerate(value) if first in item)
        return [*value[:at], another(value[at], inner, path), *value[at + 1 :]]
    return value | {first: another(value[first], rest, path)}


@pytest.mark.parametrize("path", COVERED)
def test_another_value_of_a_covered_field_is_another_plan(path):
    kept = holding(path)
    first, _, inner = path.partition(".")
    before, after = run_of(kept), run_of(kept, **{first: another(kept["plan"][first], inner, path)})
    assert plan_digest(before, planned(before)) != plan_digest(after, planned(after))


def test_loads_for_people_to_see_make_no_other_plan():
    kept = KEPT[-2]
    without, with_loads = run_of(kept), run_of(kept, loads=LATER["loads"])
    assert planned(with_loads).part(ReplicaMoves).loads is not None
    assert plan_digest(without, planned(without)) == plan_digest(with_loads, planned(with_loads))


@pytest.mark.parametrize("path", [path for path in LEFT_OUT if path != "digest"])
def test_what_is_left_out_makes_no_other_plan(path):
    kept = holding(path)
    first, _, inner = path.partition(".")
    value = kept["plan"][first]
    changed = "2026-01-01T01:00:00Z" if first.endswith("At") else another(value, inner, path)
    before, after = run_of(kept), run_of(kept, **{first: changed})
    assert plan_digest(before, planned(before)) == plan_digest(after, planned(after))


def test_sizes_are_inside_it_from_now_on():
    run = run_of(SIZED[0])
    plan = sealed(run, planned(run))
    assert plan.digest != planned(run).digest
    moves = plan.part(ReplicaMoves)
    grown = moves.changes[0].model_copy(update={"size_bytes": 10**13})
    larger = plan.with_parts(moves.model_copy(update={"changes": (grown, *moves.changes[1:])}))
    assert digest_fits(run, plan)
    assert covers_sizes(run, plan)
    assert not digest_fits(run, larger)
