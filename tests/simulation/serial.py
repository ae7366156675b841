"""A reconcile without threads: what it reads side by side is read in the order of asking, and a canary is stepped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from kafka_medic.controller import api_state as api_state_room
from kafka_medic.controller import canary as canary_room
from kafka_medic.controller import store as store_room
from kafka_medic.observe import pods as pods_room
from kafka_medic.observe import snapshot as snapshot_room
from kafka_medic.observe.canary import Canary


class Done:
    """In place of a Future, which has a lock of its own."""

    __slots__ = ("problem", "value")

    def __init__(self, value: Any, problem: Exception | None = None) -> None:
        self.value, self.problem = value, problem

    def result(self, timeout: float | None = None) -> Any:
        if self.problem is not None:
            raise self.problem
        return self.value

    def cancel(self) -> bool:
        return False


class Serial(Executor):
    """In place of the threads in which a look reads its sources side by side: the same, in the order of asking, so that
    a schedule runs the same way every time."""

    def __init__(self, *_: Any) -> None:
        pass

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        try:
            return Done(fn(*args, **kwargs))
        except Exception as problem:  # noqa: BLE001 as the real one hands it on
            return Done(None, problem)


class Rounds(Canary):
    """A canary whose rounds are somebody else's to step."""

    ended = False

    def start(self) -> None:
        pass

    def close(self, seconds: float = 0.0) -> None:
        self.ended = True


@contextmanager
def one_after_another(rounds: Callable[..., Canary] = Canary) -> Iterator[None]:
    """`rounds`: what makes the canary of a reconcile, if it is to make any."""
    # Of a reconcile that is held up for long, another operator's begins and ends within.
    names = [
        (snapshot_room, "SideBySide"),
        *((r, "ThreadPoolExecutor") for r in (pods_room, store_room, api_state_room)),
    ]
    before = [(room, name, getattr(room, name)) for room, name in names]
    rounds_before = canary_room.Canary  # type: ignore[attr-defined]
    for room, name, _ in before:
        setattr(room, name, Serial)
    canary_room.Canary = rounds  # type: ignore[attr-defined,assignment]
    try:
        yield
    finally:
        for room, name, threads in before:
            setattr(room, name, threads)
        canary_room.Canary = rounds_before  # type: ignore[attr-defined]
