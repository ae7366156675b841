"""What elections and new orders of replicas are told: from the playbook, the KafkaCluster's overrides and the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_medic.playbook.parameters import parameter_value
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.playbook import Playbook, Step


@dataclass(frozen=True, slots=True)
class ElectParameters:
    """`batch_size`: partitions in the first request; later ones follow what the last ones took. `leaderless_within`:
    seconds in which a batch's leaders have to serve, before a person is told and nothing more is sent."""

    batch_size: int = 50
    leaderless_within: float = 10.0


AWAY, BACK, EVEN, TRAFFIC = "away", "back", "even", "traffic"
USUAL_MOVES = 50
"""Leaders that one run moves at most for the sake of traffic."""


@dataclass(frozen=True, slots=True)
class DrainParameters:
    """`leaders`: `away` from these brokers, or `back` to where they were before a drain. `brokers`: ids such as `1,3`,
    or `cause` (the broker that the finding names)."""

    leaders: str = AWAY
    brokers: str = "cause"


def elect_parameters(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> ElectParameters:
    """What counts for this run, as in `reassign_parameters`."""
    plain = ElectParameters()
    size = parameter_value(playbook, step, given, "batchSize")
    within = parameter_value(playbook, step, given, "leaderlessWithin")
    return ElectParameters(
        batch_size=plain.batch_size if size is None else max(int(size), 1),
        leaderless_within=plain.leaderless_within if within is None else parse_duration(str(within)),
    )


def drain_parameters(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> DrainParameters:
    """What counts for this run, as in `reassign_parameters`."""
    brokers = parameter_value(playbook, step, given, "brokers")
    return DrainParameters(str(step.with_.get("leaders", AWAY)), "cause" if brokers is None else str(brokers).strip())


def traffic_parameters(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> int:
    """How many leaders may move, as in `reassign_parameters`."""
    moves = parameter_value(playbook, step, given, "maxMoves")
    return USUAL_MOVES if moves is None else max(int(moves), 1)
