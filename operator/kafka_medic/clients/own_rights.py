"""What the operator itself may do in a namespace, asked of the API server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi, Object

PATH = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
KEPT = 60.0
"""Seconds for which an answer counts: who changes a role sees the effect within that."""


@dataclass(slots=True)
class OwnRights:
    """The rules that hold for the operator in one namespace, kept for a minute. clock: monotonic, in seconds."""

    api: KubernetesApi
    namespace: str
    clock: Callable[[], float] = time.monotonic
    _asked: float | None = None
    _rules: Sequence[Object] | None = None

    def rules(self) -> Sequence[Object] | None:
        """Those for resources; None where the API server does not say, or not all of them."""
        now = self.clock()
        if self._asked is None or now - self._asked >= KEPT:
            self._asked, self._rules = now, self._read()
        return self._rules

    def _read(self) -> Sequence[Object] | None:
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": self.namespace},
        }
        try:
            status = self.api.create(PATH, body).get("status") or {}
        except ApiFailure:
            return None
        rules: Sequence[Object] = status.get("resourceRules") or ()
        return None if status.get("incomplete") else rules
