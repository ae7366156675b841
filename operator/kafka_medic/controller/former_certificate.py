"""Which client certificate is shown while a new one is on its way.

The CA behind client certificates changes in two places: the Secret has a certificate of the new CA at once, brokers
trust that CA from their next restart on. Strimzi's User Operator and Cluster Operator do not wait for each other. Until
every broker takes the new certificate, the one before is shown, if every broker takes that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import Connection

ASKED_SECONDS = 10.0
"""Between two handshakes with every broker."""

Refused = Callable[[Connection, Sequence[tuple[str, int]]], ReadFailed | None]
"""Of a connection and brokers' addresses: what the first broker says that does not let it in."""


@dataclass(slots=True)
class FormerCertificate:
    """Of one KafkaCluster. `problem`: why the certificate before is shown; None while the one of the Secret is."""

    monotonic: Callable[[], float]
    problem: ReadFailed | None = None
    _asked: float | None = None

    def choose(
        self, wanted: Connection, now: Connection | None, brokers: Sequence[tuple[str, int]], refused: Refused
    ) -> Connection:
        """wanted: as the Secrets say. now: the connection that is open. The answer is `wanted`, with the certificate of
        `now` where that has to do for the time being."""
        shown = now.tls.certificate if now is not None and now.uses_tls else None
        if now is None or shown is None or wanted.tls.certificate in (None, shown):
            self.problem = self._asked = None
            return wanted
        former = replace(wanted, tls=replace(wanted.tls, certificate=shown, key=now.tls.key))
        if self._asked is not None and self.monotonic() - self._asked < ASKED_SECONDS:
            return former
        self._asked, problem = self.monotonic(), refused(wanted, brokers)
        if problem is None or problem.kind is not FailureKind.CLIENT_CERTIFICATE or refused(former, brokers):
            self.problem = self._asked = None
            return wanted
        self.problem = problem
        return former
