"""The commands that only read: list, show, diff, explain, history, report."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from time import sleep
from typing import Any, NoReturn, TypeVar

from kafka_medic.cli import exits, output
from kafka_medic.cli.exits import NoAnswerError, RefusedError, UnusableInputError
from kafka_medic.cli.progress import animated, working
from kafka_medic.cli.remediation import rendering
from kafka_medic.cli.remediation.access import Access, Listed
from kafka_medic.cli.remediation.approvers import approvers
from kafka_medic.cli.remediation.audit_log import audit_log
from kafka_medic.cli.remediation.change_text import as_diff
from kafka_medic.cli.remediation.explain import Hold, holds, summary
from kafka_medic.cli.remediation.restart_history import restarts
from kafka_medic.cluster.names import printable, shown
from kafka_medic.playbook.changes import changes
from kafka_medic.playbook.plan_file import UnreadablePlan, artifact_of, is_missing, whole, without_file
from kafka_medic.report.units import many
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import TERMINAL_PHASES, Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.vocabulary import APPROVE_VERB, GROUP

POLL_SECONDS = 2.0
SILENCE = timedelta(minutes=5)
"""After which `--watch` gives an API server up."""
T = TypeVar("T")


def list_runs(access: Access, args: argparse.Namespace) -> int:
    listed = access.remediations(args.cluster)
    if args.output in ("json", "yaml"):
        output.write({"apiVersion": "v1", "kind": "List", "items": [entry.raw for entry in listed]}, args.output)
        return exits.OK
    if args.output == "name":
        output.put("".join(f"remediation.{GROUP}/{entry.name}\n" for entry in listed))
        return exits.OK
    for entry in listed:
        if entry.run is None:
            output.note(entry.problem)
    if not listed and not args.watch:
        where = "" if access.everywhere else f" in namespace {access.namespace}; -A reads every namespace"
        output.note(f"no Remediations{where}")
        return exits.OK
    output.put(_table(access, listed, wide=args.output == "wide"))
    if args.watch:
        _follow_all(access, args.cluster, listed)
    return exits.OK


def _follow_all(access: Access, cluster: str | None, listed: list[Listed]) -> NoReturn:
    """A line for each change."""
    seen = {(e.namespace, e.name): e.raw for e in listed}

    def changed() -> None:
        for entry in access.remediations(cluster):
            if seen.get((entry.namespace, entry.name)) != entry.raw:
                seen[entry.namespace, entry.name] = entry.raw
                text = rendering.progress_line(entry.run) if entry.run else "cannot be read by this version"
                output.put(f"{access.now():%H:%M:%S}  {printable(entry.name)}  {text}\n")

    while True:
        sleep(POLL_SECONDS)
        retried(access, changed)


_COLUMNS = (
    "NAMESPACE", "NAME", "CLUSTER", "PLAYBOOK", "RISK", "PHASE", "STEP", "WAITS FOR", "APPROVED BY", "EXPIRES", "AGE",
    "REQUESTED BY", "MESSAGE",
)  # fmt: skip
_WIDE = ("REQUESTED BY", "MESSAGE")
_FIRST_TO_GO = ("RISK", "APPROVED BY", "STEP", "CLUSTER", "PLAYBOOK", "WAITS FOR", "EXPIRES")
"""On a terminal that is too narrow, in this order. `-o wide` keeps all."""


def _table(access: Access, listed: list[Listed], *, wide: bool) -> str:
    # What waits for somebody stands above what has ended.
    ordered = sorted(listed, key=lambda e: e.run is not None and e.run.status.phase in TERMINAL_PHASES)
    now = access.now()
    rows = [_cells(entry, now) for entry in ordered]
    left_out = {*(() if wide else _WIDE), *(() if access.everywhere else ("NAMESPACE",))}
    columns = [c for c in _COLUMNS if c not in left_out]
    return output.table(columns, [[row[c] for c in columns] for row in rows], () if wide else _FIRST_TO_GO)


def _cells(entry: Listed, now: datetime) -> dict[str, str]:
    run = entry.run
    cells = dict.fromkeys(_COLUMNS, "") | {"NAMESPACE": entry.namespace, "NAME": entry.name}
    if run is None:
        return cells | {"CLUSTER": "?", "PLAYBOOK": "?", "RISK": "?", "PHASE": "unreadable"}
    status, created = run.status, run.metadata.creation_timestamp
    waits = status.plan is not None and status.started_at is None and status.phase not in TERMINAL_PHASES
    return cells | {
        "CLUSTER": run.spec.cluster_ref.name,
        "PLAYBOOK": run.spec.playbook.name,
        "RISK": status.risk.value if status.risk else "",
        "PHASE": str(status.phase or ""),
        "STEP": status.current_step or "",
        "WAITS FOR": next((w.remediation for w in status.waiting_for if w.remediation), ""),
        "APPROVED BY": shown(status.approved_by or "", 40),
        "EXPIRES": rendering.until(status.plan.expires_at - now) if waits and status.plan else "",
        "AGE": rendering.span(now - created) if created else "",
        "REQUESTED BY": shown(run.spec.requested_by or "the operator", 40),
        "MESSAGE": shown(rendering.this_plan(status.message, run), 120),
    }


def show(access: Access, args: argparse.Namespace) -> int:
    run = access.remediation(args.name)
    if args.watch:
        return follow(access, run.name)
    cluster, now = cluster_of(access, run), access.now()
    may = access.may(APPROVE_VERB, Remediation.PLURAL, run.name)
    rules = access.rbac()
    approving = approvers(*rules, run.name) if rules else None
    if args.output != "table":
        output.write(_shown(run, may, approving, cluster), args.output)
        return exits.OK
    required = cluster.spec.remediation.approvals.needed(run.spec.requested_by) if cluster else None
    parts = [rendering.head(run, now, required)]
    unknown = "you may not read the roles; ask who has the verb approve on remediations"
    others = unknown if approving is None else ", ".join(approving) or "nobody"
    permitted = {True: "yes", False: "no", None: "could not be checked"}[may]
    parts.append(rendering.fields([("you may approve", permitted), ("may approve", others)]))
    if run.status.plan is not None:
        parts.append("\n" + rendering.plan_text(run.status.plan, read=read_plan(access, run)))
    parts.append("\n" + rendering.guards_text(run))
    if run.status.started_at is not None:
        parts.append("\n" + rendering.steps_text(run))
    output.put("".join(parts))
    return exits.OK


def _shown(run: Remediation, may: bool | None, who: list[str] | None, cluster: KafkaCluster | None) -> dict[str, Any]:
    document = run.to_kubernetes()
    required = cluster.spec.remediation.approvals.needed(run.spec.requested_by) if cluster else None
    document["decision"] = {"youMayApprove": may, "approvers": who, "approvalsRequired": required}
    return document


def diff(access: Access, args: argparse.Namespace) -> int:
    run = access.remediation(args.name)
    plan = run.status.plan
    if plan is None:
        raise RefusedError(f"{run.name} has no plan ({run.status.phase or 'not yet seen by the operator'})")
    artifact = artifact_of(plan)
    if artifact is not None:  # what stands beside it is not what was digested
        plan = (
            _from_file(plan, Path(args.plan_file)) if args.plan_file else read_plan(access, run) or without_file(plan)
        )
    found = list(changes(plan))
    if args.output != "table":
        rows = [{"what": c.what, "before": c.before, "after": c.after, "note": c.note} for c in found]
        output.write({"remediation": run.name, "planDigest": plan.digest, "changes": rows}, args.output)
        return exits.OK
    colours = {"-": "red", "+": "green"}
    lines = [output.paint(line, colours[line[0]]) if line[0] in colours else line for c in found for line in as_diff(c)]
    if artifact is not None and is_missing(plan):
        where = f"  its {many(plan.partitions or 0, 'partition')} at {artifact.uri} in the operator's Pod"
        why = "the operator has not published the plan, or you may not read planparts"
        lines.append(printable(f"{where}; {why}. Copy the file with kubectl cp, and name the copy with --plan-file"))
    output.put("".join(f"{line}\n" for line in (f"  plan {plan.digest}", *lines)))
    return exits.OK


def read_plan(access: Access, run: Remediation) -> Plan | None:
    """The plan with the changes that its file holds, as the operator has published it: exactly what the digest stands
    for. None: they are in the plan itself, or cannot be read."""
    plan = run.status.plan
    artifact = artifact_of(plan)
    if plan is None or artifact is None:
        return None
    data = access.plan_file(run, artifact.sha256)
    if data is None:
        return None
    try:
        return whole(plan, data)
    except UnreadablePlan:
        return None


def _from_file(plan: Plan, path: Path) -> Plan:
    try:
        return whole(plan, path.read_bytes())
    except (OSError, UnreadablePlan) as problem:
        raise UnusableInputError(str(path), str(problem)) from None


def explain(access: Access, args: argparse.Namespace) -> int:
    run = access.remediation(args.name)
    found = holds(run, cluster_of(access, run), access.now())
    if args.output != "table":
        rows = [{"what": h.what, "verdict": h.verdict or None, "why": h.why, "wayOut": h.way_out} for h in found]
        phase = run.status.phase.value if run.status.phase else None
        output.write(
            {"remediation": run.name, "phase": phase, "summary": summary(run, found), "holds": rows}, args.output
        )
        return exits.OK
    parts = [printable(f"{run.name}: {summary(run, found)}") + "\n"]
    parts += [_hold_text(hold) for hold in found]
    output.put("".join(parts))
    return exits.OK


def _hold_text(hold: Hold) -> str:
    verdict = f" ({output.word(hold.verdict)})" if hold.verdict else ""
    way_out = f"    {printable(hold.way_out)}\n" if hold.way_out else ""
    return f"\n  {output.paint(hold.what, 'bold')}{verdict}: {printable(hold.why)}\n{way_out}"


def history(access: Access, args: argparse.Namespace) -> int:
    if args.broker is not None:
        return _restarts(access, args)
    run = access.remediation(args.name)
    events = audit_log(run, access.approvals(run))
    if args.output != "table":
        document = {
            "remediation": {"namespace": run.namespace, "name": run.name, "uid": run.uid},
            "cluster": {"name": run.spec.cluster_ref.name, "uid": run.spec.cluster_ref.uid},
            "playbook": {"name": run.spec.playbook.name, "digest": run.spec.playbook.digest},
            "planDigest": run.status.plan.digest if run.status.plan else None,
            "phase": run.status.phase.value if run.status.phase else None,
            "approvedBy": run.status.approved_by,
            "events": events,
        }
        output.write(document, args.output)
        return exits.OK
    rows = [(str(e.get("at", "-"))[:19], e["who"], _what(e), shown(e["detail"], 200)) for e in events]
    output.put(output.table(("AT (UTC)", "WHO", "WHAT", "DETAIL"), rows))
    return exits.OK


def _restarts(access: Access, args: argparse.Namespace) -> int:
    listed = access.remediations(args.cluster)
    found = restarts([e.run for e in listed if e.run], None if args.broker == "all" else int(args.broker))
    unreadable = [entry.problem for entry in listed if entry.run is None]
    if args.output != "table":
        output.write({"restarts": found, "unreadable": unreadable}, args.output)
        return exits.OK
    for problem in unreadable:
        output.note(problem)
    if not found:
        output.note("no kept run has restarted it")
        return exits.OK
    header = ("AT (UTC)", "CLUSTER", "BROKER", "RUN", "PLAYBOOK", "OUTCOME")
    rows = [(a["at"][:19], a["cluster"], str(a["broker"]), a["remediation"], a["playbook"], _back(a)) for a in found]
    output.put(output.table(header, rows))
    return exits.OK


def _back(attempt: dict[str, Any]) -> str:
    seconds = attempt["backAfterSeconds"]
    if seconds is None:
        return shown(attempt["outcome"], 120)
    how = attempt["outcome"].removeprefix("back")
    return f"back after {rendering.span(timedelta(seconds=seconds))}{how}"


def _what(event: dict[str, Any]) -> str:
    return event["what"] if event.get("counted", True) else f"{event['what']} (not counted)"


def report(access: Access, args: argparse.Namespace) -> int:
    """For a ticket or a review afterwards."""
    run = access.remediation(args.name)
    status, plan = run.status, run.status.plan
    lines = [f"# {_plain(run.name)}", ""]
    rows = [
        ("KafkaCluster", f"{run.namespace}/{run.spec.cluster_ref.name}"),
        ("Playbook", f"{run.spec.playbook.name} ({run.spec.playbook.digest})"),
        ("Asked by", rendering.origin(run)),
        ("Plan", plan.digest if plan else "none"),
        ("Approved by", status.approved_by or "nobody"),
        ("Outcome", f"{status.phase or 'not begun'}: {status.message}".rstrip(": ")),
    ]
    if status.started_at is not None:
        end = status.finished_at or access.now()
        rows.append(("Took", rendering.span(end - status.started_at) + ("" if status.finished_at else " so far")))
    lines += [f"- **{name}:** {_plain(text)}" for name, text in rows]
    if plan is not None:
        lines += ["", "## Plan", "", *(f"    {printable(line)}" for line in plan.summary.split("\n"))]
    lines += ["", "## What happened", "", "| at (UTC) | who | what | detail |", "| --- | --- | --- | --- |"]
    for e in audit_log(run, access.approvals(run)):
        lines.append(
            f"| {str(e.get('at', '-'))[:19]} | {_plain(e['who'])} | {_plain(_what(e))} | {_plain(e['detail'])} |"
        )
    output.put("\n".join(lines) + "\n")
    return exits.OK


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>|#!~])", r"\\\1", printable(text))


def cluster_of(access: Access, run: Remediation) -> KafkaCluster | None:
    """The run's KafkaCluster; without it, less can be said, and it is said that it could not be read."""
    try:
        return access.cluster(run.spec.cluster_ref.name)
    except (RefusedError, UnusableInputError, NoAnswerError) as problem:
        output.note(str(problem))
        return None


def follow(access: Access, name: str) -> int:
    """Until the run has ended; the exit code says how. A line for each change, and on a terminal a bar below them that
    moves meanwhile."""
    with working(name) as step:
        last = ""
        while True:
            run = retried(access, lambda: access.remediation(name))
            line = rendering.progress_line(run, counted=not animated(sys.stderr))
            if line != last:
                output.put(f"{access.now():%H:%M:%S}  {line}\n")
                last = line
            if run.status.phase in TERMINAL_PHASES:
                break
            step(*rendering.progress_figures(run, access.now()))
            sleep(POLL_SECONDS)
    return exits.OK if run.status.phase is Phase.SUCCEEDED else exits.NOT_YET


def retried(access: Access, read: Callable[[], T]) -> T:
    """The answer, waited for while the API server is away for a while."""
    since = access.now()
    noted = False
    while True:
        try:
            return read()
        except NoAnswerError as problem:
            if access.now() - since > SILENCE:
                raise
            if not noted:
                output.note(f"{problem}; retrying")
                noted = True
            sleep(POLL_SECONDS)
