"""The hostile servers, and the operator, as processes of a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "operator")))}


@contextmanager
def _process(module: str, log: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    errors = log.open("w") if log is not None else subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def hostile_servers() -> Iterator[Mapping[str, Mapping[str, str]]]:
    """Their addresses by kind (kafka, zookeeper, http) and attack."""
    with _process("tests.hostile") as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())


@contextmanager
def operator(clusters: Mapping[str, Any], log: Path) -> Iterator[Iterator[dict[str, Any]]]:
    """What `operator_process` reports once a second, of KafkaClusters by name."""
    with _process("tests.hostile.operator_process", log) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(clusters) + "\n")
        process.stdin.flush()
        out = process.stdout

        def told() -> Iterator[dict[str, Any]]:
            for line in out:
                yield json.loads(line)
            raise AssertionError(f"the operator ended with code {process.wait(10)}:\n{log.read_text()[-2000:]}")

        yield told()
