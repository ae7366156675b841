"""What the chart makes of its values."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
import yaml

from kafka_medic.resources.definitions import DEFINITIONS
from kafka_medic.resources.playbook import Playbook
from tests.unit.chart.series import dashboards
from tests.unit.resources.sources import CHART, ROOT, documents

KEEP = "helm.sh/resource-policy"
PLAYBOOKS = [one for file in sorted((ROOT / "playbooks").glob("*.yaml")) for one in documents(file)]


def of_kind(objects, kind):
    return [o for o in objects if o["kind"] == kind]


def notes(one):
    return one["metadata"].get("annotations") or {}


def test_each_object_says_what_it_is_part_of(rendered) -> None:
    for one in rendered(
        "spark.enabled=true", "dashboards.enabled=true", "networkPolicy.enabled=true", "commonLabels.team=kafka"
    ):
        labels = one["metadata"]["labels"]
        assert labels["app.kubernetes.io/component"], one["metadata"]["name"]
        assert labels["app.kubernetes.io/part-of"] == "kafka-medic"
        assert labels["app.kubernetes.io/instance"] == "medic"
        if not notes(one).get("helm.sh/hook"):
            assert labels["team"] == "kafka", one["metadata"]["name"]


def test_the_selectors_take_in_operators_alone_and_stay_as_they_were(rendered) -> None:
    objects = rendered("spark.enabled=true", first=True)
    (operator,) = (d for d in of_kind(objects, "Deployment") if d["metadata"]["name"] == "medic-kafka-medic")
    selector = operator["spec"]["selector"]["matchLabels"]
    # A Deployment's selector can never change: another one would make every upgrade fail.
    assert selector == {"app.kubernetes.io/name": "kafka-medic", "app.kubernetes.io/instance": "medic"}
    others = [o for o in objects if o["kind"] in ("Pod", "Job", "Deployment") and o is not operator]
    assert len(others) == 4
    for one in others:
        meta = one["metadata"] if one["kind"] == "Pod" else one["spec"]["template"]["metadata"]
        assert not selector.items() <= meta["labels"].items(), one["metadata"]["name"]


def test_definitions_are_part_of_the_release_and_stay_when_it_goes(rendered) -> None:
    for keep in (True, False):
        crds = of_kind(rendered(f"crds.keep={json.dumps(keep)}", "crds.annotations.a=b"), "CustomResourceDefinition")
        assert {c["metadata"]["name"] for c in crds} == {f"{d.resource.PLURAL}.kafkamedic.dev" for d in DEFINITIONS}
        for crd, definition in zip(
            sorted(crds, key=lambda c: c["metadata"]["name"]),
            sorted(DEFINITIONS, key=lambda d: d.file_name),
            strict=True,
        ):
            own = definition.to_kubernetes()
            assert crd["spec"] == own["spec"]
            assert own["metadata"]["annotations"].items() <= notes(crd).items()
            assert notes(crd).get(KEEP) == ("keep" if keep else None)
            assert notes(crd)["a"] == "b"
            assert crd["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    assert not of_kind(rendered("crds.enabled=false"), "CustomResourceDefinition")
    assert not (CHART / "crds").exists(), "helm would never upgrade what lies there"


def test_playbooks_wait_for_their_definition_on_the_first_install_and_are_adopted_at_the_next_upgrade(rendered) -> None:
    first, later = rendered(first=True), rendered()
    (gate,) = (j for j in of_kind(first, "Job") if j["metadata"]["name"].endswith("-definitions-served"))
    assert notes(gate)["helm.sh/hook"] == "post-install"
    assert not any(j["metadata"]["name"].endswith("-definitions-served") for j in of_kind(later, "Job"))
    for one in of_kind(first, "Playbook"):
        assert notes(one)["helm.sh/hook"] == "post-install"
        assert int(notes(one)["helm.sh/hook-weight"]) > int(notes(gate)["helm.sh/hook-weight"])
        assert notes(one)["meta.helm.sh/release-name"] == "medic"
        assert notes(one)["meta.helm.sh/release-namespace"] == "ops"
        assert one["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    for one in (*of_kind(later, "Playbook"), *of_kind(rendered("crds.enabled=false", first=True), "Playbook")):
        assert "helm.sh/hook" not in notes(one)
        assert notes(one)["argocd.argoproj.io/sync-options"] == "SkipDryRunOnMissingResource=true"
    digests = {p["metadata"]["name"]: Playbook.parse(p).digest() for p in PLAYBOOKS}
    for objects in (first, later):
        assert {p["metadata"]["name"]: Playbook.parse(p).digest() for p in of_kind(objects, "Playbook")} == digests


def test_a_pod_as_clusters_ask_for_it(rendered) -> None:
    settings = {
        "annotations": {"a": "deployment"},
        "strategy": {"type": "Recreate", "rollingUpdate": None},
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["kafka"]}],
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["10.0.0.2"], "options": [{"name": "ndots", "value": "1"}]},
        "priorityClassName": "high",
        "topologySpreadConstraints": [{"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
        "terminationGracePeriodSeconds": 45,
        "revisionHistoryLimit": 2,
    }
    (operator,) = of_kind(rendered(*(f"{k}={json.dumps(v)}" for k, v in settings.items())), "Deployment")
    spec, pod = operator["spec"], operator["spec"]["template"]["spec"]
    assert notes(operator) == {"a": "deployment"}
    assert spec["strategy"]["type"] == "Recreate"
    assert not spec["strategy"].get("rollingUpdate")
    assert spec["revisionHistoryLimit"] == 2
    assert settings["extraVolumes"][0] in pod["volumes"]
    assert settings["extraVolumeMounts"][0] in pod["containers"][0]["volumeMounts"]
    for name in ("hostAliases", "dnsPolicy", "dnsConfig", "priorityClassName", "topologySpreadConstraints",
                 "terminationGracePeriodSeconds"):  # fmt: skip
        assert pod[name] == settings[name], name
    (plain,) = of_kind(rendered("topologySpreadConstraints=[]"), "Deployment")
    assert "topologySpreadConstraints" not in plain["spec"]["template"]["spec"]


def test_monitors_in_full(rendered) -> None:
    own = {
        "namespace": "monitoring",
        "labels": {"release": "prometheus"},
        "annotations": {"a": "b"},
        "interval": "15s",
        "scrapeTimeout": "10s",
        "sampleLimit": 5000,
        "relabelings": [{"action": "labeldrop", "regex": "pod"}],
        "metricRelabelings": [{"action": "drop", "sourceLabels": ["__name__"], "regex": "python_.*"}],
    }
    for name, kind, endpoints in (
        ("serviceMonitor", "ServiceMonitor", "endpoints"),
        ("podMonitor", "PodMonitor", "podMetricsEndpoints"),
    ):
        settings = [f"metrics.{name}.{k}={json.dumps(v)}" for k, v in (own | {"enabled": True}).items()]
        (monitor,) = of_kind(rendered(*settings), kind)
        assert monitor["metadata"]["namespace"] == "monitoring"
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
        assert notes(monitor) == {"a": "b"}
        spec = monitor["spec"]
        assert spec["namespaceSelector"] == {"matchNames": ["ops"]}
        assert (spec["jobLabel"], spec["sampleLimit"]) == ("app.kubernetes.io/name", 5000)
        (endpoint,) = spec[endpoints]
        assert endpoint["honorLabels"] is True, "the label namespace is the KafkaCluster's"
        for key in ("interval", "scrapeTimeout", "relabelings", "metricRelabelings"):
            assert endpoint[key] == own[key], key


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("metrics.serviceMonitor.enabled=true", "metrics.service=false"), "use metrics.podMonitor.enabled without it"),
        (("metrics.podMonitor.enabled=true", "metrics.enabled=false"), "needs metrics.enabled"),
        (("metrics.podMonitor.enabled=true", "metrics.serviceMonitor.enabled=true"), "set one of them to false"),
        (("metrics.prometheusRule.runbookUrl=wiki",), "runbookUrl"),
        (("metrics.podMonitor.interval=soon",), "interval"),
        (("dnsPolicy=Mine",), "dnsPolicy"),
        (("crds.delete=true",), "crds"),
        (("crds.enabled=false", "crds.keep=false"), "set crds.keep to true"),
        (("strategy.type=BlueGreen",), "strategy"),
        (("extraVolumeMounts[0].name=a",), "mountPath"),
    ],
)
def test_values_that_do_not_fit_are_refused_with_the_way_out(helm, settings, words) -> None:
    done = helm("template", "x", str(CHART), *(f for s in settings for f in ("--set", s)), check=False)
    assert done.returncode != 0
    assert words in done.stderr


class ApiServer(BaseHTTPRequestHandler):
    """What helm's `lookup` asks for: which definitions are there, with which annotations."""

    found: ClassVar[dict[str, dict[str, str]]] = {}
    GROUP = "/apis/apiextensions.k8s.io/v1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        name = path.removeprefix(f"{self.GROUP}/customresourcedefinitions/")
        known = {"name": "customresourcedefinitions", "kind": "CustomResourceDefinition", "verbs": ["get"]}
        version = {"groupVersion": "apiextensions.k8s.io/v1", "version": "v1"}
        answers: dict[str, dict[str, Any]] = {
            "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.1"},
            "/api": {"kind": "APIVersions", "versions": []},
            "/apis": {"kind": "APIGroupList", "groups": [{"name": "apiextensions.k8s.io", "versions": [version]}]},
            self.GROUP: {"kind": "APIResourceList", **version, "resources": [known]},
        }
        if name in self.found:
            meta = {"name": name, "annotations": self.found[name]}
            answers[path] = {"apiVersion": version["groupVersion"], "kind": known["kind"], "metadata": meta}
        missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        body = json.dumps(answers.get(path, missing)).encode()
        self.send_response(200 if path in answers else 404)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


OWNED = {"meta.helm.sh/release-name": "medic", "meta.helm.sh/release-namespace": "ops"}
DELETES = "would make helm delete the definitions"


@pytest.mark.parametrize(
    ("annotations", "upgrade", "refused"),
    [
        (OWNED, True, True),
        (OWNED | {KEEP: "other"}, True, True),
        (OWNED | {KEEP: "keep"}, True, False),
        (OWNED | {"meta.helm.sh/release-name": "another"}, True, False),
        (OWNED | {"meta.helm.sh/release-namespace": "another"}, True, False),
        ({}, True, False),
        (None, True, False),
        (OWNED, False, False),
    ],
)
def test_definitions_that_helm_would_delete_stay_in_the_release(helm, monkeypatch, annotations, upgrade, refused):
    """Helm deletes what leaves the release, unless the object itself is annotated."""
    names = ("kafkaclusters.kafkamedic.dev", "remediations.kafkamedic.dev")
    monkeypatch.setattr(ApiServer, "found", {} if annotations is None else dict.fromkeys(names, annotations))
    server = ThreadingHTTPServer(("127.0.0.1", 0), ApiServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        where = ("--dry-run=server", "--kube-apiserver", f"http://127.0.0.1:{server.server_port}", "-n", "ops")
        how = ("--is-upgrade",) if upgrade else ()
        done = helm("template", "medic", str(CHART), *where, *how, "--set", "crds.enabled=false", check=False)
    finally:
        server.shutdown()
        server.server_close()
    assert (DELETES in done.stderr) is refused, done.stderr
    if refused:
        assert f"{DELETES} {' '.join(names)}, and with them every KafkaCluster and Remediation" in done.stderr
        assert "upgrade with crds.enabled=true and crds.keep=true first" in done.stderr
    else:
        assert "lookup" not in done.stderr


def test_network_policies_for_each_pod(rendered) -> None:
    settings = ("networkPolicy.enabled=true", "spark.enabled=true")
    objects = rendered(*settings, first=True)
    policies = {p["metadata"]["name"]: p["spec"] for p in of_kind(objects, "NetworkPolicy")}
    assert set(policies) == {"medic-kafka-medic", "medic-kafka-medic-check", "medic-kafka-medic-planner"}
    assert policies["medic-kafka-medic-check"]["ingress"] == []
    own = ('networkPolicy.dnsTo=[{"ipBlock":{"cidr":"10.0.0.2/32"}}]', "networkPolicy.dnsPorts=[5353]",
           'networkPolicy.extraIngress=[{"from":[{"podSelector":{}}]}]')  # fmt: skip
    (policy, *_) = of_kind(rendered("networkPolicy.enabled=true", *own), "NetworkPolicy")
    names = policy["spec"]["egress"][0]
    assert names["to"] == [{"ipBlock": {"cidr": "10.0.0.2/32"}}]
    assert {(p["protocol"], p["port"]) for p in names["ports"]} == {("UDP", 5353), ("TCP", 5353)}
    assert policy["spec"]["ingress"][-1] == {"from": [{"podSelector": {}}]}


def test_dashboards_are_what_grafanas_sidecar_looks_for(rendered) -> None:
    settings = (
        "dashboards.enabled=true",
        "dashboards.namespace=grafana",
        "dashboards.annotations.grafana_folder=Kafka",
    )
    maps = [m for m in of_kind(rendered(*settings), "ConfigMap") if "dashboard" in m["metadata"]["name"]]
    assert len(maps) == 3
    found = {}
    for one in maps:
        assert one["metadata"]["namespace"] == "grafana"
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert notes(one) == {"grafana_folder": "Kafka"}
        ((name, content),) = one["data"].items()
        found[name.removeprefix("kafka-medic-").removesuffix(".json")] = json.loads(content)
    assert found == dashboards()


def test_helm_test_checks_what_is_installed(rendered) -> None:
    def checked(*settings):
        (pod,) = of_kind(rendered(*settings), "Pod")
        assert notes(pod)["helm.sh/hook"] == "test"
        return pod["spec"]["containers"][0]["args"][1:-1]

    url = "metrics=http://medic-kafka-medic-metrics.ops.svc:8081/metrics"
    assert checked() == ["definitions", "playbooks", "policies", url]
    assert checked("playbooks.install=false", "admission.enabled=false", "metrics.service=false") == ["definitions"]


def test_before_an_uninstall_it_is_asked_whether_a_run_has_something_to_take_back(rendered) -> None:
    def asked(*settings):
        return [j for j in of_kind(rendered(*settings), "Job") if notes(j)["helm.sh/hook"] == "pre-delete"]

    (job,) = asked("watchNamespaces={a,b}")
    assert job["spec"]["template"]["spec"]["containers"][0]["args"][:2] == ["--watch-namespaces=a,b", "nothing-owed"]
    assert job["spec"]["backoffLimit"] == 0
    assert asked("uninstallCheck=false") == []


def test_the_values_file_is_a_valid_example_of_itself(text) -> None:
    assert text("networkPolicy.enabled=true") == text("networkPolicy.enabled=true", *(
        f"{name}={json.dumps(value)}" for name, value in yaml.safe_load((CHART / "values.yaml").read_text()).items()
        if isinstance(value, list)
    ))  # fmt: skip
