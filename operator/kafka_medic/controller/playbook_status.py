"""Playbook.status: whether the operator can run it, and the digest that a Remediation pins."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller.store import Store
from kafka_medic.playbook.acceptance import check
from kafka_medic.resources.conditions import Condition, ConditionStatus, set_condition
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.playbook import Playbook, PlaybookStatus

_LOG = logging.getLogger(__name__)


async def accept(store: Store, raw: dict[str, Any]) -> None:
    """Judge the playbook and say so in its status. A playbook that is refused is never run: proposing checks again."""
    try:
        playbook = Playbook.parse(raw)
    except ResourceError as problem:
        message = str(problem)
        await _write(lambda: store.write_invalid(Playbook, "Accepted", raw, message), raw)
        return
    status = judged(playbook, datetime.now(UTC))
    if status == playbook.status:
        return
    await _write(lambda: store.write_status(playbook, status), raw)


async def _write(write: Callable[[], object], raw: dict[str, Any]) -> None:
    try:
        await asyncio.to_thread(write)
    except ApiFailure as problem:
        _LOG.info("status of playbook %s was not written: %s", (raw.get("metadata") or {}).get("name"), problem)


def judged(playbook: Playbook, now: datetime) -> PlaybookStatus:
    """The status that the playbook deserves."""
    try:
        check(playbook)
    except ResourceError as problem:
        verdict = ConditionStatus.FALSE, "Refused", str(problem)
    else:
        verdict = ConditionStatus.TRUE, "Accepted", "every action, parameter and guard is supported"
    condition = Condition(
        type="Accepted",
        status=verdict[0],
        reason=verdict[1],
        message=verdict[2][:8192],
        last_transition_time=now,
        observed_generation=playbook.metadata.generation,
    )
    return PlaybookStatus(
        observed_generation=playbook.metadata.generation,
        digest=playbook.digest(),
        conditions=set_condition(playbook.status.conditions, condition),
    )
