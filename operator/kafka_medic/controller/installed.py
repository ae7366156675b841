"""Whether the chart is installed, or may be removed: run in Pods by `helm test`, `helm install` and `helm uninstall`.

    python -m kafka_medic.controller.installed [--wait 60s] [--rules FILE] definitions playbooks policies metrics=URL
    python -m kafka_medic.controller.installed [--watch-namespaces A,B] nothing-owed

It reads with the operator's own rights and writes nothing. Exit 0: all of it is so; 1: something is not.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from kafka_medic.clients.kubernetes_api import GROUP, VERSION, ApiFailure, KubernetesApi, custom_path
from kafka_medic.controller.rules import Rules, read_rules
from kafka_medic.controller.store import Store
from kafka_medic.resources.conditions import ConditionStatus
from kafka_medic.resources.definitions import DEFINITIONS
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.vocabulary import RESTORE_FINALIZER

BETWEEN = 1.0
"""Seconds between two tries."""
KINDS = ("definitions", "playbooks", "policies", "nothing-owed")


def definitions(api: KubernetesApi) -> str | None:
    """Which kinds the API server does not serve; None: it serves all of them."""
    try:
        found = api.get(f"/apis/{GROUP}/{VERSION}")
    except ApiFailure as problem:
        if not problem.not_found:
            raise
        return f"the API server serves no {GROUP}/{VERSION}; apply crds/, or install the chart with crds.enabled=true"
    served = {str(one["name"]) for one in found.get("resources") or ()}
    missing = [d.resource.PLURAL for d in DEFINITIONS if d.resource.PLURAL not in served]
    return f"the API server does not serve {', '.join(missing)} of {GROUP}/{VERSION}; apply crds/" if missing else None


def playbooks(store: Store) -> str | None:
    """Which Playbooks the operator has not accepted; None: it accepted all of them, and there is at least one."""
    found = store.playbooks()
    if not found:
        return "no Playbook exists; upgrade the release, or apply playbooks/"
    refused = []
    for one in found:
        accepted = next((c for c in one.status.conditions if c.type == "Accepted"), None)
        if accepted is None or accepted.status is not ConditionStatus.TRUE:
            refused.append(f"{one.name} ({accepted.message if accepted else 'the operator has not read it yet'})")
    return f"Playbooks that are not accepted: {', '.join(refused)}" if refused else None


def policies(store: Store) -> str | None:
    """Why approvals count for nothing; None: the admission policies are in force."""
    standing = store.policies()
    if standing is None:
        return "the admission policies cannot be read; give the operator's account its ClusterRole NAME-cluster"
    return None if standing.since is not None else standing.why


def metrics(url: str) -> str | None:
    """Why Prometheus would read nothing there; None: an operator of this version answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  # nosec B310 - the chart's own Service
            page = answer.read().decode()
    except (OSError, urllib.error.URLError) as problem:
        host = (urllib.parse.urlsplit(url).hostname or "").split(".")
        pods = f"`kubectl get pods -n {host[1] if host[2:3] == ['svc'] else 'NAMESPACE'}`"
        return f"{url} does not answer ({problem}); see {pods} and networkPolicy in the values"
    version = importlib.metadata.version("kafka-medic")
    told = next((line for line in page.splitlines() if line.startswith("kafka_medic_build_info")), None)
    if told is None:
        return f"{url} has no kafka_medic_build_info; another server answers there"
    return (
        None if f'version="{version}"' in told else f"{url} reports another version than this image ({version}): {told}"
    )


def nothing_owed(api: KubernetesApi, namespaces: Sequence[str]) -> str | None:
    """What the finalizer holds; None: no run has to take anything back, so the operator may go. A KafkaCluster is let
    go a reconcile later than its run."""
    everywhere = (None,)
    held = [
        f"{kind.KIND} {raw['metadata']['namespace']}/{raw['metadata']['name']}"
        for kind in (Remediation, KafkaCluster)
        for namespace in namespaces or everywhere
        for raw in api.list(custom_path(kind.PLURAL, namespace))
        if RESTORE_FINALIZER in (raw["metadata"].get("finalizers") or ())
    ]
    if not held:
        return None
    return (
        f"the operator must first revert changes of {', '.join(sorted(held))}. "
        "Wait for the end of these runs, or run `kubectl kafka-medic abort NAME -n NAMESPACE`; then uninstall again"
    )


def check(names: Sequence[str], api: KubernetesApi, rules: Rules, namespaces: Sequence[str] = ()) -> list[str]:
    """What is missing, a line each."""
    store = Store(api, [], rules.policies)
    kinds: dict[str, Callable[[], str | None]] = {
        "definitions": lambda: definitions(api),
        "playbooks": lambda: playbooks(store),
        "policies": lambda: policies(store),
        "nothing-owed": lambda: nothing_owed(api, namespaces),
    }
    missing = []
    for name in names:
        kind, _, url = name.partition("=")
        try:
            problem = metrics(url) if kind == "metrics" else kinds[kind]()
        except (ApiFailure, ResourceError) as failure:
            problem = f"{kind}: {failure}"
        missing += [problem] if problem is not None else []
    return missing


def main(argv: Sequence[str] | None = None, api: KubernetesApi | None = None) -> int:
    """As the module says."""
    parser = argparse.ArgumentParser(prog="python -m kafka_medic.controller.installed", description=__doc__)
    parser.add_argument("--wait", type=_seconds, default=0.0, metavar="DURATION", help="try again for so long")
    parser.add_argument("--rules", type=Path, metavar="FILE", help="what the chart rendered for the operator")
    parser.add_argument("--watch-namespaces", default="", help="of nothing-owed, separated by commas; empty: all")
    parser.add_argument("what", nargs="+", type=_kind, help=f"{', '.join(KINDS)}, or metrics=URL")
    options = parser.parse_args(argv)
    rules = read_rules(options.rules) if options.rules else Rules()
    connected, until = api or KubernetesApi(), time.monotonic() + options.wait
    namespaces = [n for n in options.watch_namespaces.split(",") if n]
    while missing := check(options.what, connected, rules, namespaces):
        if time.monotonic() >= until:
            sys.stderr.write("".join(f"{line}\n" for line in missing))
            return 1
        time.sleep(BETWEEN)
    sys.stdout.write(f"there: {', '.join(options.what)}\n")
    return 0


def _kind(text: str) -> str:
    if text not in KINDS and not text.startswith("metrics=http"):
        _refuse(f"{text!r} is not one of {', '.join(KINDS)}, metrics=http://HOST:PORT/metrics")
    return text


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ResourceError as problem:
        _refuse(f"{text!r}: {problem}")


def _refuse(message: str) -> NoReturn:
    raise argparse.ArgumentTypeError(message)


if __name__ == "__main__":
    sys.exit(main())
