"""What is found on the largest cluster, on the worst day, goes into its status."""

from __future__ import annotations

from pathlib import Path

from kafka_medic.controller.store import Store
from kafka_medic.resources.kafkacluster_status import MAX_FINDINGS
from tests.integration.operated_cluster import Place, persons
from tests.integration.people import people
from tests.unit.controller.test_status_room import largest

NAMESPACE = "large-status"


def test_a_status_with_everything_at_its_bound_is_taken_and_read_again(
    role: str, operator: str, tmp_path: Path
) -> None:
    found = persons(tmp_path, operator, "admin")
    with people(NAMESPACE, role):
        place = Place(found["admin"], NAMESPACE, "large")
        store = Store(found["operator"], [NAMESPACE])
        for _ in range(2):  # the second time over the first one
            store.write_status(store.cluster(NAMESPACE, "large"), largest())
        assert len(store.cluster(NAMESPACE, "large").status.findings) == MAX_FINDINGS
        place.leave()
