"""Observations of one stub cluster, each in an operator's process that is not the stub brokers'."""

from __future__ import annotations

import json
import os
import queue
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.stub_cluster import StubProcess

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 120.0
Report = Callable[[str], None]
"""Where progress goes, a line at a time."""


class GaveUp(Exception):
    """What took longer than it may."""


class Failed(Exception):
    """A process that ended before it answered."""


def python(module: str, *arguments: str) -> subprocess.Popen[str]:
    path = os.pathsep.join((str(ROOT), str(ROOT / "operator")))
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
    )


def measured(module: str, *arguments: str, give_up: float) -> dict[str, Any]:
    """What a process of its own prints as JSON. Raises GaveUp and Failed."""
    process = python(module, *arguments)
    try:
        output, errors = process.communicate(timeout=give_up)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise GaveUp(f"not done within {give_up:g} s") from None
    if process.returncode:
        raise Failed(last_line(errors) or f"exit code {process.returncode}")
    found: dict[str, Any] = json.loads(output)
    return found


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


class ObserverProcess:
    """The operator's side, one command at a time. Raises GaveUp and Failed; then the process is over."""

    def __init__(self, bootstrap: str, timeout: float, mode: str) -> None:
        self._process = python(
            "benchmarks.observer", "--bootstrap", bootstrap, "--timeout", str(timeout), "--mode", mode
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._errors: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._read_errors, daemon=True).start()

    def __enter__(self) -> ObserverProcess:
        self._answer(START_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def do(self, command: str, give_up: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._why()) from None
        return self._answer(give_up)

    def _answer(self, seconds: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise GaveUp(f"not done within {seconds:g} s") from None
        if not line:
            raise Failed(self._why())
        found: dict[str, Any] = json.loads(line)
        return found

    def _why(self) -> str:
        code = self._process.wait(10)
        return last_line("\n".join(self._errors)) or f"exit code {code}"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.extend(line.rstrip() for line in self._process.stderr)


@dataclass
class Row:
    """One size in one mode. `first`: the observation that also connects; it is in no median. `error`: why there are
    fewer observations than asked for."""

    size: str
    mode: str
    brokers: int
    first: dict[str, Any] | None = None
    found: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None

    def median(self, *path: str) -> float | None:
        """Of one figure in all observations but the first."""
        values = [_within(one, path) for one in self.found]
        return statistics.median(values) if values else None

    def document(self) -> dict[str, Any]:
        """For JSON."""
        names = (
            ("wall",),
            ("processor",),
            ("megabytes",),
            ("wire", "sent"),
            ("wire", "received"),
            ("wire", "requests"),
        )
        medians = {" ".join(path): self.median(*path) for path in names}
        return {
            "size": self.size,
            "mode": self.mode,
            "medians": medians,
            "first": self.first,
            "observations": self.found,
            "error": self.error,
        }


def observed(stub: StubProcess, mode: str, runs: int, timeout: float, give_up: float, report: Report) -> Row:
    """`give_up`: seconds for each observation."""
    row = Row(str(stub.size), mode, stub.size.brokers)
    try:
        with ObserverProcess(stub.place.bootstrap, timeout, mode) as observer:
            for number in range(runs + 1):
                report(f"{row.size} {mode}: observation {number + 1} of {runs + 1}")
                stub.reset()
                one = observer.do("observe", give_up)
                one["wire"] = _without_brokers(stub.counts())
                if one["wire"]["refused"]:
                    raise Failed(f"the stub brokers do not answer {one['wire']['refused']}")
                if number:
                    row.found.append(one)
                else:
                    row.first = one
    except (GaveUp, Failed) as problem:
        row.error = str(problem)
    return row


def saved(stub: StubProcess, path: Path, timeout: float, give_up: float) -> dict[str, Any]:
    """One quiet observation, which goes to a file. Raises GaveUp and Failed, also for one that is not whole."""
    with ObserverProcess(stub.place.bootstrap, timeout, "quiet") as observer:
        one = observer.do("observe", give_up)
        if one["unknown"] or one["partly"]:
            raise Failed(f"the observation is not whole: {one['unknown'] | one['partly']}")
        observer.do(f"save {path}", give_up)
    return one


def _without_brokers(counts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in counts.items() if name != "by_broker"}


def _within(one: Mapping[str, Any], path: tuple[str, ...]) -> float:
    found: Any = one
    for name in path:
        found = found[name]
    return float(found)
