"""A few schedules in every check: those that failed once, and some new ones. `make simulate` runs 10,000."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kafka_medic.actuate import carry_out
from kafka_medic.controller import canary, held_lease, reconciler, run_reconciler
from kafka_medic.controller.lease import Lease
from kafka_medic.guard import precedence
from kafka_medic.guard import run as rules
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.leadership import election_step
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.playbook.restart import restart_step, strimzi_restart
from kafka_medic.resources.phases import ACTING_PHASES
from kafka_medic.resources.vocabulary import Guard
from tests.mutation.allow import without
from tests.simulation import schedules, serial
from tests.simulation.effects import LEASE
from tests.simulation.scenarios import prefix
from tests.simulation.schedules import Schedule
from tests.simulation.stage import Stage
from tests.thorough import THOROUGH, only, thorough

KEPT, NOTICED = schedules.kept(), schedules.noticed()


@pytest.mark.parametrize(("why", "schedule"), only([len(KEPT) - 1], KEPT), ids=[why for why, _ in KEPT])
def test_what_failed_once_holds(why: str, schedule: Schedule) -> None:
    assert schedules.run(schedule).violation is None


@thorough
@pytest.mark.parametrize(("mutant", "schedule"), NOTICED, ids=[mutant.rpartition(":")[2] for mutant, _ in NOTICED])
def test_a_missing_guard_is_noticed(mutant: str, schedule: Schedule) -> None:
    """By what the world is like, and not by what another guard says."""
    assert schedules.run(schedule).violation is None
    with without(mutant):
        assert schedules.run(schedule).violation is not None


def set_unseen(kafka: Any, intent: Any, ask: Any) -> None:
    """Offsets without a last look at the group."""
    ask()
    kafka.commit_offsets(intent.group, {tp: after for tp, (_, after) in intent.offsets.items()})


def elect_unasked(kafka: Any, intent: Any, ask: Any) -> None:
    """An election without asking those that would lead."""
    ask()
    kafka.elect_preferred(sorted(intent.preferred))


@pytest.mark.parametrize(
    ("mutant", "effect", "careless", "scenario", "fault"),
    [
        ("reset_offsets:_group_empty:GroupEmpty", "set_offsets", set_unseen, "offsets", ["joined", 0, 45.0]),
        ("fit:fit_to_receive:FitToReceive", "elect", elect_unasked, "elect", ["deaf", 0, 45.0]),
    ],
    ids=["GroupEmpty", "FitToReceive"],
)
def test_where_guard_and_effect_both_look_either_is_enough_and_neither_is_noticed(
    monkeypatch: pytest.MonkeyPatch, mutant: str, effect: str, careless: Any, scenario: str, fault: list[Any]
) -> None:
    moment = min(prefix(scenario).to_the_end()[1])
    schedule = Schedule(1, scenario, moment, 1, False, [["at", 0.0, *fault]])
    with without(mutant):
        assert schedules.run(schedule).violation is None
    monkeypatch.setattr(carry_out, effect, careless)
    assert schedules.run(schedule).violation is None
    with without(mutant):
        assert schedules.run(schedule).violation is not None


@thorough
def test_a_restart_waits_for_the_canary(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record has gone through each partition that the restarted broker holds, since it was back."""
    _, moment, *_ = sorted(prefix("canary").to_the_end()[1])
    schedule = Schedule(1, "canary", moment, 1, True, [["at", 0.0, "mute", 0, 45.0]])
    assert schedules.run(schedule).violation is None
    monkeypatch.setattr(restart_step, "_canary", lambda *_: None)
    assert "before a record of the canary" in (schedules.run(schedule).violation or "")


@thorough
def test_the_next_batch_of_elections_waits_for_the_last_one_to_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = min(prefix("elect-batches").to_the_end()[1])
    schedule = Schedule(1, "elect-batches", moment, 1, True, [["at", 0.0, "mute", 0, 45.0]])
    assert schedules.run(schedule).violation is None
    begun = election_step._begun

    def blindly(entry: Any, standing: Any, *rest: Any) -> Any:
        served = election_step._Standing(standing.away, [], [*standing.serving, *standing.silent], standing.unknown)
        return begun(entry, served, *rest)

    monkeypatch.setattr(election_step, "_begun", blindly)
    assert "of the last one does not serve" in (schedules.run(schedule).violation or "")


def kept_for(why: str) -> Schedule:
    (found,) = (schedule for told, schedule in KEPT if why in told)
    return found


@thorough
def test_a_paused_run_that_does_not_give_way_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = kept_for("blocks the cure")
    assert schedules.run(schedule).violation is None

    def one_at_a_time(_: OtherRun | None, others: Sequence[OtherRun]) -> Reason:
        busy = any(o.phase in ACTING_PHASES for o in others)
        return Reason(Guard.NO_OTHER_REMEDIATION, Verdict.WAIT if busy else Verdict.ALLOW, "one at a time")

    monkeypatch.setattr(precedence, "goes_first", one_at_a_time)
    assert "keeps it waiting" in (schedules.run(schedule).violation or "")


@thorough
@pytest.mark.parametrize("end", ["deleted", "rejected"])
def test_an_annotation_that_outlives_its_run_is_noticed(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = kept_for(f"annotation outlives the run that was {end}")
    assert schedules.run(schedule).violation is None
    nothing = StepReport(StepState.REACHED, "")
    monkeypatch.setattr(strimzi_restart, "undo", lambda *_: nothing)
    assert "outlives its run" in (schedules.run(schedule).violation or "")


def test_a_few_schedules_hold_and_run_the_same_way_twice() -> None:
    for seed in range(4, 8) if THOROUGH else (7,):
        schedule = schedules.of_seed(seed)
        outcome = schedules.run(schedule)
        assert outcome.violation is None, schedule
        if seed % 7 == 0:
            assert schedules.run(schedule) == outcome


@thorough
def test_a_failure_is_told_and_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that does not heed a pause is found out, and only what it takes is kept."""
    _, (moment, *_) = prefix("roll").to_the_end()
    faults = [["at", 5.0, "cordoned", 2, 2.0], ["at", 0.0, "told_to_pause", 15.0], ["at", 9.0, "revoked", 2.0]]
    schedule = Schedule(1, "roll", moment, 2, False, faults)
    assert schedules.run(schedule).violation is None
    permits = Reason(Guard.NOT_PAUSED, Verdict.ALLOW, "permits everything")
    monkeypatch.setattr(rules, "_not_paused", lambda _: permits)
    assert "while remediation is paused" in (schedules.run(schedule).violation or "")
    small = schedules.shrunk(schedule)
    assert (small.faults, small.operators) == ([["at", 0.0, "told_to_pause", 15.0]], 1)


@thorough
@pytest.mark.parametrize(("scenario", "moment"), [("roll", 6), ("raise-throttled", 9)])
def test_an_effect_after_a_pause_behind_the_last_renewal_is_noticed(
    monkeypatch: pytest.MonkeyPatch, scenario: str, moment: int
) -> None:
    """Either of two is enough against it: what the effect rests on is too old by then, and too little of the Lease is
    left."""
    schedule = Schedule(1, scenario, moment, 2, False, [["pause", 86, 70.0, "after"]])
    assert schedules.run(schedule).violation is None
    for module in (held_lease, run_reconciler):
        monkeypatch.setattr(module, "MAX_AGE", 1e9)
    assert schedules.run(schedule).violation is None
    monkeypatch.setattr(Lease, "has_room", lambda _: True)
    assert "while the Lease is two's" in (schedules.run(schedule).violation or "")


def two_operators() -> tuple[Stage, str]:
    """Of which the one that is named has the Lease."""
    stage = Stage.thaw(prefix("healthy").moment(0), 1)
    stage.start("two")
    while LEASE not in stage.api.objects:
        stage.next()
    return stage, holder(stage)


def holder(stage: Stage) -> str:
    return str(stage.api.objects[LEASE]["spec"]["holderIdentity"])


@pytest.mark.parametrize("fault", [["late", "renewal", 1, 25.0], ["lost", "renewal", 1, "after"]])
def test_a_renewal_that_is_lost_or_late_costs_no_lease(fault: list[Any]) -> None:
    stage, first = two_operators()
    stage.aimed.append(fault)
    while stage.elapsed < 120:
        stage.next()
        assert holder(stage) == first
    assert not stage.aimed


def test_a_look_that_takes_minutes_keeps_its_lease_and_a_killed_process_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage, first = two_operators()
    stage.laden = 40.0
    ended: list[float] = []
    observed = reconciler.Reconciler._diagnose

    def noted(self: Any, *args: Any) -> Any:
        ended.append(stage.elapsed)
        return observed(self, *args)

    monkeypatch.setattr(reconciler.Reconciler, "_diagnose", noted)
    while stage.elapsed < 1200:
        stage.next()
        assert holder(stage) == first
    assert len(ended) > 1, "looks that came to their end with the Lease"
    assert stage.elapsed / len(ended) > 60, "each of which took more than twice as long as it lasts"
    stage.laden = 0.0
    stage.operators[first].process, stage.operators[first].busy = 0, True  # killed, and no successor
    end = stage.elapsed + 60
    while stage.elapsed < end and holder(stage) == first:
        stage.next()
    assert holder(stage) != first


def test_no_schedule_leaves_a_thread_behind() -> None:
    """A reconcile that ends within another one, which was held up: what that one starts is stepped all the same."""
    with serial.one_after_another(serial.Rounds):
        with serial.one_after_another(serial.Rounds):
            pass
        assert canary.Canary is serial.Rounds
    assert canary.Canary is not serial.Rounds
