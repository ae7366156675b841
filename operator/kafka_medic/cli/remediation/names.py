"""Names of runs, clusters and playbooks, for completions. Where they cannot be read there are none: a shell is no place
for an error."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

SECONDS = 2.0
"""A person waits at a prompt."""
Completer = Callable[..., Iterable[str]]


def completer(plural: str, *, namespaced: bool = True) -> Completer:
    """Of the resource that is called `plural`, in the namespace that has been typed."""

    def names(prefix: str = "", parsed_args: argparse.Namespace | None = None, **_: Any) -> Iterable[str]:
        try:
            return [name for name in _listed(plural, parsed_args, namespaced) if name.startswith(prefix)]
        except Exception:  # noqa: BLE001 - whatever is wrong, the command itself will say it
            return ()

    return names


def _listed(plural: str, args: argparse.Namespace | None, namespaced: bool) -> list[str]:
    # Imported here: nobody else waits for the Kubernetes client.
    from kafka_medic.clients.kubernetes_api import KubernetesApi, custom_path  # noqa: PLC0415

    api, namespace = KubernetesApi.of_person(
        getattr(args, "kubeconfig", None), getattr(args, "context", None), timeout_seconds=SECONDS
    )
    wanted = getattr(args, "namespace", None) or namespace
    return [str(item["metadata"]["name"]) for item in api.list(custom_path(plural, wanted if namespaced else None))]
