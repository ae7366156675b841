"""A healthy cluster of Strimzi's: nothing is found, nothing is proposed, nothing is touched."""

from __future__ import annotations

import os
import time

from tests.incident import operator, records
from tests.strimzi.case import StrimziCase
from tests.testbed.steps import granted

SILENT_SECONDS = float(os.environ.get("SILENT_SECONDS", "60"))


def test_a_healthy_cluster_is_silent(case: StrimziCase) -> None:
    topic = case.topic([0, 1, 2], [1, 2, 0], [2, 0, 1])
    kafka = case.made_by_strimzi
    before, generation = kafka.uids(), kafka.resource()["metadata"]["generation"]
    case.watch()
    case.condition("Ready", "True")
    with records.flowing(case.boot, topic) as traffic:
        end, found = granted() + SILENT_SECONDS, set[str]()
        while granted() < end:
            found |= set(case.firing())
            time.sleep(1)
    assert found == set()
    assert case.runs() == []
    assert [event for event in case.events() if event[0] != "Normal"] == []
    assert kafka.uids() == before
    assert kafka.asked_to_roll() == []
    assert kafka.resource()["metadata"]["generation"] == generation
    print(
        f"\nhealthy: {SILENT_SECONDS:.0f} s, {len(traffic.acked)} records acknowledged and read, no finding, no event"
    )
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    assert operator.restarts() == 0
