"""The operator is the installed one, as in the end-to-end tests. Both kinds of cluster are played on side by side,
except where a test asks for one kind after the other."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import one_of_each_kind
from tests.e2e.conftest import STEADY, Case, installed, no_other_operator, steady
from tests.gameday import cluster
from tests.gameday.scenario import Scene
from tests.incident import operator
from tests.testbed import KafkaDeployment, Shape, deployed

__all__ = ["installed", "no_other_operator", "steady"]

SLOTS: dict[Shape, int] = {"kraft": 7, "zookeeper": 8}
ONE_KIND_SLOT = 10
SETTINGS = {"auto.leader.rebalance.enable": "false", "replica.lag.time.max.ms": 6000}
"""Leaders stay where elections put them, so that a test decides when they come home; a follower that is behind leaves
the ISR within seconds."""


ORDER = ("scenes", "kafka_of", "steady")
"""Deployments that tests share come and go one after the other; tests with one of their own lie before the last.
Operators that run as processes come first of all, while no Pod of the chart's would act in their place."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> float:
    if item.path.parent != Path(__file__).parent:
        return -1 if item.path.parent.name == "process" else len(ORDER)
    asked = getattr(item, "fixturenames", ())
    return next((turn for turn, fixture in enumerate(ORDER) if fixture in asked), len(ORDER) - 1.5)


@pytest.fixture(scope="session")
def scenes(request: pytest.FixtureRequest, installed: None) -> Iterator[list[Scene]]:
    both = one_of_each_kind(request, "gameday", SETTINGS, SLOTS)
    made = [Scene(kafka, f"gameday-{uuid.uuid4().hex[:4]}") for kafka in both]
    for scene in made:
        cluster.fill(scene)
        scene.watch(expectations=cluster.EXPECTATIONS)
    yield made
    print("\n" + "\n".join(sorted(row for scene in made for row in scene.table)))


@pytest.fixture(scope="session", params=["kraft", "zookeeper"])
def one_kind(installed: None, request: pytest.FixtureRequest) -> Iterator[KafkaDeployment]:
    """One after the other, in which every partition has a replica to spare."""
    with deployed(f"offsets-{request.param}", request.param, STEADY, ONE_KIND_SLOT) as kafka:
        operator.people(kafka.namespace)
        yield kafka


@pytest.fixture
def story(one_kind: KafkaDeployment) -> Iterator[tuple[Scene, Case]]:
    """A KafkaCluster that looks after offsets alone, and is gone afterwards: of two for one Kafka one would wait."""
    scene = Scene(one_kind, f"offsets-{uuid.uuid4().hex[:4]}")
    case = Case(one_kind, scene.name)
    case.watch(
        expectations={"topics": [{"pattern": ".*", "exempt": True}]},
        remediation={"limits": {"cooldown": "0s"}},
    )
    yield scene, case
    case.end()
