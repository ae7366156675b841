"""The digest that an approval names, derived from the plan's own types.

Each part of a plan says which of its fields decide nothing (`Digested`). The digest covers every other one.
"""

from __future__ import annotations

import functools

from kafka_medic.playbook.plan_file import without_file
from kafka_medic.resources.base import Model
from kafka_medic.resources.digest import sha256_digest
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import PARTS, Plan, PlanHeader
from kafka_medic.resources.remediation_plan_part import Digested


def plan_digest(remediation: Remediation, plan: Plan) -> str:
    """SHA-256 over everything that decides what will be done: the run's identity and pinned playbook, its parameters,
    and the plan but for what its parts leave out. For a file its hash stands, whether the file was read or not."""
    return _digest(remediation, plan)


def sealed(remediation: Remediation, plan: Plan) -> Plan:
    """The plan with its digest."""
    return plan.model_copy(update={"digest": plan_digest(remediation, plan)})


def digest_fits(remediation: Remediation, plan: Plan) -> bool:
    """Whether the plan is the one that its digest was taken of, by this version or an earlier one."""
    return covers_sizes(remediation, plan) or plan.digest == _digest(remediation, plan, as_before=True)


def covers_sizes(remediation: Remediation, plan: Plan) -> bool:
    """Whether the digest stands for the sizes of what is copied."""
    return plan.digest == plan_digest(remediation, plan)


def _digest(remediation: Remediation, plan: Plan, *, as_before: bool = False) -> str:
    spec = remediation.spec
    origin = {
        "cluster": {"name": spec.cluster_ref.name, "uid": spec.cluster_ref.uid},
        "remediation": remediation.uid,
        "playbook": {"name": spec.playbook.name, "digest": spec.playbook.digest},
        "parameters": dict(spec.parameters),
    }
    kept = without_file(plan)
    covered = origin | _covered(kept, PlanHeader, "", PlanHeader.digested, as_before)
    for kind in PARTS:
        covered |= _covered(kept.part(kind), kind, "", kind.digested, as_before)
    return sha256_digest(covered)


def _covered(model: Model, kind: type[Model], prefix: str, digested: Digested, as_before: bool) -> dict[str, object]:
    found = {}
    for attribute, path, key in _fields(kind, prefix, digested, as_before):
        value = getattr(model, attribute)
        if path in digested.where_any and value in (None, ()):
            continue
        if path in digested.shapes and value is not None:
            found[key] = digested.shapes[path](value)
        else:
            plain = _plain(value, f"{path}.", digested, as_before)
            if plain != {} or path not in digested.where_any:
                found[key] = plain
    return found


def _plain(value: object, prefix: str, digested: Digested, as_before: bool) -> object:
    if isinstance(value, Model):
        return _covered(value, type(value), prefix, digested, as_before)
    if isinstance(value, tuple):
        return [_plain(item, prefix, digested, as_before) for item in value]
    return value


@functools.cache
def _fields(kind: type[Model], prefix: str, digested: Digested, as_before: bool) -> tuple[tuple[str, str, str], ...]:
    """Of each covered field: its attribute, its path below the plan, and its key in the digest."""
    out = digested.left_out | (digested.left_out_before if as_before else frozenset())
    aliases = {name: field.alias or name for name, field in kind.model_fields.items()}
    paths = ((name, f"{prefix}{alias}", alias) for name, alias in aliases.items())
    return tuple((name, path, digested.names.get(path, alias)) for name, path, alias in paths if path not in out)
