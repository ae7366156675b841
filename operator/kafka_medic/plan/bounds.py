"""Of each figure of a plan: among which plans is its bound one, and does one of them reach it.

`Spread.any_plan` holds for every plan that there is, whatever it moves and whoever is to lead, as it is the mean.
Bounds are checked against an exact solver on thousands of small clusters (tests/property/plan/test_bounds_exact.py),
without weights, limits and excluded brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = [
    "BY_BYTES",
    "IN_BLOCKS",
    "LEAVE",
    "LOWER_BYTES",
    "LOWER_IMBALANCE",
    "RAISE",
    "RELIEVE",
    "SPREAD_RACKS",
    "SPREAD_RACKS_RELAXED",
    "Bound",
    "Bounds",
]


@dataclass(frozen=True)
class Bound:
    """over: the plans none of which is below the bound. exact: one of them reaches it, whatever the input; otherwise
    it may be that none does."""

    over: str
    exact: bool

    def to_json(self) -> dict[str, object]:
        return {"over": self.over, "exact": self.exact}

    def __str__(self) -> str:
        return f"{self.over} ({'exact' if self.exact else 'relaxed'})"


Bounds = Mapping[str, Bound]
"""By the names of the summary's JSON."""

_BEST_RACKS = "plans with as few moves and the best possible racks"
_ORDERS = "orders of these replicas, with all other partitions unchanged"
_WORST_TOPIC = "with as many {} on each broker, for the worst topic of each"

RAISE: Bounds = {
    "moves": Bound("all plans", exact=True),
    "replicasPerBroker": Bound(_BEST_RACKS, exact=True),
    "leadersPerBroker": Bound(_ORDERS, exact=True),
    "rackViolations": Bound("plans with as few moves", exact=True),
    "replicasOfOneTopic": Bound(f"plans {_WORST_TOPIC.format('replicas')}", exact=False),
    "leadersOfOneTopic": Bound(f"orders of these replicas {_WORST_TOPIC.format('leaders')}", exact=False),
}
"""Where disks are short of room, a bound on replicas holds and may be out of reach."""
BY_BYTES: Bounds = {
    **RAISE,
    "replicasPerBroker": Bound("plans with as few moves", exact=False),
    "bytesPerBroker": Bound(_BEST_RACKS, exact=False),
}
LEAVE: Bounds = RAISE
_SAME = "plans that move the same replicas"
RELIEVE: Bounds = {
    **RAISE,
    "moves": Bound(_SAME, exact=True),
    "replicasPerBroker": Bound(f"{_SAME} and have the best possible racks", exact=True),
    "rackViolations": Bound(_SAME, exact=True),
}
"""Of the bytes that leave, the bound is what the question asks for."""
IN_BLOCKS: Bounds = {
    name: Bound(bound.over, exact=bound.exact and not name.endswith("PerBroker")) for name, bound in RAISE.items()
}
"""Of a raise in several blocks: who stands where is seen in each of them alone."""
SPREAD_RACKS: Bounds = RAISE
SPREAD_RACKS_RELAXED: Bounds = {**RAISE, "replicasPerBroker": Bound(_BEST_RACKS, exact=False)}
"""Where weights, limits or excluded brokers keep the planner from choosing anew which replicas leave."""
LOWER_IMBALANCE: Bounds = {
    **RAISE,
    "moves": Bound("plans that come to these replicas per broker", exact=False),
    "replicasPerBroker": Bound("plans with as few moves", exact=False),
    "rackViolations": Bound("plans that keep the same replicas", exact=True),
}
LOWER_BYTES: Bounds = {
    **LOWER_IMBALANCE,
    "bytesPerBroker": Bound("plans with as few moves", exact=False),
}
