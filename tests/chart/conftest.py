"""helm, and the tools that check what it renders, built in the testbed's cache. No cluster is needed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.schemas import write_schemas
from tests.testbed import build
from tests.unit.resources.sources import CHART, ROOT

Object = dict[str, Any]
Render = Callable[..., list[Object]]


def as_flags(settings: Iterable[str]) -> list[str]:
    """helm's flags for `a.b=c`, `a={b,c}` and, where the value is a JSON list or object, `a={"b": 1}`."""
    found = []
    for setting in settings:
        value = setting.partition("=")[2]
        found += ["--set-json" if value.startswith(("[", '{"', '"')) or value == "null" else "--set", setting]
    return found


@pytest.fixture(scope="session")
def tools() -> Path:
    return build.chart_checks()


@pytest.fixture(scope="session")
def schemas(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schemas")
    crds = [*sorted((ROOT / "crds").glob("*.yaml")), *sorted((tools / "prometheus-operator").glob("*.yaml"))]
    write_schemas(tools / "kubernetes.json", crds, folder)
    return folder


@pytest.fixture(scope="session")
def helm() -> Callable[..., subprocess.CompletedProcess[str]]:
    program = build.helm() / "helm"

    def run(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not check, done.stderr
        return done

    return run


@pytest.fixture(scope="session")
def text(helm: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., str]:
    """What the chart renders with these settings, as `a.b=c`. The kinds are there already unless `first`."""

    def render(*settings: str, first: bool = False) -> str:
        chosen = as_flags(settings)
        there = [] if first else ["--api-versions", "kafkamedic.dev/v1alpha1/Playbook"]
        return helm("template", "medic", str(CHART), "-n", "ops", *there, *chosen).stdout

    return render


@pytest.fixture(scope="session")
def rendered(text: Callable[..., str]) -> Render:
    """The same, as objects."""
    return lambda *settings, **options: [o for o in yaml.safe_load_all(text(*settings, **options)) if o]
