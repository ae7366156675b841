"""Trees, bars and live views, by rich. What takes long to load is here, so import this module only where one is drawn.

rich obeys no markup here, and every text of others passes `text`, which escapes what a terminal would obey.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import TextIO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from kafka_medic.cli import output
from kafka_medic.cluster.names import printable

UNFOLDED = 4000
"""Characters of a line that is read by a program: nothing is folded there."""


def console(stream: TextIO) -> Console:
    """Without colours where `output.paint` would give none, and as wide as the terminal."""
    coloured = output.coloured(stream)
    return Console(
        file=stream,
        color_system="standard" if coloured else None,
        force_terminal=stream.isatty(),
        width=output.columns(stream) or UNFOLDED,
        highlight=False,
        markup=False,
        emoji=False,
    )


def text(*parts: str | tuple[str, str]) -> Text:
    """One line of parts, plain or with a style. What a terminal obeys is escaped."""
    safe = [printable(p) if isinstance(p, str) else (printable(p[0]), p[1]) for p in parts]
    return Text.assemble(*safe)


def put(drawn: RenderableType) -> None:
    """On standard output, as everything else: see `output.put`."""
    out, rendered = console(sys.stdout), io.StringIO()
    width = out.width
    out.file = rendered
    out.width = width
    out.print(drawn)
    lines = (line.rstrip() for line in rendered.getvalue().splitlines())
    output.put("".join(f"{line}\n" for line in lines))


def bar(stream: TextIO) -> Progress:
    """A spinner with what is done, and a bar and the time left where both ends are known. It is gone when it ends. On a
    terminal, what is written meanwhile appears above it; a pipe gets the answer alone."""
    columns: Sequence[ProgressColumn] = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        _Bar(bar_width=20),
        TimeElapsedColumn(),
        _Left(),
    )
    return Progress(*columns, console=console(stream), transient=True, redirect_stdout=sys.stdout.isatty())


class _Bar(BarColumn):
    def render(self, task: Task) -> RenderableType:  # type: ignore[override]
        return super().render(task) if task.total is not None else ""


class _Left(ProgressColumn):
    def render(self, task: Task) -> Text:
        if task.total is None or task.time_remaining is None:
            return Text("")
        return Text(f"about {timedelta(seconds=int(task.time_remaining))} left")
