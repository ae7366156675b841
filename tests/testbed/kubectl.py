"""Talks to the cluster, whichever it is: the testbed's own, from in or outside its network, or the caller's."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tests.testbed import cluster, processes
from tests.testbed.build import HOST_IMAGE, tools
from tests.testbed.places import own_state

if TYPE_CHECKING:
    from kafka_medic.clients.kubernetes_api import KubernetesApi

Object = dict[str, Any]
_MEDIC = "/apis/kafkamedic.dev/v1alpha1"
_PLACES = {
    "configmap": ("/api/v1", "configmaps"),
    "deployment": ("/apis/apps/v1", "deployments"),
    "event": ("/api/v1", "events"),
    "node": ("/api/v1", "nodes"),
    "pod": ("/api/v1", "pods"),
    "poddisruptionbudget": ("/apis/policy/v1", "poddisruptionbudgets"),
    "service": ("/api/v1", "services"),
    "kafkacluster": (_MEDIC, "kafkaclusters"),
    "playbook": (_MEDIC, "playbooks"),
    "remediation": (_MEDIC, "remediations"),
}


class KubectlError(RuntimeError):
    """kubectl did not succeed; the message holds the command and what it said."""


def kubectl(
    *arguments: str,
    user: str | None = None,
    input: str | None = None,
    check: bool = True,
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run kubectl as the administrator, or as one of the people the testbed knows.

    In the testbed a user has a kubeconfig of their own; in a caller's cluster they are impersonated.
    """
    command, environment = _command(arguments, user)
    done = subprocess.run(
        command, input=input, capture_output=True, text=True, env=environment, timeout=timeout, check=False
    )
    if check and done.returncode != 0:
        raise KubectlError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done


def follow(*arguments: str) -> subprocess.Popen[str]:
    """A kubectl that goes on talking (get --watch), for the caller to read and to end."""
    command, environment = _command(arguments, None)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)


def _command(arguments: Iterable[str], user: str | None) -> tuple[list[str], dict[str, str]]:
    if cluster.external_kubeconfig() is not None:
        return ["kubectl", *arguments, *(["--as", user] if user else [])], dict(os.environ)
    state = own_state()
    # Named in full, since the caller's own PATH is what finds the program.
    command = cluster.enter_command(state, [str(tools() / "bin" / "kubectl"), *arguments])
    return command, cluster.environment(state, user or "admin")


def apply(objects: Iterable[Mapping[str, Any]], *, user: str | None = None) -> None:
    """Create or change objects, all in one call."""
    items = list(objects)
    if items:
        kubectl("apply", "-f", "-", user=user, input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def get(kind: str, name: str = "", *, namespace: str | None = None, selector: str | None = None) -> Object:
    """One object, or the list of all, as the administrator sees them.

    Asked of the API server itself: tests ask several times a second, and each kubectl is a process.
    """
    from kafka_medic.clients.kubernetes_api import ApiFailure

    group, plural = _PLACES[kind.removesuffix("s")]
    path = f"{group}{f'/namespaces/{namespace}' if namespace else ''}/{plural}{f'/{name}' if name else ''}"
    try:
        return _api().get(path, {"labelSelector": selector} if selector else None)
    except ApiFailure as problem:
        raise KubectlError(f"get {kind} {name} failed: {problem}") from problem


@functools.cache
def _api() -> KubernetesApi:
    # What is in this folder also runs before there is any library; whoever asks for objects has them.
    from kafka_medic.clients.kubernetes_api import KubernetesApi

    if cluster.external_kubeconfig() is None and not processes.inside(own_state()):
        raise KubectlError("objects are read from inside of the testbed's network: use `make enter` or `run`")
    return KubernetesApi()


def kafka_image(variable: str) -> str:
    """The image that brokers run in: the host's own programs in the testbed, the caller's choice elsewhere."""
    if cluster.external_kubeconfig() is None:
        return HOST_IMAGE
    image = os.environ.get(variable)
    if not image:
        raise RuntimeError(f"KUBECONFIG is set, so an image of the caller's is needed: set {variable}")
    return image
