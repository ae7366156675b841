"""What runs that set offsets are told: from the playbook, the KafkaCluster's overrides and the run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kafka_medic.playbook.parameters import parameter_value
from kafka_medic.resources.playbook import Playbook, Step
from kafka_medic.resources.vocabulary import WorkloadKind


@dataclass(frozen=True, slots=True)
class ResetParameters:
    """`to`: what decides the new offsets, in the words of Kafka's own tool. `groups`, `topics`: regular expressions
    over whole names, None where none was given; `exclude_groups`: groups that are left out though they match."""

    to: str = "to-last-known-good"
    groups: str | None = None
    exclude_groups: str | None = None
    topics: str | None = None


def reset_parameters(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> ResetParameters:
    """What counts for this run, as in `reassign_parameters`."""

    def text(name: str) -> str | None:
        return str(parameter_value(playbook, step, given, name) or "").strip() or None

    return ResetParameters(text("to") or ResetParameters().to, text("groups"), text("excludeGroups"), text("topics"))


def restored_run(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> str:
    """The name of the Remediation whose offsets are to be put back."""
    return str(parameter_value(playbook, step, given, "remediation") or "").strip()


def stopped_workload(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> tuple[WorkloadKind, str]:
    """Kind and name. Raises ValueError, with the way out after a semicolon."""
    kind, _, name = str(parameter_value(playbook, step, given, "workload") or "").strip().partition("/")
    known = {k.value.lower(): k for k in WorkloadKind}
    if kind.lower() not in known or not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", name):
        raise ValueError("workload names nothing that can be stopped; write Deployment/NAME or StatefulSet/NAME")
    return known[kind.lower()], name
