"""Wheel and sdist, the plugin as one file with its krew manifest, and checksums over everything."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import yaml

from release.archives import sha256, tar_gz
from tests.testbed.cache import digest, ensure
from tests.testbed.places import REPOSITORY
from tests.testbed.steps import run_logged

DOWNLOADS = "https://kafkamedic.dev/releases"
PLUGIN = "kubectl-kafka_medic"
"""As `make plugin` leaves it in build/."""


def backend() -> Path:
    """The build backend in an environment of its own, of locks/build.txt."""
    lock = REPOSITORY / "locks" / "build.txt"

    def build(folder: Path, log: Path) -> None:
        run_logged("environment for the build backend", [sys.executable, "-m", "venv", folder / "venv"], log)
        pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--no-deps", "--require-hashes"]
        run_logged("the build backend", [*pip, "-r", str(lock)], log)

    return ensure("build-backend", "1", digest(lock), "the build backend", build)


def python_packages(tree: Path, output: Path, epoch: int, logs: Path) -> None:
    """hatchling takes the times of all files from SOURCE_DATE_EPOCH."""
    command = [str(backend() / "venv" / "bin" / "python"), "-m", "hatchling", "build", "-d", str(output)]
    run_logged("wheel and sdist", command, logs / "wheel.log", cwd=tree, environment={"SOURCE_DATE_EPOCH": str(epoch)})


def plugin(tree: Path, output: Path, version: str, epoch: int, logs: Path) -> None:
    """The kubectl plugin as one file, alone and in an archive as krew takes it, with its manifest."""
    environment = {"SOURCE_DATE_EPOCH": str(epoch)}
    run_logged("the plugin", ["make", "plugin"], logs / "plugin.log", cwd=tree, environment=environment)
    made = tree / "build" / PLUGIN
    alone = output / PLUGIN
    shutil.copyfile(made, alone)
    alone.chmod(0o755)
    archive = output / f"kubectl-kafka_medic-{version}.tar.gz"
    licence = (tree / "LICENSE").read_bytes()
    tar_gz(archive, {PLUGIN: (made.read_bytes(), 0o755), "LICENSE": (licence, 0o644)}, epoch)
    (output / "krew-kafka-medic.yaml").write_text(krew(version, archive))


def krew(version: str, archive: Path) -> str:
    """The manifest by which `kubectl krew install` finds the archive, checks it and links the plugin."""
    systems = {"matchExpressions": [{"key": "os", "operator": "In", "values": ["linux", "darwin"]}]}
    manifest = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "kafka-medic"},
        "spec": {
            "version": f"v{version}",
            "homepage": "https://kafkamedic.dev",
            "shortDescription": "Show and approve guarded runs on Apache Kafka",
            "description": "Shows what the kafka-medic operator found on Kafka clusters, and which plans wait.\n"
            "Approves or rejects exactly one plan, and follows, pauses or aborts its run.\n",
            "caveats": "The plugin needs Python 3.11 or later as python3 on the PATH.\n",
            "platforms": [
                {
                    "selector": systems,
                    "uri": f"{DOWNLOADS}/v{version}/{archive.name}",
                    "sha256": sha256(archive),
                    "bin": "kubectl-kafka_medic",
                    "files": [{"from": "kubectl-kafka_medic", "to": "."}, {"from": "LICENSE", "to": "."}],
                }
            ],
        },
    }
    return yaml.safe_dump(manifest, sort_keys=False)


def checksums(output: Path) -> None:
    """SHA256SUMS, as `sha256sum --check` reads it."""
    files = sorted(file for file in output.iterdir() if file.name != "SHA256SUMS")
    (output / "SHA256SUMS").write_text("".join(f"{sha256(file)}  {file.name}{os.linesep}" for file in files))
