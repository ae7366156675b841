"""The typed parameters of each action, from the playbook, the KafkaCluster's overrides and the run.

Which keys an action knows, and which guards it demands, is code: a playbook may add guards, never remove one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kafka_medic.guard.elect import ELECT_GUARDS
from kafka_medic.guard.reset_offsets import OFFSET_GUARDS, TARGET_WITHIN_LOG
from kafka_medic.guard.restart import RESTART_GUARDS
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.errors import Problem, ResourceError
from kafka_medic.resources.playbook import Playbook, Step
from kafka_medic.resources.vocabulary import Action, Guard, WorkloadKind

KNOWN: Mapping[Action, frozenset[str]] = {
    Action.REASSIGN_PARTITIONS: frozenset(
        {
            "throttleBytesPerSecond",
            "bandwidthBytesPerSecond",
            "bandwidthSharePercent",
            "waveBytesPerBroker",
            "wavePartitions",
        }
    ),
    Action.SET_MIN_INSYNC_REPLICAS: frozenset(),
    Action.RESTART_BROKERS: frozenset({"brokers", "brokerWithin", "maxParallel", "drainFirst"}),
    Action.RESCUE_RECORDS: frozenset({"rescueTopic"}),
    Action.ELECT_PREFERRED_LEADERS: frozenset({"batchSize", "leaderlessWithin"}),
    Action.REORDER_REPLICAS: frozenset({"brokers", "leaders"}),
    Action.RESET_OFFSETS: frozenset({"to", "groups", "excludeGroups", "topics"}),
    Action.RESTORE_OFFSETS: frozenset({"remediation"}),
    Action.REMOVE_THROTTLES: frozenset(),
    Action.STOP_CONSUMERS: frozenset({"workload"}),
    Action.START_CONSUMERS: frozenset(),
    Action.SET_CLUSTER_DEFAULTS: frozenset(),
}

_EVERY_ACTION = (
    Guard.APPROVAL_VALID,
    Guard.LEASE_HELD,
    Guard.NOT_PAUSED,
    Guard.WITHIN_WINDOW,
    Guard.WITHIN_LIMITS,
    Guard.NO_OTHER_REMEDIATION,
    Guard.NO_OTHER_KAFKA_CLUSTER,
    Guard.SOURCES_FRESH,
    Guard.PRECONDITIONS_HOLD,
)
_REASSIGNING = (
    *_EVERY_ACTION,
    Guard.CLUSTER_REACHABLE,
    Guard.ENOUGH_LIVE_BROKERS,
    Guard.TARGETS_ALIVE,
    Guard.NO_FOREIGN_REASSIGNMENT,
    Guard.BROKERS_STABLE,
)
DEMANDED: Mapping[Action, tuple[Guard, ...]] = {
    Action.REASSIGN_PARTITIONS: (*_REASSIGNING, Guard.FIT_TO_RECEIVE),
    Action.SET_MIN_INSYNC_REPLICAS: _REASSIGNING,
    Action.RESCUE_RECORDS: (*_EVERY_ACTION, Guard.FIT_TO_RECEIVE),
    Action.ELECT_PREFERRED_LEADERS: (*_EVERY_ACTION, *(Guard(name) for name in ELECT_GUARDS)),
    Action.REORDER_REPLICAS: (*_EVERY_ACTION, *(Guard(name) for name in ELECT_GUARDS)),
    Action.RESTART_BROKERS: (*_EVERY_ACTION, *(Guard(name) for name, _ in RESTART_GUARDS)),
    Action.RESET_OFFSETS: (*_EVERY_ACTION, *(Guard(name) for name in (*OFFSET_GUARDS, TARGET_WITHIN_LOG))),
    Action.RESTORE_OFFSETS: (*_EVERY_ACTION, *(Guard(name) for name in OFFSET_GUARDS)),
    Action.REMOVE_THROTTLES: _REASSIGNING,
    Action.STOP_CONSUMERS: _EVERY_ACTION,
    Action.START_CONSUMERS: _EVERY_ACTION,
    Action.SET_CLUSTER_DEFAULTS: _REASSIGNING,
}
"""The guards that an action demands, whatever a playbook names."""


STOPPING = (Action.STOP_CONSUMERS, Action.RESET_OFFSETS, Action.START_CONSUMERS)
"""All steps of a playbook that stops consumers: nothing comes between that is no reason to keep them stopped."""
RAISING_DEFAULTS = (Action.RESTART_BROKERS, Action.SET_CLUSTER_DEFAULTS)
"""All steps of a playbook that corrects the brokers' defaults. A higher min.insync.replicas comes last: with it, topics
that brokers still create with too few replicas would take no record with acks=all."""
CONTROLLER = "controller"
"""The value of `brokers` that stands for whoever is the active controller."""


@dataclass(frozen=True, slots=True)
class ReassignParameters:
    """`throttle_bytes_per_second`: each broker's replication rate while replicas are copied; None: no throttle.
    `bandwidth`: bytes per second of a broker's network, of which the throttle is `bandwidth_share` percent; None: the
    throttle was given as it is.
    `wave_bytes_per_broker`: at most so many bytes into and out of a broker in one wave (a larger partition alone)."""

    throttle_bytes_per_second: int | None = 50_000_000
    wave_bytes_per_broker: int | None = None
    wave_partitions: int | None = None
    bandwidth: int | None = None
    bandwidth_share: int | None = None


@dataclass(frozen=True, slots=True)
class RestartParameters:
    """`brokers`: `all`, `controller`, `cause` (the broker that the finding names) or ids such as `1,3`.
    `broker_within`: seconds that a broker may take to be back in everything before a person is told. `max_parallel`:
    how many may be away at once. `drain_first`: what a broker leads is moved off it before, and back afterwards."""

    brokers: str = "all"
    broker_within: float = 1800.0
    max_parallel: int = 1
    drain_first: bool = False


@dataclass(frozen=True, slots=True)
class ElectParameters:
    """`batch_size`: partitions in the first request; later ones follow what the last ones took. `leaderless_within`:
    seconds in which a batch's leaders have to serve, before a person is told and nothing more is sent."""

    batch_size: int = 50
    leaderless_within: float = 10.0


@dataclass(frozen=True, slots=True)
class ResetParameters:
    """`to`: what decides the new offsets, in the words of Kafka's own tool. `groups`, `topics`: regular expressions
    over whole names, None where none was given; `exclude_groups`: groups that are left out though they match."""

    to: str = "to-last-known-good"
    groups: str | None = None
    exclude_groups: str | None = None
    topics: str | None = None


AWAY, BACK, EVEN = "away", "back", "even"


@dataclass(frozen=True, slots=True)
class DrainParameters:
    """`leaders`: `away` from these brokers, or `back` to where they were before a drain. `brokers`: ids such as `1,3`,
    or `cause` (the broker that the finding names)."""

    leaders: str = AWAY
    brokers: str = "cause"


def check(playbook: Playbook) -> None:
    """Refuse a playbook that names a key no action knows. Raises ResourceError with the path of each."""
    used: set[str] = set()
    problems = []
    for i, step in enumerate(playbook.spec.steps):
        known = KNOWN[step.action]
        used |= known
        for key in step.with_:
            if key not in known:
                way = f"{step.action.value} knows {', '.join(sorted(known)) or 'no parameters'}"
                problems.append(Problem(f"spec.steps[{i}].with.{key}", "is not a parameter of this action", way))
        if step.action is Action.REORDER_REPLICAS:
            leaders = (EVEN,) if adds_replicas(playbook) else (AWAY, BACK)
            if step.with_.get("leaders") not in leaders:
                path = f"spec.steps[{i}].with.leaders"
                problems.append(Problem(path, "is not what this step can do", f"write {' or '.join(leaders)}"))
    actions = tuple(step.action for step in playbook.spec.steps)
    if {Action.STOP_CONSUMERS, Action.START_CONSUMERS} & set(actions) and actions != STOPPING:
        way = f"write {', '.join(a.value for a in STOPPING)}, and no other step"
        problems.append(Problem("spec.steps", "stop or start consumers otherwise than around a reset", way))
    if raises_defaults(playbook):
        problems += _unfit_for_defaults(playbook)
    for i, parameter in enumerate(playbook.spec.parameters):
        if parameter.name not in used:
            problems.append(
                Problem(
                    f"spec.parameters[{i}].name",
                    "is read by no step's action",
                    f"use one of {', '.join(sorted(used))}",
                )
            )
    if problems:
        raise ResourceError("Playbook", playbook.name, tuple(problems))


def _unfit_for_defaults(playbook: Playbook) -> list[Problem]:
    """Which brokers is decided by their defaults; and more than one at a time could all come back with the old ones."""
    found = []
    if tuple(step.action for step in playbook.spec.steps) != RAISING_DEFAULTS:
        way = f"write {', '.join(a.value for a in RAISING_DEFAULTS)}, and no other step"
        found.append(Problem("spec.steps", "set the brokers' defaults otherwise than after their restart", way))
    given = {p.name for p in playbook.spec.parameters}.union(*(step.with_ for step in playbook.spec.steps))
    wrong = given & {"brokers", "maxParallel", "drainFirst"}
    return found + [Problem("spec", f"{n} does not go with brokers' defaults", "remove it") for n in sorted(wrong)]


def check_values(playbook: Playbook, values: Mapping[str, int | str]) -> None:
    """Refuse values that do not fit the playbook's parameters."""
    problems = []
    for name, value in values.items():
        parameter = playbook.spec.parameter(name)
        if parameter is None:
            problems.append(Problem(f"parameters.{name}", "is not a parameter of the playbook", "remove it"))
            continue
        try:
            parameter.read(value)
        except ValueError as problem:
            message, _, way = str(problem).partition("; ")
            problems.append(Problem(f"parameters.{name}", message, way))
    if problems:
        raise ResourceError("Remediation", "", tuple(problems))


def reassign_parameters(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> ReassignParameters:
    """What counts for this run: the step's constants, else the run's values, else the playbook's defaults. A value of 0
    switches a bound off."""

    def number(name: str) -> int | None:
        value = _value(playbook, step, given, name)
        return None if value is None else int(value) or None

    rate, bandwidth, share = number("throttleBytesPerSecond"), number("bandwidthBytesPerSecond"), None
    if bandwidth is not None and (share := number("bandwidthSharePercent")) is not None:
        rate = max(bandwidth * share // 100, 1)
    return ReassignParameters(
        throttle_bytes_per_second=rate,
        wave_bytes_per_broker=number("waveBytesPerBroker"),
        wave_partitions=number("wavePartitions"),
        bandwidth=bandwidth if share is not None else None,
        bandwidth_share=share,
    )


def restart_parameters(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> RestartParameters:
    """What counts for this run, as in `reassign_parameters`."""
    plain = RestartParameters()
    within = _value(playbook, step, given, "brokerWithin")
    brokers = _value(playbook, step, given, "brokers")
    parallel = _value(playbook, step, given, "maxParallel")
    return RestartParameters(
        brokers=plain.brokers if brokers is None else str(brokers).strip(),
        broker_within=plain.broker_within if within is None else parse_duration(str(within)),
        max_parallel=plain.max_parallel if parallel is None else max(int(parallel), 1),
        drain_first=_value(playbook, step, given, "drainFirst") in (True, "true"),
    )


def elect_parameters(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> ElectParameters:
    """What counts for this run, as in `reassign_parameters`."""
    plain = ElectParameters()
    size = _value(playbook, step, given, "batchSize")
    within = _value(playbook, step, given, "leaderlessWithin")
    return ElectParameters(
        batch_size=plain.batch_size if size is None else max(int(size), 1),
        leaderless_within=plain.leaderless_within if within is None else parse_duration(str(within)),
    )


def drain_parameters(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> DrainParameters:
    """What counts for this run, as in `reassign_parameters`."""
    brokers = _value(playbook, step, given, "brokers")
    return DrainParameters(str(step.with_.get("leaders", AWAY)), "cause" if brokers is None else str(brokers).strip())


def reset_parameters(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> ResetParameters:
    """What counts for this run, as in `reassign_parameters`."""

    def text(name: str) -> str | None:
        return str(_value(playbook, step, given, name) or "").strip() or None

    return ResetParameters(text("to") or ResetParameters().to, text("groups"), text("excludeGroups"), text("topics"))


def restored_run(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> str:
    """The name of the Remediation whose offsets are to be put back."""
    return str(_value(playbook, step, given, "remediation") or "").strip()


def sets_offsets(playbook: Playbook) -> Step | None:
    """The step of a playbook that sets committed offsets, or puts them back."""
    wanted = (Action.RESET_OFFSETS, Action.RESTORE_OFFSETS)
    return next((s for s in playbook.spec.steps if s.action in wanted), None)


def adds_replicas(playbook: Playbook) -> bool:
    """Whether a step of it reassigns partitions. What it then does with leaders is about those partitions."""
    return any(s.action is Action.REASSIGN_PARTITIONS for s in playbook.spec.steps)


def raises_defaults(playbook: Playbook) -> bool:
    return any(s.action is Action.SET_CLUSTER_DEFAULTS for s in playbook.spec.steps)


def raises_minimums(playbook: Playbook) -> bool:
    """Whether all that it does is to raise min.insync.replicas of topics."""
    return all(s.action is Action.SET_MIN_INSYNC_REPLICAS for s in playbook.spec.steps)


def removes_throttles(playbook: Playbook) -> bool:
    return any(s.action is Action.REMOVE_THROTTLES for s in playbook.spec.steps)


def stops_consumers(playbook: Playbook) -> Step | None:
    """The step of a playbook that stops the consumers whose offsets it sets."""
    return next((s for s in playbook.spec.steps if s.action is Action.STOP_CONSUMERS), None)


def stopped_workload(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> tuple[WorkloadKind, str]:
    """Kind and name. Raises ValueError, with the way out after a semicolon."""
    kind, _, name = str(_value(playbook, step, given, "workload") or "").strip().partition("/")
    known = {k.value.lower(): k for k in WorkloadKind}
    if kind.lower() not in known or not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", name):
        raise ValueError("workload names nothing that can be stopped; write Deployment/NAME or StatefulSet/NAME")
    return known[kind.lower()], name


def brings_leaders(playbook: Playbook) -> str | None:
    """AWAY or BACK for a playbook that drains brokers or undoes that; None for any other."""
    if adds_replicas(playbook):
        return None
    steps = [s for s in playbook.spec.steps if s.action is Action.REORDER_REPLICAS]
    return str(steps[0].with_.get("leaders", AWAY)) if steps else None


def _value(playbook: Playbook, step: Step, given: Mapping[str, int | str], name: str) -> int | str | None:
    constant = step.with_.get(name)
    if constant is not None:
        return constant
    parameter = playbook.spec.parameter(name)
    if parameter is None:
        return None
    value = given.get(name, parameter.default)
    return None if value is None else parameter.read(value)


def rescue_topic(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> str:
    """How the names of rescue topics begin."""
    return str(_value(playbook, step, given, "rescueTopic") or "kafka-medic.rescued")
