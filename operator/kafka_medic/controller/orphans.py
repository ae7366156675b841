"""Remediations whose KafkaCluster does not exist: no worker reconciles them, so an event reports them."""

from __future__ import annotations

import logging
from typing import Any

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller.events import Recorder
from kafka_medic.controller.store import Store
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.phases import TERMINAL_PHASES
from kafka_medic.resources.remediation import Remediation

_LOG = logging.getLogger(__name__)


class Orphans:
    """An event for each of them, once in the life of the operator's process."""

    def __init__(self, store: Store, record: Recorder) -> None:
        self._store, self._record = store, record
        self._reported: set[str | None] = set()

    def check(self, raw: dict[str, Any]) -> None:
        """Reads the API server: when the operator starts, Remediations may be received before their clusters."""
        try:
            run = Remediation.parse(raw)
            if run.uid in self._reported or run.status.phase in TERMINAL_PHASES:
                return
            self._store.cluster_raw(run.namespace or "", run.spec.cluster_ref.name)
        except ResourceError as problem:
            _LOG.error("unreadable: %s", problem)
        except ApiFailure as problem:
            if not problem.not_found:
                _LOG.warning("whether the KafkaCluster of %s exists could not be read: %s", run.name, problem)
                return
            self._reported.add(run.uid)
            message = f"KafkaCluster {run.spec.cluster_ref.name} does not exist in this namespace"
            if run.status.restore_owed:
                left = "the operator cannot revert what the run set"
                message += f": {left}; status.journal and status.plan hold the values before"
            self._record(run, ("Warning", "NoKafkaCluster", message))
