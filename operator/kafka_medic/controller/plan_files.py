"""The volume for plans that are too long for a Remediation: one file each, by the SHA-256 of what it holds."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from kafka_medic.playbook.plan_file import (
    UnreadablePlan,
    artifact_of,
    contents,
    is_missing,
    whole,
    with_contents_of,
    without_file,
)
from kafka_medic.resources.phases import TERMINAL_PHASES
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.remediation_status import RemediationStatus

_LOG = logging.getLogger(__name__)

MAX_BYTES = 64 * 1024 * 1024
"""Of one file; 20,000 partitions take less than one."""
HELD = 4
"""Plans in memory, each of some ten MB."""
KEPT_SECONDS = 30 * 24 * 3600.0
"""A file that no run has read for so long is removed when the next one is written."""


@dataclass(slots=True)
class PlanFiles:
    """`directory` None: there is no such volume, and a plan holds what a Remediation can."""

    directory: Path | None
    _read: dict[str, Plan] = field(default_factory=dict)

    def with_file(self, run: Remediation) -> Remediation:
        """The run, as it was read, with its whole plan, unless it has ended. Where the file cannot be read it has no
        changes, about which nothing is done. What stands beside the file's name in the status is never believed: the
        digest does not cover it."""
        plan = run.status.plan
        artifact = artifact_of(plan)
        if plan is None or artifact is None or run.status.phase in TERMINAL_PHASES:
            return run
        try:
            found = self._whole(plan, artifact.sha256)
        except (OSError, UnreadablePlan) as problem:
            _LOG.warning("%s/%s: the plan's file: %s", run.metadata.namespace, run.name, problem)
            found = without_file(plan)
        return run.model_copy(update={"status": run.status.model_copy(update={"plan": found})})

    def filed(self, status: RemediationStatus) -> RemediationStatus:
        """The status as the Remediation holds it; what does not fit is in its file before. Raises OSError."""
        plan = status.plan
        artifact = artifact_of(plan)
        if plan is None or artifact is None or is_missing(plan):
            return status
        path = self._path(artifact.sha256)
        if not path.exists():
            self._remove_old(path.parent)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".plan.", delete=False) as file:
                file.write(contents(plan))
                file.flush()
                os.fsync(file.fileno())
            os.replace(file.name, path)
        return status.model_copy(update={"plan": without_file(plan)})

    def _whole(self, plan: Plan, sha256: str) -> Plan:
        held = self._read.get(sha256)
        if held is None:
            path = self._path(sha256)
            if path.stat().st_size > MAX_BYTES:
                raise UnreadablePlan(f"{path} is too long (limit {MAX_BYTES} bytes)")
            held = whole(plan, path.read_bytes())
            os.utime(path)
            while len(self._read) >= HELD:
                self._read.pop(next(iter(self._read)), None)
            self._read[sha256] = held
        return with_contents_of(plan, held)

    def _path(self, sha256: str) -> Path:
        if self.directory is None:
            raise UnreadablePlan("this operator has no volume for plans (--plans)")
        return self.directory / f"{sha256}.parquet"

    def _remove_old(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        for path in directory.glob("*.parquet"):
            if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                path.unlink(missing_ok=True)
