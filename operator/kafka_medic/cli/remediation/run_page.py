"""A Remediation as a page, at any time of its life. Pure: from what the API server has. Without Arrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Protocol

from kafka_medic.cli.remediation.explain import WHAT_TO_DO
from kafka_medic.cli.remediation.run_timeline import OF_VERDICT, OF_WORD, spoken, timeline
from kafka_medic.report.model import (
    Bars,
    Block,
    Cell,
    Column,
    Fact,
    Facts,
    Page,
    Row,
    Section,
    Table,
    Text,
    Timeline,
    Tone,
)
from kafka_medic.report.partition_list import listed
from kafka_medic.report.units import UNKNOWN, bytes_text, duration, many, milliseconds, moment, rate
from kafka_medic.resources.approval import RemediationApproval
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import ACTING_PHASES, TERMINAL_PHASES, Phase
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import BrokerLoads, PartitionChange, Plan, Reorders, ReplicaMoves
from kafka_medic.resources.remediation_status import StepStatus
from kafka_medic.resources.vocabulary import Guard

__all__ = ["run_page"]

MOST_TOPICS = 200
MOST_CHANGES = 500
_TONES = {
    Phase.SUCCEEDED: Tone.GOOD, Phase.FAILED: Tone.BAD, Phase.ABORTED: Tone.BAD, Phase.REJECTED: Tone.BAD,
    Phase.BLOCKED: Tone.WARN, Phase.PAUSED: Tone.WARN, Phase.EXPIRED: Tone.WARN, Phase.AWAITING_APPROVAL: Tone.WARN,
}  # fmt: skip


class Change(Protocol):
    """One thing that a plan touches, as actions describe it."""

    @property
    def what(self) -> str: ...

    @property
    def before(self) -> str | None: ...

    @property
    def after(self) -> str | None: ...

    @property
    def note(self) -> str: ...


def run_page(
    run: Remediation,
    cluster: KafkaCluster | None,
    approvals: Sequence[RemediationApproval],
    whole: Plan | None,
    changes: Sequence[Change],
    now: datetime,
) -> Page:
    """`cluster` None: it could not be read. `whole`: the plan with what its file holds; None where that could not be
    read. `changes`: what the plan touches besides the replicas of partitions."""
    status, plan = run.status, run.status.plan
    ended = status.phase in TERMINAL_PHASES
    sections = [
        Section("stands", "How it ended" if ended else "State", list(_stands(run, now))),
        Section("finding", "What was found", list(_finding(run, cluster))),
    ]
    if plan is not None:
        own = whole or plan
        moves = _merged(own)
        sections.append(Section("plan", "The plan", list(_plan(plan, own))))
        if moves:
            sections.append(
                Section("before-and-after", "Before and after, by broker, rack and topic", list(_sides(own, moves)))
            )
            sections.append(Section("partitions", "Partitions", [listed([_row(change) for change in moves])]))
        elif plan.part(ReplicaMoves).artifact is not None:
            sections.append(Section("partitions", "Partitions", [_unread(plan)]))
        sections.append(Section("changes", "Settings and other changes", list(_changes(run, changes, plan))))
        sections.append(Section("approvals", "Approvals", list(_approvals(run, cluster))))
    if status.started_at is not None:
        sections.append(
            Section("effect", "Effect on producers and consumers", list(_effect(run, cluster, status.started_at, now)))
        )
    sections.append(Section("timeline", "Timeline", [Timeline(timeline(run, approvals, now))]))
    return Page(
        kind="Remediation",
        title=f"{run.spec.playbook.name}: {run.spec.cluster_ref.name}",
        lead=_lead(run, now),
        state=spoken(status.phase.value) if status.phase else "Not yet seen by the operator",
        tone=_TONES.get(status.phase, Tone.PLAIN) if status.phase else Tone.WARN,
        facts=list(_facts(run)),
        sections=sections,
        foot=[
            f"Written by kafka-medic at {moment(now)}, from the Remediation {run.namespace}/{run.name} as it was then."
        ],
    )


def _lead(run: Remediation, now: datetime) -> list[str]:
    status = run.status
    first = [line for line in status.message.split("\n")[:1] if line]
    sentence = [f"{first[0][:1].upper()}{first[0][1:]}".rstrip(".") + "."] if first else []
    if status.started_at is None:
        return sentence
    took = duration(((status.finished_at or now) - status.started_at).total_seconds())
    return [*sentence, f"It took {took}." if status.finished_at else f"It has been running for {took}."]


def _facts(run: Remediation) -> Iterator[Fact]:
    status, spec, plan = run.status, run.spec, run.status.plan
    yield Fact("KafkaCluster", f"{run.namespace}/{spec.cluster_ref.name}")
    yield Fact("Remediation", run.name)
    origin = "the operator" if spec.cause is not None else spec.requested_by or UNKNOWN
    yield Fact("Requested by", origin)
    if spec.cause is not None:
        yield Fact("Finding", spec.cause.finding_id)
    yield Fact("Requested", moment(run.metadata.creation_timestamp))
    if plan is not None:
        yield Fact("Planned", moment(plan.proposed_at))
        yield Fact("Approved by", status.approved_by or "not yet approved")
    if status.risk is not None:
        yield Fact("Risk", status.risk.value)
    if status.started_at is not None:
        yield Fact("Began", moment(status.started_at))
    if status.finished_at is not None:
        yield Fact("Ended", moment(status.finished_at))
    if status.deleted_topics:
        yield Fact("Left out", f"deleted since the approval: {', '.join(status.deleted_topics)}")
    if spec.parameters:
        yield Fact("Parameters", ", ".join(f"{name}={value}" for name, value in sorted(spec.parameters.items())))
    if plan is not None:
        yield Fact("Plan digest", plan.digest, code=True)
    yield Fact("Playbook digest", spec.playbook.digest, code=True)


def _stands(run: Remediation, now: datetime) -> Iterator[Block]:
    status = run.status
    if lines := [line for line in status.message.split("\n")[1:] if line]:
        yield Text(lines, verbatim=True)
    if status.steps:
        columns = [
            Column("Step"), Column("State"), Column("Took", numeric=True), Column("Done", numeric=True),
            Column("Copied", numeric=True), Column("Rate", numeric=True), Column("Message", prose=True),
        ]  # fmt: skip
        yield _filled(Table("Steps", columns, [_step(step, now) for step in status.steps]))
    if status.phase in TERMINAL_PHASES:
        if status.restore_owed:
            yield Text(["The operator must still revert some of the run's changes."], Tone.BAD)
        return
    if status.holds:
        yield Text([f"Not settled: {status.holds}"])
    if status.waiting_for:
        columns = [
            Column("Guard"), Column("Verdict"), Column("Reason", prose=True), Column("What to do", prose=True),
        ]  # fmt: skip
        rows: list[Row] = [
            (w.guard.value, Cell(w.verdict.value, OF_VERDICT.get(w.verdict, Tone.PLAIN)), w.message, _to_do(w.guard))
            for w in status.waiting_for
        ]
        yield Table("What it waits for", columns, rows)
    elif status.phase in ACTING_PHASES:
        yield Text(["No guard holds it."])


def _filled(table: Table) -> Table:
    """Without the columns that are empty in every row."""
    keep = [at for at in range(len(table.columns)) if any(row[at] != "" for row in table.rows)]
    rows = [[row[at] for at in keep] for row in table.rows]
    return replace(table, columns=[table.columns[at] for at in keep], rows=rows)


def _to_do(guard: Guard) -> str:
    return WHAT_TO_DO.get(guard, "").replace("`", "")


def _step(step: StepStatus, now: datetime) -> Row:
    progress, seconds = step.progress, _working(step, now)
    done = copied = speed = ""
    if progress is not None:
        done = f"{progress.done:,} of {progress.total:,} {progress.unit}".rstrip()
        if progress.bytes_done is not None and progress.bytes_total is not None:
            copied = f"{bytes_text(progress.bytes_done)} of {bytes_text(progress.bytes_total)}"
            speed = rate(progress.bytes_done / seconds) if seconds and progress.bytes_done else ""
    tone = Tone.GOOD if step.phase.value == "Succeeded" else Tone.BAD if step.phase.value == "Failed" else Tone.PLAIN
    return (
        step.name, Cell(step.phase.value, tone), "" if seconds is None else duration(seconds), done, copied, speed,
        step.message,
    )  # fmt: skip


def _working(step: StepStatus, now: datetime) -> float | None:
    """Seconds since it began, without those for which a pause or a window held it."""
    if step.started_at is None:
        return None
    seconds = ((step.finished_at or now) - step.started_at).total_seconds() - (step.held_seconds or 0)
    if step.held_since is not None:
        seconds -= ((step.finished_at or now) - step.held_since).total_seconds()
    return max(seconds, 0.0)


def _finding(run: Remediation, cluster: KafkaCluster | None) -> Iterator[Block]:
    cause, cures = run.spec.cause, run.status.cures
    wanted = cause.finding_id if cause is not None else cures.finding_id if cures is not None else None
    if wanted is None:
        yield Text([f"{run.spec.requested_by or 'A person'} requested this run. It cures no finding."])
        return
    found = None if cluster is None else next((f for f in cluster.status.findings if f.id == wanted), None)
    if found is not None:
        severity, state, message, evidence = found.severity, found.state.value, found.message, found.evidence
    elif cures is not None and cures.finding_id == wanted:
        state = UNKNOWN if cluster is None else "gone"
        severity, message, evidence = cures.severity, cures.message, cures.evidence
    else:
        why = "The KafkaCluster could not be read" if cluster is None else "The KafkaCluster no longer has this finding"
        yield Text([f"{wanted}. {why}, so its evidence is not shown."])
        return
    since = [Fact("Since", moment(found.since))] if found is not None else []
    yield Facts([Fact("Finding", wanted), Fact("Severity", severity.value), Fact("State now", state), *since])
    if message:
        yield Text([f"{message[:1].upper()}{message[1:]}".rstrip(".") + "."])
    if evidence:
        yield Text(["Evidence:" if found is not None else "Evidence when the run was decided:"])
        yield Text(evidence, verbatim=True)
    if found is None:
        return
    if found.affected:
        more = found.affected_count - len(found.affected)
        named = ", ".join(found.affected) + (f" and {more:,} more" if more > 0 else "")
        yield Text([f"Affected: {named}."])


def _plan(plan: Plan, whole: Plan) -> Iterator[Block]:
    # Partitions stand in a list of their own below.
    words = [line for line in plan.summary.split("\n") if line and not line.startswith("  ")]
    if words:
        yield Text(words, verbatim=True)
    columns = [
        Column("Figure"), Column("This plan", numeric=True), Column("Bound", numeric=True),
        Column("What that means", prose=True),
    ]  # fmt: skip
    if rows := list(_figures(plan, whole)):
        yield Table("Figures and bounds", columns, rows)
    if plan.preconditions:
        conditions: list[Row] = [(held.name, held.value) for held in plan.preconditions]
        yield Table("Only while", [Column("Observed"), Column("Value", code=True)], conditions)


def _figures(plan: Plan, whole: Plan) -> Iterator[Row]:
    own = plan.part(ReplicaMoves)
    if plan.partitions is not None:
        yield "Partitions changed", f"{plan.partitions:,}", "", ""
    if plan.moves is not None:
        yield _copies(plan.moves, own.lower_bound_moves)
    if plan.moves:
        unknown = "The size of some partitions is not known." if own.bytes_to_move is None else ""
        yield "Data to copy", bytes_text(own.bytes_to_move), "", unknown
    if own.throttle_bytes_per_second is not None:
        yield (
            "Throttle",
            rate(own.throttle_bytes_per_second),
            "",
            "The most that each broker sends and receives for it.",
        )
    if plan.estimated_seconds is not None:
        yield "Estimated time", duration(plan.estimated_seconds), "", "At the throttle, without waits."
    if own.waves is not None:
        yield "Waves", f"{own.waves:,}", "", "A wave begins once the wave before is in sync."
    if own.loads is not None and own.loads.brokers:
        yield _highest("Most replicas on a broker", own.loads.replicas_after)
        yield _highest("Most preferred leaders on a broker", own.loads.leaders_after)
        yield from _racks(own.loads, whole.part(ReplicaMoves).changes)


def _copies(moves: int, bound: int | None) -> Row:
    if bound is None:
        return "Replicas copied", f"{moves:,}", "", ""
    words = "Best possible: no plan copies fewer." if moves <= bound else f"{moves - bound:,} more than the bound."
    return "Replicas copied", f"{moves:,}", f"{bound:,}", words


def _highest(name: str, after: Sequence[int]) -> Row:
    """The mean, rounded up, bounds it from below, whatever a plan does."""
    most, mean = max(after), -(-sum(after) // len(after))
    words = "Best possible: the mean, rounded up." if most <= mean else f"{most - mean:,} above the mean, rounded up."
    return name, f"{most:,}", f"{mean:,}", f"{words} The fewest on a broker are {min(after):,}."


def _racks(loads: BrokerLoads, changes: Sequence[PartitionChange]) -> Iterator[Row]:
    racks = dict(zip(loads.brokers, loads.racks, strict=True))
    number = len({rack for rack in racks.values() if rack})
    if number < 2 or not changes:
        return

    def sharing(replicas: Sequence[int]) -> bool:
        used = {racks.get(broker, "") for broker in replicas} - {""}
        return len(used) < min(len(replicas), number)

    after = sum(sharing(change.replicas) for change in changes)
    before = sum(sharing(change.replicas_before) for change in changes)
    words = "Each is on as many racks as possible." if not after else "They have replicas that share a rack."
    yield "Partitions on fewer racks than possible", f"{after:,}", "0", f"{words} Before: {before:,}."


def _merged(plan: Plan) -> list[PartitionChange]:
    """Moves, each with the order that its replicas have in the end, and what is reordered alone."""
    reorders = {(c.topic, c.partition): c for c in plan.part(Reorders).reorders}
    moved = sorted(plan.part(ReplicaMoves).changes, key=lambda c: (c.topic, c.partition))
    found = []
    for change in moved:
        order = reorders.pop((change.topic, change.partition), None)
        found.append(change if order is None else change.model_copy(update={"replicas": order.replicas}))
    return [*found, *sorted(reorders.values(), key=lambda c: (c.topic, c.partition))]


def _row(change: PartitionChange) -> tuple[str, int, Sequence[int], Sequence[int], int, int, int | None]:
    leader = change.replicas[0] if change.replicas else -1
    return (
        change.topic, change.partition, change.replicas_before, change.replicas, leader, change.wave,
        change.size_bytes,
    )  # fmt: skip


def _unread(plan: Plan) -> Text:
    artifact = plan.part(ReplicaMoves).artifact
    assert artifact is not None
    return Text(
        [
            f"The plan's {plan.partitions or 0:,} partitions are in a file that was not read: {artifact.uri}, "
            f"SHA-256 {artifact.sha256}.",
            "To show them, use a kafka-medic installed with pip, and the right to read planparts.",
        ]
    )


def _sides(plan: Plan, moves: Sequence[PartitionChange]) -> Iterator[Block]:
    loads = plan.part(ReplicaMoves).loads
    if loads is not None and loads.brokers:
        yield from _charts(loads)
    else:
        yield from _of_moves(moves)
    yield _topics(moves)


def _charts(loads: BrokerLoads) -> Iterator[Block]:
    labels = [str(broker) for broker in loads.brokers]
    for title, what, before, after in (
        ("Replicas", "replicas", loads.replicas_before, loads.replicas_after),
        ("Preferred leaders", "preferred leaders", loads.leaders_before, loads.leaders_after),
    ):
        yield Bars(f"{title} per broker", what, "broker", labels, before, after, -(-sum(after) // len(after)))
        racks = sorted({rack for rack in loads.racks if rack})
        if racks:
            old, new = Counter[str](), Counter[str]()
            for rack, was, now in zip(loads.racks, before, after, strict=True):
                old[rack] += was
                new[rack] += now
            yield Bars(f"{title} per rack", what, "rack", racks, [old[r] for r in racks], [new[r] for r in racks])


def _of_moves(moves: Sequence[PartitionChange]) -> Iterator[Block]:
    """Where the load of the whole cluster is not known: of the partitions that the plan changes."""
    before = Counter(broker for change in moves for broker in change.replicas_before)
    after = Counter(broker for change in moves for broker in change.replicas)
    ids = sorted(before.keys() | after.keys())
    yield Bars(
        "Replicas per broker, of the partitions that change", "replicas", "broker", [str(broker) for broker in ids],
        [before[broker] for broker in ids], [after[broker] for broker in ids],
    )  # fmt: skip


def _topics(moves: Sequence[PartitionChange]) -> Table:
    rows: list[tuple[int, Row]] = []
    for topic, group in groupby(sorted(moves, key=lambda c: c.topic), key=lambda c: c.topic):
        of = list(group)
        sizes = [c.size_bytes for c in of]
        copied = sum((c.size_bytes or 0) * len(set(c.replicas) - set(c.replicas_before)) for c in of)
        lead = sum(c.replicas[:1] != c.replicas_before[:1] for c in of)
        size = UNKNOWN if None in sizes and copied == 0 else bytes_text(copied)
        sides = [
            sum(len(side) for side in each) for each in ([c.replicas_before for c in of], [c.replicas for c in of])
        ]
        rows.append((copied, (topic, f"{len(of):,}", *(f"{side:,}" for side in sides), f"{lead:,}", size)))
    rows.sort(key=lambda row: -row[0])
    columns = [
        Column("Topic"), Column("Partitions", numeric=True), Column("Replicas before", numeric=True),
        Column("after", numeric=True), Column("New preferred leaders", numeric=True),
        Column("Data to copy", numeric=True),
    ]  # fmt: skip
    hidden = len(rows) - MOST_TOPICS
    note = f"{many(hidden, 'more topic')} with less data." if hidden > 0 else ""
    return Table("Topics, those with the most data first", columns, [row for _, row in rows[:MOST_TOPICS]], note)


def _changes(run: Remediation, changes: Sequence[Change], plan: Plan) -> Iterator[Block]:
    columns = [
        Column("What"), Column("Before", code=True), Column("After", code=True), Column("Note", prose=True),
    ]  # fmt: skip
    rows: list[Row] = [
        (c.what, c.before if c.before is not None else "", c.after if c.after is not None else "", c.note)
        for c in changes[:MOST_CHANGES]
    ]
    if rows:
        hidden = len(changes) - MOST_CHANGES
        note = f"{many(hidden, 'more change')}." if hidden > 0 else ""
        yield _filled(Table("Before and after", columns, rows, note))
    saved = {v.name: v.value for entry in run.status.journal for v in entry.saved if v.name.count("/") > 1}
    if saved:
        state = (
            "These stand for the time of the run. The operator puts the values before back, however the run ends."
            if run.status.phase not in TERMINAL_PHASES
            else "Their values before the run. The timeline shows when the operator put them back."
        )
        kept: list[Row] = [(name, value if value is not None else "not set") for name, value in sorted(saved.items())]
        setting = [Column("Setting", code=True), Column("Value before", code=True)]
        yield Text([state])
        yield Table(f"Settings for the time of the run ({len(kept):,})", setting, kept, folded=len(kept) > 12)
    elif plan.part(ReplicaMoves).throttle_bytes_per_second is not None and run.status.started_at is None:
        throttle = rate(plan.part(ReplicaMoves).throttle_bytes_per_second)
        yield Text(
            [f"While it runs, replication is throttled to {throttle} per broker. Then the values before come back."]
        )
    if not rows and not saved:
        yield Text(["No setting changes for good."])


def _approvals(run: Remediation, cluster: KafkaCluster | None) -> Iterator[Block]:
    status = run.status
    if cluster is not None:
        needed = cluster.spec.remediation.approvals.needed(run.spec.requested_by)
        yield Text([f"The KafkaCluster requires {many(needed, 'approval')}."])
    if not status.approvals:
        yield Text(["No decision yet." if status.phase not in TERMINAL_PHASES else "No decision."])
        return
    columns = [Column("Who"), Column("Decision"), Column("When"), Column("Counts"), Column("Reason", prose=True)]
    rows: list[Row] = [
        (
            record.approver,
            Cell(record.decision.value, OF_WORD.get(record.decision.value, Tone.PLAIN)),
            moment(record.at),
            "yes" if record.counted else Cell("no", Tone.WARN),
            record.reason,
        )
        for record in sorted(status.approvals, key=lambda record: record.at)
    ]
    yield _filled(Table("", columns, rows))


def _effect(run: Remediation, cluster: KafkaCluster | None, began: datetime, now: datetime) -> Iterator[Block]:
    end, canary = run.status.finished_at or now, run.status.canary
    if canary is None:
        yield Text(["Canary: no records were observed while the run acted."])
    else:
        failing = "none" if not canary.failing else f"{many(canary.failing, 'canary partition')} at one time"
        yield Facts(
            [
                Fact("Slowest acknowledgement before", milliseconds(canary.before_ms)),
                Fact("Slowest acknowledgement during the run", milliseconds(canary.worst_ms)),
                Fact("Observed", moment(canary.at)),
                Fact("Slowest record to a consumer before", milliseconds(canary.consume_before_ms)),
                Fact("Slowest record to a consumer during the run", milliseconds(canary.consume_worst_ms)),
                Fact("Failing", failing, tone=Tone.BAD if canary.failing else Tone.PLAIN),
            ]
        )
        yield Text(["These are the canary's own records, as each reconcile of the run observed them."])
    if cluster is None:
        yield Text(["Leaderless time: the KafkaCluster could not be read."])
        return
    seen = [o for o in cluster.status.longest_leaderless if began <= o.at <= end + timedelta(minutes=1)]
    if not seen:
        yield Text(["Leaderless time: the KafkaCluster has none from the time of the run."])
        return
    columns = [Column("Topic"), Column("Leaderless for", numeric=True), Column("At")]
    rows: list[Row] = [(o.topic, milliseconds(o.milliseconds), moment(o.at)) for o in seen]
    yield Table("Topics without a leader for longest, in the time of the run", columns, rows)
    worst = max(o.milliseconds for o in seen)
    yield Text([f"Clients bridge it if their default.api.timeout.ms is well above {worst:,}."])
