"""Where the simulation and Kafka may differ, each with its reason. README.md has the same as a table, for people.

ACCEPTED stays: Kafka does not determine the answer, or the simulation leaves it out on purpose. OWED does not: Kafka
does what the reason says, and the simulation something else. An entry of OWED goes once the simulation does the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

ABSENT = "-"
CONTROLLER = 0
"""By its role in a script."""


@dataclass(frozen=True)
class Situation:
    """`steps`: those so far, the last of which was just carried out."""

    kind: str
    steps: tuple[list[Any], ...]
    down: frozenset[int]
    cut: frozenset[int]

    @property
    def last(self) -> str:
        return str(self.steps[-1][0]) if self.steps else "start"

    def happened(self, *names: str) -> bool:
        return any(step[0] in names for step in self.steps)

    def named_away(self) -> set[str]:
        """Topics that were made on, or moved to, a broker that was away then."""
        away, found = set[int](), set[str]()
        for what, *args in self.steps:
            match what:
                case "stop" | "kill" | "cut":
                    away.add(args[0])
                case "start" | "heal":
                    away.discard(args[0])
                case "create" | "recreate":
                    found |= {args[0]} if any(away & set(ids) for ids in args[1]) else set()
                case "reassign":
                    found |= {args[0]} if away & set(args[2]) else set()
        return found


@dataclass(frozen=True)
class Unlike:
    """One path at which the two do not answer the same."""

    path: str
    real: Any
    simulated: Any

    def __str__(self) -> str:
        return f"{self.path}: Kafka {self.real!r}, simulation {self.simulated!r}"


Here = Callable[[Unlike, Situation], bool]


def _always(_: Unlike, __: Situation) -> bool:
    return True


@dataclass(frozen=True)
class Difference:
    """`name` is the row in README.md. `path` has to match from the beginning to the end."""

    name: str
    path: str
    here: Here = field(default=_always)

    def covers(self, unlike: Unlike, situation: Situation) -> bool:
        return re.fullmatch(self.path, unlike.path) is not None and self.here(unlike, situation)


_TOPIC = re.compile(r"/(t\d+)(?:[-/]|$)")


def _cut(_: Unlike, s: Situation) -> bool:
    return s.kind == "zookeeper" and s.happened("cut")


def _named_away(u: Unlike, s: Situation) -> bool:
    found, topics = _TOPIC.search(u.path), s.named_away()
    return bool(topics) if u.path == "result" else found is not None and found[1] in topics


def _not_replicated(u: Unlike, s: Situation) -> bool:
    """A log's end is told as less than what was written with acks=1."""
    written = any(step[0] == "write" and step[-1] == 1 for step in s.steps)
    both = isinstance(u.real, tuple) and isinstance(u.simulated, tuple)
    return s.kind == "kraft" and written and both and u.real[1] < u.simulated[1]


def _controller_gone(u: Unlike, s: Situation) -> bool:
    ended = any(step[0] in ("stop", "kill") and step[1] == CONTROLLER for step in s.steps)
    return s.kind == "zookeeper" and ended and _one_apart(u)


def _killed(u: Unlike, s: Situation) -> bool:
    """Also by its own view once it is back, which has no earlier one to be compared with."""
    return s.kind == "zookeeper" and (s.last == "kill" or (s.last == "start" and s.happened("kill"))) and _one_apart(u)


def _hides_its_end(u: Unlike, s: Situation) -> bool:
    """Below min.insync.replicas a new leader does not raise its high watermark, and reports no end until it has."""
    least = any("min.insync.replicas" in str(step) for step in s.steps)
    return least and s.happened("kill", "stop") and u.real in (ABSENT, "failed: Error")


def _one_apart(u: Unlike) -> bool:
    try:
        return abs(int(u.real) - int(u.simulated)) == 1
    except ValueError:
        return False


ACCEPTED: tuple[Difference, ...] = (
    Difference("described", r"described/(nodes|controller)", lambda _, s: bool(s.cut)),
    Difference("groups of a cut coordinator", r"groups?(/.*)?", _cut),
    Difference("commits by a cut coordinator", r"result", lambda u, s: s.last == "commit" and _cut(u, s)),
    Difference("too few in sync", r"bounds/.*", _not_replicated),
    Difference("an end that is not told", r"(bounds|offset-at)/.*", _hides_its_end),
    Difference("another controller", r"view/.*/epoch", _controller_gone),
    Difference("a killed follower", r"view/.*/epoch", _killed),
)
_ROWS = r"(view|bounds|own-end|epoch-end-now|epoch-end-first|log|log-dirs|reassignments|offset-at).*"
OWED: tuple[Difference, ...] = (
    Difference("a cut broker", rf"({_ROWS}|result|described.*|view/\d/(members|controller)|membership.*)", _cut),
    Difference("moves to brokers that are away", rf"({_ROWS}|result)", _named_away),
)


def unlike(
    real: Mapping[str, Any], simulated: Mapping[str, Any], real_before: Mapping[str, Any], before: Mapping[str, Any]
) -> Iterator[Unlike]:
    """Every path at which they differ. Leader epochs differ if the last step has changed them differently: once they
    are apart, they stay so. Of an incarnation that was not there before, the epoch itself counts."""
    for path in sorted(real.keys() | simulated.keys()):
        ours, theirs = simulated.get(path, ABSENT), real.get(path, ABSENT)
        if ours == theirs:
            continue
        if path.endswith("/epoch") and _same_incarnation(path, real, real_before, simulated, before):
            ours, theirs = ours - before[path], theirs - real_before[path]
            if ours == theirs:
                continue
            ours, theirs = f"+{ours}", f"+{theirs}"
        yield Unlike(path, theirs, ours)


def _same_incarnation(path: str, *answers: Mapping[str, Any]) -> bool:
    its = path.removesuffix("/epoch") + "/id"
    return all(path in a for a in answers) and len({a.get(its) for a in answers}) == 1
