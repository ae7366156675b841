"""The operator is the installed one, as in the end-to-end tests. Both kinds of cluster are played on side by side."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import installed, steady
from tests.gameday import cluster
from tests.gameday.scenario import Scene
from tests.testbed import KafkaDeployment, Shape, deploy_kafka

__all__ = ["installed", "steady"]

SLOTS: dict[Shape, int] = {"kraft": 7, "zookeeper": 8}
SETTINGS = {"auto.leader.rebalance.enable": "false", "replica.lag.time.max.ms": 6000}
"""Leaders stay where elections put them, so that a test decides when they come home; a follower that is behind leaves
the ISR within seconds."""


@pytest.fixture(scope="session")
def scenes(installed: None) -> Iterator[list[Scene]]:
    made = []
    for shape, slot in SLOTS.items():
        KafkaDeployment(f"gameday-{shape}", shape, {}, {0: ""}).undeploy()  # what a killed run left
        kafka = deploy_kafka(f"gameday-{shape}", shape, SETTINGS, slot, wait=False)
        made.append(Scene(kafka, f"gameday-{uuid.uuid4().hex[:4]}"))
    for scene in made:
        scene.kafka.wait_ready()
        cluster.fill(scene)
        scene.watch(expectations=cluster.EXPECTATIONS)
    yield made
    print("\n" + "\n".join(sorted(row for scene in made for row in scene.table)))
    for scene in made:
        scene.kafka.undeploy()
