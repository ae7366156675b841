"""Two operators decide two runs in every order, and either may be stopped anywhere and woken later: no effect is sent
while one of the other run is on its way. Every state of a small model is visited; the rule in it is the real one.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

import pytest

from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.precedence import goes_first
from kafka_medic.guard.verdict import Verdict
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation_status import Cure
from kafka_medic.resources.vocabulary import Guard, Severity
from tests.thorough import only

BORN = datetime(2026, 1, 1, 12, tzinfo=UTC)
ALONE, OTHER = Guard.NO_OTHER_REMEDIATION, Guard.ISR_STAYS_ABOVE_MIN
GRAVITY = (None, Severity.WARNING, Severity.CRITICAL)


@dataclass(frozen=True)
class Kind:
    """`owes`: what it sets has to be taken back."""

    severity: Severity | None
    owes: bool = False


class Record(NamedTuple):
    """A run's status, as far as the rule reads it."""

    phase: Phase = Phase.APPROVED
    holds: bool = False
    owes: bool = False
    waits: frozenset[Guard] = frozenset()


class Pending(NamedTuple):
    """What an operator has decided of a run: a status to write, and whether an effect follows. `anew`: it is written
    though it may say the same, since it says when. `written`: what follows is still to be sent. `void`: somebody else
    has written since."""

    run: int
    wrote: Record
    sends: bool
    anew: bool
    written: bool = False
    void: bool = False


class State(NamedTuple):
    """`flying`: effects that were sent and may still come about. `recent`: an effect was due lately; this lasts for
    longer than an effect takes. `lease`: who holds the Lease."""

    records: tuple[Record, ...]
    flying: tuple[bool, ...]
    recent: tuple[bool, ...]
    operators: tuple[Pending | None, Pending | None]
    lease: int


@cache
def as_run(number: int, kind: Kind, record: Record) -> OtherRun:
    severity = kind.severity
    cures = None if severity is None else Cure(finding_id="Some/thing", severity=severity)
    return OtherRun(
        f"run-{number}", record.phase, None, None, BORN, cures=cures, owes=record.owes,
        holds="something" if record.holds else "", waits_for=record.waits,
    )  # fmt: skip


def decided(number: int, kinds: tuple[Kind, ...], state: State) -> Iterator[Pending]:
    """What the engine may make of the run."""
    record = state.records[number]
    others = [as_run(n, kinds[n], r) for n, r in enumerate(state.records) if n != number]
    if record.phase is Phase.APPROVED:
        first = goes_first(as_run(number, kinds[number], record), others)
        alone = frozenset() if first.verdict is Verdict.ALLOW else frozenset({ALONE})
        yield Pending(number, record._replace(waits=alone | {OTHER}), False, False)
        waits = record._replace(waits=alone) if alone else Record(Phase.RUNNING)
        yield Pending(number, waits, False, False)
    elif record.phase is Phase.RUNNING:
        settled = not state.recent[number]
        for holds in {record.holds, record.holds and not settled}:
            yield from _acting(number, kinds, record._replace(holds=holds or record.owes), others, settled)


def _acting(
    number: int, kinds: tuple[Kind, ...], record: Record, others: list[OtherRun], settled: bool
) -> Iterator[Pending]:
    itself = as_run(number, kinds[number], record)
    first = goes_first(itself, others)
    behind = record._replace(waits=frozenset({ALONE}))
    if not record.holds and first.verdict is not Verdict.ALLOW:
        yield Pending(number, behind, False, False)
        return
    calm = record._replace(waits=frozenset())
    yield Pending(number, calm, False, False)  # it waits for something to come about
    if settled:
        yield Pending(number, Record(Phase.SUCCEEDED), False, False)
    if first.verdict is Verdict.ALLOW:
        yield Pending(number, calm._replace(holds=True, owes=kinds[number].owes), True, settled or not record.holds)
    else:
        yield Pending(number, behind, False, False)


def steps(kinds: tuple[Kind, ...], state: State) -> Iterator[State]:
    yield state._replace(lease=1 - state.lease)
    for number, flying in enumerate(state.flying):
        if flying:
            yield state._replace(flying=_put(state.flying, number, False))
        elif state.recent[number]:
            yield state._replace(recent=_put(state.recent, number, False))
    for who, pending in enumerate(state.operators):
        if pending is not None:
            yield _goes_on(kinds, state, who, pending)
        elif state.lease == who:
            for number in range(len(kinds)):
                for told in decided(number, kinds, state):
                    yield state._replace(operators=_put(state.operators, who, told))


def _goes_on(kinds: tuple[Kind, ...], state: State, who: int, pending: Pending) -> State:
    over = state._replace(operators=_put(state.operators, who, None))
    run = pending.run
    if pending.void:
        return over
    if not pending.written:
        operators = _put(state.operators, who, pending._replace(written=True) if pending.sends else None)
        other = operators[1 - who]
        if other is not None and other.run == run and (pending.anew or state.records[run] != pending.wrote):
            operators = _put(operators, 1 - who, other._replace(void=True))
        recent = _put(state.recent, run, state.recent[run] or pending.anew)
        return state._replace(records=_put(state.records, run, pending.wrote), operators=operators, recent=recent)
    # Once more from fresh reads, under the Lease: only if the same is still due, and was so lately, is it sent.
    others = [as_run(n, kinds[n], r) for n, r in enumerate(state.records) if n != run]
    first = goes_first(as_run(run, kinds[run], state.records[run]), others)
    if state.lease != who or not state.recent[run] or first.verdict is not Verdict.ALLOW:
        return over
    assert not any(f for n, f in enumerate(state.flying) if n != run), "an effect of another run is on its way"
    assert not any(r.owes for n, r in enumerate(state.records) if n != run), "another run has something to take back"
    return over._replace(flying=_put(state.flying, run, True))


def _put(values, place, value):
    return (*values[:place], value, *values[place + 1 :])


def visited(kinds: tuple[Kind, ...]) -> set[State]:
    first = State((Record(),) * len(kinds), (False,) * len(kinds), (False,) * len(kinds), (None, None), 0)
    seen, left = {first}, deque([first])
    while left:
        for state in steps(kinds, left.popleft()):
            if state not in seen:
                seen.add(state)
                left.append(state)
    return seen


KINDS = [Kind(severity, owes) for severity, owes in itertools.product(GRAVITY, (False, True))]
PAIRS = list(itertools.combinations_with_replacement(KINDS, 2))
LIGHT_AND_GRAVE = PAIRS.index((Kind(Severity.WARNING), Kind(Severity.CRITICAL)))


@pytest.mark.parametrize(("one", "other"), only([LIGHT_AND_GRAVE], PAIRS))
def test_of_two_runs_no_effect_is_sent_while_another_ones_is_on_its_way(one, other):
    seen = visited((one, other))
    ends = {s.records for s in seen if all(r.phase is Phase.SUCCEEDED for r in s.records)}
    assert ends, "both can come to their end"
