"""OwnersPaused: nobody acts on the topics of the plan."""

from __future__ import annotations

import pytest

from kafka_medic.cluster.snapshot import TopicOwner
from kafka_medic.guard.owners import owners_paused
from kafka_medic.resources.vocabulary import Guard, Verdict
from tests.unit.cluster import worlds

ORDERS = TopicOwner("orders", "KafkaTopic", "my-orders", acts=True)


def judged(owners: tuple[TopicOwner, ...] | None, sources=None, topics=("orders",)):
    state = worlds.healthy(owners=owners, **({} if sources is None else {"sources": sources}))
    reason = owners_paused(state, topics)
    assert reason.guard is Guard.OWNERS_PAUSED
    return reason


@pytest.mark.parametrize(
    ("owners", "verdict"),
    [
        ((), Verdict.ALLOW),
        ((ORDERS,), Verdict.DENY),
        ((TopicOwner("orders", "KafkaTopic", "orders", acts=False, paused=True),), Verdict.ALLOW),
        ((TopicOwner("logs", "KafkaTopic", "logs", acts=True),), Verdict.ALLOW),
        ((TopicOwner("orders", "KafkaTopic", "a", acts=False), ORDERS), Verdict.DENY),
        (None, Verdict.UNKNOWN),
    ],
)
def test_only_an_owner_that_acts_on_a_topic_of_the_plan_is_in_the_way(owners, verdict):
    assert judged(owners).verdict is verdict


def test_the_reason_names_the_object_and_why_it_is_not_known():
    assert "orders (KafkaTopic my-orders)" in judged((ORDERS,)).message
    assert "403" in judged(None, worlds.sources(**{"topic-owners": "403"})).message


def test_where_no_owner_is_asked_for_none_is_in_the_way():
    sources = tuple(s for s in worlds.sources() if s.name != "topic-owners")
    assert judged(None, sources).verdict is Verdict.ALLOW
