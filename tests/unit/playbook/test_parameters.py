"""A closed vocabulary: what an action does not know refuses the whole playbook, with its path."""

from __future__ import annotations

import copy

import pytest
import yaml

from kafka_medic.playbook.acceptance import check
from kafka_medic.playbook.action import EVERY_EFFECT
from kafka_medic.playbook.reassign.parameters import ReassignParameters
from kafka_medic.playbook.reassign.parameters import reassign_parameters as parameters
from kafka_medic.playbook.registry import ACTIONS
from kafka_medic.playbook.values import check_values
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.vocabulary import ActionName, Guard
from tests.simulation.world import PLAYBOOK_FILE, PLAYBOOKS, shipped_playbook

RAW = yaml.safe_load(PLAYBOOK_FILE.read_text())


def playbook(**with_):
    raw = copy.deepcopy(RAW)
    raw["spec"].pop("parameters")
    raw["spec"]["steps"][0]["with"] = with_
    return Playbook.parse(raw)


@pytest.mark.parametrize("file", sorted(PLAYBOOKS.glob("*.yaml")), ids=lambda file: file.stem)
def test_the_shipped_playbooks_are_accepted(file):
    check(Playbook.parse(yaml.safe_load(file.read_text())))


def test_every_action_and_every_guard_has_its_place():
    assert set(ACTIONS) == set(ActionName)
    assert {*EVERY_EFFECT, *(guard for action in ACTIONS.values() for guard in action.demands)} == set(Guard)


def test_removing_throttles_and_electing_are_two_playbooks():
    """They were planned as one: the election was described as the removal of a throttle, and never held."""
    raw = yaml.safe_load((PLAYBOOKS / "remove-leftover-throttles.yaml").read_text())
    elect = yaml.safe_load((PLAYBOOKS / "elect-preferred-leaders.yaml").read_text())["spec"]["steps"][0]
    raw["spec"]["steps"].append(elect)
    with pytest.raises(ResourceError, match=r"steps\[1\].action: elect .* cannot be planned together"):
        check(Playbook.parse(raw))


def test_an_unknown_key_and_an_unused_parameter_are_named_by_path():
    with pytest.raises(ResourceError) as refusal:
        check(playbook(shell="rm"))
    assert [p.path for p in refusal.value.problems] == ["spec.steps[0].with.shell"]
    raw = copy.deepcopy(RAW)
    raw["spec"]["parameters"].append({"name": "surprise", "type": "string"})
    with pytest.raises(ResourceError) as refusal:
        check(Playbook.parse(raw))
    assert [p.path for p in refusal.value.problems] == [f"spec.parameters[{len(RAW['spec']['parameters'])}].name"]


@pytest.mark.parametrize(
    ("kept", "way"),
    [
        ((0,), r"steps\[0\]: step-0 \(StopConsumers\) cannot come last; add ResetOffsets after it"),
        ((0, 1), r"steps\[1\]: step-1 \(ResetOffsets\) cannot come last; add StartConsumers after it"),
        (
            (1, 2),
            r"steps\[1\].action: step-1 \(StartConsumers\) cannot be planned together.*end the playbook before it",
        ),
        ((0, 2), r"steps\[1\].action: step-1 \(StartConsumers\) cannot be planned together.*write ResetOffsets there"),
        ((2, 1, 0), r"steps\[0\].action: step-0 \(StartConsumers\) cannot come first"),
        ((0, 1, 2, 1), r"steps\[3\].action: step-3 \(ResetOffsets\) cannot be planned together.*end the playbook"),
    ],
)
def test_consumers_are_stopped_around_a_reset_alone_and_started_again(kept, way):
    raw = yaml.safe_load((PLAYBOOKS / "reset-offsets-of-workload.yaml").read_text())
    steps = raw["spec"]["steps"]
    raw["spec"]["steps"] = [{**steps[n], "name": f"step-{place}"} for place, n in enumerate(kept)]
    with pytest.raises(ResourceError, match=way):
        check(Playbook.parse(raw))


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"unknown": 1}, "parameters.unknown"),
        ({"throttleBytesPerSecond": "fast"}, "parameters.throttleBytesPerSecond"),
        ({"throttleBytesPerSecond": "0"}, "parameters.throttleBytesPerSecond"),
        ({"waveBytesPerBroker": 10**14}, "parameters.waveBytesPerBroker"),
        ({"bandwidthSharePercent": "100"}, "parameters.bandwidthSharePercent"),
    ],
)
def test_values_that_do_not_fit_are_refused(values, path):
    with pytest.raises(ResourceError) as refusal:
        check_values(shipped_playbook(), values)
    assert [p.path for p in refusal.value.problems] == [path]


def test_a_runs_value_before_the_default_and_a_constant_before_both():
    shipped = shipped_playbook()
    step = shipped.spec.steps[0]
    assert parameters(shipped, step, {}) == ReassignParameters(50_000_000, 50_000_000_000, None)
    given = parameters(shipped, step, {"throttleBytesPerSecond": "2000000"})
    assert given.throttle_bytes_per_second == 2_000_000
    stated = {"bandwidthBytesPerSecond": "1250000000"}
    found = parameters(shipped, step, stated)
    assert (found.throttle_bytes_per_second, found.bandwidth, found.bandwidth_share) == (375_000_000, 1_250_000_000, 30)
    found = parameters(shipped, step, {**stated, "bandwidthSharePercent": "40", "throttleBytesPerSecond": "2000000"})
    assert found.throttle_bytes_per_second == 500_000_000
    fixed = playbook(throttleBytesPerSecond=7, wavePartitions="3")
    found = parameters(fixed, fixed.spec.steps[0], {"throttleBytesPerSecond": "2000000"})
    assert found == ReassignParameters(7, None, 3)


def test_zero_switches_a_bound_off_and_is_not_a_throttle_of_nothing():
    off = playbook(throttleBytesPerSecond=0)
    assert parameters(off, off.spec.steps[0], {}).throttle_bytes_per_second is None
