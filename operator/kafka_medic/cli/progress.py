"""What a person sees while something takes long: on a terminal alone, and never in a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from kafka_medic.cluster.names import printable

Step = Callable[..., None]
"""`step(what)`, or `step(what, done, total)` where both are known."""


def animated(stream: TextIO) -> bool:
    """Whether a line may be drawn anew: on a terminal that moves its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def working(what: str) -> Iterator[Step]:
    """A line on standard error that names the present step, with the time it has taken and, where it is counted, a bar
    and the time left."""
    if not animated(sys.stderr):
        yield lambda *_: None
        return
    # Imported here: who works into a file or a pipe does not wait for it.
    from kafka_medic.cli import terminal  # noqa: PLC0415

    with terminal.bar(sys.stderr) as shown:
        task = shown.add_task(printable(what), total=None)

        def step(now: str, done: int | None = None, total: int | None = None) -> None:
            shown.update(task, description=printable(now), completed=done or 0, total=total)

        yield step
