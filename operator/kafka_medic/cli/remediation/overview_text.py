"""The overview as a tree, for a terminal or a log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from kafka_medic.cli.output import counted
from kafka_medic.cli.remediation.overview import WORST_FIRST, ClusterState, RunState, counts
from kafka_medic.cli.remediation.rendering import bar, rate, span, this_plan, until
from kafka_medic.cli.terminal import text
from kafka_medic.resources.durations import format_bytes
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.kafkacluster_status import FindingStatus
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.vocabulary import FindingState, Severity

MAX_FINDINGS = 8
"""Of a cluster, unless all are wanted."""
_STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.INFO: "bright_black"}
_GUIDES = "bright_black"
_GREY = "bright_black"


def overview(states: Sequence[ClusterState], now: datetime, *, wide: bool, namespaces: bool) -> RenderableType:
    """One line for all, then a tree for each cluster, what is worst first. `namespaces`: more than one may be meant."""
    trees = [_tree(state, now, wide=wide, namespaces=namespaces) for state in sorted(states, key=ClusterState.urgency)]
    return Group(headline(states), *trees)


def headline(states: Sequence[ClusterState]) -> Text:
    """`3 clusters: 1 Critical, 2 Warning; 1 run waits; 1 run active`."""
    found = counts(states)
    parts: list[str | tuple[str, str]] = [f"{counted(found['clusters'], 'cluster')}: "]
    firing = [(f"{found[s.value]} {s.value}", _STYLES[s]) for s in WORST_FIRST if found[s.value]]
    if found["unknown"]:
        firing.append((f"{found['unknown']} unknown", "bold red"))
    parts += _joined(firing, ", ") or [("no finding", "green")]
    waiting, running = found["waiting"], found["running"]
    parts.append(f"; {counted(waiting, 'run')} {'waits' if waiting == 1 else 'wait'}" if waiting else "")
    parts.append(f"; {counted(running, 'run')} active" if running else "")
    return text(*parts)


def _joined(parts: Sequence[tuple[str, str]], separator: str) -> list[str | tuple[str, str]]:
    joined: list[str | tuple[str, str]] = []
    for part in parts:
        joined += [separator, part] if joined else [part]
    return joined


def _tree(state: ClusterState, now: datetime, *, wide: bool, namespaces: bool) -> Tree:
    name = f"{state.namespace}/{state.name}" if namespaces else state.name
    cluster = state.cluster
    if cluster is None:
        tree = Tree(text((name, "bold"), "  ", ("unreadable", "bold red")), guide_style=_GUIDES)
        tree.add(text(state.problem))
        return tree
    tree = Tree(_head(name, cluster, now, wide=wide), guide_style=_GUIDES)
    if state.never:
        tree.add(text(("never observed", "bold red"), ": check that the operator runs and watches this namespace"))
    elif state.stale is not None:
        tree.add(text((f"not observed for {span(state.stale)}", "bold red"), ": the rest is as of then"))
    policy = cluster.spec.remediation
    if policy.paused:
        tree.add(text(("paused", "yellow"), f": {policy.pause_reason or 'no reason given'}"))
    _findings(tree, state, now, wide=wide)
    for run in state.runs:
        _run(tree, run, state.namespace, now)
    if wide:
        for condition in cluster.status.conditions:
            if condition.status.value != "True" and condition.type != "Ready":
                tree.add(text((f"{condition.type} is {condition.status.value}", _GREY), f": {condition.message}"))
    return tree


def _head(name: str, cluster: KafkaCluster, now: datetime, *, wide: bool) -> Text:
    status, brokers = cluster.status, cluster.status.brokers
    mode, policy = status.metadata, cluster.spec.remediation
    kafka = " ".join(filter(None, (mode.value if mode else "metadata mode unknown", status.version)))
    parts: list[str | tuple[str, str]] = [(name, "bold"), f"  {policy.mode.value}  {kafka}  "]
    if brokers is None or brokers.reachable is None:
        parts.append(("brokers unknown", "red"))
    else:
        expected = max(n for n in (brokers.expected, brokers.registered, brokers.reachable) if n is not None)
        parts.append(
            (f"{brokers.reachable}/{counted(expected, 'broker')}", "" if brokers.reachable == expected else "red")
        )
    parts.append("  controller ")
    parts.append((str(status.controller), "") if status.controller is not None else ("unknown", "red"))
    if wide:
        parts.append(f"  id {status.cluster_id or 'unknown'}")
        if status.last_observed_at is not None:
            parts.append(f"  observed {span(now - status.last_observed_at)} ago")
    return text(*parts)


def _findings(tree: Tree, state: ClusterState, now: datetime, *, wide: bool) -> None:
    found = state.findings
    shown = found if wide else found[:MAX_FINDINGS]
    for finding in shown:
        _finding(tree, finding, now, wide=wide)
    left = state.total - len(shown)
    if left > 0:
        more = "" if len(shown) == len(found) else "; -o wide lists more"
        tree.add(text((f"{left} more {'finding' if left == 1 else 'findings'}{more}", _GREY)))
    if not found and not state.blind:
        tree.add(text(("no finding", "green")))


def _finding(tree: Tree, finding: FindingStatus, now: datetime, *, wide: bool) -> None:
    pending = finding.state is not FindingState.FIRING
    style = _GREY if pending else _STYLES[finding.severity]
    word = f"{finding.severity.value}{' (pending)' if pending else ''}"
    lasts = span(max(now - finding.since, timedelta()))
    since = f"since {finding.since:%Y-%m-%d %H:%M:%S} UTC ({lasts})" if wide else f"for {lasts}"
    branch = tree.add(text((word, style), f"  {finding.id}  {since}"))
    lines = finding.evidence if wide else finding.evidence[:1]
    if finding.message and (wide or not lines):
        branch.add(text(finding.message))
    for line in lines:
        branch.add(text(line))
    if finding.remediation is not None:
        branch.add(text((f"run {finding.remediation} treats it", _GREY)))
    elif finding.playbook is not None:
        branch.add(text((f"playbook {finding.playbook} treats it", _GREY)))


def _run(tree: Tree, state: RunState, namespace: str, now: datetime) -> None:
    run, status = state.run, state.run.status
    phase = status.phase.value if status.phase else "not started yet"
    head: list[str | tuple[str, str]] = [("run ", _GREY), (run.name, "bold"), f"  {phase}"]
    awaiting = status.plan if status.phase is Phase.AWAITING_APPROVAL else None
    if awaiting is not None:
        left = until(awaiting.expires_at - now)
        head.append((", expired" if left == "expired" else f", expires in {left}", _GREY))
    branch = tree.add(text(*head))
    step = state.step
    if state.acting and step is not None:
        if step.progress is None:
            branch.add(text(f"{step.name}: {step.message or 'in progress'}"))
        else:
            speed = rate(step, now)
            pace = f", {format_bytes(round(speed))}/s" if speed else ""
            branch.add(text(f"{step.name} {bar(step.progress)} {step.progress.describe()}{pace}"))
    if state.holds:
        first = state.holds[0]
        why = this_plan(first.why, run).removeprefix("waits for ")
        branch.add(text(("waits for ", "yellow"), f"{state.waits_for}: {why}"))
        if awaiting is not None:
            branch.add(text(f"kubectl kafka-medic show {run.name} -n {namespace}"))
        elif first.way_out:
            branch.add(text(first.way_out))
        if len(state.holds) > 1:
            more = counted(len(state.holds) - 1, "more reason")
            branch.add(text((f"{more}: kubectl kafka-medic explain {run.name} -n {namespace}", _GREY)))
    elif not (state.acting and step is not None) and status.message:
        branch.add(text(this_plan(status.message, run)))
