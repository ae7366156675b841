"""Keeps a set of programs running, each with a log of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_PAUSE_SECONDS = 1.0


@dataclass
class Daemons:
    """Programs that are started again when they end, as a service manager would."""

    logs: Path
    _commands: dict[str, Sequence[str]] = field(default_factory=dict)
    _running: dict[int, str] = field(default_factory=dict)
    _once: set[str] = field(default_factory=set)
    _due: dict[str, float] = field(default_factory=dict)

    def start(self, name: str, command: Sequence[str], *, again: bool = True) -> None:
        self._commands[name] = command
        if not again:
            self._once.add(name)
        self._launch(name)

    def _launch(self, name: str) -> None:
        with (self.logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                self._commands[name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        # Reaped by number in `tend`, together with orphans that this process inherits.
        process.returncode = 0
        self._running[process.pid] = name

    def tend(self) -> None:
        """Reap what has ended and start again what should run; never returns."""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        while True:
            try:
                ended, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                ended = 0
            if ended:
                name = self._running.pop(ended, None)
                if name in self._once:
                    print(f"{name} ended and is not started again", flush=True)
                elif name is not None:
                    print(f"{name} ended; starting it again", flush=True)
                    self._due[name] = time.monotonic() + _PAUSE_SECONDS
                continue
            for name, when in list(self._due.items()):
                if time.monotonic() >= when:
                    del self._due[name]
                    self._launch(name)
            time.sleep(0.2)
