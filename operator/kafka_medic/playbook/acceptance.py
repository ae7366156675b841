"""Whether a Playbook can be run: known keys, a sequence of steps that can be planned together, values that fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafka_medic.playbook.registry import ACTIONS, SEQUENCES
from kafka_medic.resources.errors import Problem, ResourceError
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.vocabulary import ActionName, Guard


def check(playbook: Playbook) -> None:
    """Refuse a playbook that could not be planned as it says. Raises ResourceError with the path of each problem."""
    problems = [*_keys(playbook), *_sequence(playbook), *_guards(playbook), *_probes(playbook)]
    for index, step in enumerate(playbook.spec.steps):
        problems += ACTIONS[step.action].problems(playbook, index)
    if problems:
        raise ResourceError("Playbook", playbook.name, tuple(problems))


def _keys(playbook: Playbook) -> Iterator[Problem]:
    """Keys that no action reads."""
    used: set[str] = set()
    for i, step in enumerate(playbook.spec.steps):
        known = ACTIONS[step.action].parameters
        used |= known
        for key in step.with_:
            if key not in known:
                way = f"{step.action.value} takes {', '.join(sorted(known)) or 'no parameters'}"
                yield Problem(f"spec.steps[{i}].with.{key}", "is not a parameter of this action", way)
    for i, parameter in enumerate(playbook.spec.parameters):
        if parameter.name not in used:
            way = f"use one of {', '.join(sorted(used))}" if used else "remove it"
            yield Problem(f"spec.parameters[{i}].name", "is used by no step's action", way)


def _guards(playbook: Playbook) -> Iterator[Problem]:
    """Guards that would be asked by nobody: neither the action asks them, nor can they be added to it."""
    for i, step in enumerate(playbook.spec.steps):
        action = ACTIONS[step.action]
        allowed = _listed(action.addable)
        for guard in step.guards:
            if guard not in action.asked | action.addable:
                message = f"{guard.value} is not a guard of {step.action.value} and cannot be added to it"
                yield Problem(f"spec.steps[{i}].guards", message, f"remove it; allowed: {allowed}")


def _probes(playbook: Playbook) -> Iterator[Problem]:
    """Probes that show nothing of the step's action."""
    for i, step in enumerate(playbook.spec.steps):
        probes = ACTIONS[step.action].probes
        if step.verify.probe not in probes:
            message = f"{step.verify.probe.value} does not prove that {step.action.value} is done"
            yield Problem(f"spec.steps[{i}].verify.probe", message, f"write {' or '.join(p.value for p in probes)}")


def _listed(guards: Iterable[Guard]) -> str:
    return ", ".join(sorted(guard.value for guard in guards)) or "none"


def _sequence(playbook: Playbook) -> Iterator[Problem]:
    """The first step that cannot be planned together with those before it, and what would be allowed there."""
    actions = tuple(step.action for step in playbook.spec.steps)
    if actions in SEQUENCES:
        return
    fits = max(i for i in range(len(actions) + 1) if _after(actions[:i]) is not None)
    allowed = _after(actions[:fits]) or set()
    verb, place = ("write", "there") if fits < len(actions) else ("add", "after it")
    ways = [f"{verb} {' or '.join(sorted(a.value for a in allowed - {None} if a))} {place}"] if allowed - {None} else []
    ways += ["end the playbook before it"] if None in allowed and fits < len(actions) else []
    way = ", or ".join(ways) or "write a playbook of its own for it"
    if fits == len(actions):
        last = playbook.spec.steps[-1]
        yield Problem(f"spec.steps[{fits - 1}]", f"{last.name} ({last.action.value}) cannot come last", way)
        return
    step = playbook.spec.steps[fits]
    message = f"{step.name} ({step.action.value}) cannot be planned together with the steps before it"
    if not fits:
        message = f"{step.name} ({step.action.value}) cannot come first"
    yield Problem(f"spec.steps[{fits}].action", message, way)


def _after(begun: tuple[ActionName, ...]) -> set[ActionName | None] | None:
    """What may follow these steps, None among it where they may be all; None: no sequence begins like that."""
    found = [s for s in SEQUENCES if s[: len(begun)] == begun]
    return {s[len(begun)] if len(s) > len(begun) else None for s in found} or None
