"""Builds build/kubectl-kafka_medic: the kubectl plugin as one file that needs Python and nothing else.

    python3 -m plugin.build

The same sources and lock give the same bytes. uv's cache keeps what is downloaded, so a second build needs no network.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tests.testbed.environment import uv

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "operator" / "kafka_medic"
LOCK = ROOT / "locks" / "plugin.txt"
OUTPUT = ROOT / "build" / "kubectl-kafka_medic"
MAX_BYTES = 15_000_000
ROOMS = ("cli", "cluster", "guard", "playbook", "report", "resources")
"""And of `clients`, which are the operator's, the one that speaks to the API server."""
CLIENT = ("clients/__init__.py", "clients/kubernetes_api.py")
NOT_NEEDED = frozenset(
    {
        # of kubernetes' asynchronous client
        "aiohttp", "aiohttp-retry", "aiohappyeyeballs", "aiosignal", "attrs", "frozenlist", "multidict", "propcache",
        "yarl",
        # of rich's Markdown and source code
        "markdown-it-py", "mdurl", "pygments",
        "tzdata",
    }
)  # fmt: skip
"""Packages of the lock that nothing here imports."""
PRUNED = re.compile(
    r"kubernetes/(aio/|client/(models|api)/(?!__init__))|pydantic/v1/|.*\.(so|pyi|pyc)$|.*/RECORD$|bin/"
)
"""The Kubernetes client loads its models when they are asked for, and objects are plain dictionaries here. Of native
parts only pydantic's are kept: the other packages have the same in Python."""
PLATFORMS = {
    "linux-x86_64": "x86_64-manylinux_2_28",
    "linux-aarch64": "aarch64-manylinux_2_28",
    "darwin-aarch64": "aarch64-apple-darwin",
    "darwin-x86_64": "x86_64-apple-darwin",
}
"""As `main.py` and as uv name them."""
BUILDS = (
    *(("3.11", name) for name in PLATFORMS),
    ("3.13", "linux-x86_64"),
)
EPOCH = (1980, 1, 1, 0, 0, 0)


def requirements() -> dict[str, str]:
    """By name: each package of the lock with its hashes."""
    blocks = re.split(r"\n(?=\S)", LOCK.read_text("utf-8"))
    named = {re.split(r"[=\s;\[]", block, maxsplit=1)[0]: block for block in blocks if re.match(r"[a-z]", block)}
    return {name: block for name, block in named.items() if name not in NOT_NEEDED}


def installed(wanted: dict[str, str], target: Path, python: str, system: str) -> Path:
    """The packages as they are on that platform, whichever this one is."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(wanted.values()) + "\n")
        file.flush()
        line = [uv(), "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
        line += ["--link-mode", "copy", "--target", str(target), "-r", file.name]
        line += ["--python", sys.executable, "--python-version", python, "--python-platform", PLATFORMS[system]]
        subprocess.run(line, check=True, cwd=ROOT)  # noqa: S603
    return target


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and "__pycache__" not in path.parts:
            yield name, path.read_bytes()


def own() -> Iterator[tuple[str, bytes]]:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    metadata = f"Metadata-Version: 2.1\nName: kafka-medic\nVersion: {version}\n"
    yield f"kafka_medic-{version}.dist-info/METADATA", metadata.encode()
    for name, data in files(PACKAGE):
        if name == "__init__.py" or name in CLIENT or name.split("/")[0] in ROOMS:
            yield f"kafka_medic/{name}", data


def members() -> dict[str, bytes]:
    """By name: all that the file holds but for what starts it."""
    packages = requirements()
    found = {f"site/{name}": data for name, data in own()}
    with tempfile.TemporaryDirectory() as folder:
        everything = installed(packages, Path(folder) / "site", *BUILDS[0])
        found |= {f"site/{name}": data for name, data in files(everything) if not PRUNED.match(name)}
        for python, system in BUILDS:
            target = Path(folder) / f"{python}-{system}"
            core = installed({"pydantic-core": packages["pydantic-core"]}, target, python, system)
            tag = f"cp{python.replace('.', '')}-{system}"
            found |= {f"native/{tag}/{name}": data for name, data in files(core) if name.endswith(".so")}
    return found


def written(found: dict[str, bytes]) -> bytes:
    digest = hashlib.sha256()
    for name, data in sorted(found.items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    start = (ROOT / "plugin" / "main.py").read_text("utf-8").replace("@DIGEST@", digest.hexdigest())
    OUTPUT.parent.mkdir(exist_ok=True)
    with OUTPUT.open("wb") as out:
        out.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zipped:
            for name, data in sorted({"__main__.py": start.encode(), **found}.items()):
                entry = zipfile.ZipInfo(name, EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                zipped.writestr(entry, data, compresslevel=9)
    OUTPUT.chmod(0o755)
    return OUTPUT.read_bytes()


def main() -> int:
    data = written(members())
    print(f"{OUTPUT.relative_to(ROOT)}: {len(data) / 1e6:.1f} MB, sha256:{hashlib.sha256(data).hexdigest()}")
    if len(data) > MAX_BYTES:
        print(f"larger than {MAX_BYTES / 1e6:.0f} MB")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
