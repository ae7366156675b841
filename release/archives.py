"""Archives with the same bytes for the same content: sorted, of nobody, all of one time."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path


def sha256(file: Path) -> str:
    """In hexadecimal."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def tar_gz(target: Path, files: Mapping[str, tuple[bytes, int]], epoch: int) -> None:
    """`files`: the path inside -> content and mode."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(files):
            content, mode = files[path]
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.mtime = len(content), mode, epoch
            tar.addfile(entry, io.BytesIO(content))
