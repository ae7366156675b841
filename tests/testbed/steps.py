"""Runs long steps so that a person sees what goes on, and finds the log when one fails."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PROGRESS_SECONDS = 15.0
TAIL_LINES = 30
_STARTED = time.monotonic()


class StepFailedError(RuntimeError):
    """A step did not end well; the message is for a person and says where to look."""


def say(message: str) -> None:
    """Print one line of progress, stamped with the seconds since the program began."""
    print(f"[{time.monotonic() - _STARTED:5.1f}s] {message}", file=sys.stderr, flush=True)


def granted() -> float:
    """Seconds as `time.monotonic()` counts them, without those that the host of this virtual machine gave to others
    (`steal` in /proc/stat, mean of the processors): a deadline by this clock is about what runs here and not about who
    else does. A host was seen to take 98 % for half a minute."""
    taken = int(Path("/proc/stat").read_text().split(maxsplit=9)[8])
    return time.monotonic() - taken / os.sysconf("SC_CLK_TCK") / (os.cpu_count() or 1)


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:])


def run_logged(
    title: str,
    command: Sequence[str | Path],
    log: Path,
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a noisy command: its output goes to the log, a line of progress to the person every few seconds."""
    log.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with log.open("ab") as output:
        output.write(("$ " + " ".join(map(str, command)) + "\n").encode())
        output.flush()
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
        )
        try:
            while True:
                try:
                    code = process.wait(PROGRESS_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    say(f"  {title}: still at it after {time.monotonic() - began:.0f} s (log: {log})")
        except BaseException:
            process.kill()
            process.wait()
            raise
    if code != 0:
        raise StepFailedError(f"{title} failed (exit {code}). Log: {log}\n{tail(log)}")


def wait_for(what: str, ready: Callable[[], bool], seconds: float, *, every: float = 0.25) -> None:
    """Poll until `ready` holds; past the deadline, which is by `granted`, say what was waited for."""
    began = granted()
    spoken = began
    while not ready():
        now = granted()
        if now - began > seconds:
            raise StepFailedError(f"gave up after {seconds:.0f} s waiting for {what}")
        if now - spoken > PROGRESS_SECONDS:
            spoken = now
            say(f"  waiting for {what}: {now - began:.0f} s")
        time.sleep(every)
