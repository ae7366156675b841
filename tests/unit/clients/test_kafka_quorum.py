"""How old a voter's last word is, by the quorum leader's clock and nobody else's, and what rests on it."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_medic.clients.kafka_admin import KafkaAdmin
from kafka_medic.clients.ports import Connection
from kafka_medic.cluster.snapshot import Controller, Mode, Quorum
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.guard.context import RestartContext, RestartQuestion
from kafka_medic.guard.quorum import quorum_keeps_majority
from kafka_medic.guard.verdict import Verdict
from tests.unit.cluster import worlds

THEIRS = 1_800_000_000_000
"""The quorum leader's clock, in milliseconds since 1970."""


def voter(number: int, age: int | None, **changes: Any) -> Any:
    stamp = -1 if age is None else THEIRS - age
    end = 1000 if age is not None and age < 2000 else 500
    told = {"replica_id": number, "log_end_offset": end, "last_caught_up_timestamp": stamp}
    return SimpleNamespace(**{k: v for k, v in (told | changes).items() if v is not ...})


def quorum(*voters: Any, leader: int = 1) -> Quorum:
    """As the adapter reads an answer of the brokers'."""
    part = SimpleNamespace(error_code=0, leader_id=leader, current_voters=list(voters))
    answer = SimpleNamespace(error_code=0, topics=[SimpleNamespace(partitions=[part])])
    admin = KafkaAdmin(Connection("kafka:9092"))
    admin._passed_on = SimpleNamespace(ask_anyone=lambda *_, **__: (1, answer))  # type: ignore[assignment]
    return admin.quorum()


def ages(found: Quorum) -> list[int | None]:
    return [v.last_caught_up_ms for v in found.voters]


def judged(found: Quorum) -> tuple[Verdict, list[str]]:
    """Whether voter 2 may be restarted, and which findings there are about the quorum."""
    snapshot = worlds.healthy(Mode.KRAFT, quorum=found, controller=Controller(found.leader))
    (reason,) = quorum_keeps_majority(snapshot, RestartQuestion(2, RestartContext(), ()))
    return reason.verdict, [f.severity.value for f in diagnose(snapshot) if f.type == "QuorumDegraded"]


@pytest.mark.parametrize("skew", [-3600, -60, -2.5, 0, 2.5, 60, 3600])
@pytest.mark.parametrize(
    ("true", "verdict", "findings"),
    [((0, 400, 45_000), Verdict.DENY, ["Critical"]), ((0, 100, 100), Verdict.ALLOW, [])],
)
def test_the_operators_own_clock_decides_nothing(monkeypatch, skew, true, verdict, findings):
    monkeypatch.setattr(time, "time", lambda: THEIRS / 1000 + skew)
    found = quorum(*(voter(n, age) for n, age in enumerate(true, 1)))
    assert ages(found) == list(true)
    assert judged(found) == (verdict, findings)


def test_a_voter_that_never_caught_up_is_behind_and_nothing_is_known_without_the_leaders_own_time():
    found = quorum(voter(1, 0), voter(2, 100), voter(3, None))
    assert ages(found) == [0, 100, None]
    assert judged(found) == (Verdict.UNKNOWN, ["Critical"])
    for first in (
        voter(1, None),
        voter(1, 0, last_caught_up_timestamp=...),
    ):  # older than KIP-836: it has no such field
        found = quorum(first, voter(2, 100), voter(3, 100))
        assert ages(found) == [None, None, None]
        assert judged(found) == (Verdict.UNKNOWN, [])
    found = quorum(voter(1, 0), voter(2, 100), voter(3, 100), leader=9)
    assert ages(found) == [None, None, None]


def test_a_leader_whose_clock_was_set_back_tells_no_age():
    """Its voters' times are those of before: 60 s old ones would pass for new ones."""
    found = quorum(voter(1, 0), voter(2, -60_000), voter(3, 100))
    assert ages(found) == [None, None, None]
    assert judged(found) == (Verdict.UNKNOWN, [])
