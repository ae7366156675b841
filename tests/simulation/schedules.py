"""Schedules: from where, which faults, how long. A schedule is plain data, made from a seed or read from a file.

Most are short and sharp: they begin at a moment of an undisturbed run, frozen right before one of its turns (mostly one
in which something is written), meet one to three faults within the next seconds, and are watched for a few turns. Every
`WHOLE`th goes from the first look to the end of every run, with faults all along, and has to get there once they stop.
"""

from __future__ import annotations

import functools
import json
import logging
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.simulation.kafka import SimKafka
from tests.simulation.oracle import Violated
from tests.simulation.stage import START, Fault, Stage
from tests.simulation.world import BROKERS

KEPT = Path(__file__).with_name("kept.json")
WHOLE = 40
SHARP_TURNS, SHARP_SECONDS = 3, 400.0
CALM_TURNS = 150
HORIZON = 120.0
"""Seconds within which the faults of a whole schedule begin."""
SOURCES = ("views", "reassignments", "configs", "log-dirs", "kafka", "quorum", "log-ends", "zookeeper")


@dataclass
class Schedule:
    """`moment`: before which turn of the scenario's undisturbed run it begins. `whole`: to the end of every run."""

    seed: int
    scenario: str
    moment: int
    operators: int = 1
    whole: bool = False
    faults: list[Fault] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Outcome:
    """`violation`: what did not hold, with where the runs stood; None when everything did."""

    violation: str | None
    turns: int
    events: int
    effects: int


# -- scenarios ----------------------------------------------------------------------------------------


def _healthy_kafka() -> SimKafka:
    kafka = SimKafka()
    kafka.topic("orders", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    kafka.topic("__consumer_offsets", [1, 0, 2])
    for topic in ("orders", "__consumer_offsets"):
        kafka.dynamic["TOPIC", topic, "min.insync.replicas"] = "2"
    return kafka


def _stage(kafka: SimKafka, *, cooldown: str = "0s", elections: bool = False, **how: Any) -> Stage:
    stage = Stage(kafka, **how)
    metadata = {"metadata": {"zookeeper": {"connect": "zk:2181"}}} if kafka.zookeeper else {}
    limits = {"limits": {"cooldown": cooldown, "perDay": 100}} | _observed(elections)
    stage.world.install(brokers=BROKERS, remediation=limits, **metadata)
    stage.with_pods()
    return stage


def _observed(elections: bool) -> dict[str, Any]:
    """Playbooks that nobody wants proposed here: a broker that is restarted, or whose node is cordoned, leads less."""
    names = ["drain-broker", "undrain-broker", *([] if elections else ["elect-preferred-leaders"])]
    return {"playbooks": [{"name": name, "mode": "Observe"} for name in names]}


def _roll(playbook: str = "rolling-restart", **how: Any) -> Stage:
    stage = _stage(_healthy_kafka(), **how)
    stage.world.ask(playbook)
    return stage


def _cooling() -> Stage:
    """A run has just ended, and the KafkaCluster asks for an hour's rest."""
    stage = _roll(cooldown="1h")
    (run,) = stage.runs()
    ended = START.strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"phase": "Succeeded", "startedAt": ended, "finishedAt": ended, "message": "done"}
    meta = {"name": "before", "namespace": "ns"}
    body = {k: run[k] for k in ("apiVersion", "kind", "spec")}
    stage.world.put("remediations", body | {"metadata": meta, "status": status})
    return stage


def _thin() -> Stage:
    """One topic has no replica to spare: nothing may be restarted."""
    kafka = _healthy_kafka()
    kafka.topic("thin", [2, 0])
    kafka.dynamic["TOPIC", "thin", "min.insync.replicas"] = "2"
    stage = _stage(kafka)
    stage.world.ask("rolling-restart")
    return stage


def _raise(*, throttled: bool = False, size: int = 5_000_000) -> Stage:
    kafka = SimKafka()
    kafka.topic("orders", [1], size=size)
    kafka.topic("payments", [0], [2], size=size)
    kafka.topic("__consumer_offsets", [0, 1, 2])
    if throttled:
        kafka.dynamic["BROKER", "1", "follower.replication.throttled.rate"] = "777"
        kafka.dynamic["TOPIC", "orders", "leader.replication.throttled.replicas"] = "*"
    return _stage(kafka)


def _elect() -> Stage:
    """Broker 0 was away, and leads nothing since."""
    kafka = _healthy_kafka()
    for part in kafka.partitions.values():
        if part.leader == 0:
            part.leader, part.epoch = part.replicas[1], 1
    return _stage(kafka, elections=True)


SCENARIOS: dict[str, Callable[[], Stage]] = {
    "roll": _roll,
    "roll-zookeeper": lambda: _roll(zookeeper=True),
    "controller": lambda: _roll("restart-controller"),
    "cooling": _cooling,
    "thin": _thin,
    "elect": _elect,
    "raise": _raise,
    "raise-throttled": lambda: _raise(throttled=True),
    "raise-waves": lambda: _raise(size=30_000_000_000),
    "healthy": lambda: _stage(_healthy_kafka()),
}
WEIGHTS = {
    "roll": 8,
    "roll-zookeeper": 4,
    "controller": 2,
    "elect": 3,
    "raise": 5,
    "raise-throttled": 3,
    "raise-waves": 4,
}


@dataclass
class Prefix:
    """An undisturbed run: the world before each turn, and which turns wrote something."""

    moments: list[bytes]
    sharp: list[int]
    findings: int


@functools.cache
def prefix(scenario: str) -> Prefix:
    stage = SCENARIOS[scenario]()
    stage.oracle.begin()
    stage.start("one")
    stage.later(1.0, "people")
    stage.later(0.1, "produce")
    found = Prefix([], [], 0)
    while len(found.moments) < 80 and not stage.quiet():
        if scenario in ("healthy", "thin", "cooling") and len(found.moments) == 8:
            break
        found.moments.append(stage.freeze())
        before, turns = len(stage.oracle.effects), stage.turns
        while stage.turns == turns:
            stage.next()
        if len(stage.oracle.effects) > before:
            found.sharp.append(len(found.moments) - 1)
    if scenario == "healthy":
        findings = stage.world.cluster()["status"].get("findings", [])
        assert not findings, findings
        assert not stage.oracle.effects, stage.oracle.effects
    if scenario in WEIGHTS:
        assert stage.quiet(), [(r["status"]["phase"], r["status"]["message"]) for r in stage.runs()]
        assert {r["status"]["phase"] for r in stage.runs()} == {"Succeeded"}
    return found


# -- from a seed ---------------------------------------------------------------------------------------


def of_seed(seed: int) -> Schedule:
    chance = random.Random(seed)
    whole = seed % WHOLE == 0
    others = [] if whole else ["thin", "cooling", "healthy"]
    names = [*WEIGHTS, *others]
    scenario = chance.choices(names, [WEIGHTS.get(n, 1) for n in names])[0]
    began = prefix(scenario)
    moment = 0
    if not whole:
        moments = began.sharp if began.sharp and chance.random() < 0.75 else range(len(began.moments))
        moment = chance.choice(moments)
    operators = 2 if chance.random() < 0.3 else 1
    count = chance.randint(2, 8) if whole else chance.choices((0, 1, 2, 3), (1, 10, 8, 4))[0]
    if scenario == "healthy":
        count = 0
    faults = [_fault(chance, whole, operators) for _ in range(count)]
    return Schedule(seed, scenario, moment, operators, whole, faults)


def _fault(chance: random.Random, whole: bool, operators: int) -> Fault:
    aimed = chance.random()
    if aimed < 0.25:
        kind = chance.choice(("effect", "status", "status", "call"))
        highest = {"effect": 5 if whole else 2, "status": 60 if whole else 14, "call": 1000 if whole else 120}[kind]
        what, when = chance.choice(("crash", "crash", "lost")), chance.choice(("before", "after"))
        return [what, kind, chance.randint(1, highest), when]
    if aimed < (0.5 if operators > 1 else 0.3):
        return ["pause", chance.randint(1, 1000 if whole else 100), chance.choice((5.0, 35.0, 70.0))]
    soon = chance.choice((0.0, chance.uniform(0.4, 3.0), chance.uniform(0, 12)))
    at = chance.uniform(0, HORIZON) if whole else soon
    broker, number, lasts = chance.randrange(3), chance.randrange(10), chance.choice((2.0, 15.0, 45.0))
    source = chance.choice(SOURCES)
    likely: list[list[Any]] = [
        ["dies", broker], ["isr_shrinks", number, broker], ["controller_moves", broker], ["revoked", lasts],
        ["blind", source, lasts], ["stale", broker, lasts], ["behind", broker, lasts],
    ]  # fmt: skip
    rarer: list[list[Any]] = [
        ["slow_recovery", broker, lasts], ["pod_replaced", broker], ["rejected"], ["deaf", broker, lasts],
        ["foreign", number, lasts], ["cancelled", number], ["told_to_pause", lasts], ["window_closes", lasts],
        ["cordoned", broker, lasts], ["unready", broker, lasts], ["rollout", lasts], ["budget", lasts],
        ["api_down", lasts], ["asked", "rolling-restart"], ["deleted"],
    ]  # fmt: skip
    return ["at", round(at, 3), *chance.choice([*likely, *likely, *rarer])]


# -- and run ------------------------------------------------------------------------------------------


class _InternalFaults(logging.Handler):
    """An exception inside a guard or a step is a fault of ours, and the turn only logs it."""

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
    FAULTS.heard.clear()
    stage = Stage.thaw(prefix(schedule.scenario).moments[schedule.moment], schedule.seed)
    began = stage.turns, stage.events, len(stage.oracle.effects)
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
    counts = stage.turns - began[0], stage.events - began[1], len(stage.oracle.effects) - began[2]
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
    end, turns = stage.elapsed + last, stage.turns
    if not schedule.whole:
        until = stage.elapsed + SHARP_SECONDS
        while stage.turns < turns + SHARP_TURNS * schedule.operators and stage.elapsed < until and not stage.quiet():
            stage.next()
        return
    while stage.elapsed < end and not stage.quiet():
        stage.next()
    # Liveness: whatever was wrong is over. Every run gets to an end, if people do their part.
    stage.aimed.clear()
    calm = stage.turns
    while not stage.quiet():
        if stage.turns > calm + CALM_TURNS * schedule.operators:
            stage.oracle.blame("nothing is wrong any more, and a run does not end")
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


def kept() -> list[tuple[str, Schedule]]:
    """Schedules that failed once, made smaller, and why."""
    return [(k["why"], Schedule(**k["schedule"])) for k in json.loads(KEPT.read_text())]
