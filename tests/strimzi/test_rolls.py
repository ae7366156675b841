"""Rolls of the same cluster by ours and by Strimzi: alone, at the same time, and aborted at each step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.incident import operator
from tests.incident.watcher import Watcher
from tests.strimzi.case import (
    ENDED,
    ROLL_SECONDS,
    StrimziCase,
    Timeline,
    change_a_static_setting,
    every_pod_is_another_one,
    followed,
    nothing_of_ours,
    roll_by_strimzi,
    under_load,
)
from tests.testbed import wait_for

LIMIT = 1.5
"""Times as long as Strimzi's own roll of the same cluster, at most."""


def asked(case: StrimziCase) -> operator.Object:
    """A roll of all brokers, that awaits approval."""
    case.watch()
    case.condition("Ready", "True")
    case.ask("rolling-restart")
    return case.wait("AwaitingApproval")


def whole(watcher: Watcher) -> float:
    """Seconds from the first Pod told to go until the last broker is back in every ISR."""
    backs = [max(r.ready or 0, watcher.in_sync.get(b, 0)) for b, r in watcher.restarts.items()]
    return max(backs) - watcher.began()


def test_our_roll_beside_their_own(case: StrimziCase) -> None:
    """The operator watches during both: on two processors that alone makes a broker's start slower."""
    kafka = case.made_by_strimzi
    case.watch()
    case.condition("Ready", "True")
    theirs, before = Timeline("a roll by Strimzi, by the annotation of its StrimziPodSet"), kafka.uids()
    with under_load(case, theirs) as watcher:
        began = theirs.note("annotated")
        roll_by_strimzi(kafka)
        wait_for("Strimzi's roll", lambda: every_pod_is_another_one(kafka, before), ROLL_SECONDS, every=1)
        # The Kafka resource is Ready while the last Pod is not.
        wait_for("the last broker to be back", lambda: watcher.took().keys() == before.keys(), ROLL_SECONDS)
        kafka.wait_ready()
        their_whole = theirs.note("Kafka resource Ready") - began
    their_pods = whole(watcher)

    ours, before = Timeline("the same roll by ours"), kafka.uids()
    case.ask("rolling-restart")  # not Ready is no hindrance: Strimzi's roll may leave leaders where they are
    run = case.wait("AwaitingApproval")
    with under_load(case, ours) as watcher:
        assert operator.approve(run, "alice").returncode == 0
        began = ours.note("approved")
        name = run["metadata"]["name"]
        done = operator.wait_for_run(case.namespace, "Succeeded", ROLL_SECONDS, ours.run, case.name, name)
        our_whole = ours.note("Succeeded") - began
        ours.journal(done)
    our_pods = whole(watcher)
    assert every_pod_is_another_one(kafka, before)
    nothing_of_ours(case)
    critical = [
        e for e in case.events() if e[0] in ("QuorumDegraded", "NodeMaintenance") and "is restarting it" not in e[1]
    ]
    assert critical == [], "what the restarts look like is no news"
    ratio, of_pods = our_whole / their_whole, our_pods / their_pods
    print(
        f"\nwhole roll: Strimzi {their_whole:.0f} s, ours {our_whole:.0f} s, ratio {ratio:.2f}; "
        f"from the first Pod away to the last one back: {their_pods:.0f} s, {our_pods:.0f} s, ratio {of_pods:.2f}"
    )
    assert ratio <= LIMIT


def proposed(case: StrimziCase, run: operator.Object) -> None:
    """Before anybody has approved."""


def annotated(case: StrimziCase, run: operator.Object) -> None:
    assert operator.approve(run, "alice").returncode == 0
    wait_for("a Pod to be annotated", lambda: bool(case.made_by_strimzi.asked_to_roll()), 120, every=0.1)


def one_away(case: StrimziCase, run: operator.Object) -> None:
    before = case.made_by_strimzi.uids()
    annotated(case, run)
    wait_for("a Pod to be another one", lambda: _changed(case, before) != [], 120, every=0.2)


def one_back(case: StrimziCase, run: operator.Object) -> None:
    assert operator.approve(run, "alice").returncode == 0

    def back() -> bool:
        journal = case.run(run["metadata"]["name"])["status"].get("journal", [])
        return any(e["state"] == "Done" and "restart-" in e["id"] for e in journal)

    wait_for("the first broker to be back", back, 240, every=0.2)


def _changed(case: StrimziCase, before: dict[int, str]) -> list[int]:
    return [node for node, uid in case.made_by_strimzi.uids_of_those_there().items() if before[node] != uid]


@pytest.mark.parametrize("step", [proposed, annotated, one_away, one_back])
def test_an_aborted_roll_leaves_nothing(
    case: StrimziCase, step: Callable[[StrimziCase, operator.Object], None]
) -> None:
    kafka, line = case.made_by_strimzi, Timeline(f"a roll that is aborted: {step.__name__}")
    run = asked(case)
    with under_load(case, line):
        step(case, run)
        line.note(f"{step.__name__}; Pods with the annotation: {kafka.asked_to_roll()}")
        assert operator.approve(run, "alice", "Reject").returncode == 0
        line.note("rejected")
        done = followed(case, line, run["metadata"]["name"], 240, ENDED)
        assert operator.phase(done) == ("Rejected" if step is proposed else "Aborted")
        nothing_of_ours(case)
        at_end, seen = kafka.uids_of_those_that_stay(), kafka.reconciled()
        kafka.reconcile()
        wait_for("Strimzi to have looked", lambda: kafka.reconciled() != seen, 240, every=1)
        line.note("Strimzi has reconciled once more")
        now = kafka.uids_of_those_there()
        assert [node for node, uid in at_end.items() if now.get(node) != uid] == [], (
            "nothing of the run is left for Strimzi to act on"
        )


def at_approval(case: StrimziCase, run: operator.Object, theirs: Callable[[], None]) -> None:
    assert operator.approve(run, "alice").returncode == 0
    theirs()


def at_the_annotation(case: StrimziCase, run: operator.Object, theirs: Callable[[], None]) -> None:
    annotated(case, run)
    theirs()


def between_two_of_ours(case: StrimziCase, run: operator.Object, theirs: Callable[[], None]) -> None:
    one_back(case, run)
    theirs()


def while_theirs_is_under_way(case: StrimziCase, run: operator.Object, theirs: Callable[[], None]) -> None:
    before = case.made_by_strimzi.uids()
    theirs()
    wait_for("Strimzi's first Pod", lambda: _changed(case, before) != [], 300, every=0.2)
    assert operator.approve(run, "alice").returncode == 0
    assert "is being rolled out" in case.wait_for_guard("NoForeignRollout")


MOMENTS = [at_approval, at_the_annotation, between_two_of_ours, while_theirs_is_under_way]


@pytest.mark.parametrize("moment", MOMENTS)
def test_both_roll_at_once(
    case: StrimziCase, moment: Callable[[StrimziCase, operator.Object, Callable[[], None]], None]
) -> None:
    """Strimzi rolls by itself, for a setting that its StrimziPodSet never shows. Never are two away."""
    kafka, line = case.made_by_strimzi, Timeline(f"both roll: {moment.__name__}")
    run, before = asked(case), kafka.uids()
    name = run["metadata"]["name"]
    with under_load(case, line):
        moment(case, run, lambda: change_a_static_setting(kafka, line))
        line.note(f"{moment.__name__}: approved")
        wait_for(
            "all Pods to be others", lambda: _noted(case, line, name) and every_pod_is_another_one(kafka, before),
            ROLL_SECONDS, every=0.5,
        )  # fmt: skip
        line.note("every Pod is another one")
        kafka.wait_ready()
        line.note("Kafka resource Ready")
        done = followed(case, line, name)
    assert kafka.asked_to_roll() == []
    assert operator.phase(done) in ENDED, "the roll of Strimzi's left nothing to approve"
    print(f"  ended {operator.phase(done)}: {done['status']['message']}")
    nothing_of_ours(case)


def _noted(case: StrimziCase, line: Timeline, name: str) -> bool:
    line.run(case.run(name))
    return True
