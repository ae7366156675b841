"""Whether values fit a Playbook's parameters."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_medic.resources.errors import Problem, ResourceError
from kafka_medic.resources.playbook import Playbook


def check_values(playbook: Playbook, values: Mapping[str, int | str]) -> None:
    """Refuse values that do not fit the playbook's parameters."""
    problems = []
    for name, value in values.items():
        parameter = playbook.spec.parameter(name)
        if parameter is None:
            problems.append(Problem(f"parameters.{name}", "is not a parameter of the playbook", "remove it"))
            continue
        try:
            parameter.read(value)
        except ValueError as problem:
            message, _, way = str(problem).partition("; ")
            problems.append(Problem(f"parameters.{name}", message, way))
    if problems:
        raise ResourceError("Remediation", "", tuple(problems))
