"""Guards that no test of a whole world can miss, since another one refuses whenever they do."""

from __future__ import annotations

import itertools

from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.guard.elect import judge_elect
from kafka_medic.guard.reassign import judge_reassign
from tests.unit.cluster import worlds

STATES: tuple[dict[str, bool | None], ...] = (
    {},
    {"registered": False},
    {"reachable": False},
    {"registered": None, "reachable": None},
)
SUBSETS = [ids for n in (1, 2, 3) for ids in itertools.combinations(worlds.IDS, n)]


def test_too_few_brokers_and_none_that_answers_are_brokers_that_are_down_or_not_there() -> None:
    """As long as a plan gives no partition fewer replicas than the factor asks for."""
    beside = {"ClusterReachable", "EnoughLiveBrokers"}
    row, seen = worlds.partition("orders", 0, (1,), minIsr=1), set[str]()
    trios = itertools.combinations_with_replacement(STATES, len(worlds.IDS))
    for states, factor in itertools.product(trios, (2, 3, 4)):
        brokers = worlds.brokers(**{f"b{b}": state for b, state in zip(worlds.IDS, states, strict=True)})
        move = ("orders", 0, (1,), (1, 2, 3, 4)[:factor])
        snapshot = worlds.healthy(rows=(row,), brokers=brokers)
        refused = {r.guard for r in judge_reassign(snapshot, [move], factor, worlds.NOW).refusals}
        seen |= refused
        assert not refused & beside or refused & {"BrokersStable", "TargetsAlive"}, (states, factor)
    assert beside <= seen


def test_a_preferred_replica_out_of_this_isr_is_out_of_an_isr() -> None:
    seen = set[str]()
    for first, second in itertools.product(SUBSETS, repeat=2):
        rows = (
            worlds.partition("orders", 0, (1, 2, 3), isr=list(first)),
            worlds.partition("orders", 1, (2, 3, 1), isr=list(second)),
        )
        asked = [TopicPartition("orders", 0)]
        refused = {r.guard for r in judge_elect(worlds.healthy(rows=rows), worlds.NOW, asked).refusals}
        seen |= refused
        assert "PreferredInIsr" not in refused or "PreferredCaughtUp" in refused, (first, second)
    assert "PreferredInIsr" in seen
