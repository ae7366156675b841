"""Strimzi's own operators beside ours, on one cluster that Strimzi made, with people who approve."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import no_other_operator, tune_playbooks
from tests.incident import operator
from tests.strimzi.case import StrimziCase, Timeline
from tests.testbed import external_kubeconfig, kubectl, load_image, operator_image, strimzi
from tests.testbed.strimzi import Pool, StrimziKafka

__all__ = ["no_other_operator"]

NAMESPACE = "kafka"
EVENTS = StrimziKafka(NAMESPACE, "events", (Pool("dual", (0, 1, 2)),))
APART = StrimziKafka(NAMESPACE, "apart", (Pool("broker", (0, 1, 2)), Pool("controller", (3, 4, 5))))
SECRETS = ("events-cluster-ca-cert", "apart-cluster-ca-cert", "medic", "medic-scram")
FIRST_STATUS_SECONDS = 60
HERE = Path(__file__).parent


ONE_LINE = {"apiVersion": operator.API_VERSION, "kind": "KafkaCluster", "spec": {"strimzi": {"cluster": "events"}}}
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
    began = line.note("helm install")
    secrets = [{"namespace": NAMESPACE, "names": SECRETS}]
    operator.install(
        *("--set", "strimzi.enabled=true", "--set", "strimzi.topics=edit", "--set", f"watchNamespaces={{{NAMESPACE}}}"),
        *("--set-json", f"secretNamespaces={json.dumps(secrets)}"),
    )
    line.note("Deployment Ready")
    first = StrimziCase(events, "first")
    operator.apply([ONE_LINE | {"metadata": {"name": first.name, "namespace": NAMESPACE}}])
    line.note("KafkaCluster of one line created")
    first.condition("Ready", "True", seconds=FIRST_STATUS_SECONDS)
    took = line.note("Ready in its status") - began
    line.show()
    assert took <= FIRST_STATUS_SECONDS
    tune_playbooks()
    operator.people(NAMESPACE)
    first.end()
    yield
    operator.uninstall()


@pytest.fixture(scope="module")
def apart(events: StrimziKafka) -> Iterator[StrimziKafka]:
    """Three controllers that are no brokers, and three brokers that are no controllers. `events` is away meanwhile:
    two processors do not carry nine Kafka nodes."""
    strimzi.unmake(HERE / "apart.yaml", APART)  # what a killed run left; one of its tests lets it grow
    strimzi.unmake(HERE / "dual.yaml", events)
    strimzi.make(HERE / "apart.yaml", APART)
    yield APART
    strimzi.unmake(HERE / "apart.yaml", APART)
    strimzi.make(HERE / "dual.yaml", events)


@pytest.fixture
def case_apart(installed: None, apart: StrimziKafka) -> Iterator[StrimziCase]:
    yield from _case(apart)


@pytest.fixture
def case(installed: None, events: StrimziKafka) -> Iterator[StrimziCase]:
    """A cluster that Strimzi is content with, and a KafkaCluster for it that `watch` creates."""
    yield from _case(events)


def _case(kafka: StrimziKafka) -> Iterator[StrimziCase]:
    kafka.wait_settled()
    made = StrimziCase(kafka, f"case-{uuid.uuid4().hex[:5]}")
    yield made
    made.end()
    kubectl("delete", "remediations", "--all", "-n", kafka.namespace, "--wait=false")
