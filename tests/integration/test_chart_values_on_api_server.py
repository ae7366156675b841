"""What the chart makes of its values: refused by its schema, or taken by a real API server. Nothing is installed."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from kafka_medic.controller.rules import Rules
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
        "restartablePods={kafka-0}",
        "restartablePods[0].namespace=kafka",
        "destinations[0].namespace=kafka",
        "destinations[0].servers={*.kafka.example.com}",
        "destinations[0].namespace=kafka,destinations[0].servers={https://kafka}",
        "destinations[0].namespace=kafka,destinations[0].webhooks={a}",
        "liveness.port=80",
        "liveness.path=/elsewhere",
        "replicas=2",
        "replicaCount=0",
        "webhook.secretName=Not A Name",
        "webhook.url=https://example.com",
        "mostAtOnce=-1",
        "limits.clustersPerNamespace=-1",
        "networkPolicy.kafkaPorts={}",
        "networkPolicy.apiServer.cidrs={everywhere}",
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
        "restartablePods": [{"namespace": namespace, "names": ["kafka-0"]}],
        "destinations": [
            {"namespace": "*", "servers": ["*.a.example", "10.0.0.0/8", "fd00::/8", "a.b"]},
            {"namespace": namespace, "tokenEndpoints": ["login.example.com"]},
        ],
        "strimzi": {"enabled": True},
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
        "history": {"existingClaim": "kafka-medic-history", "every": "30m"},
        "mostAtOnce": 2,
        "limits": {"clustersPerNamespace": 7, "partitions": 1000000},
        "networkPolicy": {
            "enabled": True,
            "apiServer": {"cidrs": ["10.0.0.1/32"]},
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
            "extraEgress": [
                {"ports": [{"protocol": "TCP", "port": 443}], "to": [{"ipBlock": {"cidr": "192.0.2.7/32"}}]}
            ],
        },
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
    assert "--history-every=30m" in rendered
    assert "--clusters-per-namespace=7" in rendered
    assert "--partitions=1000000" in rendered
    policies = {
        o["metadata"]["name"]: o["spec"] for o in yaml.safe_load_all(rendered) if o and o["kind"] == "NetworkPolicy"
    }
    policy = policies["other-kafka-medic"]
    watched = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [namespace]}
    assert policy["egress"][2]["to"] == [{"namespaceSelector": {"matchExpressions": [watched]}}]
    assert [port["port"] for port in policy["egress"][2]["ports"]] == [9092, 9093, 9094, 2181, 2182, 9404]
    assert policy["egress"][1]["to"] == [{"ipBlock": {"cidr": "10.0.0.1/32"}}]
    assert policy["egress"][3]["to"] == [{"ipBlock": {"cidr": "192.0.2.7/32"}}]
    assert "--webhook-directory=/etc/kafka-medic/webhook" in rendered
    assert "--plans=/var/lib/kafka-medic/plans" in rendered
    assert "claimName: kafka-medic-plans" in rendered
    assert "ValidatingAdmissionPolicy\n" not in rendered
    rules = _rules(rendered)
    assert rules.policies == ()
    assert rules.destinations_of("another", (), loopback=False).servers == (
        "*.a.example",
        "10.0.0.0/8",
        "fd00::/8",
        "a.b",
    )
    assert rules.destinations_of(namespace, (), loopback=False).token_endpoints == ("login.example.com",)
    settings = _planner(rendered)["ConfigMap"]["data"]
    assert "\nspark.executor.instances 3\n" in settings["spark-defaults.conf"]
    assert "\nspark.sql.shuffle.partitions 1\n" in settings["spark-defaults.conf"]
    pod = yaml.safe_load(settings["executor.yaml"])
    pod["spec"]["containers"][0]["image"] = "spark"  # Spark fills it in
    selector = {"matchLabels": pod["metadata"]["labels"]}
    template = {"metadata": pod["metadata"], "spec": pod["spec"]}
    executors = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "executors"}}
    executors["spec"] = {"selector": selector, "template": template}
    # The Pod of `helm test` needs the release's ServiceAccount, which a dry run does not create.
    lasting = [one for one in yaml.safe_load_all(rendered) if one and one["kind"] != "Pod"]
    kubectl("apply", "--dry-run=server", "-n", namespace, "-f", "-", input=yaml.safe_dump_all(lasting))
    kubectl("apply", "--dry-run=server", "-n", namespace, "-f", "-", input=json.dumps(executors))


def _rules(rendered: str) -> Rules:
    (held,) = (one for one in yaml.safe_load_all(rendered) if one and one["metadata"]["name"].endswith("-rules"))
    return Rules.model_validate_json(held["data"]["rules.json"])


def test_the_policy_about_kafkaclusters_is_the_same_in_every_release() -> None:
    """Else an upgrade with another value would ask for labels on the Secrets of every KafkaCluster."""
    other = ("--set", "admission.operatorUsers={me}", "--set", "watchNamespaces={kafka}", "--set", "fullnameOverride=o")
    names = [
        {policy.about: policy.name for policy in _rules(helm("template", *line, str(CHART)).stdout).policies}
        for line in (("x",), ("y", "-n", "elsewhere", *other))
    ]
    assert names[0]["kafkaclusters"] == names[1]["kafkaclusters"]
    assert {about for about in names[0] if names[0][about] == names[1][about]} == {"kafkaclusters", "uses"}


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


def test_only_with_a_volume_for_plans_does_the_operator_publish_them_and_only_by_default_do_roles_use_playbooks() -> (
    None
):
    def verbs(resource: str, *settings: str) -> dict[str, list[str]]:
        told = helm("template", "x", str(CHART), *(word for one in settings for word in ("--set", one))).stdout
        roles = [o for o in yaml.safe_load_all(told) if o and o["kind"] == "ClusterRole"]
        found: dict[str, list[str]] = {}
        for role in roles:
            rules = (rule["verbs"] for rule in role["rules"] if resource in rule["resources"])
            if granted := [verb for given in rules for verb in given]:
                found[role["metadata"]["name"]] = granted
        return found

    reads = ["get", "list", "watch"]
    people = {f"x-kafka-medic-{name}": reads for name in ("viewer", "approver", "operator-user", "editor")}
    assert verbs("planparts") == people
    with_volume = verbs("planparts", "plans.existingClaim=plans")
    assert with_volume == people | {"x-kafka-medic-watched": ["get", "create", "update"]}
    users = {f"x-kafka-medic-{name}": ["use"] for name in ("operator-user", "editor")}
    assert verbs("playbooks/*") == users
    assert verbs("playbooks/*", "rbac.useAllPlaybooks=false") == {}
