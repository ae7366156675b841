"""What the chart makes of its values: refused by its schema, or taken by a real API server. Nothing is installed."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.integration.people import Object, helm
from tests.testbed import kubectl
from tests.unit.resources.sources import CHART


@pytest.mark.parametrize(
    "setting",
    [
        "image.pullPolicy=Sometimes",
        "image.digest=latest",
        "watchNamespaces={Kafka}",
        "secretNamespaces[0].namespace=kafka",
        "scalableWorkloads[0].namespace=kafka",
        "liveness.port=80",
        "liveness.path=/elsewhere",
        "replicas=2",
        "replicaCount=0",
        "webhook.secretName=Not A Name",
        "webhook.url=https://example.com",
        "mostAtOnce=-1",
        "spark.master=k9s://here",
        "spark.connect=http://here",
        "spark.conf.sql=1",
        "spark.executors.memory=lots",
        "spark.volume.persistentVolumeClaim=plans",
        "admission.operatorUsers={it's}",
    ],
)
def test_bad_values_are_refused(setting: str) -> None:
    done = helm("template", "x", str(CHART), "--set", setting, check=False)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


def test_two_of_which_a_drain_takes_one_at_a_time() -> None:
    def rendered(count: int) -> tuple[Object, list[Object]]:
        told = helm("template", "x", str(CHART), "--set", f"replicaCount={count}").stdout
        objects = [o for o in yaml.safe_load_all(told) if o]
        (deployment,) = (o for o in objects if o["kind"] == "Deployment")
        return deployment["spec"], [o["spec"] for o in objects if o["kind"] == "PodDisruptionBudget"]

    plain = yaml.safe_load((CHART / "values.yaml").read_text())
    assert plain["replicaCount"] == 2
    spec, (budget,) = rendered(2)
    labels = spec["selector"]["matchLabels"]
    assert (spec["replicas"], budget["maxUnavailable"], budget["selector"]["matchLabels"]) == (2, 1, labels)
    spread = spec["template"]["spec"]["topologySpreadConstraints"]
    assert [(s["topologyKey"], s["labelSelector"]["matchLabels"]) for s in spread] == [
        ("kubernetes.io/hostname", labels),
        ("topology.kubernetes.io/zone", labels),
    ]
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    alone, budgets = rendered(1)
    assert (alone["replicas"], budgets) == (1, [])
    assert "topologySpreadConstraints" not in alone["template"]["spec"]


def test_every_value_renders_into_what_the_server_takes() -> None:
    namespace = "default"
    values = {
        "image": {"digest": "sha256:" + "a" * 64},
        "watchNamespaces": [namespace],
        "secretNamespaces": [namespace],
        "admission": {"enabled": False},
        "playbooks": {"install": False},
        "imagePullSecrets": [{"name": "pull"}],
        "serviceAccount": {"annotations": {"a": "b"}},
        "extraArgs": ["--verbose"],
        "extraEnv": [{"name": "A", "value": "b"}],
        "podAnnotations": {"a": "b"},
        "podLabels": {"a": "b"},
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "webhook": {"secretName": "kafka-medic-webhook"},
        "plans": {"existingClaim": "kafka-medic-plans"},
        "mostAtOnce": 2,
        "spark": {
            "enabled": True,
            "master": "k8s://https://kubernetes.default.svc",
            "volume": {"persistentVolumeClaim": {"claimName": "plans"}},
            "executors": {"instances": 3, "serviceAccountName": "nobody", "tolerations": [{"operator": "Exists"}]},
            "conf": {"spark.sql.shuffle.partitions": 1},
        },
    }
    flags = [flag for name, value in values.items() for flag in ("--set-json", f"{name}={json.dumps(value)}")]
    rendered = helm("template", "other", str(CHART), "-n", namespace, *flags).stdout
    assert "--watch-namespaces=" + namespace in rendered
    assert "--most-at-once=2" in rendered
    assert "--webhook-directory=/etc/kafka-medic/webhook" in rendered
    assert "--plans=/var/lib/kafka-medic/plans" in rendered
    assert "claimName: kafka-medic-plans" in rendered
    assert "ValidatingAdmissionPolicy\n" not in rendered
    settings = _planner(rendered)["ConfigMap"]["data"]
    assert "\nspark.executor.instances 3\n" in settings["spark-defaults.conf"]
    assert "\nspark.sql.shuffle.partitions 1\n" in settings["spark-defaults.conf"]
    pod = yaml.safe_load(settings["executor.yaml"])
    pod["spec"]["containers"][0]["image"] = "spark"  # Spark fills it in
    selector = {"matchLabels": pod["metadata"]["labels"]}
    template = {"metadata": pod["metadata"], "spec": pod["spec"]}
    executors = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "executors"}}
    executors["spec"] = {"selector": selector, "template": template}
    kubectl("apply", "--dry-run=server", "-n", namespace, "-f", "-", input=rendered)
    kubectl("apply", "--dry-run=server", "-n", namespace, "-f", "-", input=json.dumps(executors))


def _planner(rendered: str) -> dict[str, Any]:
    """The planner's objects by kind."""
    found = [one for one in yaml.safe_load_all(rendered) if one and one["metadata"]["name"].endswith("-planner")]
    return {one["kind"]: one for one in found}


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        ([], ("KAFKA_MEDIC_SPARK_MASTER", "local[*]")),
        (["spark.master=spark://head:7077"], ("KAFKA_MEDIC_SPARK_MASTER", "spark://head:7077")),
        (["spark.connect=sc://head:15002", "spark.master=k8s://x"], ("KAFKA_MEDIC_SPARK_REMOTE", "sc://head:15002")),
    ],
)
def test_a_planner_that_makes_no_pods_has_no_rights(settings: list[str], variable: tuple[str, str]) -> None:
    chosen = [flag for setting in ("spark.enabled=true", *settings) for flag in ("--set", setting)]
    planner = _planner(helm("template", "other", str(CHART), *chosen).stdout)
    assert set(planner) == {"ServiceAccount", "ConfigMap", "Deployment"}
    pod = planner["Deployment"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert {"name": variable[0], "value": variable[1]} in pod["containers"][0]["env"]
    assert "kubernetes" not in planner["ConfigMap"]["data"]["spark-defaults.conf"]


def test_the_planner_is_not_there_unless_asked_for_and_executors_need_a_volume() -> None:
    assert "-planner" not in helm("template", "other", str(CHART)).stdout
    line = ["template", "other", str(CHART), "--set", "spark.enabled=true", "--set", "spark.master=k8s://https://x"]
    done = helm(*line, check=False)
    assert done.returncode != 0
    assert "spark.volume is needed" in done.stderr
