"""What the benchmark of large clusters counts: effects that came twice or late, and reconciles that were lost."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.large_runs import STANDS_BY, TOO_OLD, Operator, Stage, _effects, _twice
from kafka_medic.resources.remediation_status import IntentState, JournalEntry

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def order(kind: str, target: str, value: str, after: float = 0.0, error: int = 0) -> dict[str, Any]:
    return {"at": NOW.timestamp() + after, "kind": kind, "target": target, "value": value, "error": error}


def entry(kind: str, after: float, uid: str | None = None, done: float | None = None) -> JournalEntry:
    return JournalEntry(
        id=f"s/{kind.lower()}-{after:.0f}",
        step="s",
        kind=kind,
        state=IntentState.INTENDED if done is None else IntentState.DONE,
        intended_at=NOW + timedelta(seconds=after),
        done_at=None if done is None else NOW + timedelta(seconds=done),
        target_uid=uid,
    )


def test_an_order_came_twice_if_nothing_else_was_ordered_meanwhile():
    once = [
        order("alter", "broker 1 rate", "1000"),
        order("reassign", "t-0", "[1, 2, 3]"),
        order("alter", "broker 1 rate", ""),
        order("alter", "broker 1 rate", "1000"),
        order("cancel", "t-0", "[]"),
        order("reassign", "t-0", "[1, 2, 3]"),
        order("elect", "t-0", "", error=84),
        order("elect", "t-0", ""),
    ]
    assert _twice(once) == []
    assert _twice([*once, order("reassign", "t-0", "[1, 2, 3]"), order("elect", "t-0", "")]) == [
        "reassign t-0 [1, 2, 3]",
        "elect t-0 ",
    ]


def test_an_effect_is_due_from_its_journal_entry_until_the_cluster_gets_it():
    journal = [
        entry("ChangeSettings", 100, done=120),
        entry("ChangeSettings", 0, done=10),
        entry("RestartPod", 50, uid="u-1"),
        entry("RestartPod", 60, uid="u-2"),
        entry("Reassign", 130),
    ]
    taken = [order("alter", "x", "1", 4), order("alter", "y", "1", 5), order("alter", "x", "", 107)]
    gone = {"u-1": (NOW.timestamp() + 52, 3)}
    found = [(e.kind, e.due) for e in _effects(journal, taken, gone)]
    assert found == [
        ("ChangeSettings", 4.0),
        ("RestartPod", 2.0),
        ("RestartPod", None),
        ("ChangeSettings", 7.0),
        ("Reassign", None),
    ]


def test_a_reconcile_is_lost_where_the_holder_itself_stands_by(tmp_path: Path):
    began = time.time() - 1000

    def line(after: float, words: str) -> str:
        return f"[{datetime.fromtimestamp(began + after):%Y-%m-%d %H:%M:%S},500] kafka_medic [INFO    ] {words}\n"

    first = tmp_path / "first.log"
    first.write_text(
        line(50, f"a/b: {STANDS_BY}; retrying in 5 s")
        + line(250, f"a/b: {STANDS_BY}; retrying in 5 s")
        + line(260, f"not sent: {TOO_OLD}")
    )
    second = tmp_path / "second.log"
    second.write_text(line(50, STANDS_BY) + line(-100, STANDS_BY))
    none: Any = None
    stage = Stage(
        none, {}, none, none, none,
        {name: Operator(name, none, 0, tmp_path / f"{name}.log") for name in ("first", "second")},
        1.0, print, [(began - 200, "first"), (began + 200, "second")],
    )  # fmt: skip
    assert stage._lost(began) == {"lease": 1, "freshness": 1, "held back": 0}
