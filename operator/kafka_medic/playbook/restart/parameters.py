"""What restarts are told: from the playbook, the KafkaCluster's overrides and the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_medic.playbook.parameters import parameter_value
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.playbook import Playbook, Step

CONTROLLER = "controller"
"""The value of `brokers` that stands for whoever is the active controller."""


@dataclass(frozen=True, slots=True)
class RestartParameters:
    """`brokers`: `all`, `controller`, `cause` (the broker that the finding names) or ids such as `1,3`.
    `broker_within`: seconds that a broker may take to be back in everything before a person is told. `max_parallel`:
    how many may be away at once. `drain_first`: what a broker leads is moved off it before, and back afterwards."""

    brokers: str = "all"
    broker_within: float = 1800.0
    max_parallel: int = 1
    drain_first: bool = False


def restart_parameters(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> RestartParameters:
    """What counts for this run, as in `reassign_parameters`."""
    plain = RestartParameters()
    within = parameter_value(playbook, step, given, "brokerWithin")
    brokers = parameter_value(playbook, step, given, "brokers")
    parallel = parameter_value(playbook, step, given, "maxParallel")
    return RestartParameters(
        brokers=plain.brokers if brokers is None else str(brokers).strip(),
        broker_within=plain.broker_within if within is None else parse_duration(str(within)),
        max_parallel=plain.max_parallel if parallel is None else max(int(parallel), 1),
        drain_first=parameter_value(playbook, step, given, "drainFirst") in (True, "true"),
    )


def rescue_topic(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> str:
    """How the names of rescue topics begin."""
    return str(parameter_value(playbook, step, given, "rescueTopic") or "kafka-medic.rescued")
