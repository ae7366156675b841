"""Builds what a release consists of, from one commit and always to the same bytes: `make release`.

    python -m release [--commit HEAD] [--base testbed|IMAGE] [--registry HOST/OWNER] [--output FOLDER] [--no-cache]

Into the output come: wheel, sdist, the plugin with its krew manifest, both images as OCI archives with their bills of
materials, the chart with the images' digests in it, and SHA256SUMS over all of it. Nothing is published.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from release.chart import packaged_chart
from release.images import OPERATOR, SPARK, Built, Store
from release.packages import checksums, plugin, python_packages
from tests.testbed.places import REPOSITORY
from tests.testbed.steps import StepFailedError, say

REGISTRY = "registry.example.com/kafka-medic"


def checked_out(commit: str, folder: Path) -> int:
    """The tree of that commit in `folder`; the commit's time, in seconds since 1970."""
    archive = subprocess.run(["git", "archive", commit], cwd=REPOSITORY, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    told = subprocess.run(
        ["git", "log", "-1", "--format=%ct", commit], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return int(told.stdout)


def uncommitted() -> list[str]:
    """Files that differ from the last commit."""
    told = subprocess.run(
        ["git", "status", "--porcelain"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    return [line[3:] for line in told.splitlines()]


def build(commit: str, output: Path, base: str, registry: str, *, cached: bool) -> None:
    """As the module says."""
    with tempfile.TemporaryDirectory(prefix="kafka-medic-release-") as temporary:
        tree, logs = Path(temporary, "tree"), Path(temporary, "logs")
        tree.mkdir()
        logs.mkdir()
        epoch = checked_out(commit, tree)
        version = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["version"]
        if output.exists():
            shutil.rmtree(output)
        output.mkdir(parents=True)
        say(f"release {version} of {epoch}, into {output}")
        python_packages(tree, output, epoch, logs)
        plugin(tree, output, version, epoch, logs)
        store = Store(tree, epoch, base, logs, cached=cached)
        built: dict[str, Built] = {}
        for recipe in (OPERATOR, SPARK):
            built[recipe.name] = store.build(recipe, version, output)
        packaged_chart(tree, output, version, epoch, registry, built)
    checksums(output)
    for file in sorted(output.iterdir()):
        say(f"  {file.stat().st_size / 1e6:8.1f} MB  {file.name}")
    for name, image in built.items():
        say(f"  {image.unpacked / 1e6:8.1f} MB  {name}, unpacked; {image.digest}")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0: built; 1: a step failed; 2: wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("--commit", default="HEAD", help="what is built (default: the last commit)")
    parser.add_argument("--base", default="testbed", help="base image by digest, or the testbed's Debian (default)")
    parser.add_argument(
        "--registry", default=REGISTRY, help="where the images will be published (default: %(default)s)"
    )
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build" / "release", help="default: build/release")
    parser.add_argument("--no-cache", action="store_true", help="build every layer of the images anew")
    options = parser.parse_args(argv)
    if changed := uncommitted():
        say(f"not in the release, since it is not committed: {', '.join(changed[:5])}{' ...' if changed[5:] else ''}")
    try:
        build(options.commit, options.output, options.base, options.registry, cached=not options.no_cache)
    except StepFailedError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
