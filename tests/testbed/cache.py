"""A store of built things, shared by every checkout: each is built once, whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.testbed.places import cache_root
from tests.testbed.steps import say

_DIGEST_LENGTH = 12


def digest(*inputs: str | bytes | Path) -> str:
    """Digest of strings and of the named files' (or folders') paths and contents."""
    total = hashlib.sha256()
    for item in inputs:
        if isinstance(item, Path):
            for file in _files(item):
                total.update(str(file.relative_to(item.parent)).encode() + b"\0")
                total.update(hashlib.sha256(file.read_bytes()).digest())
        else:
            total.update(hashlib.sha256(item.encode() if isinstance(item, str) else item).digest())
    return total.hexdigest()[:_DIGEST_LENGTH]


def _files(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


@contextlib.contextmanager
def locked(name: str, waiting_for: str) -> Iterator[None]:
    """Hold a lock that the kernel frees when this process ends, however it ends."""
    folder = cache_root() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"  another run is busy with {waiting_for}: waiting for it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def ensure(kind: str, version: str, key: str, title: str, build: Callable[[Path, Path], None]) -> Path:
    """The folder of a built thing; builds it first if it is not there.

    `build(folder, log)` fills an empty folder, which takes its final name only when it is complete: a killed build
    leaves nothing that looks finished.
    """
    root = cache_root()
    final = root / f"{kind}-{version}-{key}"
    if final.is_dir():
        return final
    with locked(kind, title):
        if final.is_dir():
            return final
        for leftover in root.glob(f".building-{kind}-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        say(f"{title}: building (kept in {final} for next time)")
        temporary = Path(tempfile.mkdtemp(prefix=f".building-{kind}-", dir=root))
        temporary.chmod(0o755)
        log = root / "logs" / f"{final.name}.log"
        log.unlink(missing_ok=True)
        build(temporary, log)
        temporary.rename(final)
        say(f"{title}: done")
    return final


def drop_older(kind: str, keep: Path) -> None:
    """Remove earlier builds of a kind whose key changes often, so that the cache does not grow without bound."""
    for other in cache_root().glob(f"{kind}-*"):
        if other != keep:
            shutil.rmtree(other, ignore_errors=True)
