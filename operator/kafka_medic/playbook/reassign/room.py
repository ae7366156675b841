"""What each broker may take: a copy that fills a volume takes its broker away."""

from __future__ import annotations

from kafka_medic.diagnose.disks import KEPT_FREE, room_above
from kafka_medic.playbook.action import PlanRequest

RESERVE = 5
"""Percent of a volume that stay free after a plan. Below it `DiskFilling` is Critical."""
LEAST_FREE = 2
"""Percent that stay free after each wave, so that what is written since the plan need not stop the run."""
FILLING = "DiskFilling/broker-"


def room_of_brokers(request: PlanRequest) -> dict[int, int]:
    """Bytes by broker, where they are known. A volume that fills up keeps what a run that relieves it would free."""
    filling = {f.id for f in request.cluster.status.findings}
    shares = {b: KEPT_FREE if f"{FILLING}{b.id}" in filling else RESERVE for b in request.snapshot.brokers or ()}
    return {b.id: room for b, share in shares.items() if (room := room_above(b, share)) is not None}
