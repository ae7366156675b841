"""Says at once all that is missing on this machine, each with the way to get it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.places import cache_root
from tests.testbed.steps import run_logged, say

DEBIAN_PACKAGES = (
    "buildah",
    "ca-certificates",
    "conntrack",
    "containerd",
    "containernetworking-plugins",
    "debootstrap",
    "gcc",
    "iproute2",
    "iptables",
    "libc6-dev",
    "mount",
    "openssl",
    "runc",
    "util-linux",
)
_PROGRAMS_OF_PACKAGES = {
    "buildah": "buildah",
    "conntrack": "conntrack",
    "containerd": "containerd",
    "ctr": "containerd",
    "debootstrap": "debootstrap",
    "gcc": "gcc",
    "ip": "iproute2",
    "iptables": "iptables",
    "mount": "mount",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "runc": "runc",
    "unshare": "util-linux",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
}
BROWSER = "chromium"
_WAY_OUT = "or set KUBECONFIG to a cluster of your own (kind and the like): then the testbed starts none"


_JAVA_FIRST, _JAVA_PAST = (17,), (24,)


@dataclass(frozen=True)
class Missing:
    what: str
    way: str


def missing_toolchains() -> list[Missing]:
    """What a person has to bring: `make setup` does not install compilers and runtimes behind their back."""
    found: list[Missing] = []
    if sys.version_info < (3, 11):  # noqa: UP036 - whoever has an older one is to be told so
        found.append(Missing(f"Python 3.11 or later (this is {sys.version.split()[0]})", "install python3.11"))
    if importlib.util.find_spec("ensurepip") is None:
        found.append(Missing("Python's venv module", "apt-get install python3-venv"))
    if _version("go", "version") < (1, 21):
        found.append(
            Missing(
                "Go 1.21 or later (it fetches the version it needs itself)",
                "install Go (Debian 12: golang-go from backports)",
            )
        )
    if java_home() is None:
        found.append(
            Missing("Java, 17 to 23 (Kafka 3.9 runs on none later)", "apt-get install openjdk-17-jdk-headless")
        )
    if shutil.which("mvn") is None:
        found.append(Missing("Maven (mvn)", "apt-get install maven"))
    return found


def java_home() -> Path | None:
    """A Java that both Kafkas run on: the one named by JAVA_HOME or PATH if it fits, else any that is installed."""
    return _java("java", _JAVA_FIRST, _JAVA_PAST)


def java_development_kit(first: int) -> Path | None:
    """A JDK of this version or later, sought in the same places."""
    return _java("javac", (first,), (1000,))


def _java(program: str, first: tuple[int, ...], past: tuple[int, ...]) -> Path | None:
    candidates = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    if (on_path := shutil.which("java")) is not None:
        candidates.append(Path(on_path).resolve().parents[1])
    candidates += sorted(Path("/usr/lib/jvm").glob("*"))
    for home in candidates:
        found = home / "bin" / program
        if found.is_file() and first <= _version(str(found), "-version") < past:
            return home.resolve()
    return None


def search_path() -> str:
    """The caller's PATH with the folders of root's programs, which a person's own often lacks."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def missing_packages() -> list[Missing]:
    """What `make setup` installs."""
    wanted: dict[str, list[str]] = {}
    for program, package in _PROGRAMS_OF_PACKAGES.items():
        if shutil.which(program, path=search_path()) is None:
            wanted.setdefault(package, []).append(program)
    return [
        Missing(", ".join(lacking), f"make setup (Debian package {package}), {_WAY_OUT}")
        for package, lacking in wanted.items()
    ]


def missing_rights() -> list[Missing]:
    """What nobody can install: a machine that lacks it needs a cluster from elsewhere."""
    found: list[Missing] = []
    if os.geteuid() != 0 and shutil.which("sudo") is None:
        found.append(Missing("root, or sudo", f"run as root, {_WAY_OUT}"))
    if sys.platform != "linux":
        return [*found, Missing("Linux", f"use a Linux machine, {_WAY_OUT}")]
    found += [
        Missing(f"the kernel's {space} namespaces", f"use another kernel, {_WAY_OUT}")
        for space in ("net", "mnt", "pid", "ipc", "uts")
        if not Path(f"/proc/self/ns/{space}").exists()
    ]
    if "overlay" not in Path("/proc/filesystems").read_text() and not _loadable("overlay"):
        found.append(Missing("the kernel's overlay file system", f"modprobe overlay, {_WAY_OUT}"))
    if os.geteuid() == 0 and shutil.which("unshare") is not None:
        tried = subprocess.run(
            ["unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--mount-proc", "true"],
            capture_output=True,
            text=True,
            check=False,
        )
        if tried.returncode != 0:
            reason = tried.stderr.strip() or "refused"
            found.append(
                Missing(f"the right to make namespaces ({reason})", f"use a real or virtual machine, {_WAY_OUT}")
            )
    return found


def _loadable(module: str) -> bool:
    if shutil.which("modprobe") is None:
        return False
    return subprocess.run(["modprobe", module], capture_output=True, check=False).returncode == 0


def _version(program: str, flag: str) -> tuple[int, ...]:
    """What a program says its version is; empty, and so less than any, when it is not there."""
    if shutil.which(program) is None:
        return ()
    said = subprocess.run([program, flag], capture_output=True, text=True, check=False)
    numbers = re.search(r"(\d+(?:\.\d+)*)", said.stdout + said.stderr)
    return tuple(int(part) for part in numbers[1].split(".")) if numbers else ()


def report(found: list[Missing]) -> None:
    for one in found:
        say(f"missing: {one.what} -> {one.way}")


def preflight(*, packages: bool = True) -> bool:
    """Print everything that is missing; true when nothing is."""
    found = missing_toolchains() + missing_rights() + (missing_packages() if packages else [])
    report(found)
    if not found:
        say("nothing is missing")
    return not found


def install_packages() -> None:
    """Install the Debian packages that are lacking; says so and does nothing where that is not possible."""
    _install(missing_packages(), DEBIAN_PACKAGES)


def install_browser() -> bool:
    """Install the browser that pages are tested in, with 100 MB; whether it is there then."""
    if shutil.which(BROWSER) is None:
        _install([Missing(BROWSER, f"make browser (Debian package {BROWSER})")], (BROWSER,))
    return shutil.which(BROWSER) is not None


def _install(lacking: list[Missing], packages: Sequence[str]) -> None:
    if not lacking:
        return
    if shutil.which("apt-get") is None:
        report(lacking)
        say(f"this machine has no apt-get: install the above by hand, {_WAY_OUT}")
        return
    prefix = [] if os.geteuid() == 0 else ["sudo"]
    log = cache_root() / "logs" / "packages.log"
    say(f"installing Debian packages: {' '.join(packages)}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run_logged("apt-get update", [*prefix, "apt-get", "update"], log, environment=quiet)
    run_logged(
        "apt-get install",
        [*prefix, "apt-get", "install", "-y", "--no-install-recommends", *packages],
        log,
        environment=quiet,
    )
