"""A KafkaCluster.status that etcd takes, whatever was found.

The schema bounds each list and each text by itself. All of them at their bounds would be 10 MB, and etcd takes 1.5 MiB
in one request (`--max-request-bytes`), with the object's spec and `managedFields`. A status that is refused leaves the
last one standing, which then looks like the present.
"""

from __future__ import annotations

import json

from kafka_medic.resources.kafkacluster_status import KafkaClusterStatus

MAX_BYTES = 1_000_000
"""Of the status as JSON in UTF-8, as the API server stores it."""
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


def size(status: KafkaClusterStatus) -> int:
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
