"""What people are shown of this room's part of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_medic.playbook.change import Change, Changes
from kafka_medic.resources.remediation_plan import Plan, SettingChanges
from kafka_medic.resources.vocabulary import ActionName


def _settings(plan: Plan) -> Iterator[Change]:
    for c in plan.part(SettingChanges).config_changes:
        whose = f"{c.resource_type.value.lower()} {c.resource_name}" if c.resource_name else "all brokers"
        yield Change(f"{c.name} of {whose}", c.before, c.after or "not set")


CHANGES: Changes = {
    ActionName.SET_MIN_INSYNC_REPLICAS: _settings,
    ActionName.REMOVE_THROTTLES: _settings,
    ActionName.SET_CLUSTER_DEFAULTS: _settings,
}
