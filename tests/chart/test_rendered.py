"""What the chart renders is what Kubernetes takes, and what checkers ask for, but for reasoned exceptions."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.chart.conftest import as_flags
from tests.testbed import build
from tests.unit.resources.sources import CHART

EVERYTHING = (
    "networkPolicy.enabled=true",
    "dashboards.enabled=true",
    "metrics.prometheusRule.enabled=true",
    "metrics.consumerGroups=true",
    "spark.enabled=true",
    "spark.master=k8s://https://kubernetes.default.svc",
    'spark.volume={"persistentVolumeClaim":{"claimName":"plans"}}',
    'watchNamespaces=["kafka"]',
    "strimzi.enabled=true",
    'secretNamespaces=[{"namespace":"kafka","names":["user"]}]',
    'restartablePods=[{"namespace":"kafka","names":["kafka-0"]}]',
    'scalableWorkloads=[{"namespace":"kafka","deployments":["billing"]}]',
    "mostAtOnce=2",
    "plans.existingClaim=plans",
    "history.existingClaim=history",
    "webhook.secretName=webhook",
)
WAYS = {
    "by default, first": ((), True),
    "by default, again": ((), False),
    "everything, with a ServiceMonitor": ((*EVERYTHING, "metrics.serviceMonitor.enabled=true"), False),
    "everything, with a PodMonitor": ((*EVERYTHING, "metrics.podMonitor.enabled=true"), True),
    "the least": (
        ("rbac.create=false", "rbac.people=false", "playbooks.install=false", "admission.enabled=false",
         "crds.enabled=false", "metrics.enabled=false", "metrics.service=false", "replicaCount=1",
         "uninstallCheck=false"),
        False,
    ),
}  # fmt: skip
BY_WAY = pytest.mark.parametrize("way", WAYS)


def exceptions(tool: str) -> dict[str, dict[str, str]]:
    return yaml.safe_load((Path(__file__).parent / "exceptions.yaml").read_text())[tool]


@pytest.fixture(scope="session")
def manifests(text, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("manifests")
    found = {}
    for number, (way, (settings, first)) in enumerate(WAYS.items()):
        found[way] = folder / f"{number}.yaml"
        found[way].write_text(text(*settings, first=first))
    return found


def test_helm_lint(helm) -> None:
    helm("lint", "--strict", str(CHART))
    helm("lint", "--strict", str(CHART), *as_flags(EVERYTHING))


@BY_WAY
def test_kubeconform(way, manifests, tools, schemas) -> None:
    place = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    command = [
        tools / "kubeconform",
        "-strict",
        "-summary",
        "-output",
        "json",
        "-schema-location",
        place,
        manifests[way],
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    assert told["summary"]["skipped"] == told["summary"]["errors"] == told["summary"]["invalid"] == 0, told[
        "resources"
    ][:5]
    assert told["summary"]["valid"] == sum(1 for o in yaml.safe_load_all(manifests[way].read_text()) if o)


def test_kubeconform_notices(manifests, tools, schemas, tmp_path) -> None:
    """The schemas that this repository makes for it are not empty ones."""
    place = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    objects = [o for o in yaml.safe_load_all(manifests["everything, with a PodMonitor"].read_text()) if o]
    for kind, spoil in (
        ("Deployment", lambda o: o["spec"]["template"]["spec"].update(hostAlias=[])),
        ("PodMonitor", lambda o: o["spec"].update(podMetricsEndpoints="metrics")),
        ("PrometheusRule", lambda o: o["spec"]["groups"][0]["rules"][0].update(runbook="x")),
        ("Playbook", lambda o: o["spec"]["steps"][0].update(shell="x")),
    ):
        one = next(o for o in objects if o["kind"] == kind)
        spoil(one)
        file = tmp_path / f"{kind}.yaml"
        file.write_text(yaml.safe_dump(one))
        done = subprocess.run(
            [tools / "kubeconform", "-strict", "-schema-location", place, file], capture_output=True, check=False
        )
        assert done.returncode != 0, kind


def test_kube_score(manifests, tools) -> None:
    told: set[str] = set()
    for file in manifests.values():
        command = [tools / "kube-score", "score", "--output-format", "json", "--kubernetes-version", "v1.30", file]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        for one in json.loads(done.stdout):
            told |= {c["check"]["id"] for c in one["checks"] if not c["skipped"] and 0 < c["grade"] < 10}
    networks = {"pod-networkpolicy"}  # with networkPolicy.enabled there is none of these, as the next test has it
    assert told - networks == set(exceptions("kube-score"))


def test_kube_score_with_network_policies(manifests, tools) -> None:
    command = [tools / "kube-score", "score", "--output-format", "json", manifests["everything, with a PodMonitor"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = {
        c["check"]["id"]
        for one in json.loads(done.stdout)
        for c in one["checks"]
        if not c["skipped"] and 0 < c["grade"] < 10
    }
    assert "pod-networkpolicy" not in told


def test_checkov(manifests) -> None:
    python = build.checkov() / "venv" / "bin" / "python"
    flags = [flag for file in manifests.values() for flag in ("-f", str(file))]
    command = [
        python,
        "-m",
        "checkov.main",
        *flags,
        "--framework",
        "kubernetes",
        "--output",
        "json",
        "--skip-download",
        "--quiet",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    assert told["summary"]["passed"] > 1000
    assert told["summary"]["parsing_errors"] == 0
    assert {one["check_id"] for one in told["results"]["failed_checks"]} == set(exceptions("checkov"))
