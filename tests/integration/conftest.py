"""The chart on a real API server, and what its objects are called there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.integration.people import (
    RELEASE,
    RELEASE_NAMESPACE,
    WITHOUT_AN_IMAGE,
    definitions,
    helm,
    no_definitions,
    settled,
)
from tests.testbed import kubectl
from tests.unit.resources.sources import CHART

PARTS = ("-l", "app.kubernetes.io/part-of=kafka-medic")


@pytest.fixture(scope="module")
def chart() -> Iterator[None]:
    """The chart, installed for one module if by nobody else. An operator that somebody else installed steps aside: it
    would hold the Leases of the KafkaClusters that tests look after themselves."""
    if json.loads(kubectl("get", "validatingadmissionpolicybinding", *PARTS, "-o", "json").stdout)["items"]:
        with _aside():
            yield
        return
    # one that an earlier run left may still be going
    kubectl("delete", "namespace", RELEASE_NAMESPACE, "--ignore-not-found", "--timeout=60s")
    definitions()
    helm("install", RELEASE, str(CHART), "-n", RELEASE_NAMESPACE, "--create-namespace", *WITHOUT_AN_IMAGE)
    settled()
    yield
    helm("uninstall", RELEASE, "-n", RELEASE_NAMESPACE)
    no_definitions()
    kubectl("delete", "namespace", RELEASE_NAMESPACE, "--wait=false")


@contextmanager
def _aside() -> Iterator[None]:
    found = json.loads(kubectl("get", "deployments", "-A", *PARTS, "-o", "json").stdout)["items"]
    places = [(d["metadata"]["namespace"], d["metadata"]["name"], d["spec"]["replicas"]) for d in found]
    for namespace, name, _ in places:
        kubectl("scale", f"deployment/{name}", "-n", namespace, "--replicas=0")
        kubectl("wait", "pods", *PARTS, "-n", namespace, "--for=delete", "--timeout=60s")
    yield
    for namespace, name, replicas in places:
        kubectl("scale", f"deployment/{name}", "-n", namespace, f"--replicas={replicas}")
        kubectl("rollout", "status", f"deployment/{name}", "-n", namespace, "--timeout=120s", timeout=130)


@pytest.fixture(scope="module")
def operator(chart: None) -> str:
    """The operator's user name."""
    found = json.loads(kubectl("get", "clusterrolebinding", *PARTS, "-o", "json").stdout)["items"]
    (subject,) = next(one["subjects"] for one in found if one["metadata"]["name"].endswith("-cluster"))
    return f"system:serviceaccount:{subject['namespace']}:{subject['name']}"


@pytest.fixture(scope="module")
def role(operator: str) -> str:
    """What the names of the chart's roles begin with: its full name, which the ServiceAccount has too."""
    return operator.rsplit(":", 1)[1]
