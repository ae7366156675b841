"""What a person with few rights writes into a Remediation costs the operator little time."""

from __future__ import annotations

import time

import pytest

from kafka_medic.cluster.snapshot import TopicPartition
from tests.simulation.world import World, factor_one_cluster

SECONDS = 10.0
"""A search that is exponential would take years."""


@pytest.mark.parametrize("pattern", [".*" * 30 + "!", "(x+x+)+y", "(?=a)", "(" * 500])
def test_a_slow_pattern_blocks_nothing(pattern: str) -> None:
    world = World(factor_one_cluster())
    world.install(remediation={"mode": "Observe"})
    world.kafka.committed = {"payments-consumer" * 8: {TopicPartition("__consumer_offsets", 0): 0}}
    world.step()
    world.ask("reset-consumer-offsets", user="mallory", to="to-latest", groups=".*", topics=pattern)
    began = time.monotonic()
    for _ in range(3):
        world.step()
    assert time.monotonic() - began < SECONDS
    assert world.kafka.writes == []
    assert world.condition("Reachable")["status"] == "True"
