"""The page of a plan: whose it is when it is made, and the page made again from the plan's folder."""

from __future__ import annotations

import getpass
import socket
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from kafka_medic.cli import exits
from kafka_medic.cli.exits import UnusableInputError
from kafka_medic.cli.report_file import write_page
from kafka_medic.plan.files.artifact import FIGURES, PLAN, REPORT, SUMMARY, digest_of, plan_batches
from kafka_medic.plan.files.inputs import InputError
from kafka_medic.plan.files.partition_columns import listed_of_batches
from kafka_medic.plan.files.report import render_report
from kafka_medic.plan.files.report_data import About
from kafka_medic.plan.files.saved_report import read_report
from kafka_medic.plan.files.snapshot_head import about_snapshot

__all__ = ["about_plan", "report_of_plan"]


def about_plan(partitions: Path | str) -> About:
    """Of which cluster the partitions are, as far as the file names it, who plans, and when."""
    found = about_snapshot(partitions) if isinstance(partitions, Path) else About()
    return replace(found, planned_at=datetime.now(UTC).replace(microsecond=0), requester=_person())


def report_of_plan(directory: Path, file: Path | None) -> int:
    """Write the page of the plan in a folder. Raises UnusableInputError."""
    if not (directory / SUMMARY).is_file():
        way_out = "name the folder that kafka-medic plan wrote with --output"
        raise UnusableInputError(str(directory), f"has no {SUMMARY}", way_out)
    try:
        data = read_report(directory / SUMMARY, directory / FIGURES)
        rows = directory / PLAN
        listed = listed_of_batches(plan_batches(rows), data.summary.partitions) if rows.exists() else None
    except (InputError, OSError, ValueError) as problem:  # Arrow's own are ValueError or OSError
        raise UnusableInputError(str(directory), f"cannot be read: {problem}") from None
    data = replace(data, listed=listed, about=replace(data.about, digest=digest_of(directory)))
    write_page(file or directory / REPORT, render_report(data))
    return exits.OK


def _person() -> str:
    """Who runs the command, and where."""
    try:
        return f"{getpass.getuser()} on {socket.gethostname()}"
    except (KeyError, OSError):
        return ""
