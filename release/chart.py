"""The chart as an archive: its images by digest, so that what was built together runs together."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from release.archives import tar_gz
from release.images import OPERATOR, SPARK, Built
from tests.testbed import build
from tests.testbed.steps import StepFailedError

IGNORED = {".helmignore"}


def packaged_chart(
    tree: Path, output: Path, version: str, epoch: int, registry: str, built: Mapping[str, Built]
) -> None:
    """Into kafka-medic-chart-VERSION.tgz, as `helm install` takes it."""
    chart = tree / "charts" / "kafka-medic"
    values, about = chart / "values.yaml", chart / "Chart.yaml"
    text, notes = values.read_text(), about.read_text()
    for recipe in (OPERATOR, SPARK):
        text = with_digest(text, recipe.name, f"{registry}/{recipe.name}", built[recipe.name].digest)
        image = f"{registry}/{recipe.name}@{built[recipe.name].digest}"
        notes = notes.replace(f"image: {recipe.name}:{version}\n", f"image: {image}\n")
    values.write_text(text)
    about.write_text(notes)
    helm = build.helm() / "helm"
    done = subprocess.run([helm, "lint", "--strict", chart], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StepFailedError(f"helm lint of the release's chart failed: {done.stdout}{done.stderr}")
    files = {
        f"kafka-medic/{file.relative_to(chart)}": (file.read_bytes(), 0o644)
        for file in chart.rglob("*")
        if file.is_file() and file.name not in IGNORED
    }
    tar_gz(output / f"kafka-medic-chart-{version}.tgz", files, epoch)


def with_digest(values: str, name: str, repository: str, digest: str) -> str:
    """values.yaml with the image `name` under its address, by digest. Raises StepFailedError where there is none."""
    pattern = rf'(\n *repository: ){re.escape(name)}(\n(?: *#.*\n)* *tag: ""\n(?: *#.*\n)* *digest: )""'
    found, count = re.subn(pattern, rf'\g<1>{repository}\g<2>"{digest}"', values)
    if count != 1:
        raise StepFailedError(f"values.yaml has {count} images {name} with an empty tag and digest, and not one")
    return found
