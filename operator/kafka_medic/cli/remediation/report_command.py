"""`report RUN`: a Remediation as Markdown on the terminal, or as a page in a file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime

from kafka_medic.cli import exits
from kafka_medic.cli.remediation import read_commands
from kafka_medic.cli.remediation.access import Access
from kafka_medic.cli.remediation.run_page import Change, run_page
from kafka_medic.cli.report_file import write_page
from kafka_medic.playbook.changes import changes
from kafka_medic.report.model import Page
from kafka_medic.report.render import render
from kafka_medic.resources.approval import RemediationApproval
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan, Reorders, ReplicaMoves


def report(access: Access, args: argparse.Namespace) -> int:
    """For a ticket, an approval or a review afterwards."""
    if args.file is None:
        return read_commands.report(access, args)
    run = access.remediation(args.name)
    cluster = read_commands.cluster_of(access, run)
    page = page_of(run, cluster, access.approvals(run), _whole(access, run), access.now())
    write_page(args.file, render(page))
    return exits.OK


def page_of(
    run: Remediation,
    cluster: KafkaCluster | None,
    approvals: Sequence[RemediationApproval],
    whole: Plan | None,
    now: datetime,
) -> Page:
    """`cluster`, `whole`: None where they could not be read."""
    return run_page(run, cluster, approvals, whole, _changes(run.status.plan), now)


def _whole(access: Access, run: Remediation) -> Plan | None:
    try:
        return read_commands.read_plan(access, run)
    except ImportError:  # the plugin as one file reads no Parquet
        return None


def _changes(plan: Plan | None) -> list[Change]:
    """All but the replicas of partitions, of which the page has a list."""
    return [] if plan is None else list(changes(plan.with_parts(ReplicaMoves(), Reorders())))
