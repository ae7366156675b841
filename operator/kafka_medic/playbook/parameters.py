"""Where a step's parameter comes from: the playbook, the KafkaCluster's overrides and the run."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_medic.resources.playbook import Playbook, Step


def parameter_value(playbook: Playbook, step: Step, given: Mapping[str, int | str], name: str) -> int | str | None:
    """What counts for this run: the step's constant, else the run's value, else the playbook's default. None: nobody
    says anything."""
    constant = step.with_.get(name)
    if constant is not None:
        return constant
    parameter = playbook.spec.parameter(name)
    if parameter is None:
        return None
    value = given.get(name, parameter.default)
    return None if value is None else parameter.read(value)
