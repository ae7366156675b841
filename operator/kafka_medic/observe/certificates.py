"""The certificates of one cluster, read seldom: a certificate does not change, only which one is served does.

A broker's listener is read at once while its certificate is not known, and then once an hour, or more often where the
certificate's life is short or ends soon. What a Secret holds is taken apart when it is another text than before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from kafka_medic.clients.certificates import Served, certificates_in, served_chains
from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.ports import Address, Connection
from kafka_medic.cluster.certificates import (
    SECRET,
    SOURCE,
    Certificate,
    CertificateChain,
    CertificateUse,
    Nearness,
    secret_key,
)
from kafka_medic.cluster.elements import BROKER
from kafka_medic.cluster.snapshot import Element
from kafka_medic.observe.connect import HeldText
from kafka_medic.observe.sources import failure_summary

READ_SECONDS = 3600.0
SOON_SECONDS = 600.0
"""The same while the certificate is near its end: somebody is about to replace it."""
LEAST_SECONDS = 30.0
SHARE = 24
"""Of a certificate's lifetime, the part after which it is read again. The part of its life in which it would be called
near its end is six times as long."""
RETRY_SECONDS = 60.0
AT_ONCE = 40
"""Brokers that one observation of the operator reads; the others are read by the next ones."""
NOT_YET = "not read yet"

ReadServed = Callable[[Connection, Mapping[int, Address]], Mapping[int, Served]]


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class CertificatesFound:
    """`unread`: what could not be read, and why."""

    chains: tuple[CertificateChain, ...]
    unread: Mapping[Element, str]

    @property
    def gaps(self) -> str | None:
        return failure_summary({f"{e.kind.lower()} {e.name}": reason for e, reason in self.unread.items()})


@dataclass(frozen=True, slots=True)
class _Listener:
    """What was read of a broker at an address. due: when it is read again, by the clock that cannot be set."""

    address: Address
    due: float
    chain: CertificateChain | None
    problem: str | None = None


@dataclass(slots=True)
class CertificateReader:
    """Of one KafkaCluster, kept from observation to observation."""

    served: ReadServed = served_chains
    now: Callable[[], datetime] = utc_now
    monotonic: Callable[[], float] = time.monotonic
    at_once: int | None = AT_ONCE
    """None: all of them."""
    _of: Connection | None = None
    _listeners: dict[int, _Listener] = field(default_factory=dict)
    _texts: dict[HeldText, tuple[Certificate, ...] | str] = field(default_factory=dict)
    _known: dict[str, Certificate] = field(default_factory=dict)
    _found: CertificatesFound | None = None
    """Of the same listeners and texts."""

    def read(
        self, connection: Connection, held: Sequence[HeldText], brokers: Mapping[int, Address] | None
    ) -> CertificatesFound:
        """brokers: where they are; None while nobody reports that: then those of before, where they were."""
        changed = self._take_apart(held) | self._keep(connection, brokers)
        if connection.uses_tls:
            changed |= self._read_due(connection)
        if changed or self._found is None:
            self._found = self._put_together(held)
        return self._found

    def _take_apart(self, held: Sequence[HeldText]) -> bool:
        if self._texts.keys() == set(held):
            return False
        self._texts = {text: self._texts.get(text) or _parsed(text) for text in held}
        return True

    def _keep(self, connection: Connection, brokers: Mapping[int, Address] | None) -> bool:
        """Forgets brokers that are gone or are somewhere else, and all of them where another listener is used."""
        before = dict(self._listeners)
        if self._of is not None and _listener_of(self._of) != _listener_of(connection):
            self._listeners.clear()
        self._of = connection
        if brokers is not None:
            kept = {b: at for b, at in self._listeners.items() if brokers.get(b) == at.address}
            new = {b: _Listener(at, float("-inf"), None, NOT_YET) for b, at in brokers.items() if b not in kept}
            self._listeners = {**kept, **new} if connection.uses_tls else {}
        return self._listeners != before

    def _read_due(self, connection: Connection) -> bool:
        at = self.monotonic()
        due = sorted(
            (b for b, known in self._listeners.items() if known.due <= at), key=lambda b: self._listeners[b].due
        )
        chosen = {b: self._listeners[b].address for b in due[: self.at_once]}
        if not chosen:
            return False
        for broker, answer in self.served(connection, chosen).items():
            self._listeners[broker] = self._listener(broker, chosen[broker], answer, self.monotonic())
        held = {c.fingerprint: c for known in self._listeners.values() if known.chain for c in known.chain.certificates}
        self._known = held
        return True

    def _listener(self, broker: int, address: Address, answer: Served, at: float) -> _Listener:
        if isinstance(answer, ReadFailed):
            return _Listener(address, at + RETRY_SECONDS, None, str(answer))
        now = self.now()
        # Of equal certificates one is kept: 500 brokers serve the same authorities.
        certificates = tuple(self._known.setdefault(c.fingerprint, c) for c in answer)
        chain = CertificateChain(CertificateUse.LISTENER, certificates, broker=broker, read_at=now)
        return _Listener(address, at + seconds_until_read(certificates, now), chain)

    def _put_together(self, held: Sequence[HeldText]) -> CertificatesFound:
        chains, unread = list[CertificateChain](), dict[Element, str]()
        for text in held:
            parsed = self._texts[text]
            if isinstance(parsed, str):
                unread[Element(SOURCE, SECRET, secret_key(text.secret, text.key))] = parsed
            else:
                chains.append(CertificateChain(text.use, parsed, secret=text.secret, key=text.key, peer=text.peer))
        for broker, known in sorted(self._listeners.items()):
            if known.chain is not None:
                chains.append(known.chain)
            elif known.problem is not None:
                unread[Element(SOURCE, BROKER, str(broker))] = known.problem
        return CertificatesFound(tuple(chains), unread)


def seconds_until_read(certificates: Sequence[Certificate], now: datetime) -> float:
    """Until the listener that serves these is read again."""
    lifetimes = [(c.not_after - c.not_before).total_seconds() for c in certificates]
    shortest = min((lifetime for lifetime in lifetimes if lifetime > 0), default=READ_SECONDS * SHARE)
    longest = SOON_SECONDS if any(c.nearness(now) is not Nearness.FAR for c in certificates) else READ_SECONDS
    return max(LEAST_SECONDS, min(longest, shortest / SHARE))


def _parsed(text: HeldText) -> tuple[Certificate, ...] | str:
    try:
        return certificates_in(text.text)
    except ReadFailed as problem:
        return problem.message


def _listener_of(connection: Connection) -> Connection:
    """What decides which listener serves; another certificate or password of the operator's does not."""
    return replace(connection, sasl_username=None, sasl_password=None, oauth=None, tls=type(connection.tls)())
