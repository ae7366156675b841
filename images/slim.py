"""Takes out of an environment of Python what the project does not use, and compiles the rest, always to the same bytes.

    python slim.py ENVIRONMENT

Run by the Dockerfiles, in the step that installs the packages. tests/release/test_images.py imports every module of the
project in the image.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import shutil
import sys
from pathlib import Path

UNUSED = {
    # servers and clients of Flight, object stores: the operator reads and writes files of its volumes. Every other
    # library is linked to pyarrow's core.
    "pyarrow": (
        "libarrow_flight.so.*", "libarrow_python_flight.so*", "_flight*", "flight.py",
        "libarrow_s3.so.*", "_s3fs*", "_azurefs*", "_gcsfs*",
        "include", "includes", "src", "*.pxd", "*.pyx", "*.pxi", "*.h", "*.cc",
    ),
    # the way in for other Pythons than CPython
    "zstandard": ("_cffi*", "backend_cffi.py"),
    # the same client once more, for asyncio; kopf has its own
    "kubernetes": ("aio",),
    "numpy": ("f2py", "distutils", "testing/tests", "_core/include", "random/lib", "_core/lib", "typing/tests"),
}  # fmt: skip
ANYWHERE = ("tests", "test", "__pycache__", "*.pyi", "*.a", "*.c", "*.h", "*.pxd", "*.pyx")
KEPT = {"numpy/testing"}
BYTECODE_ONLY = ("kubernetes",)
"""Generated code, 30 MB of it, that nobody reads in a traceback: its bytecode is enough."""


def size(folder: Path) -> int:
    """Bytes of all files."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


def remove(path: Path) -> None:
    """A file, or a folder with what is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.exists() or path.is_symlink():
        path.unlink()


def slim(packages: Path) -> None:
    """`packages`: the folder site-packages."""
    for package, patterns in UNUSED.items():
        for pattern in patterns:
            for found in sorted((packages / package).glob(pattern)):
                remove(found)
    for pattern in ANYWHERE:
        for found in sorted(packages.rglob(pattern)):
            if found.exists() and str(found.relative_to(packages)) not in KEPT:
                remove(found)
    same(packages / "pyarrow")


def same(folder: Path) -> None:
    """A wheel has no links: of a library that lies there under three names, the one stays that others are linked to."""
    for named in sorted(folder.glob("lib*.so.*")):
        for other in (folder / f"{named.name.split('.so')[0]}.so", *folder.glob(f"{named.name}.*")):
            if other.is_file() and not other.is_symlink() and other.read_bytes() == named.read_bytes():
                other.unlink()
                other.symlink_to(named.name)


def compiled(packages: Path) -> None:
    """Bytecode that names no time of its source, so that it is the same in every build."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for folder in sorted(packages.iterdir()):
        if not folder.is_dir() or folder.name in BYTECODE_ONLY:
            continue
        compileall.compile_dir(folder, quiet=2, invalidation_mode=mode)
    for name in BYTECODE_ONLY:
        compileall.compile_dir(packages / name, quiet=2, invalidation_mode=mode, legacy=True)
        for file in sorted((packages / name).rglob("*.py")):
            if file.with_suffix(".pyc").is_file():
                file.unlink()


def main(environment: str) -> None:
    """As the module says."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        raise SystemExit("set PYTHONHASHSEED=0: without it, bytecode differs from build to build")
    (packages,) = Path(environment).glob("lib/python3*/site-packages")
    before = size(packages)
    slim(packages)
    compiled(packages)
    print(f"{packages}: {before / 1e6:.0f} MB before, {size(packages) / 1e6:.0f} MB after")


if __name__ == "__main__":
    main(sys.argv[1])
