"""A plan that was made in this process: it is there once what has no part in making it has checked it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from kafka_medic.cli import output
from kafka_medic.plan.files.artifact import NotPlacedError, plan_directory, write_rows, write_summary
from kafka_medic.plan.files.report_data import ReportData
from kafka_medic.plan.model import Plan


class DefectError(Exception):
    """The plan did not pass its own check."""


def refuse_broken(broken: Sequence[str]) -> None:
    """Raises DefectError once it has named the broken rules."""
    if broken:
        output.note(f"the plan failed its own check (a defect), so nothing was written: {'; '.join(broken[:20])}")
        raise DefectError


def checked_and_written(
    directory: Path,
    plan: Plan,
    check: Callable[[], Sequence[str]],
    draw: Callable[[], ReportData],
    began: float,
    *,
    png: bool,
    overwrite: bool = False,
) -> Plan:
    """The plan with the seconds since `began` (monotonic) until it was checked, written where it is wanted only if it
    passes. Raises DefectError, PngError, and OSError when it can be written nowhere; NotPlacedError says where else it
    is."""

    def written(to: Path) -> Plan:
        with plan_directory(to, overwrite=overwrite) as work:
            # One after the other: side by side they are quicker by a sixth, and take a hundred bytes more a partition.
            write_rows(work, plan)
            drawn = draw()
            refuse_broken(check())
            summary = replace(plan.summary, seconds=round(time.monotonic() - began, 3))
            write_summary(work, replace(drawn, summary=summary), png=png)
        return replace(plan, summary=summary)

    try:
        return written(directory)
    except NotPlacedError:
        raise
    except OSError as problem:
        elsewhere = Path(tempfile.mkdtemp(prefix="kafka-medic-plan-")) / directory.name
        written(elsewhere)
        raise NotPlacedError(elsewhere, problem) from None
