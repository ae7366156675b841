"""Finds, enters and ends a testbed from outside its namespaces.

Nothing is remembered in a file that could go stale: the first process of a testbed is recognised by its command line,
which names the state directory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from tests.testbed.places import State
from tests.testbed.steps import granted

SUPERVISOR = "tests.testbed.supervise"


def _command_line(process: Path) -> list[str]:
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def _is_first_of_namespace(process: Path) -> bool:
    try:
        status = (process / "status").read_text()
    except OSError:
        return False
    numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return len(numbers) > 1 and numbers[-1] == "1"


def _matching(state: State) -> list[Path]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            words = _command_line(process)
            if SUPERVISOR in words and str(state.root) in words:
                found.append(process)
    return found


def supervisor(state: State) -> int | None:
    """The number, as seen from here, of the testbed's first process."""
    for process in _matching(state):
        if _is_first_of_namespace(process):
            return int(process.name)
    return None


def inside(state: State) -> bool:
    """Whether this very process already is in the testbed's network."""
    first = supervisor(state)
    if first is None:
        return False
    return os.readlink("/proc/self/ns/net") == os.readlink(f"/proc/{first}/ns/net")


def end(state: State, seconds: float = 20.0) -> bool:
    """Kill the testbed's first process; the kernel ends all others. True if there was anything to end."""
    first = supervisor(state)
    targets = [first] if first is not None else []
    # `unshare`, which waits for the first process, and a start that was cut short before there was one.
    targets += [int(process.name) for process in _matching(state) if int(process.name) != first]
    for number in targets:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    deadline = granted() + seconds
    while _matching(state):
        if granted() > deadline:
            raise RuntimeError(f"processes of {state.root} did not end: {_matching(state)}")
        time.sleep(0.05)
    return bool(targets)
