"""Installing the operator as a person would, and speaking to it through the API server alone."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, ConfigChange, Connection
from tests.testbed import (
    KafkaDeployment,
    apply,
    external_kubeconfig,
    get,
    kubectl,
    load_image,
    operator_image,
    wait_for,
)

ROOT = Path(__file__).parents[2]
NAMESPACE = "kafka-medic"
RELEASE = "kafka-medic"
API_VERSION = "kafkamedic.dev/v1alpha1"
Object = dict[str, Any]


Built = tuple[str, Path]


def helm(*arguments: str) -> str:
    """The real helm, against the cluster in use."""
    command = ["helm", *arguments]
    if external_kubeconfig() is None:
        command = [sys.executable, "-m", "tests.testbed", "enter", *command]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"helm {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def install(*settings: str, chart: Path = ROOT / "charts" / "kafka-medic", built: Built | None = None) -> None:
    """Build the image, bring it to the nodes, install the chart, wait until its Pod is Ready. `built`: another image
    for another chart, as (name with tag, archive)."""
    if external_kubeconfig() is None:
        name, archive = built or operator_image()
        load_image(str(archive))
        repository, _, tag = name.rpartition(":")
        image = [
            "--set",
            f"image.repository={repository}",
            "--set",
            f"image.tag={tag}",
            "--set",
            "image.pullPolicy=Never",
        ]
    else:
        given = os.environ.get("KAFKA_MEDIC_IMAGE")
        if not given:
            raise RuntimeError("KUBECONFIG is set, so an image of the operator is needed: set KAFKA_MEDIC_IMAGE")
        repository, _, tag = given.rpartition(":")
        image = ["--set", f"image.repository={repository}", "--set", f"image.tag={tag}"]
    # Brokers are named by the addresses of their Services.
    anywhere = [{"namespace": "*", "servers": ["0.0.0.0/0", "::/0", "*.svc", "*.svc.cluster.local"]}]
    if "destinations" in (chart / "values.schema.json").read_text():
        settings = ("--set-json", f"destinations={json.dumps(anywhere)}", *settings)
    # Two share this machine with three nodes and all brokers; and tests read one log, one page of metrics, one memory.
    alone = ("--set", "replicaCount=1")
    # The definitions may have stayed from a release of another name.
    how = ("--create-namespace", "--take-ownership", "--force-conflicts")
    helm("upgrade", "--install", RELEASE, str(chart), "-n", NAMESPACE, *how, *image, *alone, *settings)
    kubectl("rollout", "status", f"deployment/{RELEASE}", "-n", NAMESPACE, "--timeout=120s", timeout=130)


def rules(account: str = RELEASE, namespace: str = NAMESPACE) -> str:
    """What the chart rendered for the operator, which an operator outside of its Pod needs as `--rules`."""
    held = json.loads(kubectl("get", "configmap", f"{account}-rules", "-n", namespace, "-o", "json").stdout)
    return str(held["data"]["rules.json"])


def kubeconfig(path: Path, account: str = RELEASE, namespace: str = NAMESPACE) -> Path:
    """A kubeconfig with the operator's own ServiceAccount, and so with its rights and no other. Beside it, as
    `rules.json`, what the chart rendered for the operator."""
    path.with_name("rules.json").write_text(rules(account, namespace))
    return account_kubeconfig(path, account, namespace)


def account_kubeconfig(path: Path, account: str, namespace: str) -> Path:
    """A kubeconfig with the rights of that ServiceAccount and no other."""
    current = json.loads(kubectl("config", "view", "--raw", "--minify", "-o", "json").stdout)
    token = kubectl("create", "token", account, "-n", namespace, "--duration=1h").stdout.strip()
    user = current["contexts"][0]["context"]["user"]
    current["users"] = [{"name": user, "user": {"token": token}}]
    path.touch(mode=0o600)
    path.write_text(json.dumps(current))
    return path


@contextlib.contextmanager
def lists_namespaces(account: str = RELEASE, namespace: str = NAMESPACE) -> Iterator[None]:
    """What the chart grants with watchNamespaces, which is how processes of a test's own are started. kopf asks for it
    half a minute long before it goes on without."""
    role = "operator-lists-namespaces"
    kubectl("create", "clusterrole", role, "--verb=list,watch", "--resource=namespaces")
    kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", f"--serviceaccount={namespace}:{account}")
    try:
        yield
    finally:
        kubectl("delete", "clusterrole,clusterrolebinding", role)


def uninstall() -> None:
    # Its Pods first: they give their Leases back, for which they need their rights.
    kubectl("delete", "deployment", RELEASE, "-n", NAMESPACE, "--ignore-not-found", "--cascade=foreground")
    # Without the check whether a run has something to take back: what a killed run left has to go all the same.
    helm("uninstall", RELEASE, "-n", NAMESPACE, "--ignore-not-found", "--wait", "--no-hooks")
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", timeout=180)


def people(namespace: str) -> None:
    """alice approves, bob only looks, mallory may create approvals but lacks the verb that makes them count."""
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}

    def bind(name: str, role: str, kind: str, user: str) -> Object:
        subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
        meta = {"name": name, "namespace": namespace}
        return binding | {"metadata": meta, "roleRef": reference, "subjects": [subject]}

    rules = [
        {"apiGroups": ["kafkamedic.dev"], "resources": ["remediationapprovals"], "verbs": ["create", "get", "list"]},
        {"apiGroups": ["kafkamedic.dev"], "resources": ["remediations"], "verbs": ["get", "list"]},
    ]
    half = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "approvals-only", "namespace": namespace},
        "rules": rules,
    }
    apply(
        [
            half,
            bind("alice-approves", f"{RELEASE}-approver", "ClusterRole", "alice"),
            bind("bob-looks", f"{RELEASE}-viewer", "ClusterRole", "bob"),
            bind("mallory-tries", "approvals-only", "Role", "mallory"),
        ]
    )


def kafka_cluster(kafka: KafkaDeployment, name: str = "demo", **spec: Any) -> Object:
    """The KafkaCluster of a deployment."""
    body: Object = {
        "bootstrapServers": kafka.bootstrap,
        "brokers": {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "kafka"}}},
        "probes": {"interval": "2s", "timeout": "5s"},
    }
    if kafka.controllers_apart:
        body["controllers"] = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "controller"}}}
    if kafka.zookeeper_connect:
        body["metadata"] = {"zookeeper": {"connect": kafka.zookeeper_connect}}
    return {
        "apiVersion": API_VERSION,
        "kind": "KafkaCluster",
        "metadata": {"name": name, "namespace": kafka.namespace},
        "spec": body | spec,
    }


def may_read_secrets(namespace: str) -> None:
    """What the chart's value secretNamespaces grants, for a namespace that is there only now."""
    _grant(namespace, "operator-secrets", {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]})


def _grant(namespace: str, name: str, rule: Object) -> None:
    rbac = "rbac.authorization.k8s.io"
    meta = {"name": name, "namespace": namespace}
    role = {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": [rule]}
    account = {"kind": "ServiceAccount", "name": RELEASE, "namespace": NAMESPACE}
    reference = {"apiGroup": rbac, "kind": "Role", "name": name}
    binding = {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": meta}
    apply([role, binding | {"roleRef": reference, "subjects": [account]}])


def may_scale(namespace: str, deployment: str) -> None:
    """What the chart's value scalableWorkloads grants, for a namespace that is there only now."""
    resources = {"resources": ["deployments/scale"], "resourceNames": [deployment], "verbs": ["get", "update"]}
    _grant(namespace, "operator-workloads", {"apiGroups": ["apps"]} | resources)


def restarts() -> int:
    """How often the operator's containers were started again."""
    pods = get("pods", namespace=NAMESPACE, selector="app.kubernetes.io/name=kafka-medic")["items"]
    return sum(s["restartCount"] for p in pods for s in p["status"]["containerStatuses"])


def approval(run: Object, user: str, decision: str = "Approve", **changed: Any) -> Object:
    spec = {
        "remediationRef": {"name": run["metadata"]["name"], "uid": run["metadata"]["uid"]},
        "planDigest": run["status"]["plan"]["digest"],
        "decision": decision,
        "reason": "read and understood",
        "approver": user,
    } | changed
    meta = {"name": f"{user}-{uuid.uuid4().hex[:6]}", "namespace": run["metadata"]["namespace"]}
    return {"apiVersion": API_VERSION, "kind": "RemediationApproval", "metadata": meta, "spec": spec}


def approve(run: Object, user: str, decision: str = "Approve", **changed: Any) -> subprocess.CompletedProcess[str]:
    """Create the approval as that user; the answer tells whether the API server took it."""
    return kubectl(
        "create", "-f", "-", user=user, input=json.dumps(approval(run, user, decision, **changed)), check=False
    )


def runs(namespace: str) -> list[Object]:
    items: list[Object] = get("remediations", namespace=namespace)["items"]
    return sorted(items, key=lambda r: (r["metadata"]["creationTimestamp"], r["metadata"]["name"]))


def phase(run: Object) -> str:
    return str(run.get("status", {}).get("phase", ""))


def wait_for_run(
    namespace: str,
    wanted: str,
    seconds: float = 120,
    seen: Callable[[Object], None] | None = None,
    cluster: str | None = None,
    name: str | None = None,
    playbook: str | None = None,
) -> Object:
    """The newest Remediation of the namespace (of one KafkaCluster, of that name, of that playbook) once it is in that
    phase. `seen` is shown each state on the way."""
    found: list[Object] = []

    def reached() -> bool:
        found[:] = [
            r
            for r in runs(namespace)
            if cluster in (None, r["spec"]["clusterRef"]["name"]) and name in (None, r["metadata"]["name"])
            if playbook in (None, r["spec"]["playbook"]["name"])
        ]
        if found and seen is not None:
            seen(found[-1])
        return bool(found) and phase(found[-1]) == wanted

    try:
        wait_for(f"a Remediation in phase {wanted}", reached, seconds)
    except Exception as problem:
        state = {k: v for k, v in found[-1].get("status", {}).items() if k != "plan"} if found else {}
        raise AssertionError(f"no Remediation became {wanted}: {json.dumps(state)[:3000]}\n{logs()}") from problem
    return found[-1]


def logs(lines: int = 40) -> str:
    return kubectl("logs", f"deployment/{RELEASE}", "-n", NAMESPACE, f"--tail={lines}", check=False).stdout


def events(namespace: str, about: str) -> list[tuple[str, str]]:
    """(reason, message) of the events about objects whose name begins so."""
    items = get("events", namespace=namespace)["items"]
    return [(e["reason"], e["message"]) for e in items if e["involvedObject"]["name"].startswith(about)]


def condition(namespace: str, name: str, kind: str) -> Object:
    status = get("kafkacluster", name, namespace=namespace).get("status", {})
    return next(
        (c for c in status.get("conditions", []) if c["type"] == kind), {"status": "", "reason": "", "message": ""}
    )


def wait_condition(
    namespace: str, name: str, kind: str, status: str, reason: str | None = None, seconds: float = 60
) -> Object:
    def so() -> bool:
        found = condition(namespace, name, kind)
        return found["status"] == status and reason in (None, found["reason"])

    try:
        wait_for(f"{name}: {kind}={status} {reason or ''}", so, seconds)
    except Exception as problem:
        raise AssertionError(f"{kind} is {condition(namespace, name, kind)}\n{logs()}") from problem
    return condition(namespace, name, kind)


def throttles(bootstrap: str) -> list[str]:
    """Every replication throttle that is set on any broker or topic."""
    return throttles_on(bootstrap, [0, 1, 2])


def throttles_on(bootstrap: str, brokers: list[int]) -> list[str]:
    """The same where not every broker can be asked."""
    kafka = RealKafka(Connection(bootstrap))
    try:
        view = kafka.views(brokers[:1])[brokers[0]]
        assert isinstance(view, BrokerView), view
        topics = sorted({p.topic for p in view.partitions})
        settings = {f"topic {t}": c for t, c in kafka.topic_configs(topics).items()}
        settings |= {f"broker {b}": c for b, c in kafka.broker_configs(brokers).items()}
        return [
            f"{who}: {n}={v.value}"
            for who, c in settings.items()
            for n, v in c.items()
            if "throttled" in n and v.dynamic
        ]
    finally:
        kafka.close()


def remove_throttles(bootstrap: str, brokers: list[int]) -> None:
    """What `throttles_on` finds, whoever set it."""
    changes = []
    for line in throttles_on(bootstrap, brokers):
        where, _, name = line.partition("=")[0].rpartition(": ")
        kind, _, resource = where.partition(" ")
        changes.append(ConfigChange(kind.upper(), resource, name, None))
    with contextlib.closing(RealKafka(Connection(bootstrap))) as kafka:
        kafka.alter_configs(changes)


def factors(bootstrap: str) -> dict[str, set[int]]:
    """Topic -> the replica counts of its partitions, counting in-sync replicas only."""
    topics = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=10).topics
    return {name: {len(p.isrs) for p in topic.partitions.values()} for name, topic in topics.items()}
