"""`status`: what is wrong with each cluster, what waits for whom, and what runs."""

from __future__ import annotations

import argparse
import difflib
import sys
from datetime import datetime
from time import sleep
from typing import TYPE_CHECKING

from kafka_medic.cli import exits, output
from kafka_medic.cli.exits import UnusableInputError
from kafka_medic.cli.progress import animated
from kafka_medic.cli.remediation import overview
from kafka_medic.cli.remediation.access import Access
from kafka_medic.cli.remediation.overview import ClusterState
from kafka_medic.cli.remediation.read_commands import POLL_SECONDS, retried
from kafka_medic.resources.vocabulary import GROUP

if TYPE_CHECKING:
    from rich.console import RenderableType


def status(access: Access, args: argparse.Namespace) -> int:
    states = _read(access, args.cluster)
    if args.watch:
        return _watch(access, args, states)
    if args.output == "name":
        output.put("".join(f"kafkacluster.{GROUP}/{state.name}\n" for state in states))
    elif args.output in ("json", "yaml"):
        output.write(overview.document(states, access.now()), args.output)
    elif not states:
        where = (
            "in any namespace" if access.everywhere else f"in namespace {access.namespace}; -A reads every namespace"
        )
        output.note(f"no KafkaCluster {where}")
    else:
        from kafka_medic.cli import terminal  # noqa: PLC0415 - rich takes its time to load

        terminal.put(_drawn(access, args, states, access.now()))
    return exits.OK


def _read(access: Access, name: str | None) -> list[ClusterState]:
    """Raises UnusableInputError for a name that no KafkaCluster has."""
    listed = access.clusters()
    if name is not None:
        named = [entry for entry in listed if entry.name == name]
        if not named:
            where = "any namespace" if access.everywhere else f"namespace {access.namespace}"
            near = difflib.get_close_matches(name, [entry.name for entry in listed], 1)
            way_out = (
                f"did you mean {near[0]}?" if near else "`status` without a name lists all; -A reads every namespace"
            )
            raise UnusableInputError(f"KafkaCluster {name}", f"not found in {where}", way_out)
        listed = named
    now = access.now()
    runs = [entry.run for entry in access.remediations(name) if entry.run is not None]
    states = [
        ClusterState(entry.namespace, entry.name, None, problem=entry.problem)
        if entry.cluster is None
        else overview.state_of(entry.cluster, runs, now)
        for entry in listed
    ]
    return sorted(states, key=ClusterState.urgency)


def _drawn(access: Access, args: argparse.Namespace, states: list[ClusterState], now: datetime) -> RenderableType:
    from kafka_medic.cli.remediation.overview_text import overview as drawn  # noqa: PLC0415

    return drawn(states, now, wide=args.output == "wide", namespaces=access.everywhere)


def _watch(access: Access, args: argparse.Namespace, states: list[ClusterState]) -> int:
    """The tree, drawn anew on a terminal; into a pipe the whole once more whenever it has changed."""
    from rich.live import Live  # noqa: PLC0415

    from kafka_medic.cli import terminal  # noqa: PLC0415

    if not animated(sys.stdout):
        last = None
        while True:
            if states != last:
                output.put(f"{access.now():%Y-%m-%d %H:%M:%S} UTC\n")
                terminal.put(_drawn(access, args, states, access.now()))
                last = states
            sleep(POLL_SECONDS)
            states = retried(access, lambda: _read(access, args.cluster))
    with Live(console=terminal.console(sys.stdout), auto_refresh=False, screen=False, vertical_overflow="crop") as live:
        while True:
            live.update(_drawn(access, args, states, access.now()), refresh=True)
            sleep(POLL_SECONDS)
            states = retried(access, lambda: _read(access, args.cluster))
