"""kill -9 at a chosen write, and what it leaves behind at each of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any

from tests.simulation.world import Killed, World


class Interrupted:
    """Passes everything on, and dies at the nth call of one of these names: before it reaches the other side, or right
    after. `ending`: of calls to the API server only those count whose path ends so."""

    def __init__(self, inner: Any, names: tuple[str, ...], fatal: int | None, when: str, ending: str = "") -> None:
        self.inner, self.names, self.fatal, self.when, self.ending = inner, names, fatal, when, ending
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name not in self.names:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.ending and not args[0].endswith(self.ending):
                return found(*args, **kwargs)
            mine, self.count = self.count, self.count + 1
            if mine == self.fatal and self.when == "before":
                raise Killed
            answer = found(*args, **kwargs)
            if mine == self.fatal and self.when == "after":
                raise Killed
            return answer

        return call


class Moments:
    """Passes everything on, and keeps the state of Kafka and of the API server right before and right after each write.

    kill -9 leaves exactly that behind, so a new operator over it is a run that was killed there. A moment that leaves
    nothing else behind than the one before it (an access review, an event, the way from one write to the next) is the
    same death, and is kept once.
    """

    def __init__(self, world: World, names: tuple[str, ...] = ("create", "replace")) -> None:
        self.world, self.inner, self.names, self.writes = world, world.api, names, 0
        self.kept: list[tuple[str, bytes]] = []
        self.last: Any = None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name not in self.names:
            return found

        def call(path: str, body: Any) -> Any:
            self.writes += 1
            self.keep(f"before {self.writes}, {name} {path}")
            answer = found(path, body)
            self.keep(f"after {self.writes}, {name} {path}")
            return answer

        return call

    def keep(self, what: str) -> None:
        frozen = pickle.dumps((self.world.kafka, self.inner, self.world.now))
        kafka, api, now = pickle.loads(frozen)
        if (kafka, api.objects, now) != self.last:
            self.last = (kafka, api.objects, now)
            self.kept.append((what, frozen))

    def worlds(self, chosen: Iterable[int]) -> Iterator[tuple[str, World]]:
        """What there is after a death at each of these moments, which is told as well."""
        for what, frozen in [self.kept[n] for n in chosen]:
            kafka, api, now = pickle.loads(frozen)
            yield f"killed {what}", World(kafka, api=api, now=now)
