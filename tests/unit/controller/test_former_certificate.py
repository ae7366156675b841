"""Which client certificate is shown: no working connection is given up for one that no broker has taken, and no former
one is shown for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import Connection, TlsMaterial
from kafka_medic.controller.former_certificate import (
    ASKED_SECONDS,
    RARELY_SECONDS,
    REMEMBERED_SECONDS,
    UNPROVEN_SECONDS,
    FormerCertificate,
    Outcome,
)

A, B, C = BROKERS = [("a", 9093), ("b", 9093), ("c", 9093)]
OLD, NEW, NEXT = "old", "new", "next"
REFUSED = ReadFailed(FailureKind.CLIENT_CERTIFICATE, "b:9093: refused")
DOWN = ReadFailed(FailureKind.UNREACHABLE, "b:9093: timed out")
UNUSABLE = ReadFailed(FailureKind.CREDENTIALS, "the client certificate is damaged")


def connection(certificate: str | None) -> Connection:
    return Connection("b:1", "SSL", tls=TlsMaterial("CA", certificate, f"key of {certificate}"))


class Cluster:
    """Brokers that take the certificates in `takes`; those in `down` do not answer."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.takes: dict[tuple[str, int], set[str]] = {broker: {OLD, NEW} for broker in BROKERS}
        self.down: set[tuple[str, int]] = set()
        self.unusable: set[str] = set()
        self.secret = OLD
        self.now: Connection | None = connection(OLD)
        self.brokers: Sequence[tuple[str, int]] = BROKERS
        self.asked: list[str] = []
        self.former = FormerCertificate(lambda: self.seconds)

    def ask(self, wanted: Connection, brokers: Sequence[tuple[str, int]]) -> Sequence[Outcome]:
        certificate = str(wanted.tls.certificate)
        assert wanted.tls.key == f"key of {certificate}"
        self.asked.append(certificate)
        if certificate in self.unusable:
            return [UNUSABLE] * len(brokers)
        return [DOWN if b in self.down else None if certificate in self.takes[b] else REFUSED for b in brokers]

    def shown(self, *, after: float = ASKED_SECONDS) -> str | None:
        """In an observation so many seconds later; the connection is what was chosen."""
        self.seconds += after
        self.now = self.former.choose(connection(self.secret), self.now, self.brokers, self.ask)
        return self.now.tls.certificate


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster()
    assert found.shown() == OLD
    assert not found.asked, "nothing has changed"
    found.secret = NEW
    return found


def test_a_new_one_that_every_broker_takes_is_shown_at_once_and_the_former_one_forgotten(cluster: Cluster) -> None:
    assert cluster.shown() == NEW
    assert cluster.asked == [NEW]
    cluster.takes = {broker: {OLD} for broker in BROKERS}
    assert [cluster.shown(after=RARELY_SECONDS) for _ in range(3)] == [NEW] * 3


def test_the_former_one_is_shown_while_a_broker_takes_that_alone_however_long(cluster: Cluster) -> None:
    cluster.takes[B] = {OLD}
    assert {cluster.shown(after=600) for _ in range(100)} == {OLD}
    assert cluster.former.problem is REFUSED
    cluster.takes[B] = {OLD, NEW}
    assert cluster.shown() == NEW
    assert cluster.former.problem is None


@pytest.mark.parametrize("away", [{A}, {C}, {A, C}])
def test_a_broker_that_is_down_beside_one_that_refuses_changes_nothing(cluster: Cluster, away: set) -> None:
    """In a roll of Strimzi's one broker is always away."""
    cluster.takes[B], cluster.down = {OLD}, away
    assert [cluster.shown() for _ in range(5)] == [OLD] * 5


def test_a_new_one_that_no_broker_has_taken_is_not_shown_because_all_are_down(cluster: Cluster) -> None:
    cluster.down = set(BROKERS)
    assert [cluster.shown() for _ in range(5)] == [OLD] * 5
    assert cluster.former.problem is DOWN
    assert OLD not in cluster.asked, "nobody is asked twice who is not there"
    cluster.down, cluster.takes = set(), {broker: {OLD} for broker in BROKERS}
    assert cluster.shown() == OLD
    assert cluster.former.problem is REFUSED


def test_a_new_one_that_was_never_refused_is_shown_in_the_end_and_the_former_one_again_if_it_is(
    cluster: Cluster,
) -> None:
    cluster.down = set(BROKERS)
    waited = 0
    while cluster.shown() == OLD:
        waited += ASKED_SECONDS
    assert waited == UNPROVEN_SECONDS
    cluster.down, cluster.takes = set(), {broker: {OLD} for broker in BROKERS}
    assert cluster.shown(after=RARELY_SECONDS) == OLD
    assert cluster.former.problem is REFUSED


def test_one_broker_that_takes_the_new_one_proves_it_while_others_are_down(cluster: Cluster) -> None:
    cluster.down = {B, C}
    assert cluster.shown() == NEW
    cluster.down, cluster.takes[B], cluster.takes[C] = set(), {OLD}, {OLD}
    assert cluster.shown(after=ASKED_SECONDS) == NEW, "they are asked rarely"
    assert cluster.shown(after=RARELY_SECONDS) == OLD, "they were down when it was chosen"


def test_the_former_one_is_not_remembered_for_ever(cluster: Cluster) -> None:
    cluster.down = {C}
    for _ in range(int(REMEMBERED_SECONDS / RARELY_SECONDS) + 1):
        assert cluster.shown(after=RARELY_SECONDS) == NEW
    asked = len(cluster.asked)
    cluster.takes = {broker: {OLD} for broker in BROKERS}
    assert cluster.shown(after=RARELY_SECONDS) == NEW
    assert len(cluster.asked) == asked


def test_where_no_broker_takes_either_the_one_of_the_secret_is_shown(cluster: Cluster) -> None:
    cluster.takes = {broker: set() for broker in BROKERS}
    assert cluster.shown() == NEW
    assert cluster.former.problem is None


def test_of_brokers_that_differ_as_many_each_way_the_one_of_the_secret_is_shown(cluster: Cluster) -> None:
    cluster.takes = {A: {OLD}, B: {NEW}, C: {OLD, NEW}}
    assert cluster.shown() == NEW


def test_one_that_cannot_be_used_is_not_shown_while_the_former_one_works(cluster: Cluster) -> None:
    cluster.unusable = {NEW}
    assert {cluster.shown(after=600) for _ in range(10)} == {OLD}
    assert cluster.former.problem is UNUSABLE
    cluster.secret = NEXT
    cluster.takes = {broker: {OLD, NEXT} for broker in BROKERS}
    assert cluster.shown(after=0.0) == NEXT, "another one is asked for at once"


def test_a_secret_that_is_put_back_needs_no_word_of_the_brokers(cluster: Cluster) -> None:
    cluster.takes[B] = {OLD}
    assert cluster.shown() == OLD
    cluster.secret = OLD
    asked = len(cluster.asked)
    assert cluster.shown() == OLD
    assert (len(cluster.asked), cluster.former.problem) == (asked, None)


def test_of_three_the_one_that_works_is_kept(cluster: Cluster) -> None:
    cluster.down = {C}
    assert cluster.shown() == NEW
    cluster.secret, cluster.takes = NEXT, {broker: {NEW} for broker in BROKERS}
    assert cluster.shown() == NEW, "it works, the first one does not any more"


def test_without_a_connection_or_a_broker_there_is_nothing_to_lose(cluster: Cluster) -> None:
    cluster.brokers = []
    assert cluster.shown() == NEW
    other = Cluster()
    other.now, other.secret = None, NEW
    other.takes = {broker: set() for broker in BROKERS}
    assert other.shown() == NEW
    assert not other.asked


def test_without_tls_or_a_certificate_the_secret_is_followed_at_once(cluster: Cluster) -> None:
    cluster.takes[B] = {OLD}
    assert cluster.shown() == OLD
    plain = replace(connection(NEW), protocol="PLAINTEXT")
    for wanted in (plain, connection(None)):
        assert cluster.former.choose(wanted, cluster.now, BROKERS, cluster.ask) is wanted
