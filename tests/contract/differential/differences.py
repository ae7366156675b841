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

    def shrunk(self, called: str) -> bool:
        """Whether a reassignment has taken a replica from this partition of this incarnation, or was to."""
        found, now = False, set[int]()
        for what, *args in self.steps:
            if what in ("create", "recreate") and called.startswith(f"{args[0]}-"):
                numbers = dict(enumerate(args[1]))
                found, now = False, set(numbers.get(int(called.rpartition("-")[2]), ()))
            elif what == "reassign" and called == f"{args[0]}-{args[1]}":
                found, now = found or bool(now - set(args[2])), set(args[2])
        return found

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


_PARTITION = re.compile(r"/(t\d+-\d+)(?:/|$)")
_TOPIC = re.compile(r"/(t\d+)(?:[-/]|$)")
_BROKER = re.compile(r"(?:log-dirs|settings/broker)/(\d)(?:/|$)")


def _partition(u: Unlike) -> str | None:
    found = _PARTITION.search(u.path)
    return found[1] if found else None


def _kraft(_: Unlike, s: Situation) -> bool:
    return s.kind == "kraft"


def _zookeeper(_: Unlike, s: Situation) -> bool:
    return s.kind == "zookeeper"


def _shrunk(u: Unlike, s: Situation) -> bool:
    return (called := _partition(u)) is not None and s.shrunk(called)


def _of_one_that_is_down(u: Unlike, s: Situation) -> bool:
    found = _BROKER.match(u.path)
    return found is not None and int(found[1]) in s.down


def _fenced(_: Unlike, s: Situation) -> bool:
    return s.kind == "kraft" and s.happened("cut")


def _cut(_: Unlike, s: Situation) -> bool:
    return s.kind == "zookeeper" and s.happened("cut")


def _named_away(u: Unlike, s: Situation) -> bool:
    found, topics = _TOPIC.search(u.path), s.named_away()
    return bool(topics) if u.path == "result" else found is not None and found[1] in topics


def _topic_gone(_: Unlike, s: Situation) -> bool:
    return s.happened("delete", "recreate")


def _some_topic_is_missing(u: Unlike, s: Situation) -> bool:
    return _topic_gone(u, s) or bool(s.named_away())


ACCEPTED: tuple[Difference, ...] = (
    Difference("described", r"described/(nodes|controller)", lambda _, s: bool(s.cut)),
    Difference("groups of a cut coordinator", r"groups?(/.*)?", _cut),
    Difference("commits by a cut coordinator", r"result", lambda u, s: s.last == "commit" and _cut(u, s)),
)
_ROWS = r"(view|bounds|own-end|epoch-end-now|epoch-end-first|log|log-dirs|reassignments|offset-at).*"
OWED: tuple[Difference, ...] = (
    Difference("replicas removed", rf"({_ROWS}|result)", _shrunk),
    Difference(
        "replicas removed, the result",
        r"result",
        lambda _, s: any(s.shrunk(f"t{t}-{p}") for t in range(9) for p in range(2)),
    ),
    Difference("epochs with ZooKeeper", r"(view/.*/epoch|epoch-end-(now|first)/.*)", _zookeeper),
    Difference("a broker that is down", r"(log-dirs|settings/broker)/\d(/.*)?", _of_one_that_is_down),
    Difference("nobody eligible but the ELR", r"view/.*/isr", lambda u, s: s.kind == "kraft" and u.real == ()),
    Difference("a voter that is away", r"quorum/voter/\d", _kraft),
    Difference("a fenced broker", r".*", _fenced),
    Difference("a cut broker", rf"({_ROWS}|result|described.*|view/\d/(members|controller)|membership.*)", _cut),
    Difference("replicas on brokers that are away", rf"({_ROWS}|result|settings/topic.*|group.*)", _named_away),
    Difference(
        "the order of succession",
        r"(view/.*/leader|(bounds|epoch-end-now|epoch-end-first)/.*)",
        lambda _, s: s.happened("stop", "kill"),
    ),
    Difference("offsets on topics that are gone", r"group/.*", _topic_gone),
    Difference("logs of topics that are gone", r"(bounds|offset-at)/.*", _some_topic_is_missing),
    Difference("settings of topics that are gone", r"settings/topic/.*", _topic_gone),
    Difference("who refuses settings of no topic", r"result", lambda _, s: s.last == "configure"),
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
