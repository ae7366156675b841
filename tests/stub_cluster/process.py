"""Stub brokers in a process of their own, so that a benchmark's processor time excludes them."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from tests.stub_cluster.description import Size
from tests.stub_cluster.server import Conduct

ROOT = Path(__file__).resolve().parent.parent.parent
START_SECONDS, ANSWER_SECONDS = 300.0, 60.0


class Place(NamedTuple):
    """`view_bytes`: of the metadata of all topics. `seconds`, `megabytes`: what the start took, and held at most."""

    bootstrap: str
    seconds: float
    megabytes: float
    view_bytes: int


@dataclass
class StubProcess:
    """`with` starts and ends the process. For the arguments, see `python -m tests.stub_cluster --help`."""

    size: Size
    groups: int = 0
    stale_topics: int = 5
    stale: Sequence[int] = ()

    def __enter__(self) -> StubProcess:
        line = [sys.executable, "-m", "tests.stub_cluster", "--size", str(self.size), "--groups", str(self.groups)]
        line += ["--stale-topics", str(self.stale_topics), "--stale", *map(str, self.stale)]
        path = os.pathsep.join((str(ROOT), str(ROOT / "operator")))
        self._process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path},
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._lock = threading.Lock()
        threading.Thread(target=self._read, name="stub-cluster", daemon=True).start()
        try:
            self.place = Place(**self._line(START_SECONDS))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def counts(self) -> dict[str, Any]:
        return self._do({"do": "counts"})

    def reset(self) -> None:
        self._do({"do": "reset"})

    def conduct(self, broker: int, conduct: Conduct) -> None:
        self._do({"do": "conduct", "broker": broker, "conduct": conduct.value})

    def make_stale(self, broker: int, *, stale: bool = True) -> None:
        self._do({"do": "stale", "broker": broker, "stale": stale})

    def make_deaf(self, broker: int) -> None:
        self._do({"do": "deaf", "broker": broker})

    def go(self, broker: int) -> None:
        self._do({"do": "go", "broker": broker})

    def come(self, broker: int) -> None:
        self._do({"do": "come", "broker": broker})

    def pace(self, copying: float | None, returning: float | None) -> None:
        self._do({"do": "pace", "copying": copying, "returning": returning})

    def fill(self, topic: str, size: int) -> None:
        self._do({"do": "fill", "topic": topic, "bytes": size})

    def orders(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._do({"do": "orders"})["orders"]
        return found

    def _do(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            answer = self._line(ANSWER_SECONDS)
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _line(self, seconds: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"the stub brokers did not answer within {seconds:g} s") from None
        if not line:
            raise RuntimeError(f"the stub brokers ended with code {self._process.wait(10)}")
        found: dict[str, Any] = json.loads(line)
        return found
