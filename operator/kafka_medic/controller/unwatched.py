"""KafkaClusters beyond the limit of their namespace: each reports on itself that nobody watches it."""

from __future__ import annotations

import logging
from typing import Any

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller.fleet import Fleet
from kafka_medic.controller.not_ready import write_not_ready
from kafka_medic.report.units import many

_LOG = logging.getLogger(__name__)

REASON = "TooManyInNamespace"


def report_unwatched(api: Any, fleet: Fleet) -> None:
    """Writes the condition Ready of each, where it does not say so already. One that cannot be written is reported with
    the next change of any KafkaCluster."""
    for (namespace, name), count in fleet.unwatched().items():
        message = (
            f"not watched: the namespace has {many(count, 'KafkaCluster')} (limit {fleet.most}, the oldest first); "
            "delete one, or raise limits.clustersPerNamespace in the operator's chart"
        )
        try:
            write_not_ready(api, namespace, name, REASON, message)
        except ApiFailure as problem:
            if not problem.not_found and not problem.conflict:
                _LOG.warning("%s/%s: %s, which could not be written: %s", namespace, name, message, problem)
