"""Whoever keeps the metadata: enough of them left, and the active controller restarted last."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_medic.cluster.snapshot import Mode, Quorum, Snapshot
from kafka_medic.guard.context import RestartContext, RestartQuestion
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Guard

QUORUM_KEEPS_MAJORITY = Guard.QUORUM_KEEPS_MAJORITY
CONTROLLER_LAST = Guard.CONTROLLER_LAST
_NOBODY = -1


def quorum_keeps_majority(snapshot: Snapshot, question: RestartQuestion) -> tuple[Reason, ...]:
    """KRaft: a leader is known and the caught-up voters without this broker are a majority of all voters.
    ZooKeeper: a majority of the ensemble serves; restarting a broker takes none of it away."""
    guard, quorum = QUORUM_KEEPS_MAJORITY, snapshot.quorum
    if snapshot.cluster.mode is None:
        return (Reason(guard, Verdict.UNKNOWN, "whether this is a KRaft or a ZooKeeper cluster is not known"),)
    if quorum is None or not quorum.voters:
        kind = "ensemble" if snapshot.cluster.mode is Mode.ZOOKEEPER else "quorum's voters"
        return (Reason(guard, Verdict.UNKNOWN, f"the {kind} could not be read"),)
    if snapshot.cluster.mode is Mode.ZOOKEEPER:
        return (_ensemble(quorum),)
    return tuple(_voters(quorum, question))


def spares_any_voter(snapshot: Snapshot) -> tuple[Reason, ...]:
    """Whichever single voter, or ZooKeeper server, went, the others would still be a majority."""
    guard, quorum = QUORUM_KEEPS_MAJORITY, snapshot.quorum
    if snapshot.cluster.mode is not Mode.KRAFT or quorum is None or not quorum.voters:
        whole = quorum_keeps_majority(snapshot, RestartQuestion(_NOBODY, RestartContext(), None))
        if quorum is None or any(r.verdict is not Verdict.ALLOW for r in whole):
            return whole
        serving, total = sum(v.lag is not None for v in quorum.voters), len(quorum.voters)
        if (serving - 1) * 2 > total:
            return (Reason(guard, Verdict.ALLOW, f"{serving} of {total} ZooKeeper servers serve"),)
        message = f"{serving} of {total} ZooKeeper servers serve; one failure more would leave no majority"
        return (Reason(guard, Verdict.DENY, message),)
    found = [r for v in quorum.voters for r in _voters(quorum, RestartQuestion(v.id, RestartContext(), None))]
    text = f"any one of {many(len(quorum.voters), 'voter')} can stop without loss of the majority"
    refusals = tuple(dict.fromkeys(r for r in found if r.verdict is not Verdict.ALLOW))
    return refusals or (Reason(guard, Verdict.ALLOW, text),)


def _ensemble(quorum: Quorum) -> Reason:
    guard, total = QUORUM_KEEPS_MAJORITY, len(quorum.voters)
    # A null lag is how the document says that a server does not serve; it is no gap in what is known.
    serving = sum(v.lag is not None for v in quorum.voters)
    text = f"{serving} of {total} ZooKeeper servers serve"
    if serving * 2 <= total:
        return Reason(guard, Verdict.DENY, f"{text}, which is no majority: a restarted broker could not register")
    if quorum.leader is None:
        return Reason(guard, Verdict.UNKNOWN, f"{text}, but the leader is not known")
    return Reason(guard, Verdict.ALLOW, f"{text}, server {quorum.leader} leads")


def _voters(quorum: Quorum, question: RestartQuestion) -> Iterator[Reason]:
    guard, total = QUORUM_KEEPS_MAJORITY, len(quorum.voters)
    away = question.context.together | {question.broker}
    majority = total // 2 + 1
    if total == 1:
        yield Reason(guard, Verdict.DENY, "the quorum has one voter, and without it there is no controller")
    if quorum.leader is None or quorum.leader < 0:
        yield Reason(guard, Verdict.UNKNOWN, "the quorum's leader is not known")
    good, unknown = _caught_up(quorum, away, question.context.fetch_timeout_ms)
    count = (
        f"without broker {some(sorted(away))}, {len(good)} of {many(total, 'voter')} caught up (required: {majority})"
    )
    if unknown:
        # Even where the rest would do: how far a voter is behind is asked of one leader in one answer.
        yield Reason(guard, Verdict.UNKNOWN, f"lag not known of voters {some(unknown)}; {count}")
    elif len(good) < majority and total > 1:
        yield Reason(guard, Verdict.DENY, count)
    elif quorum.leader is not None and total > 1:
        yield Reason(guard, Verdict.ALLOW, count)


def _caught_up(quorum: Quorum, away: frozenset[int], limit_ms: int) -> tuple[list[int], list[int]]:
    """(voters that are caught up, voters of which that is not known), without those that are away."""
    good, unknown = [], []
    for voter in quorum.voters:
        if voter.id in away:
            continue
        if voter.id == quorum.leader:
            good.append(voter.id)  # the others' lag is measured against it
        elif voter.lag is None or voter.lag < 0 or voter.last_caught_up_ms is None:
            unknown.append(voter.id)
        elif 0 <= voter.last_caught_up_ms < limit_ms:
            good.append(voter.id)
    return good, unknown


def controller_last(snapshot: Snapshot, question: RestartQuestion) -> Reason:
    """The active controller is restarted after every other broker of the run, so that it changes once and not
    at every step. If its own view is the stale one, it waits only for others that are stale: nobody else may be
    restarted before it. It is looked up anew each time."""
    guard, broker, remaining = (
        CONTROLLER_LAST,
        question.broker,
        question.context.remaining - {question.broker},
    )
    controller = snapshot.controller
    if controller is None or controller.id is None or controller.id < 0:
        return Reason(guard, Verdict.UNKNOWN, "the active controller is not known")
    quorum = snapshot.quorum
    if snapshot.cluster.mode is Mode.KRAFT and quorum is not None and quorum.leader != controller.id:
        message = f"broker {controller.id} is named as controller, but voter {quorum.leader} leads the quorum"
        return Reason(guard, Verdict.UNKNOWN, message)
    apart = {v.id for v in snapshot.controllers_apart()}
    if broker in question.context.cures:
        remaining &= question.context.cures
    if broker in apart:
        remaining &= apart  # brokers come after all controllers that are none
    if controller.id != broker:
        return Reason(guard, Verdict.ALLOW, f"the active controller is {controller.id}")
    if remaining:
        message = f"broker {broker} is the active controller and restarts last, after {some(sorted(remaining))}"
        return Reason(guard, Verdict.WAIT, message)
    return Reason(guard, Verdict.ALLOW, f"broker {broker} is the active controller and the last broker of this run")
