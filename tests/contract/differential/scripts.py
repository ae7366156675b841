"""Scripts: what happens to a cluster of three brokers, step by step. Plain data, made from a seed or read from a file.

Topics are called t0, t1, ... and brokers by their role: 0 is the active controller when the script begins. A script is
of one kind of cluster, since what may happen without a race differs. GUARDS lists what a script leaves out, and why.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.testbed.kafka_settings import Shape

KEPT = Path(__file__).with_name("kept.json")
BROKERS = (0, 1, 2)
CONTROLLER = 0
STEPS = (5, 9)
FAULTS = {0: 3, 1: 4, 2: 2}
"""How many ends and cuts of brokers a script has at most, and how often: each costs seconds."""
GUARDS = {
    "one broker away with KRaft": "Each broker is a voter: without two of three the cluster does nothing.",
    "two brokers stay up with ZooKeeper": "The one that is left may be the cut one, of which nobody hears.",
    "the active controller is not cut": "With ZooKeeper a cut controller still hears itself; with KRaft the rest "
    "elects another one, and until then any answer is a race.",
    "the controller stays while a broker is cut": "With ZooKeeper the cut one might become the next controller.",
    "no cut once the controller moved": "Which broker the next controller is, is a race that the script cannot know.",
    "no election by a controller in its first seconds": "The driver waits until all brokers agree on the controller.",
    "one move of a partition at a time": "A second one replaces the first; how far the first got is a race.",
    "no cancellation of what can end": "Copying an empty log takes less than a request.",
    "no topic is made anew with ZooKeeper while a broker is away": "Its name stays taken until every "
    "replica is deleted, which a broker that is away does when it is back.",
    "no setting of a broker that is cut off with KRaft": "The request goes to that broker, which cannot pass it on.",
    "a write has an address": "To whom a client's library sends it depends on its cache.",
}
Step = list[Any]


@dataclass
class Script:
    seed: int
    kind: Shape
    steps: list[Step] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def kept() -> list[tuple[str, Script]]:
    """Scripts that found a difference once, made shorter, and which."""
    return [(k["why"], Script(**k["script"])) for k in json.loads(KEPT.read_text())]


def shorter(script: Script) -> list[Script]:
    """The script without one of its steps, the late ones first."""
    return [
        Script(script.seed, script.kind, script.steps[:n] + script.steps[n + 1 :])
        for n in reversed(range(len(script.steps)))
    ]


def of_seed(seed: int, kind: Shape) -> Script:
    chance = random.Random(f"{kind}-{seed}")
    imagined = _Imagined(chance, kind)
    for _ in range(chance.randint(*STEPS)):
        imagined.next()
    return Script(seed, kind, imagined.steps)


class _Imagined:
    """As much of a cluster as it takes to choose a next step that is no race."""

    def __init__(self, chance: random.Random, kind: Shape) -> None:
        self.chance, self.kind = chance, kind
        self.steps: list[Step] = []
        self.topics: dict[str, list[list[int]]] = {}
        self.moving: dict[tuple[str, int], list[int]] = {}
        self.down: set[int] = set()
        self.cut: set[int] = set()
        self.moved = False
        self.faults = chance.choices(list(FAULTS), list(FAULTS.values()))[0]
        self.made = 0
        for _ in range(chance.randint(1, 2)):
            self._create()

    def next(self) -> None:
        weights = {
            self._write: 5, self._reassign: 4, self._elect: 4, self._stop: 4, self._start: 4, self._cut: 4,
            self._heal: 3, self._configure: 2, self._commit: 2, self._delete: 1, self._recreate: 2, self._create: 1,
            self._cancel: 2, self._rest: 1,
        }  # fmt: skip
        while not self.chance.choices(list(weights), list(weights.values()))[0]():
            pass

    # Each answers whether it was possible, and has then added its step.

    def _create(self) -> bool:
        if len(self.topics) >= 3:
            return False
        name, self.made = f"t{self.made}", self.made + 1
        self.topics[name] = self._placed(self.chance.choice((1, 1, 2)))
        configs = {"min.insync.replicas": "2"} if self.chance.random() < 0.2 else {}
        return self._step("create", name, self.topics[name], configs)

    def _placed(self, partitions: int) -> list[list[int]]:
        """As many replicas for each partition, which Kafka insists on."""
        factor = self.chance.choice((1, 2, 3, 3))
        return [self.chance.sample(BROKERS, factor) for _ in range(partitions)]

    def _replicas(self) -> list[int]:
        return self.chance.sample(BROKERS, self.chance.choice((1, 2, 3, 3)))

    def _delete(self) -> bool:
        if len(self.topics) < 2:
            return False
        name = self.chance.choice(list(self.topics))
        del self.topics[name]
        self._forget(name)
        return self._step("delete", name)

    def _recreate(self) -> bool:
        if not self.topics:
            return False
        name = self.chance.choice(list(self.topics))
        if self.kind == "zookeeper" and self.down | self.cut:
            return False
        self._forget(name)
        self.topics[name] = self._placed(len(self.topics[name]))
        return self._step("recreate", name, self.topics[name])

    def _forget(self, name: str) -> None:
        self.moving = {tp: to for tp, to in self.moving.items() if tp[0] != name}

    def _partition(self) -> tuple[str, int] | None:
        found = [(name, number) for name, parts in self.topics.items() for number in range(len(parts))]
        return self.chance.choice(found) if found else None

    def _write(self) -> bool:
        if (tp := self._partition()) is None:
            return False
        to = "cut" if self.cut and self.chance.random() < 0.4 else "leader"
        return self._step("write", *tp, self.chance.randint(1, 5), to, self.chance.choice((1, 1, -1)))

    def _reassign(self) -> bool:
        if (tp := self._partition()) is None or tp in self.moving:
            return False
        now, to = self.topics[tp[0]][tp[1]], self._replicas()
        away = self.down | self.cut
        if self.chance.random() < 0.4:
            to = self.chance.sample(now, len(now))
        elif away and self.chance.random() < 0.5:
            to = [*now, *sorted(away - set(now))]
        if to == now:
            return False
        if set(to) & away - set(now):
            self.moving[tp] = now
        self.topics[tp[0]][tp[1]] = to
        return self._step("reassign", *tp, to)

    def _cancel(self) -> bool:
        if not self.moving:
            return False
        tp = self.chance.choice(list(self.moving))
        self.topics[tp[0]][tp[1]] = self.moving.pop(tp)
        return self._step("cancel", *tp)

    def _elect(self) -> bool:
        tp = self._partition()
        return tp is not None and self._step("elect", *tp)

    def _configure(self) -> bool:
        least, of_topic, of_broker = (
            "min.insync.replicas", "leader.replication.throttled.replicas", "leader.replication.throttled.rate",
        )  # fmt: skip
        broker = str(self.chance.choice(BROKERS))
        ways: list[Step] = [
            ["BROKER", broker, of_broker, self.chance.choice(("1000000", "2000000", None))],
            ["BROKER", "", least, self.chance.choice(("1", "2"))],
            ["BROKER", "", "default.replication.factor", "2"],
            ["TOPIC", "never-made", least, "2"],
        ]
        for name in self.topics:
            ways.append(["TOPIC", name, least, self.chance.choice(("1", "2", "3", None))])
            ways.append(["TOPIC", name, of_topic, self.chance.choice(("*", "0:1,0:2", None))])
        way = self.chance.choice(ways)
        unheard = self.cut if self.kind == "kraft" else set[int]()
        return int(broker) not in self.down | unheard and self._step("configure", *way)

    def _commit(self) -> bool:
        if (tp := self._partition()) is None:
            return False
        return self._step("commit", f"g{self.chance.randrange(2)}", *tp, self.chance.randrange(6))

    def _stop(self) -> bool:
        free = [b for b in BROKERS if b not in self.down | self.cut and not (b == CONTROLLER and self.cut)]
        away = len(self.down) + (len(self.cut) if self.kind == "kraft" else 0)
        if away or not self.faults or not free:
            return False
        broker = self.chance.choice(free)
        self.down.add(broker)
        self.moved |= broker == CONTROLLER
        self.faults -= 1
        return self._step(self.chance.choice(("stop", "kill")), broker)

    def _start(self) -> bool:
        if not self.down:
            return False
        broker = self.chance.choice(sorted(self.down))
        self.down.remove(broker)
        self._let_end()
        return self._step("start", broker)

    def _cut(self) -> bool:
        free = [b for b in BROKERS if b not in self.down and b != CONTROLLER]
        if self.cut or self.moved or not self.faults or not free or (self.kind == "kraft" and self.down):
            return False
        broker = self.chance.choice(free)
        self.cut.add(broker)
        self.faults -= 1
        return self._step("cut", broker)

    def _heal(self) -> bool:
        if not self.cut:
            return False
        broker = self.cut.pop()
        self._let_end()
        return self._step("heal", broker)

    def _let_end(self) -> None:
        """What waited only for a broker that is back comes to its end."""
        away = self.down | self.cut
        self.moving = {tp: now for tp, now in self.moving.items() if set(self.topics[tp[0]][tp[1]]) & away - set(now)}

    def _rest(self) -> bool:
        return bool(self.cut or self.down) and self.steps[-1][0] != "rest" and self._step("rest")

    def _step(self, *step: Any) -> bool:
        self.steps.append(json.loads(json.dumps(step)))
        return True
