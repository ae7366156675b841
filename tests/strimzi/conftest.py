"""Strimzi's own operators beside ours, on one cluster that Strimzi made, with people who approve."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import tune_playbooks
from tests.incident import operator
from tests.strimzi.case import StrimziCase, Timeline
from tests.testbed import external_kubeconfig, kubectl, load_image, operator_image, strimzi
from tests.testbed.strimzi import Pool, StrimziKafka

NAMESPACE = "kafka"
EVENTS = StrimziKafka(NAMESPACE, "events", (Pool("dual", (0, 1, 2)),))
HERE = Path(__file__).parent


KEPT = os.environ.get("KEEP") == "1"
"""Strimzi and its cluster stay for the next run, which begins two minutes sooner."""


@pytest.fixture(scope="session")
def events() -> Iterator[StrimziKafka]:
    """Three dual-role nodes, with both of Strimzi's entity operators."""
    assert external_kubeconfig() is None, "these tests install Strimzi themselves: unset KUBECONFIG"
    if not (KEPT and EVENTS.exists()):
        strimzi.uninstall(NAMESPACE)  # what a killed run left
        line = Timeline("Strimzi: from its installation to a cluster")
        line.note("loading the images into three nodes")
        strimzi.install(NAMESPACE)
        line.note("cluster operator Ready")
        strimzi.make(HERE / "dual.yaml", EVENTS)
        line.note("Kafka resource Ready")
        line.show()
    yield EVENTS
    if not KEPT:
        strimzi.uninstall(NAMESPACE)


@pytest.fixture(scope="session")
def installed(events: StrimziKafka) -> Iterator[None]:
    """Our operator, with the right to ask Strimzi for restarts."""
    operator.uninstall()
    load_image(operator_image()[1])  # which in a user's cluster is a pull
    line = Timeline("ours: from helm install to the first status")
    line.note("helm install")
    operator.install("--set", "strimzi.enabled=true", "--set", f"watchNamespaces={{{NAMESPACE}}}")
    line.note("Deployment Ready")
    tune_playbooks()
    operator.people(NAMESPACE)
    first = StrimziCase(events, "first")
    line.note("KafkaCluster created")
    first.watch(remediation={"mode": "Observe"})
    first.condition("Ready", "True", seconds=60)
    line.note("Ready in its status")
    line.show()
    first.end()
    yield
    operator.uninstall()


@pytest.fixture
def case(installed: None, events: StrimziKafka) -> Iterator[StrimziCase]:
    """A cluster that Strimzi is content with, and a KafkaCluster for it that `watch` creates."""
    events.wait_ready()
    made = StrimziCase(events, f"case-{uuid.uuid4().hex[:5]}")
    yield made
    made.end()
    kubectl("delete", "remediations", "--all", "-n", events.namespace, "--wait=false")
