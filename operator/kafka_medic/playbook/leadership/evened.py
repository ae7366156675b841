"""What a plan that adds replicas does about leaders: the new replicas get their share, once they are in sync."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka_medic.plan.model import Move
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.plan_file import elections_of
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import PartitionChange, PreferredElection
from kafka_medic.resources.vocabulary import ActionName


@dataclass(frozen=True, slots=True)
class EvenedLeaders:
    """Orders of replicas for afterwards, who is elected then, and what each step does, in a sentence."""

    reorders: tuple[PartitionChange, ...] = ()
    elections: tuple[PreferredElection, ...] = ()
    words: Mapping[ActionName, str] = field(default_factory=dict)


def evened_leaders(request: PlanRequest, moves: Sequence[Move]) -> EvenedLeaders:
    """Where somebody else is to lead than leads already. Nothing for a playbook that leaves leaders where they are."""
    if request.step(ActionName.REORDER_REPLICAS) is None:
        return EvenedLeaders()
    reorders = tuple(
        PartitionChange(topic=m.topic, partition=m.partition, replicas_before=m.replicas, replicas=m.preferred_order)
        for m in moves
        if m.preferred_order[0] != m.replicas[0]
    )
    if not reorders:
        none = "leaders are already balanced"
        return EvenedLeaders(words={ActionName.REORDER_REPLICAS: none, ActionName.ELECT_PREFERRED_LEADERS: none})
    words = {
        ActionName.REORDER_REPLICAS: f"put a new replica first in the lists of {many(len(reorders), 'partition')}",
        ActionName.ELECT_PREFERRED_LEADERS: (
            f"elect the leaders of {many(len(reorders), 'partition')}, in batches, each of which must serve"
        ),
    }
    return EvenedLeaders(reorders, elections_of(reorders), words)
