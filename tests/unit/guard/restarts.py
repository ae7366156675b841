"""What the guards of a restart say of a snapshot."""

from __future__ import annotations

from kafka_medic.guard.context import RestartContext
from kafka_medic.guard.restart import judge_restart
from tests.unit.cluster import worlds


def judged(snapshot, broker=2, now=worlds.NOW, **context):
    return judge_restart(snapshot, broker, now, context=RestartContext(**context))


def refusals(snapshot, broker=2, **context):
    """guard -> the worst of its refusals and all its words."""
    found = {}
    for reason in judged(snapshot, broker, **context).refusals:
        verdict, words = found.get(reason.guard, (reason.verdict, ""))
        found[reason.guard] = (verdict, f"{words} {reason.message}".strip())
    return found


def only(snapshot, guard, verdict, words, broker=2, **context):
    found = refusals(snapshot, broker, **context)
    assert set(found) == {guard}, found
    assert found[guard][0] is verdict
    assert words in found[guard][1]


def diverged():
    stale = worlds.view(3, told={("orders", 0): (2, 4)})
    return worlds.healthy(views=(worlds.view(1), worlds.view(2), stale))
