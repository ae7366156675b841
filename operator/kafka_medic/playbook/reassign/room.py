"""What each broker may take: a copy that fills a volume takes its broker away."""

from __future__ import annotations

from kafka_medic.diagnose.disks import KEPT_FREE, room_above
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.resources.kafkacluster import KafkaCluster

RESERVE = 5
"""Percent of a volume that stay free after a plan. Below it `DiskFilling` is Critical."""
LEAST_FREE = 2
"""Percent that stay free after each wave, so that what is written since the plan need not stop the run."""
FILLING = "DiskFilling/broker-"


def filling_volumes(cluster: KafkaCluster) -> frozenset[int]:
    """Brokers of which the last diagnosis said so."""
    ids = (f.id.removeprefix(FILLING) for f in cluster.status.findings if f.id.startswith(FILLING))
    return frozenset(int(broker) for broker in ids if broker.isdecimal())


def room_of_brokers(request: PlanRequest) -> dict[int, int]:
    """Bytes by broker, where they are known. A volume that fills up keeps what a run that relieves it would free."""
    filling = filling_volumes(request.cluster)
    rooms = ((b.id, room_above(b, KEPT_FREE if b.id in filling else RESERVE)) for b in request.snapshot.brokers or ())
    return {broker: room for broker, room in rooms if room is not None}
