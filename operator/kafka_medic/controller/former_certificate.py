"""Which client certificate is shown while a new one is on its way.

The CA behind client certificates changes in two places: the Secret has a certificate of the new CA at once, brokers
trust that CA from their next restart on. Strimzi's User Operator and Cluster Operator do not wait for each other.

A certificate is proven at a broker that answers a request over it. A broker that is down, too slow or not trusted
proves nothing, for neither certificate. The rule, each time that the brokers are asked:

1. All of them take the new one: the new one is shown, and the former one forgotten.
2. More brokers take the former one alone than the new one alone: the former one is shown, however long that lasts.
3. Nobody takes the new one, and nobody refuses the former one: the former one is shown, for `UNPROVEN_SECONDS`.
4. Else the new one is shown. The former one is remembered for `REMEMBERED_SECONDS`, and shown again by 2.

So a working connection is not given up for a certificate that no broker has taken, and a former certificate that no
broker needs is not shown for ever. A certificate that cannot be used at all counts as one that nobody takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import Connection, TlsMaterial

ASKED_SECONDS = 10.0
"""Between two requests to every broker while the former certificate is shown."""
RARELY_SECONDS = 60.0
"""The same while the new one is shown and not every broker has taken it."""
UNPROVEN_SECONDS = 600.0
REMEMBERED_SECONDS = 3600.0
NO_CONNECTION = (FailureKind.UNREACHABLE, FailureKind.DESTINATION)

Outcome = ReadFailed | None
"""Why a broker does not answer over a certificate. None: it has answered."""
Ask = Callable[[Connection, Sequence[tuple[str, int]]], Sequence[Outcome]]
"""Of a connection and brokers' addresses: the outcome at each of the brokers, in one order for the same addresses."""


@dataclass(slots=True)
class FormerCertificate:
    """Of one KafkaCluster. `problem`: why the certificate before is shown; None while the one of the Secret is."""

    monotonic: Callable[[], float]
    problem: ReadFailed | None = None
    _former: TlsMaterial | None = None
    _new: str | None = None
    _since: float = 0.0
    """Since when the Secret has the certificate `_new`."""
    _taken: float | None = None
    """Since when `_new` is shown; None while the former one is."""
    _works: bool = False
    """Whether a broker has taken `_new`."""
    _asked: float | None = None

    def choose(
        self, wanted: Connection, now: Connection | None, brokers: Sequence[tuple[str, int]], ask: Ask
    ) -> Connection:
        """wanted: as the Secrets say. now: the connection that is open. The answer is `wanted`, with the former
        certificate where that has to do for the time being."""
        new = wanted.tls.certificate if wanted.uses_tls else None
        if self._former is None and now is not None and now.uses_tls and now.tls.certificate is not None:
            self._former = now.tls
        if self._former is None or new in (None, self._former.certificate):
            return self._forget(wanted)
        if new != self._new:
            if self._works and now is not None and now.tls.certificate == self._new:
                self._former = now.tls
            self._new, self._since, self._taken, self._asked = new, self.monotonic(), None, None
            self._works = False
        former = replace(wanted, tls=replace(wanted.tls, certificate=self._former.certificate, key=self._former.key))
        if self._asked is None or self.monotonic() - self._asked >= self._pause:
            outcomes = ask(wanted, brokers)
            failed = [outcome for outcome in outcomes if outcome is not None]
            if not failed:
                return self._forget(wanted)
            # Where no connection comes about, none does with the former one either.
            differ = any(outcome.kind not in NO_CONNECTION for outcome in failed)
            before = ask(former, brokers) if differ else outcomes
            self._asked = self.monotonic()
            self._decide(outcomes, before, failed[0])
            if self._taken is not None and self._asked - self._taken >= REMEMBERED_SECONDS:
                return self._forget(wanted)
        return wanted if self._taken is not None else former

    @property
    def _pause(self) -> float:
        return ASKED_SECONDS if self._taken is None else RARELY_SECONDS

    def _decide(self, outcomes: Sequence[Outcome], before: Sequence[Outcome], why: ReadFailed) -> None:
        assert self._asked is not None
        self._works = self._works or any(outcome is None for outcome in outcomes)
        if former_is_better(outcomes, before, waited=self._asked - self._since):
            self._taken, self.problem = None, why
        else:
            self._taken, self.problem = self._taken if self._taken is not None else self._asked, None

    def _forget(self, wanted: Connection) -> Connection:
        self.problem = self._former = self._new = self._taken = self._asked = None
        self._works = False
        return wanted


def former_is_better(new: Sequence[Outcome], former: Sequence[Outcome], waited: float) -> bool:
    """Of the outcomes at the same brokers, some of which do not take the new certificate. waited: seconds for which the
    Secret has had the new one."""
    alone = [(b is None) - (a is None) for a, b in zip(new, former, strict=True)]
    if sum(alone) != 0:
        return sum(alone) > 0
    proven = any(outcome is None for outcome in new)
    refused = any(outcome is not None and outcome.kind is FailureKind.CLIENT_CERTIFICATE for outcome in former)
    return not proven and not refused and waited < UNPROVEN_SECONDS
