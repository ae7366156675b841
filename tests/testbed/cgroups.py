"""The control groups that belong to one testbed: made before the kubelets start, removed when all has ended."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from tests.testbed.steps import granted

_ROOT = Path("/sys/fs/cgroup")


def hierarchies() -> list[Path]:
    """The root of each mounted hierarchy: one with version 2, one per controller with version 1."""
    found: dict[tuple[int, int], Path] = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2") and place.startswith(str(_ROOT)):
            status = Path(place).stat()
            found.setdefault((status.st_dev, status.st_ino), Path(place))
    return list(found.values())


def create(name: str) -> None:
    """Make a group (possibly nested) in every hierarchy, usable by what will be put into it."""
    for hierarchy in hierarchies():
        group = hierarchy
        for part in Path(name).parts:
            parent, group = group, group / part
            if (parent / "cgroup.controllers").exists():
                _delegate(parent)
            group.mkdir(exist_ok=True)
            # A version 1 cpuset starts empty, and an empty one cannot hold a process.
            for setting in ("cpuset.cpus", "cpuset.mems"):
                if (parent / setting).exists() and not (parent / "cgroup.controllers").exists():
                    (group / setting).write_text((parent / setting).read_text())


def _delegate(group: Path) -> None:
    for controller in (group / "cgroup.controllers").read_text().split():
        with contextlib.suppress(OSError):
            (group / "cgroup.subtree_control").write_text(f"+{controller}")


def remove(name: str, seconds: float = 10.0) -> list[Path]:
    """Remove the group and all below it; returns what was still busy at the deadline."""
    deadline = granted() + seconds
    while True:
        left = [group for group in present(name) if not _remove_tree(group)]
        if not left or granted() > deadline:
            return left
        time.sleep(0.1)


def present(name: str) -> list[Path]:
    return [hierarchy / name for hierarchy in hierarchies() if (hierarchy / name).is_dir()]


def _remove_tree(group: Path) -> bool:
    for child in sorted(group.rglob("*"), key=lambda path: len(path.parts), reverse=True):
        if child.is_dir():
            with contextlib.suppress(OSError):
                child.rmdir()
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()
