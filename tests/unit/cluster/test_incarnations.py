"""A topic is deleted by the word of more than half of the brokers, and of no single one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.incarnations import deleted
from kafka_medic.cluster.snapshot import Snapshot
from tests.unit.cluster import worlds

PLANNED = {"orders": "id-orders"}
GONE = tuple(r for r in worlds.ROWS if r["topic"] != "orders")
ANEW = tuple({**r, "topicId": "another"} if r["topic"] == "orders" else r for r in worlds.ROWS)


def seen(decided, *views, **changes):
    """What is decided, and the rows that each broker reports; None: it gave no answer."""
    told = enumerate(views, start=1)
    views = tuple(replace(worlds.view(n), leaders=None) if r is None else worlds.view(n, r) for n, r in told)
    return replace(worlds.healthy(rows=decided), views=views, **changes)


@pytest.mark.parametrize(
    ("snapshot", "found"),
    [
        (worlds.healthy(), False),
        (seen(GONE, GONE, GONE, GONE), True),
        (seen(GONE, GONE, GONE, None), True),
        (seen(GONE, GONE, None, None), None),
        (seen(GONE, GONE, GONE, worlds.ROWS), True),
        (seen(GONE, GONE, worlds.ROWS, worlds.ROWS), None),
        (seen(ANEW, ANEW, ANEW, ANEW), True),
        (seen(ANEW, ANEW, None, None), None),
        (seen(ANEW, ANEW, ANEW, worlds.ROWS), True),
        (seen(worlds.ROWS, GONE, None, None), False),
        (replace(worlds.healthy(), partitions=None), None),
        (replace(worlds.healthy(rows=GONE), views=None), None),
        (seen(GONE, GONE, GONE, None, brokers=worlds.brokers(b3={"registered": False})), True),
        (
            seen(GONE, GONE, None, None, brokers=worlds.brokers(b2={"registered": False}, b3={"registered": False})),
            None,
        ),
        (seen(GONE, GONE, GONE, GONE, brokers=worlds.brokers(b2={"unknown_topics": None})), None),
        (seen(GONE, GONE, GONE, None, brokers=worlds.brokers(b3={"unknown_topics": None})), True),
        (seen(GONE, GONE, GONE, GONE, brokers=None), None),
    ],
)
def test_who_says_that_a_topic_is_deleted(snapshot: Snapshot, found: bool | None) -> None:
    assert deleted(snapshot, PLANNED) == {"orders": found}


def test_who_was_not_asked_about_the_topic_says_nothing() -> None:
    views = tuple(replace(worlds.view(n, GONE), covers=frozenset({"logs"})) for n in (1, 2))
    assert deleted(replace(worlds.healthy(rows=GONE), views=(*views, worlds.view(3, GONE))), PLANNED) == {
        "orders": None
    }


def test_a_broker_that_lists_a_replica_of_a_topic_that_it_does_not_report_may_not_be_asked_about_it() -> None:
    listing = worlds.brokers(b2={"unknown_topics": ("orders",)})
    assert deleted(seen(GONE, GONE, GONE, GONE, brokers=listing), PLANNED) == {"orders": None}
    assert deleted(seen(GONE, GONE, worlds.ROWS, GONE, brokers=listing), PLANNED) == {"orders": True}, "its view is old"


def test_without_ids_a_topic_is_whatever_has_its_name() -> None:
    assert deleted(worlds.healthy(rows=ANEW), {"orders": None}) == {"orders": False}
    assert deleted(seen(GONE, GONE, GONE, GONE), {"orders": None}) == {"orders": True}
    nameless = tuple({**r, "topicId": None} for r in worlds.ROWS)
    assert deleted(worlds.healthy(rows=nameless), PLANNED) == {"orders": None}


def test_a_holder_that_nobody_reports_any_more_is_a_broker_all_the_same() -> None:
    """With ZooKeeper the registration of a broker goes with it."""
    alone = seen(GONE, GONE, brokers=worlds.brokers()[:1])
    assert deleted(alone, PLANNED) == {"orders": True}
    assert deleted(alone, PLANNED, holders={1, 2, 3}) == {"orders": None}
