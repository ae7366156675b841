"""The chart on real Kubernetes: upgraded from an earlier commit and from itself with a run in flight, tested, removed.

`make upgrade PREVIOUS=028b3e2`. These tests install and uninstall the chart themselves, in this order.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from kafka_medic.resources.definitions import DEFINITIONS, SCHEMA_DIGEST_ANNOTATION
from kafka_medic.resources.playbook import Playbook
from tests.e2e.conftest import Case
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, get, kubectl, wait_for
from tests.testbed.operator_image import operator_image_of
from tests.unit.resources.sources import ROOT, documents
from tests.upgrade.earlier import PREVIOUS, sources

CRDS = [f"{d.resource.PLURAL}.kafkamedic.dev" for d in DEFINITIONS]
SLOW = {"name": "raise-replication-factor", "parameters": {"throttleBytesPerSecond": 1_000_000}}


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the earlier commit."""
    tree = tmp_path_factory.mktemp("before")
    sources(tree)
    return tree


@pytest.fixture(scope="module", autouse=True)
def clean() -> Iterator[None]:
    def nothing_left() -> None:
        operator.uninstall()
        kubectl("delete", "crd", *CRDS, "--ignore-not-found", timeout=120)

    nothing_left()
    yield
    nothing_left()


@pytest.fixture
def case(kafka_of) -> Iterator[Case]:
    kafka: KafkaDeployment = kafka_of("kraft")
    made = Case(kafka, f"case-{uuid.uuid4().hex[:6]}")
    yield made
    made.end()


def in_flight(case: Case, seconds: int) -> str:
    """The name of a run that copies a partition for so long."""
    operator.people(case.namespace)
    topic = case.topic([1], suffix=f"orders-{uuid.uuid4().hex[:4]}")
    records.write(case.boot, topic, ["x" * 500_000 for _ in range(2 * seconds)])
    if kubectl("get", "kmc", case.name, "-n", case.namespace, check=False).returncode != 0:
        case.watch(remediation={"playbooks": [SLOW]})
    run = case.wait("AwaitingApproval", 180)
    done = operator.approve(run, "alice")
    assert done.returncode == 0, done.stderr
    kafka = RealKafka(Connection(case.boot))
    try:
        wait_for("the reassignment in flight", lambda: bool(kafka.reassignments()), 90)
    finally:
        kafka.close()
    return str(run["metadata"]["name"])


def status(case: Case, run: str) -> operator.Object:
    return get("remediation", run, namespace=case.namespace)["status"]


def playbook_uids() -> dict[str, str]:
    found = json.loads(kubectl("get", "kmp", "-o", "json").stdout)["items"]
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in found}


def crd_of(name: str) -> operator.Object:
    found: operator.Object = json.loads(kubectl("get", "crd", name, "-o", "json").stdout)
    return found


def is_as_in_the_tree() -> None:
    """Definitions and Playbooks are those of this version."""
    for crd, definition in zip(CRDS, DEFINITIONS, strict=True):
        notes = crd_of(crd)["metadata"]["annotations"]
        assert notes[SCHEMA_DIGEST_ANNOTATION] == definition.schema_digest()
        assert notes["helm.sh/resource-policy"] == "keep"
    wanted = {
        p["metadata"]["name"]: Playbook.parse(p).digest()
        for file in sorted((ROOT / "playbooks").glob("*.yaml"))
        for p in documents(file)
    }
    found = json.loads(kubectl("get", "kmp", "-o", "json").stdout)["items"]
    assert {p["metadata"]["name"]: Playbook.parse(p).digest() for p in found} == wanted


def passes_helm_test() -> None:
    told = operator.helm("test", operator.RELEASE, "-n", operator.NAMESPACE, "--timeout", "180s")
    assert "Succeeded" in told


def test_from_the_earlier_chart_with_a_run_in_flight(before: Path, case: Case) -> None:
    chart = before / "charts" / "kafka-medic"
    operator.install(chart=chart, built=operator_image_of(before))
    uids = playbook_uids()
    run = in_flight(case, 240)
    operator.install()  # with --take-ownership, as README.md of the chart has it
    is_as_in_the_tree()
    assert {name: uid for name, uid in playbook_uids().items() if name in uids} == uids, "no Playbook was made anew"
    passes_helm_test()

    def settled() -> bool:
        now = status(case, run)
        return now["phase"] in ("Superseded", "Blocked", "Paused") or any(
            w["message"] for w in now.get("waitingFor", ())
        )

    wait_for("the new operator to say what becomes of the run", settled, 120)
    told = {key: status(case, run).get(key) for key in ("phase", "message", "waitingFor")}
    print(f"the run of {PREVIOUS} after the upgrade: {json.dumps(told)}")
    # As docs/upgrade.md has it: what the run saved is trusted once somebody has approved its plan again.
    if told["phase"] == "Blocked":
        assert "approve its plan again" in told["message"]
        done = operator.approve(get("remediation", run, namespace=case.namespace), "alice")
        assert done.returncode == 0, done.stderr
    kubectl("delete", "kmr", run, "-n", case.namespace, "--timeout=120s", "--ignore-not-found", timeout=130)
    wait_for("nothing left behind", lambda: operator.throttles(case.boot) == [], 60)
    kafka = RealKafka(Connection(case.boot))
    try:
        wait_for("the copy in flight, which goes on in Kafka", lambda: not kafka.reassignments(), 120)
    finally:
        kafka.close()


def test_from_itself_with_a_run_in_flight(case: Case) -> None:
    operator.install()
    run = in_flight(case, 60)
    started = status(case, run)["startedAt"]
    pods = kubectl("get", "pods", "-n", operator.NAMESPACE, "-o", "name").stdout
    operator.install("--set", "podAnnotations.upgraded=yes")
    assert kubectl("get", "pods", "-n", operator.NAMESPACE, "-o", "name").stdout != pods
    wait_for("the run to succeed", lambda: status(case, run)["phase"] == "Succeeded", 240)
    done = status(case, run)
    assert done["startedAt"] == started
    effects = [entry["id"] for entry in done["journal"]]
    assert len(set(effects)) == len(effects), f"each effect once: {effects}"
    assert [entry["kind"] for entry in done["journal"]].count("Reassign") == 1
    assert operator.throttles(case.boot) == []


def test_an_uninstall_leaves_nothing_blocked(case: Case) -> None:
    operator.install()
    run = in_flight(case, 120)
    with pytest.raises(RuntimeError):
        operator.helm("uninstall", operator.RELEASE, "-n", operator.NAMESPACE, "--timeout", "120s")
    told = kubectl("logs", f"job/{operator.RELEASE}-nothing-owed", "-n", operator.NAMESPACE).stdout
    assert f"{case.namespace}/{run}" in told
    assert get("deployment", operator.RELEASE, namespace=operator.NAMESPACE), "the operator is still there"
    kubectl("delete", "kmr", run, "-n", case.namespace, "--timeout=120s", timeout=130)
    assert operator.throttles(case.boot) == []

    def let_go() -> bool:
        return "finalizers" not in get("kafkacluster", case.name, namespace=case.namespace)["metadata"]

    wait_for("the KafkaCluster let go", let_go, 60)
    operator.helm("uninstall", operator.RELEASE, "-n", operator.NAMESPACE, "--wait", "--timeout", "120s")
    kubectl("get", "crd", *CRDS)
    kubectl("delete", "kmc", case.name, "-n", case.namespace, "--timeout=30s", timeout=40)
    kubectl("delete", "crd", *CRDS, "--timeout=60s", timeout=70)
    kubectl("delete", "namespace", operator.NAMESPACE, "--timeout=120s", timeout=130)


def test_the_first_install_and_the_upgrade_after_it(case: Case) -> None:
    """The Playbooks come by hooks, and are parts of the release later. With `crds.keep=false` all of it goes."""
    kubectl("delete", "crd", *CRDS, "--ignore-not-found", timeout=70)
    operator.install()
    is_as_in_the_tree()
    passes_helm_test()
    uids = playbook_uids()
    operator.install("--set", "commonLabels.team=kafka", "--set", "crds.keep=false")
    assert playbook_uids() == uids
    assert get("playbook", "rolling-restart")["metadata"]["labels"]["team"] == "kafka"
    operator.helm("uninstall", operator.RELEASE, "-n", operator.NAMESPACE, "--wait", "--timeout", "120s")
    assert kubectl("get", "crd", *CRDS, "--ignore-not-found", "-o", "name").stdout == ""
