"""The chart on a real API server, and what its objects are called there."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.integration.people import CRDS, RELEASE, RELEASE_NAMESPACE, helm
from tests.testbed import kubectl
from tests.unit.resources.sources import CHART


@pytest.fixture(scope="module")
def chart() -> Iterator[None]:
    """The chart, installed for one module if by nobody else."""
    there = kubectl("get", "validatingadmissionpolicybinding", "operator.kafkamedic.dev", check=False).returncode == 0
    if not there:
        # one that an earlier run left may still be going
        kubectl("delete", "namespace", RELEASE_NAMESPACE, "--ignore-not-found", "--timeout=60s")
        options = ("--set", "strimzi.enabled=true")
        helm("install", RELEASE, str(CHART), "-n", RELEASE_NAMESPACE, "--create-namespace", *options)
    yield
    if not there:
        helm("uninstall", RELEASE, "-n", RELEASE_NAMESPACE)
        kubectl("delete", "crd", *CRDS, "--ignore-not-found")
        kubectl("delete", "namespace", RELEASE_NAMESPACE, "--wait=false")


@pytest.fixture(scope="module")
def operator(chart: None) -> str:
    """The operator's user name."""
    selector = "app.kubernetes.io/part-of=kafka-medic"
    found = json.loads(kubectl("get", "clusterrolebinding", "-l", selector, "-o", "json").stdout)["items"]
    (subject,) = next(one["subjects"] for one in found if one["metadata"]["name"].endswith("-cluster"))
    return f"system:serviceaccount:{subject['namespace']}:{subject['name']}"


@pytest.fixture(scope="module")
def role(operator: str) -> str:
    """What the names of the chart's roles begin with: its full name, which the ServiceAccount has too."""
    return operator.rsplit(":", 1)[1]
