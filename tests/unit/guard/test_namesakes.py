"""Of several KafkaClusters for one Kafka cluster: whose run acts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from kafka_medic.guard.namesakes import Namesake, alone_on_kafka
from kafka_medic.guard.verdict import Verdict


def other(*, older: bool = False, claims: bool = False, owes: bool = False, wants: bool = False) -> Namesake:
    return Namesake("b/two", "run", older, claims, owes, wants)


@pytest.mark.parametrize(
    ("owes", "others", "verdict"),
    [
        (False, [], Verdict.ALLOW),
        (False, [other(older=True)], Verdict.ALLOW),  # whatever its age, it does nothing
        (False, [other(claims=True)], Verdict.WAIT),
        (False, [other(older=True, claims=True)], Verdict.WAIT),
        (False, [other(wants=True)], Verdict.ALLOW),
        (False, [other(older=True, wants=True)], Verdict.WAIT),
        (True, [other(older=True, claims=True, wants=True)], Verdict.ALLOW),  # who is in the middle of it goes on
        (True, [other(older=True, claims=True, owes=True)], Verdict.WAIT),
        (True, [other(claims=True, owes=True)], Verdict.ALLOW),
        (False, None, Verdict.UNKNOWN),
    ],
)
def test_one_acts(owes, others, verdict):
    reason = alone_on_kafka(others, owes)
    assert reason.verdict is verdict
    assert verdict is not Verdict.WAIT or "Remediation run of KafkaCluster b/two acts" in reason.message


def test_one_that_cannot_be_read_is_named_as_such():
    reason = alone_on_kafka([replace(other(claims=True), readable=False)], False)
    assert "This version cannot read that Remediation" in reason.message


@dataclass(frozen=True)
class Run:
    """A run as its status has it, and what it is about to do. `step`: begin, decide, write the claim, read the others
    again, send, see it done, end. `hindered`: another guard keeps it from acting. `sent`: and not ended."""

    older: bool
    step: str = "begin"
    hindered: bool = False
    claims: bool = False
    seen: bool = False
    waits: bool = False
    sent: bool = False

    def to_others(self) -> list[Namesake]:
        if self.step in ("begin", "ended"):
            return []
        return [Namesake("n", "r", self.older, self.claims, self.claims and self.seen, not self.hindered)]


def moves(run: Run, theirs: Run) -> Iterator[Run]:
    """What may happen to it next, beside the other one as it is."""
    free = alone_on_kafka(theirs.to_others(), run.claims and run.seen).verdict is Verdict.ALLOW
    match run.step:
        case "begin":
            yield replace(run, step="decide") if free else run
        case "decide":
            yield replace(run, hindered=not run.hindered)
            if not run.hindered:
                yield replace(run, step="claim", waits=False) if free else replace(run, waits=True)
        case "claim":
            yield replace(run, step="again", claims=True)
        case "again":
            yield replace(run, step="send") if free else replace(run, step="decide")
        case "send":
            yield replace(run, step="done", sent=True)
        case "done":
            yield replace(run, step="more", seen=True)
        case "more":  # a second effect, and then what was set is taken back
            yield replace(run, step="restore") if free else run
        case "restore":
            yield replace(run, step="ended", claims=False, sent=False)
    if run.step == "decide" and run.claims and run.waits and not run.seen:
        yield replace(run, claims=False)  # lapsed


def test_in_whatever_order_two_runs_go_never_do_both_act_and_both_can_end():
    """All interleavings of two runs, one step of one of them at a time. What was read may be old by the time that the
    next step is done."""
    begin = Run(older=True), Run(older=False)
    following: dict[tuple[Run, Run], set[tuple[Run, Run]]] = {}
    todo = [begin]
    while todo:
        here = todo.pop()
        if here in following:
            continue
        one, two = here
        following[here] = {(m, two) for m in moves(one, two)} | {(one, m) for m in moves(two, one)}
        todo += following[here]
    assert len(following) > 50, len(following)
    assert not [here for here in following if all(run.sent for run in here)]
    good = {here for here in following if all(run.step == "ended" for run in here)}
    while more := {here for here, after in following.items() if here not in good and after & good}:
        good |= more
    assert good == set(following), "from wherever they are, both can still end"
