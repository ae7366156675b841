"""The scripts of the differential contract are data without races, and its comparison misses nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.contract.differential import differences, scripts
from tests.contract.differential.run import compare
from tests.contract.differential.scripts import Script
from tests.contract.differential.subjects import SimulatedCluster

KINDS = ("kraft", "zookeeper")
README = Path(differences.__file__).with_name("README.md")


class Pretended(SimulatedCluster):
    """A simulated cluster in the place of the real one."""

    least = None

    def __init__(self, kind):
        super().__init__(kind, 0, None)

    def controller(self):
        """Asked before each comparison."""
        self.settle()
        return self._sim.controller()

    def tidy(self, _):
        self.settle()


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_is_one_script_and_a_script_is_plain_data(kind):
    for seed in range(100):
        script = scripts.of_seed(seed, kind)
        assert script == scripts.of_seed(seed, kind)
        assert script == Script(**json.loads(json.dumps(script.plain())))


@pytest.mark.parametrize("kind", KINDS)
def test_no_script_meets_a_race_that_is_left_out(kind):
    for seed in range(300):
        down, cut, moved = set(), set(), False
        for what, *args in scripts.of_seed(seed, kind).steps:
            if what in ("stop", "kill"):
                down.add(args[0])
                assert not (args[0] == scripts.CONTROLLER and cut)
                moved |= args[0] == scripts.CONTROLLER
            elif what == "start":
                down.remove(args[0])
            elif what == "cut":
                assert args[0] != scripts.CONTROLLER
                assert not moved
                cut.add(args[0])
            elif what == "heal":
                cut.remove(args[0])
            assert len(down) <= 1
            assert len(cut) <= 1
            assert kind == "zookeeper" or len(down | cut) <= 1


def test_every_kind_of_step_comes_up():
    seen = {step[0] for kind in KINDS for seed in range(200) for step in scripts.of_seed(seed, kind).steps}
    assert seen == {
        "create", "delete", "recreate", "elect", "reassign", "cancel", "configure", "commit", "write", "stop", "kill",
        "start", "cut", "heal", "rest",
    }  # fmt: skip


def test_every_listed_difference_has_its_row():
    rows = README.read_text()
    for each in (*differences.ACCEPTED, *differences.OWED):
        re.compile(each.path)
        assert f"| {each.name} |" in rows, each.name


@pytest.mark.parametrize("kind", KINDS)
def test_two_simulated_clusters_are_alike(kind, monkeypatch):
    monkeypatch.setattr(differences, "ACCEPTED", ())
    for seed in range(10):
        script = Script(seed, kind, [s for s in scripts.of_seed(seed, kind).steps if s[0] not in ("cut", "heal")])
        assert compare(script, Pretended(kind)) is None


def test_an_election_that_forgets_its_epoch_is_noticed(monkeypatch):
    steps = [["create", "t0", [[1, 2]], {}], ["reassign", "t0", 0, [2, 1]], ["elect", "t0", 0]]
    real = Pretended("kraft")

    def elect(partitions):
        for tp in partitions:
            real._sim.partitions[tp].leader = real._sim.partitions[tp].replicas[0]
        return {}

    monkeypatch.setattr(real._sim, "elect_preferred", elect)
    monkeypatch.setattr("tests.contract.differential.run.SETTLES", 0.0)
    found = compare(Script(0, "kraft", steps), real)
    assert found is not None
    assert found.number == 2
    assert "view/0/t0-0/epoch: Kafka '+0', simulation '+1'" in map(str, found.unlike)
