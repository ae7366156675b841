"""Builds the operator's image from the project's own Dockerfile, as a release would."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.build import debian_base
from tests.testbed.cache import digest, drop_older, ensure, locked
from tests.testbed.places import REPOSITORY, cache_root
from tests.testbed.steps import StepFailedError, run_logged

IMAGE_NAME = "kafka-medic.invalid/operator"
_BASE_INPUTS = ("Dockerfile", "locks/runtime.txt")
_INPUTS = (*_BASE_INPUTS, "operator", "pyproject.toml", "README.md", "LICENSE")
_DEPENDENCIES = "localhost/kafka-medic-dependencies"


def operator_image() -> tuple[str, Path]:
    """The operator's image as (name with tag, archive); built when the sources have changed since the last time."""
    base = debian_base()
    key = digest(base.name, *(REPOSITORY / name for name in _INPUTS))
    name = f"{IMAGE_NAME}:{key}"

    def build(folder: Path, log: Path) -> None:
        with locked("buildah", "an image build"):
            _Buildah(log).build(name, base, folder / "operator.tar")

    folder = ensure("operator-image", "1", key, "operator image", build)
    drop_older("operator-image", folder)
    return name, folder / "operator.tar"


@dataclass(frozen=True)
class _Buildah:
    """buildah with a store of its own in the cache; works without a daemon and inside a container."""

    log: Path

    def build(self, name: str, base: Path, archive: Path) -> None:
        base_image = f"localhost/kafka-medic-{base.name}"
        if not self._ask("images", "-q", base_image, missing_is_fine=True):
            self._add_base(base_image, base / "base.tar")
        dependencies = f"{_DEPENDENCIES}:{digest(base.name, *(REPOSITORY / file for file in _BASE_INPUTS))}"
        common = ["build", "--layers", "--network", "host", "--volume", "/etc/ssl/certs:/etc/ssl/certs:ro"]
        common += ["--build-arg", f"BASE={base_image}", "-f", str(REPOSITORY / "Dockerfile")]
        # Tagged, so that it stays when the image proper is forgotten, and the next build begins from it.
        if not self._ask("images", "-q", dependencies, missing_is_fine=True):
            self._forget_dependencies()
            self._run(
                "the image's dependencies", *common, "--target", "dependencies", "-t", dependencies, str(REPOSITORY)
            )
        self._run("operator image", *common, "-t", name, str(REPOSITORY))
        self._run("saving the operator image", "push", name, f"docker-archive:{archive}:{name}")
        self._run("tidying up", "rmi", name)

    def _add_base(self, image: str, archive: Path) -> None:
        scratch = self._ask("from", "scratch")
        self._run("base image", "add", scratch, str(archive), "/")
        self._run("base image", "commit", "--rm", scratch, image)

    def _forget_dependencies(self) -> None:
        for identity in self._ask("images", "-q", _DEPENDENCIES, missing_is_fine=True).split():
            self._run("tidying up", "rmi", "--force", identity)

    @property
    def _command(self) -> list[str]:
        store = cache_root() / "buildah"
        return ["buildah", "--root", str(store / "root"), "--runroot", str(store / "run")]

    @property
    def _environment(self) -> dict[str, str]:
        return {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}

    def _run(self, title: str, *arguments: str) -> None:
        run_logged(title, [*self._command, *arguments], self.log, environment=self._environment)

    def _ask(self, *arguments: str, missing_is_fine: bool = False) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, **self._environment},
            check=False,
        )
        if done.returncode == 0:
            return done.stdout.strip()
        if missing_is_fine:
            return ""
        raise StepFailedError(f"buildah {arguments[0]} failed: {done.stderr.strip()}")
