"""What the operator itself may do in a namespace, asked of the API server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi, Object

PATH = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
KEPT = 60.0
"""Seconds for which an answer counts: who changes a role sees the effect within that."""


@dataclass(slots=True)
class OwnRights:
    """The rules that hold for the operator in one namespace, and single rights there, kept for a minute. clock:
    monotonic, in seconds."""

    api: KubernetesApi
    namespace: str
    clock: Callable[[], float] = time.monotonic
    _asked: float | None = None
    _rules: Sequence[Object] | None = None
    _answers: dict[tuple[str, str, str], tuple[float, bool | None]] = field(default_factory=dict)

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

    def may(self, group: str, resource: str, verb: str) -> bool | None:
        """Whether the operator may do that to every object of the resource; None where the API server does not say. Of
        an authorizer that lists no rules (a webhook) the rules are not all known, and this is."""
        now, asked = self.clock(), (group, resource, verb)
        known = self._answers.get(asked)
        if known is None or now - known[0] >= KEPT:
            answer = self._ask(*asked)
            # A question that is not answered takes no answer back.
            answer = known[1] if answer is None and known is not None else answer
            self._answers[asked] = known = now, answer
        return known[1]

    def _ask(self, group: str, resource: str, verb: str) -> bool | None:
        wanted = {"namespace": self.namespace, "group": group, "resource": resource, "verb": verb}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": wanted},
        }
        try:
            status = self.api.create(ACCESS, body).get("status") or {}
        except ApiFailure:
            return None
        return status.get("allowed") is True
