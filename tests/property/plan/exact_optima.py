"""Exact optima of tiny clusters by an exact solver (CP-SAT), from what Kafka allows and what the question asks for.

It shares nothing with the planner: the sets of replicas that a partition may come to are listed one by one, and the
solver picks one for each partition and one of it to lead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from ortools.sat.python import cp_model

from kafka_medic.plan.problem import Broker

Sets = list[tuple[int, ...]]
"""What one partition may come to."""


def racks(brokers: Iterable[Broker]) -> dict[int, object]:
    """The rack of each live broker; without racks each is one of its own."""
    live = [broker for broker in brokers if broker.alive]
    named = any(broker.rack for broker in live)
    return {broker.id: broker.rack if named else broker.id for broker in live}


def shared(replicas: Iterable[int], rack: Mapping[int, object]) -> int:
    """Pairs of live replicas in one rack."""
    return sum(n * (n - 1) // 2 for n in Counter(rack[b] for b in replicas if b in rack).values())


def completions(kept: Sequence[int], count: int, live: Sequence[int]) -> Sets:
    """All ways to add replicas until there are `count`."""
    free = [broker for broker in live if broker not in kept]
    return [(*kept, *added) for added in combinations(free, count - len(kept))]


def best_spread(options: Sets, rack: Mapping[int, object]) -> Sets:
    """Those of which the fewest pairs share a rack."""
    least = min(shared(option, rack) for option in options)
    return [option for option in options if shared(option, rack) == least]


def lowest_maximum(
    options: Sequence[Sets], live: Sequence[int], base: Mapping[int, int], size: Sequence[int] | None = None
) -> int:
    """Of replicas on the fullest live broker, or of their bytes (size: of each partition), on top of base."""
    model = _Model(options, size)
    return model.lowest(base.get(b, 0) + model.holding(b) for b in live)


def lowest_leaders(options: Sequence[Sets], live: Sequence[int], base: Mapping[int, int]) -> int:
    """Of preferred leaders on the live broker that leads most, on top of base."""
    model = _Model(options)
    leads = [{b: model.solver.new_bool_var("") for b in live if any(b in one for one in sets)} for sets in options]
    for able, sets, picked in zip(leads, options, model.picked, strict=True):
        model.solver.add_exactly_one(able.values())
        for broker, leader in able.items():
            holds = sum(pick for one, pick in zip(sets, picked, strict=True) if broker in one)
            model.solver.add(leader <= holds)
    return model.lowest(base.get(b, 0) + sum(able[b] for able in leads if b in able) for b in live)


def lowest_within(
    options: Sequence[Sets],
    held: Sequence[Sequence[int]],
    live: Sequence[int],
    moves: int,
    size: Sequence[int] | None = None,
) -> int:
    """Of replicas on the fullest live broker, or of their bytes, with at most so many moves."""
    model = _Model(options, size)
    model.solver.add(model.moved(held) <= moves)
    return model.lowest(model.holding(b) for b in live)


def fewest_moves(
    options: Sequence[Sets], held: Sequence[Sequence[int]], live: Sequence[int], load: Mapping[int, int]
) -> int:
    """To come to this number of replicas on each live broker."""
    model = _Model(options)
    for broker in live:
        model.solver.add(model.holding(broker) == load.get(broker, 0))
    return model.lowest([model.moved(held)])


class _Model:
    def __init__(self, options: Sequence[Sets], size: Sequence[int] | None = None) -> None:
        self.solver, self.options = cp_model.CpModel(), options
        self.size = size or [1] * len(options)
        self.picked = [[self.solver.new_bool_var("") for _ in sets] for sets in options]
        for picked in self.picked:
            self.solver.add_exactly_one(picked)

    def _each(self):
        for place, (sets, picked) in enumerate(zip(self.options, self.picked, strict=True)):
            for one, pick in zip(sets, picked, strict=True):
                yield place, one, pick

    def holding(self, broker: int):
        return sum(self.size[place] * pick for place, one, pick in self._each() if broker in one)

    def moved(self, held: Sequence[Sequence[int]]):
        return sum(len(set(one) - set(held[place])) * pick for place, one, pick in self._each())

    def lowest(self, expressions: Iterable[object]) -> int:
        most = self.solver.new_int_var(0, 10_000, "")
        for expression in expressions:
            self.solver.add(most >= expression)
        self.solver.minimize(most)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = 60
        assert solver.solve(self.solver) == cp_model.OPTIMAL
        return round(solver.objective_value)
