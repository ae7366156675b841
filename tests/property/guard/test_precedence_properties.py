"""Of every few runs, in whatever state they are, at most one may act; and one may, if any of them could."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.precedence import goes_first
from kafka_medic.guard.verdict import Verdict
from kafka_medic.resources.phases import ACTING_PHASES, Phase
from kafka_medic.resources.vocabulary import Severity
from tests.thorough import thorough
from tests.unit.guard.test_precedence import ALONE, GRAVITY, HELD, run

NAMES = ("a", "b", "c")
HOLDINGS = (("", False), ("a request", False), ("a throttle", True), (None, False))


def states(name: str, phases=tuple(Phase), gravity=GRAVITY) -> Iterator[OtherRun]:
    """Every state of a run that matters."""
    for phase, severity in itertools.product(phases, gravity):
        fresh = replace(run(name, phase, severity), cause=None)
        if phase in ACTING_PHASES:
            yield from (replace(fresh, holds=holds, owes=owes) for holds, owes in HOLDINGS)
        elif phase is Phase.APPROVED:
            yield from (replace(fresh, waits_for=w) for w in (frozenset(), frozenset({ALONE}), HELD))
        else:
            yield fresh


def permitted(runs: tuple[OtherRun, ...]) -> list[OtherRun]:
    """Those that may act by this guard."""
    wanting = [r for r in runs if r.phase in {*ACTING_PHASES, Phase.APPROVED}]
    return [r for r in wanting if goes_first(r, [o for o in runs if o is not r]).verdict is Verdict.ALLOW]


def begun(run: OtherRun) -> bool:
    return run.phase in ACTING_PHASES


def ready(run: OtherRun) -> bool:
    return begun(run) or (run.phase is Phase.APPROVED and run.waits_for <= {ALONE})


def check(runs: tuple[OtherRun, ...]) -> None:
    may = permitted(runs)
    assert len(may) <= 1, runs
    holding = [r for r in runs if begun(r) and r.holds != ""]
    owing = [r for r in holding if r.owes]
    taking_part = [r for r in runs if ready(r)]
    for one in may:
        assert all(r is one for r in holding), ("acts beside a run that holds something", runs)
        if one not in owing:
            assert one.gravity >= max([r.gravity for r in taking_part if r is not one], default=0) or not ready(one)
    if len(owing) == 1 and holding == owing:
        assert may == owing, ("a run that has something to take back is set aside", runs)
    # What was sent settles: then exactly one acts, if any could.
    settled = tuple(r if r in owing[:1] else replace(r, holds="", owes=False) if begun(r) else r for r in runs)
    if taking_part:
        assert len(permitted(settled)) == 1, settled


def test_of_two_runs_in_any_state_at_most_one_may_act_and_one_may_if_one_could():
    for pair in itertools.product(states("a"), states("b")):
        check(pair)


@thorough
def test_of_three_as_well():
    some = (Phase.AWAITING_APPROVAL, Phase.APPROVED, Phase.BLOCKED)
    grave = (None, Severity.WARNING, Severity.CRITICAL)
    for triple in itertools.product(*(list(states(name, some, grave)) for name in NAMES)):
        check(triple)
