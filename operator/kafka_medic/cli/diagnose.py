"""`kafka-medic diagnose`: what is wrong, from a saved snapshot."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from kafka_medic.cli import exits, output
from kafka_medic.cli.documents import check_fits, read_cluster, read_snapshot
from kafka_medic.cli.exits import UnusableInputError
from kafka_medic.cluster.document import timestamp
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.memory import DetectorMemory, remember
from kafka_medic.report.units import many


def run(args: argparse.Namespace) -> int:
    if args.snapshot == args.previous == "-":
        raise UnusableInputError("--previous", "standard input can be only one of the two snapshots")
    snapshot = read_snapshot(args.snapshot)
    previous = read_snapshot(args.previous) if args.previous else None
    if previous is not None:
        _check_order(snapshot, previous, args.previous)
    expectations = Expectations()
    if args.cluster:
        cluster = read_cluster(args.cluster)
        check_fits(cluster, snapshot, args.cluster)
        expectations = Expectations.from_spec(cluster.spec.expectations)
    memory = remember(remember(DetectorMemory(), previous), snapshot) if previous else None
    findings = diagnose(snapshot, previous=previous, expectations=expectations, memory=memory)
    output.note_unknown(snapshot)
    if args.output == "table":
        output.put(_readable(findings, snapshot))
    else:
        output.write({"findings": [_document(f) for f in findings]}, args.output)
    return exits.OK


def _check_order(snapshot: Snapshot, previous: Snapshot, file: str) -> None:
    if previous.taken_at > snapshot.taken_at:
        message = f"was taken at {timestamp(previous.taken_at)}, after --snapshot ({timestamp(snapshot.taken_at)})"
        raise UnusableInputError(file, message, "give the earlier one as --previous")
    ids = previous.cluster.id, snapshot.cluster.id
    if None not in ids and ids[0] != ids[1]:
        raise UnusableInputError(file, f"is of cluster {ids[0]}, but --snapshot is of cluster {ids[1]}")


def _document(finding: Finding) -> dict[str, Any]:
    return {
        "type": finding.type,
        "state": finding.state.value,
        "severity": finding.severity.value,
        "affected": list(finding.affected),
        "evidence": list(finding.evidence),
        "playbook": finding.playbook,
        "id": finding.id,
        "message": finding.message,
        "since": timestamp(finding.since) if finding.since else None,
    }


def _readable(findings: Sequence[Finding], snapshot: Snapshot) -> str:
    title = f"cluster {snapshot.cluster.name or '(no name)'} at {timestamp(snapshot.taken_at)}"
    if not findings:
        gaps = sum(not s.known for s in snapshot.sources)
        return f"{title}: no finding" + (f", but {many(gaps, 'source')} not known" if gaps else "") + "\n"
    rows = [(f.state.value, f.severity.value, f.id, _since(f), f.playbook or "-", f.message) for f in findings]
    text = f"{title}: {many(len(findings), 'finding')}\n\n"
    text += output.table(("STATE", "SEVERITY", "FINDING", "SINCE", "PLAYBOOK", "WHAT"), rows)
    for finding in findings:
        text += f"\n{output.paint(finding.id, 'bold')}\n"
        text += f"  affected: {_few(finding.affected)}\n"
        text += "".join(f"  - {line}\n" for line in finding.evidence)
    return text


def _since(finding: Finding) -> str:
    return timestamp(finding.since) if finding.since else "-"


def _few(names: Sequence[str], limit: int = 12) -> str:
    more = f" and {len(names) - limit} more (see -o json)" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
