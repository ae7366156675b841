"""Builds the project's images from its own Dockerfiles, as a release would: the operator's, and Spark's."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from tests.testbed.build import debian_base
from tests.testbed.cache import digest, drop_older, ensure, locked
from tests.testbed.places import REPOSITORY, cache_root
from tests.testbed.steps import StepFailedError, run_logged

IMAGE_NAME = "kafka-medic.invalid/operator"


@dataclass(frozen=True)
class _Recipe:
    """`below`: what the stage `dependencies` is made of, which changes only with a lock."""

    name: str
    dockerfile: str
    stage: str
    below: tuple[str, ...]
    above: tuple[str, ...]
    tree: Path = REPOSITORY

    def image(self, title: str) -> tuple[str, Path]:
        """(name with tag, archive); built when the sources have changed since the last time."""
        base = debian_base()
        key = digest(base.name, *(self.tree / file for file in (*self.below, *self.above)))
        name, kind, archive = f"{self.name}:{key}", title.replace(" ", "-"), f"{title.split(maxsplit=1)[0]}.tar"

        def build(folder: Path, log: Path) -> None:
            with locked("buildah", "an image build"):
                _Buildah(log, self).build(name, base, folder / archive)

        folder = ensure(kind, "1", key, title, build)
        drop_older(kind, folder)
        return name, folder / archive

    def key(self) -> str:
        """Of the stage."""
        return digest(debian_base().name, *(self.tree / file for file in self.below))


_PROJECT = ("operator", "pyproject.toml", "README.md", "LICENSE")
_OPERATOR = _Recipe(
    IMAGE_NAME,
    "Dockerfile",
    "localhost/kafka-medic-dependencies",
    ("Dockerfile", "locks/runtime.txt", "locks/build.txt", "images/slim.py"),
    ("images/imports.py", *_PROJECT),
)
_SPARK = _Recipe(
    "kafka-medic.invalid/spark",
    "images/spark/Dockerfile",
    "localhost/kafka-medic-spark-dependencies",
    ("images/spark/Dockerfile", "locks/spark.txt", "locks/build.txt", "images/slim.py"),
    ("images/spark/entrypoint.sh", *_PROJECT),
)


def operator_image() -> tuple[str, Path]:
    """The operator's image as (name with tag, archive)."""
    return _OPERATOR.image("operator image")


def operator_image_of(tree: Path) -> tuple[str, Path]:
    """The image of an earlier version, whose sources lie in `tree`, as (name with tag, archive)."""
    below = tuple(file for file in _OPERATOR.below if (tree / file).is_file())
    before = replace(_OPERATOR, name=f"{IMAGE_NAME}-before", stage=f"{_OPERATOR.stage}-before", below=below, tree=tree)
    return before.image("earlier operator image")


def spark_image() -> tuple[str, Path]:
    """The image of the chart's planner and of executors as Pods, as (name with tag, archive)."""
    return _SPARK.image("spark image")


def dependencies_key() -> str:
    return _OPERATOR.key()


def save_dependencies(archive: Path, log: Path) -> None:
    """Write the image that the operator's is built on, which changes only with the lock."""
    base = debian_base()
    with locked("buildah", "an image build"):
        buildah = _Buildah(log, _OPERATOR)
        name = buildah.dependencies(base)
        buildah.save(name, archive)


def _base_image(base: Path) -> str:
    return f"localhost/kafka-medic-{base.name}"


@dataclass(frozen=True)
class _Buildah:
    """buildah with a store of its own in the cache; works without a daemon and inside a container."""

    log: Path
    recipe: _Recipe

    def build(self, name: str, base: Path, archive: Path) -> None:
        self.dependencies(base)
        self._run(f"image {name}", *self._build_command(base), "-t", name, str(self.recipe.tree))
        self.save(name, archive)
        # The image is saved: that it cannot be forgotten yet is no failure.
        self._ask("rmi", name, missing_is_fine=True)

    def dependencies(self, base: Path) -> str:
        """The stage below the project's own code, with a tag: so it stays when the image proper is forgotten."""
        # A build that was killed leaves a working container, which holds on to its image. The lock says none is alive.
        self._run("tidying up", "rm", "--all")
        image = _base_image(base)
        if not self._ask("images", "-q", image, missing_is_fine=True):
            self._add_base(image, base / "base.tar")
        name = f"{self.recipe.stage}:{self.recipe.key()}"
        # The stage that the project's own code is built on has a tag too. Without one it goes with what is pruned, and
        # in the testbed's network nothing can be downloaded again.
        dockerfile = (self.recipe.tree / self.recipe.dockerfile).read_text()
        below = (
            {"packages": f"{self.recipe.stage}-packages:{self.recipe.key()}"} if " AS packages" in dockerfile else {}
        )
        wanted = below | {"dependencies": name}
        if not all(self._ask("images", "-q", one, missing_is_fine=True) for one in wanted.values()):
            self._forget_dependencies()
            for target, one in wanted.items():
                stage = ["--target", target, "-t", one, str(self.recipe.tree)]
                self._run(f"the image's {target}", *self._build_command(base), *stage)
        return name

    def save(self, name: str, archive: Path) -> None:
        self._run("saving the image", "push", name, f"docker-archive:{archive}:{name}")

    def _build_command(self, base: Path) -> list[str]:
        # Of the machine's certificates the one file: beside it the package of a JRE writes a store of its own.
        volumes = ["--volume", "/etc/ssl/certs/ca-certificates.crt:/etc/ssl/certs/ca-certificates.crt:ro"]
        source = ["--build-arg", f"BASE={_base_image(base)}", "-f", str(self.recipe.tree / self.recipe.dockerfile)]
        return ["build", "--layers", "--network", "host", *volumes, *source]

    def _add_base(self, image: str, archive: Path) -> None:
        scratch = self._ask("from", "scratch")
        self._run("base image", "add", scratch, str(archive), "/")
        self._run("base image", "commit", "--rm", scratch, image)

    def _forget_dependencies(self) -> None:
        for name in self._ask("images", "--format", "{{.Name}}:{{.Tag}}").splitlines():
            if name.startswith((f"{self.recipe.stage}:", f"{self.recipe.stage}-packages:")):
                self._run("tidying up", "rmi", "--force", name)
        self._run("tidying up", "rmi", "--prune", "--force")

    @property
    def _command(self) -> list[str]:
        store = cache_root() / "buildah"
        return [
            "buildah",
            "--root",
            str(store / "root"),
            "--runroot",
            str(store / "run"),
            "--storage-driver",
            "overlay",
        ]

    @property
    def _environment(self) -> dict[str, str]:
        return {"BUILDAH_ISOLATION": "chroot"}

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
