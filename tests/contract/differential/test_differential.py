"""The same scripts on a real cluster of each kind and on the simulated one: whatever the ports answer is the same, but
for what `differences.py` lists.

SCRIPTS says how many seeds of each kind; those in `kept.json` always run.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.contract.differential import scripts
from tests.contract.differential.differences import OWED
from tests.contract.differential.run import Found, compare
from tests.contract.differential.scripts import Script
from tests.contract.differential.subjects import RealCluster
from tests.testbed.kafka_processes import in_a_network_apart
from tests.testbed.kafka_settings import Shape

KINDS: tuple[Shape, ...] = ("kraft", "zookeeper")
SCRIPTS = int(os.environ.get("SCRIPTS", "6"))
SHRINK_SECONDS = 120.0
MANY = 50
"""With so many scripts of each kind, every difference that is owed comes up."""
USED: Counter[str] = Counter()


def cases() -> Iterator[object]:
    for kind in KINDS:
        for number, (_, script) in enumerate(s for s in scripts.kept() if s[1].kind == kind):
            yield pytest.param(script, id=f"{kind}-kept-{number}")
        for seed in range(SCRIPTS):
            yield pytest.param(scripts.of_seed(seed, kind), id=f"{kind}-{seed}")


@pytest.fixture(scope="module")
def cluster_of() -> Iterator[Callable[[Script], RealCluster]]:
    """A cluster for the script, one at a time: scripts come kind by kind. Where a broker of a KRaft cluster is killed,
    nothing may have been deleted before: then Kafka 4.3 may refuse to register it again, for ever (README.md)."""
    if not in_a_network_apart():
        pytest.skip("needs a network of its own, as the testbed's: no cluster of somebody else's is cut and killed")
    up: list[RealCluster] = []

    def get(script: Script) -> RealCluster:
        anew = script.kind == "kraft" and any(step[0] == "kill" for step in script.steps)
        if up and (up[0].kind != script.kind or up[0].broken or anew):
            up.pop().close()
        if not up:
            up.append(RealCluster(script.kind))
        return up[0]

    yield get
    for cluster in up:
        cluster.close()


@pytest.mark.parametrize("script", list(cases()))
def test_the_simulation_answers_as_kafka_does(cluster_of: Callable[[Script], RealCluster], script: Script) -> None:
    real = cluster_of(script)
    try:
        found = compare(script, real, USED)
    except Exception:
        real.broken = True
        raise
    assert found is None, f"{_shrunk(found, real)}"


@pytest.mark.skipif(SCRIPTS < MANY, reason="too few scripts to tell")
def test_nothing_is_owed_that_no_script_has_met() -> None:
    assert {each.name for each in OWED} <= USED.keys(), "the simulation has mended it: take it off the list"


def _shrunk(found: Found, real: RealCluster) -> Found:
    """The same with fewer steps, as far as time allows. What comes after the difference does not matter."""
    end = time.monotonic() + SHRINK_SECONDS
    script = Script(found.script.seed, found.script.kind, found.script.steps[: found.number + 1])
    smaller = True
    while smaller:
        smaller = False
        for less in scripts.shorter(script)[1:]:
            if time.monotonic() > end:
                return found
            try:
                again = compare(less, real)
            except Exception:  # noqa: BLE001 - without that step the rest makes no sense
                continue
            if again is not None:
                found, script, smaller = again, less, True
                break
    return found
