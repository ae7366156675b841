"""The digest that an approval names, derived from the plan's own types.

Every field of a plan is covered unless `LEFT_OUT` names it. Fields that were added later stand in `WHERE_ANY`: they are
covered where they hold something, so a plan that was approved before they existed keeps its digest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from kafka_medic.playbook.plan_file import without_file
from kafka_medic.resources.base import Model
from kafka_medic.resources.digest import sha256_digest
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan

LEFT_OUT = frozenset(
    {
        # Times, prose and totals: nothing is done by them.
        "digest",
        "proposedAt",
        "expiresAt",
        "summary",
        "partitions",
        "moves",
        "lowerBoundMoves",
        "bytesToMove",
        "estimatedSeconds",
        "waves",
        "steps.description",
        "restarts.node",
        "restarts.reason",
        # No data moves with a new order, so neither is used.
        "reorders.wave",
        "reorders.sizeBytes",
        # A broker's log may grow until the records are saved: all of them are.
        "rescues.toOffset",
        # The hash decides what the file holds.
        "artifact.uri",
    }
)
"""Paths below `status.plan` that decide nothing."""
WHERE_ANY = frozenset(
    {
        "changes.sizeBytes",
        "drains",
        "offsets.afterEpoch",
        "offsets.beforeEpoch",
        "offsets.logEnd",
        "offsets.logStart",
        "offsets.topicId",
        "resignations",
        "staticSettings",
        "topics",
        "workload",
    }
)
"""Paths that are covered only where they hold something."""
EARLIER = frozenset({"changes.sizeBytes"})
"""Left out too by earlier versions, whose plans keep the digest and the approvals that they have."""
_SHAPES: Mapping[str, Callable[[Any], object]] = {
    "artifact": lambda artifact: artifact.sha256,
    "resignations": lambda resignations: [[r.broker, r.epoch] for r in resignations],
    "topics": lambda topics: {t.topic: t.id for t in topics},
}
_NAMES = {"rescues.fromOffset": "from"}


def plan_digest(remediation: Remediation, plan: Plan) -> str:
    """SHA-256 over everything that decides what will be done: the run's identity and pinned playbook, its parameters,
    and the plan but for `LEFT_OUT`. For what lies in a file its hash stands, whether the file was read or not."""
    return _digest(remediation, plan, LEFT_OUT)


def sealed(remediation: Remediation, plan: Plan) -> Plan:
    """The plan with its digest."""
    return plan.model_copy(update={"digest": plan_digest(remediation, plan)})


def digest_fits(remediation: Remediation, plan: Plan) -> bool:
    """Whether the plan is the one that its digest was taken of, by this version or an earlier one."""
    return plan.digest in (plan_digest(remediation, plan), _digest(remediation, plan, LEFT_OUT | EARLIER))


def covers_sizes(remediation: Remediation, plan: Plan) -> bool:
    """Whether the digest stands for the sizes of what is copied."""
    return plan.digest == plan_digest(remediation, plan)


def _digest(remediation: Remediation, plan: Plan, left_out: frozenset[str]) -> str:
    spec = remediation.spec
    origin = {
        "cluster": {"name": spec.cluster_ref.name, "uid": spec.cluster_ref.uid},
        "remediation": remediation.uid,
        "playbook": {"name": spec.playbook.name, "digest": spec.playbook.digest},
        "parameters": dict(spec.parameters),
    }
    return sha256_digest(origin | _covered(without_file(plan), "", left_out))


def _covered(model: Model, prefix: str, left_out: frozenset[str]) -> dict[str, object]:
    found = {}
    for attribute, path, key in _fields(type(model), prefix, left_out):
        value = getattr(model, attribute)
        if path in WHERE_ANY and value in (None, ()):
            continue
        if path in _SHAPES and value is not None:
            found[key] = _SHAPES[path](value)
        else:
            found[key] = _plain(value, f"{path}.", left_out)
    return found


def _plain(value: object, prefix: str, left_out: frozenset[str]) -> object:
    if isinstance(value, Model):
        return _covered(value, prefix, left_out)
    if isinstance(value, tuple):
        return [_plain(item, prefix, left_out) for item in value]
    return value


@functools.cache
def _fields(model: type[Model], prefix: str, left_out: frozenset[str]) -> tuple[tuple[str, str, str], ...]:
    """Of each covered field: its attribute, its path below the plan, and its key in the digest."""
    aliases = {name: field.alias or name for name, field in model.model_fields.items()}
    paths = ((name, f"{prefix}{alias}", alias) for name, alias in aliases.items())
    return tuple((name, path, _NAMES.get(path, alias)) for name, path, alias in paths if path not in left_out)
