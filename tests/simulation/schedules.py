"""Schedules: from where, which faults, how long. A schedule is plain data, made from a seed or read from a file.

Most are short and sharp: they begin at a moment of an undisturbed run, frozen right before one of its reconciles
(mostly one in which something is written), meet one to three faults within the next seconds, and are watched for a few
reconciles. Every `WHOLE`th goes from the first look to the end of every run, with faults all along, and has to get
there once they stop.
"""

from __future__ import annotations

import json
import logging
import random
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kafka_medic.observe import view_reads
from tests.simulation.grounds import Violated
from tests.simulation.scenarios import WEIGHTS, prefix
from tests.simulation.stage import Fault, Stage
from tests.simulation.world import BASE

KEPT, NOTICED = Path(__file__).with_name("kept.json"), Path(__file__).with_name("noticed.json")
WHOLE = 40
SLICED = 4
LARGE = {"ROWS_AT_MOST": 0, "OTHERS": 1, "SLICE_ROWS": 9, "ACTING_SLICE_ROWS": 12}
"""Of every `SLICED`th schedule, the sizes of `observe.view_reads`. Somebody has to be able to contradict those that an
effect concerns, as two others can on large clusters."""
SHARP_RECONCILES, SHARP_SECONDS = 3, 400.0
CALM_RECONCILES, IDLE_RECONCILES = 150, 20
HORIZON = 120.0
"""Seconds within which the faults of a whole schedule begin."""
LONG = 120.0, 300.0
"""Seconds that a fault lasts where nothing else is wrong: a finding has to fire before anything begins."""
SOURCES = ("views", "reassignments", "configs", "log-dirs", "kafka", "quorum", "log-ends", "zookeeper", "groups")


@dataclass
class Schedule:
    """`moment`: before which reconcile of the scenario's undisturbed run it begins. `whole`: to the end of every run.
    `slices`: views are read as in a cluster that is too large for whole ones."""

    seed: int
    scenario: str
    moment: int
    operators: int = 1
    whole: bool = False
    faults: list[Fault] = field(default_factory=list)
    slices: bool = False

    def plain(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Outcome:
    """`violation`: what did not hold, with where the runs stood; None when everything did."""

    violation: str | None
    reconciles: int
    events: int
    effects: int


# -- from a seed ---------------------------------------------------------------------------------------


RESTARTS = (
    "dies", "diverges", "thinned", "foreign", "controller_moves", "behind", "isr_shrinks", "unready", "cordoned",
    "rollout", "blind", "told_to_pause", "killed", "stale", "remade", "disk_fails",
)  # fmt: skip
ELECTIONS = (
    "dies",
    "deaf",
    "mute",
    "mute",
    "isr_shrinks",
    "foreign",
    "stale",
    "blind",
    "controller_moves",
    "fenced",
    "remade",
)
FEARS = {
    "canary": (*RESTARTS, "mute", "mute"),
    "drained": (*RESTARTS, "deaf", "reordered", "elected"),
    "strimzi": (*RESTARTS, "rejected", "rejected", "deleted", "pod_replaced"),
    "stale": (*RESTARTS, "written", "written", "written"),
    "zombie": (*RESTARTS, "written", "written", "written"),
    "overtaken": (*RESTARTS, *ELECTIONS),
    "defaults": (*RESTARTS, "pod_replaced", "revoked"),
    "elect": ELECTIONS,
    "resting": ("stale", "remade", "elected", "fenced", "killed", "near"),
    "drain": (*ELECTIONS, "cordoned", "pod_replaced"),
    "offsets": ("joined", "joined", "committed", "committed", "dies", "deaf", "blind", "revoked", "rejected"),
    "owned": ("dies", "unpaused", "unpaused", "topics_left", "rejected", "deleted", "foreign", "blind", "revoked"),
    "lost": (
        "comes_back", "comes_back", "dies", "killed", "offline", "isr_shrinks", "foreign", "cancelled", "deaf", "blind",
        "stale", "fenced", "rejected", "revoked",
    ),
    "broken": (
        "disk_back", "disk_back", "dies", "killed", "offline", "isr_shrinks", "foreign", "cancelled", "deaf", "blind",
        "stale", "fenced", "rejected", "revoked", "disk_fails",
    ),
    "leaving": (
        "dies", "killed", "offline", "isr_shrinks", "isr_shrinks", "foreign", "cancelled", "deaf", "blind", "stale",
        "stale", "fenced", "rejected", "rejected", "thinned", "revoked",
    ),
    "volumes": (
        "dies", "dies", "killed", "volume_fails", "volume_fails", "volume_fills", "shifted", "shifted", "isr_shrinks",
        "foreign", "deaf", "blind", "stale", "fenced", "rejected", "rejected", "deleted", "pod_replaced", "revoked",
    ),
    "raise": ("dies", "offline", "isr_shrinks", "foreign", "cancelled", "deaf", "blind", "behind", "stale", "revoked"),
}  # fmt: skip
"""By the first word of a scenario: what its effects have most to fear."""


def of_seed(seed: int) -> Schedule:
    chance = random.Random(seed)
    whole = seed % WHOLE == 0
    others = [] if whole else ["thin", "uneven", "crossed", "cooling", "fenced-broker", "healthy"]
    names = [*WEIGHTS, "resting", *others]
    scenario = chance.choices(names, [WEIGHTS.get(n, 1) for n in names])[0]
    whole |= scenario == "resting"
    moments, sharp = prefix(scenario).to_the_end()
    moment = 0
    if not whole:
        moment = chance.choice(list(sharp) if sharp and chance.random() < 0.75 else moments)
    operators = 2 if chance.random() < 0.3 else 1
    count = chance.randint(2, 8) if whole else chance.choices((0, 1, 2, 3), (1, 10, 8, 4))[0]
    if scenario == "healthy":
        count = 0
    schedule = Schedule(seed, scenario, moment, operators, whole, slices=seed % SLICED == 1)
    schedule.faults = [_fault(chance, schedule) for _ in range(count)]
    return schedule


def _fault(chance: random.Random, schedule: Schedule) -> Fault:
    aimed, whole = chance.random(), schedule.whole
    if aimed < 0.05:
        nth = chance.randint(1, 60 if whole else 6)
        if chance.random() < 0.5:
            return ["late", "renewal", nth, chance.choice((1.0, 8.0, 25.0, 60.0))]
        return ["lost", "renewal", nth, chance.choice(("before", "after"))]
    if aimed < 0.22:
        kind = chance.choice(("effect", "effect", "status", "status", "call"))
        highest = {"effect": 5 if whole else 2, "status": 60 if whole else 14, "call": 1000 if whole else 120}[kind]
        if kind == "effect" and chance.random() < 0.4:
            return ["late", kind, chance.randint(1, highest), chance.choice((1.0, 8.0, 25.0, 60.0))]
        what, when = chance.choice(("crash", "crash", "lost")), chance.choice(("before", "after"))
        return [what, kind, chance.randint(1, highest), when]
    if aimed < (0.45 if schedule.operators > 1 else 0.27):
        pause = ["pause", chance.randint(1, 1000 if whole else 100), chance.choice((5.0, 35.0, 70.0))]
        return [*pause, "after"] if chance.random() < 0.5 else pause
    soon = chance.choice((0.0, chance.uniform(0.2, 2.5), chance.uniform(0.2, 2.5), chance.uniform(0, 12)))
    at = chance.uniform(0, HORIZON) if whole and schedule.scenario != "resting" else soon
    broker, number, lasts = (
        _broker(chance, schedule),
        chance.randrange(10),
        chance.choice(LONG if schedule.scenario == "resting" else (2.0, 15.0, 45.0)),
    )
    args: dict[str, list[Any]] = {
        "dies": [broker], "isr_shrinks": [number, broker, lasts], "controller_moves": [broker], "revoked": [lasts],
        "blind": [chance.choice(SOURCES), lasts], "stale": [broker, lasts], "behind": [broker, lasts],
        "slow_recovery": [broker, lasts], "pod_replaced": [broker], "rejected": [], "deaf": [broker, lasts],
        "foreign": [number, broker, lasts], "cancelled": [number], "told_to_pause": [lasts], "window_closes": [lasts],
        "cordoned": [broker, lasts], "unready": [broker, lasts], "rollout": [lasts], "budget": [lasts],
        "api_down": [lasts], "asked": ["rolling-restart"], "deleted": [], "diverges": [broker, number, lasts],
        "thinned": [number, lasts], "written": [number], "reordered": [number], "elected": [number],
        "joined": [number, lasts], "committed": [number], "mute": [broker, lasts], "offline": [number, lasts],
        "killed": [broker], "hanging": [broker, lasts], "fenced": [broker, lasts], "near": [broker],
        "unclean": [number], "laden": [chance.choice((0.3, 1.0, 4.0)), lasts],
        "remade": [number, chance.choice((0.0, 0.5, 3.0, 20.0, None))],
        "disk_fails": [number, broker, lasts], "unpaused": [number], "topics_left": [lasts],
        "comes_back": [], "disk_back": [], "volume_fails": [number, broker, lasts], "shifted": [number, broker],
        "volume_fills": [number, broker, lasts],
    }  # fmt: skip
    feared = FEARS.get(schedule.scenario.partition("-")[0], RESTARTS)
    what = chance.choice(feared if chance.random() < 0.6 else list(args))
    return ["at", round(at, 3), what, *args[what]]


def _broker(chance: random.Random, schedule: Schedule) -> int:
    """Every other time the one that the reconcile concerns which comes next, if it concerns one."""
    _, sharp = prefix(schedule.scenario).to_the_end()
    told = [w.partition(" ")[2] for w in sharp.get(schedule.moment, ()) if " " in w]
    if told and chance.random() < 0.5:
        return int(told[0])
    five = (0, 1, 2, 3, 4)
    nodes = {"parallel": five, "stale-pair": five, "raise-wide": (0, 1, 2, 3), "apart": (0, 1, 2, 10, 11, 12)}
    nodes |= dict.fromkeys(
        [
            f"{what}{kind}"
            for what in ("lost-broker", "leaving-broker", "fenced-broker", "broken-disk", "volumes")
            for kind in ("", "-zookeeper")
        ],
        (0, 1, 2, 3),
    )
    return chance.choice(nodes.get(schedule.scenario, (0, 1, 2)))


# -- and run ------------------------------------------------------------------------------------------


class _InternalFaults(logging.Handler):
    """An exception inside a guard or a step is a fault of ours, and the reconcile only logs it."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.heard.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


FAULTS = _InternalFaults()
_LOG = logging.getLogger("kafka_medic")
_LOG.addHandler(FAULTS)
_LOG.propagate = False


def run(schedule: Schedule) -> Outcome:
    stage = Stage.thaw(prefix(schedule.scenario).moment(schedule.moment), schedule.seed)
    if not schedule.slices:
        return _run(stage, schedule)
    usual = {name: getattr(view_reads, name) for name in LARGE}
    spec = stage.api.objects[f"{BASE}/namespaces/ns/kafkaclusters/c"]["spec"]
    spec["probes"] = {**spec.get("probes", {}), "fullViews": 1}
    try:
        vars(view_reads).update(LARGE)
        return _run(stage, schedule)
    finally:
        vars(view_reads).update(usual)


def _run(stage: Stage, schedule: Schedule) -> Outcome:
    FAULTS.heard.clear()
    began = stage.reconciles, stage.events, len(stage.oracle.effects)
    violation = None
    try:
        _play(stage, schedule)
    except Violated as problem:
        violation = f"{problem}"
    if FAULTS.heard:
        violation = f"internal fault: {FAULTS.heard[0]}"
    if violation is not None:
        told = [
            (r["metadata"]["name"], r["status"].get("phase"), r["status"].get("message"))
            for r in stage.runs()
            if "status" in r
        ]
        violation += f"\n  at {stage.elapsed:.2f} s, effects {stage.oracle.effects}, runs {told}"
    counts = stage.reconciles - began[0], stage.events - began[1], len(stage.oracle.effects) - began[2]
    return Outcome(violation, *counts)


def _play(stage: Stage, schedule: Schedule) -> None:
    if schedule.operators > 1:
        stage.start("two")
    last = 0.0
    for fault in schedule.faults:
        if fault[0] == "at":
            stage.later(fault[1], "fault", *fault[2:])
            lasts = max([float(a) for a in fault[3:] if isinstance(a, float)], default=0.0)
            last = max(last, fault[1] + lasts)
        else:
            stage.aimed.append(list(fault))
    end, reconciles = stage.elapsed + last, stage.reconciles
    if not schedule.whole:
        until = stage.elapsed + SHARP_SECONDS
        while (
            stage.reconciles < reconciles + SHARP_RECONCILES * schedule.operators
            and stage.elapsed < until
            and not stage.quiet()
        ):
            stage.next()
        return
    while stage.elapsed < end and not stage.quiet():
        stage.next()
    # Liveness: whatever was wrong is over. Every run gets to an end, if people do their part.
    stage.aimed.clear()
    calm, waits_for_people = stage.reconciles, True
    while not stage.quiet():
        if stage.reconciles > calm + CALM_RECONCILES * schedule.operators:
            if stage.beyond_cure():
                return
            if waits_for_people and (waiting := stage.waits_for_owners()):
                for run in waiting:
                    stage.approve(run, decision="Reject")
                calm, waits_for_people = stage.reconciles, False
                continue
            stage.oracle.blame("nothing is wrong any more, and a run does not end")
        if stage.reconciles > calm + IDLE_RECONCILES * schedule.operators and stage.ended():
            return  # what there was to do went by itself, or a person does not want it done
        stage.next()


def shrunk(schedule: Schedule) -> Schedule:
    """The same failure with as few faults, and one operator, if that will do."""
    smaller = True
    while smaller:
        smaller = False
        tries = [
            _but(schedule, faults=schedule.faults[:i] + schedule.faults[i + 1 :]) for i in range(len(schedule.faults))
        ]
        tries += [_but(schedule, operators=1)] if schedule.operators > 1 else []
        tries += [_but(schedule, whole=False)] if schedule.whole else []
        for less in tries:
            if run(less).violation is not None:
                schedule, smaller = less, True
                break
    return schedule


def _but(schedule: Schedule, **other: Any) -> Schedule:
    return Schedule(**(schedule.plain() | other))


def noticed() -> list[tuple[str, Schedule]]:
    """Guards, and for each a schedule that violates something once that guard permits everything."""
    return [(n["without"], Schedule(**n["schedule"])) for n in json.loads(NOTICED.read_text())]


def kept() -> list[tuple[str, Schedule]]:
    """Schedules that failed once, made smaller, and why."""
    return [(k["why"], Schedule(**k["schedule"])) for k in json.loads(KEPT.read_text())]
