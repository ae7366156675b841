"""`kafka-medic remediation`: connects as the person who types it, and hands over."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

from kafka_medic.cli.exits import UnusableInputError
from kafka_medic.cli.remediation import read_commands, status_command, write_commands
from kafka_medic.cli.remediation.access import Access, name_of
from kafka_medic.clients.kubernetes_api import KubeconfigError, KubernetesApi


def _report(access: Access, args: argparse.Namespace) -> int:
    # Imported here: a page takes jinja2, which nothing else needs.
    from kafka_medic.cli.remediation.report_command import report  # noqa: PLC0415

    return report(access, args)


COMMANDS: Mapping[str, Callable[[Access, argparse.Namespace], int]] = {
    "status": status_command.status,
    "list": read_commands.list_runs,
    "show": read_commands.show,
    "diff": read_commands.diff,
    "approve": write_commands.approve,
    "reject": write_commands.reject,
    "abort": write_commands.reject,
    "run": write_commands.request_run,
    "pause": write_commands.pause,
    "resume": write_commands.resume,
    "explain": read_commands.explain,
    "history": read_commands.history,
    "report": _report,
}


def utc_now() -> datetime:
    return datetime.now(UTC)


def now_by(api: KubernetesApi) -> datetime:
    """The time by the API server's clock, as far as its answers tell: what is read from it was not dated by a person's
    own machine."""
    skew = api.skew
    return utc_now() + timedelta(seconds=skew.about if skew is not None else 0.0)


def run(args: argparse.Namespace) -> int:
    if args.watch and args.output not in ("table", "wide") and args.remediation in ("list", "show", "status"):
        raise UnusableInputError("--watch", f"cannot be combined with -o {args.output}", "leave out -o")
    try:
        api, namespace = KubernetesApi.of_person(args.kubeconfig, args.context)
    except KubeconfigError as problem:
        where = args.kubeconfig or "the kubeconfig"
        raise UnusableInputError(where, str(problem), "name one with --kubeconfig or KUBECONFIG") from None
    wanted = name_of("namespace", args.namespace or namespace)
    access = Access(api, wanted, partial(now_by, api), everywhere=args.all_namespaces)
    return COMMANDS[args.remediation](access, args)
