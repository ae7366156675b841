"""Makes the project's own `.venv` from its lock files, and the lock files from its dependencies."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.testbed.cache import digest, ensure
from tests.testbed.places import REPOSITORY, cache_root
from tests.testbed.steps import run_logged, say

_VENV = REPOSITORY / ".venv"
_LOCK = REPOSITORY / "locks" / "dev.txt"


def uv() -> str:
    """uv as a person has it, or one of the testbed's own."""
    if (on_path := shutil.which("uv")) is not None:
        return on_path

    def build(folder: Path, log: Path) -> None:
        run_logged("environment for uv", [sys.executable, "-m", "venv", str(folder)], log)
        run_logged("uv", [str(folder / "bin" / "python"), "-m", "pip", "install", "uv"], log)

    return str(ensure("uv", "1", digest("uv"), "uv", build) / "bin" / "uv")


def create() -> None:
    """Bring `.venv` to what the lock says; at once when it is so already."""
    stamp = _VENV / "lock-digest"
    wanted = digest(_LOCK, REPOSITORY / "pyproject.toml", sys.version)
    if stamp.is_file() and stamp.read_text() == wanted and (_VENV / "bin" / "kafka-medic").exists():
        return
    say("making .venv from the lock")
    log = cache_root() / "logs" / "venv.log"
    program = uv()
    environment = {"VIRTUAL_ENV": str(_VENV)}
    run_logged(".venv", [program, "venv", "--allow-existing", "--python", sys.executable, str(_VENV)], log)
    sync = [program, "pip", "sync", "--require-hashes", str(_LOCK)]
    run_logged("packages of the lock", sync, log, cwd=REPOSITORY, environment=environment)
    own = [program, "pip", "install", "--no-deps", "--editable", str(REPOSITORY)]
    run_logged("the project itself", own, log, cwd=REPOSITORY, environment=environment)
    stamp.write_text(wanted)


def lock() -> None:
    """Resolve the dependencies anew: one file for each image, one for `.venv`."""
    log = cache_root() / "logs" / "lock.log"
    common = [uv(), "pip", "compile", "pyproject.toml", "--universal", "--generate-hashes", "--upgrade", "--quiet"]
    common += ["--python-version", "3.11", "--no-annotate", "--no-header", "--no-emit-index-url"]
    run_logged("lock of the image", [*common, "-o", "locks/runtime.txt"], log, cwd=REPOSITORY)
    everything = ["--all-extras", "--group", "dev", "-o", "locks/dev.txt"]
    alone = (
        ("build", "the build backend"),
        ("scan", "make scan"),
        ("docs", "make docs"),
        ("plugin", "the one-file plugin"),
    )
    for name, what in alone:
        command = [uv(), "pip", "compile", f"locks/{name}.in", *common[4:], "-o", f"locks/{name}.txt"]
        run_logged(f"lock of {what}", command, log, cwd=REPOSITORY)
    run_logged("lock of .venv", [*common, *everything], log, cwd=REPOSITORY)
    chart = [uv(), "pip", "compile", "locks/chart.in", *common[4:], "-o", "locks/chart.txt"]
    run_logged("lock of what checks the chart", chart, log, cwd=REPOSITORY)
    with_extras = ["--all-extras", "-c", "locks/dev.txt", "-o", "locks/spark.txt"]
    run_logged("lock of Spark's image", [*common, *with_extras], log, cwd=REPOSITORY)
