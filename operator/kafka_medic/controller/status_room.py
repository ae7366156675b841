"""A status that etcd takes, whatever was found and whatever a run has done.

The schema bounds each list and each text by itself. All of them at their bounds would be 10 MB, and etcd takes 1.5 MiB
in one request (`--max-request-bytes`), with the object's spec and `managedFields`. A status that is refused leaves the
last one standing, which then looks like the present.
"""

from __future__ import annotations

import json

from kafka_medic.resources.kafkacluster_status import KafkaClusterStatus
from kafka_medic.resources.remediation_plan import MAX_INLINE_CHANGES
from kafka_medic.resources.remediation_status import RemediationStatus

MAX_BYTES = 900_000
"""Of the status as JSON in UTF-8, as the API server stores it."""
MAX_RUN_BYTES = 1_200_000
"""Of a Remediation's status: its plan alone may take half of it (`playbook.plan_file.MAX_PLAN_BYTES`)."""
CUT = 160
"""Characters that stay of each text where a status has to be cut."""
DETAIL = ((100, 20, True), (50, 10, True), (20, 5, True), (8, 2, True), (8, 2, False), (3, 0, False))
"""How many affected elements and pieces of evidence each finding may show, and whether the groups of logs that became
shorter have room. With the last, everything else at its bound fits in MAX_BYTES."""


def fitted(status: KafkaClusterStatus) -> KafkaClusterStatus:
    """The status with as much detail as there is room for. Groups go as a whole: which ones had committed beyond a log
    end is then not known. A shorter list would say that the others had not, and it decides whose offsets are reset."""
    found = status
    if not status.findings and not status.log_end_regressions:
        return status  # all that could be left out is not there
    for affected, evidence, groups in DETAIL:
        found = _cut(status, affected, evidence, groups)
        if size(found) <= MAX_BYTES:
            return found
    return found


def fitted_run(status: RemediationStatus) -> RemediationStatus:
    """The status of a run with its prose cut, where all of it would not fit. What a decision, a digest or a restore
    rests on stays: plan, saved values, targets, times. Of deleted topics the first ones stay: each reconcile finds the
    others again by their ids."""
    if len(status.deleted_topics) > MAX_INLINE_CHANGES:
        status = status.model_copy(update={"deleted_topics": status.deleted_topics[:MAX_INLINE_CHANGES]})
    if size(status) <= MAX_RUN_BYTES:
        return status
    journal = tuple(e.model_copy(update={"detail": e.detail[:CUT]}) for e in status.journal)
    waiting = tuple(w.model_copy(update={"message": w.message[:CUT]}) for w in status.waiting_for)
    approvals = tuple(a.model_copy(update={"reason": a.reason[:CUT]}) for a in status.approvals)
    steps = tuple(s.model_copy(update={"message": s.message[:CUT]}) for s in status.steps)
    conditions = tuple(c.model_copy(update={"message": c.message[:CUT]}) for c in status.conditions)
    return status.model_copy(
        update={
            "journal": journal,
            "waiting_for": waiting,
            "approvals": approvals,
            "steps": steps,
            "conditions": conditions,
        }
    )


def size(status: KafkaClusterStatus | RemediationStatus) -> int:
    """Bytes."""
    return len(json.dumps(status.to_kubernetes(), ensure_ascii=False, separators=(",", ":")).encode())


def _cut(status: KafkaClusterStatus, affected: int, evidence: int, groups: bool) -> KafkaClusterStatus:
    findings = tuple(
        f.model_copy(update={"affected": f.affected[:affected], "evidence": f.evidence[:evidence]})
        for f in status.findings
    )
    regressions = status.log_end_regressions
    if not groups:
        regressions = tuple(r.model_copy(update={"groups": None}) for r in regressions)
    return status.model_copy(update={"findings": findings, "log_end_regressions": regressions})
