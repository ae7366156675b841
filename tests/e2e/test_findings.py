"""A finding that fires at once, and its twin; all the others, which take longer, are in tests/gameday."""

from __future__ import annotations

from typing import Any

from tests.e2e.conftest import Case
from tests.incident import records
from tests.testbed import get, wait_for


def about(case: Case, group: str) -> list[dict[str, Any]]:
    status = get("kafkacluster", case.name, namespace=case.namespace).get("status", {})
    return [f for f in status.get("findings", []) if f["id"] == f"OffsetBeyondLogEnd/{group}"]


def looks(case: Case) -> str:
    status = get("kafkacluster", case.name, namespace=case.namespace).get("status", {})
    return str(status.get("lastObservedAt", ""))


def test_an_offset_beyond_the_log_end_and_one_that_lags(case: Case) -> None:
    topic = case.topic([0], config={"min.insync.replicas": "1"})
    assert records.write(case.boot, topic, [f"order-{n}" for n in range(21)]) == 21
    group = f"{case.name}-billing"
    assert records.read_group(case.boot, group, topic, 10)
    records.commit_offset(case.boot, group, topic, 10)
    case.watch(remediation={"mode": "Observe"})
    case.condition("OffsetsConsistent", "True")
    first = looks(case)
    wait_for("another look", lambda: looks(case) > first, 30)
    assert about(case, group) == [], "eleven records to read is no offset problem"

    records.commit_offset(case.boot, group, topic, 5000)
    case.condition("OffsetsConsistent", "False", "OffsetBeyondLogEnd")
    (finding,) = about(case, group)
    assert finding["state"] == "Firing"
    assert f"{topic}-0 committed 5000, log end 21" in finding["evidence"][0]
    records.commit_offset(case.boot, group, topic, 10)
    case.condition("OffsetsConsistent", "True")
    wanted = ["OffsetBeyondLogEnd", "OffsetBeyondLogEndGone"]
    wait_for(
        "both events, once each",
        lambda: sorted(reason for reason, _ in case.events() if "OffsetBeyondLogEnd" in reason) == wanted,
        30,
    )
