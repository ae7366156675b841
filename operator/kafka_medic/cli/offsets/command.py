"""What `kafka-medic offsets` does: the operator's own plan, guards and effect, without an operator."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kafka_medic.actuate.offsets import set_offsets
from kafka_medic.cli import exits, output
from kafka_medic.cli.connecting import described, unanswered
from kafka_medic.cli.exits import NoAnswerError, RefusedError, UnusableInputError
from kafka_medic.cli.offsets.documents import Row, backup, read, write_new
from kafka_medic.clients.failures import ClientFailure, FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.ports import Kafka
from kafka_medic.cluster.elements import groups_unread
from kafka_medic.cluster.groups import EMPTY
from kafka_medic.cluster.names import printable, shown
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.reset_offsets import NEEDED, PREVIOUS_OFFSETS_KNOWN, TARGET_WITHIN_LOG, judge_reset_offsets
from kafka_medic.guard.verdict import Judgement, Reason, Verdict, judge
from kafka_medic.observe.command import opened
from kafka_medic.observe.extra_reads import answers
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from kafka_medic.playbook.effects import SetOffsets
from kafka_medic.playbook.offsets import undo_plan
from kafka_medic.playbook.offsets.costs import COUNTED, UNSEEN, by_group, warnings
from kafka_medic.playbook.offsets.offset_step import committed_now, partition_of, saved, states, wanted
from kafka_medic.playbook.offsets.parameters import ResetParameters
from kafka_medic.playbook.offsets.questions import about
from kafka_medic.playbook.offsets.reset_plan import (
    MAX_HELD,
    Chosen,
    aim_of,
    changes,
    chosen,
    not_told,
    selects,
    selects_topic,
)
from kafka_medic.playbook.offsets.targets import Aim, How
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.report.units import many
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.remediation_plan import OffsetChange

UNTIMED = "the time to catch up is not known here: it needs the operator's repeated observations"
Observe = Callable[[Callable[[str], bool]], Snapshot]
"""One observation of the cluster, with the groups that are selected by name."""


def run(args: argparse.Namespace) -> int:
    cluster, secrets, where = described(args)
    if getattr(args, "execute", False) and not args.backup:
        raise UnusableInputError("--execute", "needs a backup", "name a new file with --backup")
    try:
        with opened(cluster, secrets) as (kafka, readers):
            return _ACTIONS[args.action](args, cluster, kafka, _observe(cluster, readers))
    except ClientFailure as problem:
        message = problem.message if problem.kind in (FailureKind.OTHER, FailureKind.CREDENTIALS) else str(problem)
        raise UnusableInputError(where, message) from None
    except OSError as problem:
        raise UnusableInputError(where, str(problem)) from None


def _observe(cluster: KafkaCluster, readers: ClusterReaders) -> Observe:
    def observe(selected: Callable[[str], bool]) -> Snapshot:
        readable = readers.groups
        snapshot = observe_cluster(
            cluster.name, replace(readers, groups=lambda name: readable(name) and selected(name))
        )
        if (nobody := unanswered(snapshot, cluster)) is not None:
            raise nobody
        unread = [f"{s.name}: {s.error}" for s in snapshot.sources if s.name in (*NEEDED, "views") and not s.known]
        if snapshot.groups is None or snapshot.partitions is None:
            raise NoAnswerError("; ".join(unread) or "the cluster was not read in full")
        for source in (*unread, *groups_unread(snapshot, selected)):
            output.note(f"not known in full: {source}")
        return snapshot

    return observe


def _found(args: argparse.Namespace, observe: Observe, to: str = How.CURRENT) -> tuple[Snapshot, ResetParameters, Aim]:
    settings = ResetParameters(to, args.group, args.exclude_group, args.topic)
    aim = aim_of(replace(settings, groups=settings.groups or ".*") if to == How.CURRENT else settings)
    if isinstance(aim, Refusal):
        raise UnusableInputError("offsets", aim.message)
    return observe(selects(settings)), settings, aim


def _rows(snapshot: Snapshot, settings: ResetParameters) -> list[Row]:
    """All that the chosen groups have committed on the chosen topics."""
    assert snapshot.groups is not None
    groups = set(snapshot.groups["group"].to_pylist())
    found = committed_now(snapshot, {g for g in groups if g is not None})
    topics = set(selects_topic(settings).of({tp.topic for _, tp in found}))
    return [(g, tp, c) for (g, tp), c in sorted(found.items()) if c is not None and tp.topic in topics]


def _show(args: argparse.Namespace, _: KafkaCluster, __: Kafka, observe: Observe) -> int:
    snapshot, settings, _aim = _found(args, observe)
    listed = _rows(snapshot, settings)
    logs = {row.tp: row for row in snapshot.rows({tp for _, tp, _ in listed})}
    standing = states(snapshot, {group for group, _, _ in listed})
    documents: list[dict[str, Any]] = []
    for group, tp, committed in listed:
        log = logs.get(tp)
        start, end = (None, None) if log is None else (log.log_start, log.log_end)
        documents.append(
            {
                "group": group,
                "state": standing[group],
                "topic": tp.topic,
                "partition": tp.partition,
                "committed": committed.offset,
                "leaderEpoch": committed.leader_epoch,
                "metadata": committed.metadata,
                "logStart": start,
                "logEnd": end,
                # Never clamped to 0: a negative one is just what others hide.
                "lag": None if end is None else end - committed.offset,
                "beyondLogEnd": None if end is None else committed.offset > end,
            }
        )
    if args.output != "table":
        output.write({"offsets": documents}, args.output)
        return exits.OK
    header = ("GROUP", "STATE", "PARTITION", "COMMITTED", "LOG START", "LOG END", "LAG", "")
    labels = {True: "beyond the log end", False: "", None: "log not known"}
    rows = [
        (
            o["group"],
            _word(o["state"]),
            f"{o['topic']}-{o['partition']}",
            *(_word(o[name]) for name in ("committed", "logStart", "logEnd", "lag")),
            labels[o["beyondLogEnd"]],
        )
        for o in documents
    ]
    output.put(output.table(header, rows))
    return exits.OK


def _word(value: Any) -> str:
    return "not known" if value is None else str(value)


def _backup(args: argparse.Namespace, _: KafkaCluster, __: Kafka, observe: Observe) -> int:
    snapshot, settings, _aim = _found(args, observe)
    output.write(backup(snapshot, _rows(snapshot, settings)), args.output)
    return exits.OK


def _plan(args: argparse.Namespace, cluster: KafkaCluster, kafka: Kafka, observe: Observe) -> int:
    snapshot, settings, aim = _found(args, observe, args.to)
    found = chosen(snapshot, settings, aim, cluster.status)
    extra_reads = about(found.spots, aim, snapshot.taken_at)
    found_offsets = answers(kafka, extra_reads)
    if extra_reads.ms is not None and found_offsets.at is None:
        raise NoAnswerError("which offsets belong to that time could not be read")
    missed = [Reason(TARGET_WITHIN_LOG, Verdict.UNKNOWN, why) for why in not_told(found.spots, aim, found_offsets)]
    return _carry(args, kafka, snapshot, changes(found.spots, aim, found_offsets), (*_gaps(found), *missed))


def _gaps(found: Chosen) -> tuple[Reason, ...]:
    for group in found.unfit:
        output.note(f"left out, because no plan can hold its name or metadata: {shown(group)}")
    reasons = []
    if found.untold:
        message = f"committed offsets that could not be read: {some(found.untold, 3)}"
        reasons.append(Reason(PREVIOUS_OFFSETS_KNOWN, Verdict.UNKNOWN, message))
    if found.unread:
        message = f"log start and log end not known: {some(found.unread, 5)}"
        reasons.append(Reason(TARGET_WITHIN_LOG, Verdict.UNKNOWN, message))
    return tuple(reasons)


def _restore(args: argparse.Namespace, _: KafkaCluster, kafka: Kafka, observe: Observe) -> int:
    backup_file = read(args.file, args.group)
    groups = {c.group for c in backup_file.rows}
    snapshot = observe(lambda name: name in groups)
    if backup_file.cluster_id is not None and snapshot.cluster.id not in (None, backup_file.cluster_id):
        message = f"is of cluster id {backup_file.cluster_id}, but this cluster's id is {snapshot.cluster.id}"
        raise UnusableInputError(args.file, message, "use the cluster of the backup")
    if unknown := undo_plan.untold_groups(snapshot, backup_file.rows):
        raise NoAnswerError(f"committed offsets that could not be read: {some(unknown, 3)}")
    found, gone = undo_plan.changes(snapshot, backup_file.rows)
    due = [c.model_copy(update={"reason": "as the file has it"}) for c in found]
    for name in gone:
        output.note(f"left out, because the partition or its committed offset no longer exists: {name}")
    return _carry(args, kafka, snapshot, due, (), within_log=not backup_file.exact)


def _carry(
    args: argparse.Namespace,
    kafka: Kafka,
    snapshot: Snapshot,
    due: Sequence[OffsetChange],
    gaps: tuple[Reason, ...],
    *,
    within_log: bool = True,
) -> int:
    """What would be set and what the guards say to it; then, if they allow all of it and it was asked for, set it."""
    judgement = _judged(kafka, snapshot, due, gaps, within_log=within_log)
    verdict = judgement.verdict if judgement.reasons else Verdict.ALLOW
    _render(args, snapshot, due, judgement, verdict)
    if args.execute and verdict is Verdict.ALLOW and due:
        rows: list[Row] = [(c.group, partition_of(c), saved(c)) for c in due]
        write_new(args.backup, backup(snapshot, rows))
        output.note(f"the offsets before are in {args.backup}")
        _execute(kafka, due, args.backup)
    return exits.OF_VERDICT[verdict]


def _judged(
    kafka: Kafka, snapshot: Snapshot, due: Sequence[OffsetChange], gaps: tuple[Reason, ...], *, within_log: bool
) -> Judgement:
    groups, alone = by_group(due), _apart(snapshot)
    standing = states(snapshot, groups)
    live = [g for g in groups if standing.get(g) != EMPTY][:MAX_HELD]
    try:
        members = kafka.group_members(live) if live else {}
    except ReadFailed:
        members = {}
    reasons: list[Reason] = list(gaps)
    for group, its in groups.items():
        targets = {partition_of(c): c.after for c in its}
        reasons += judge_reset_offsets(
            alone(group), group, targets, snapshot.taken_at, members=members.get(group), within_log=within_log
        ).reasons
    return judge(dict.fromkeys(reasons))


def _apart(snapshot: Snapshot) -> Callable[[str], Snapshot]:
    """The snapshot with one group alone: to look through ten thousand for each of them would take minutes."""
    assert snapshot.groups is not None
    rows: dict[str, list[int]] = defaultdict(list)
    for number, group in enumerate(snapshot.groups["group"].to_pylist()):
        rows[str(group)].append(number)
    table = snapshot.groups
    return lambda group: replace(snapshot, groups=table.take(rows.get(group, [])))


def _render(
    args: argparse.Namespace, snapshot: Snapshot, due: Sequence[OffsetChange], judgement: Judgement, verdict: Verdict
) -> None:
    warned = list(warnings(due, snapshot))
    notes = [COUNTED, UNSEEN, UNTIMED] if due else []
    if args.output != "table":
        reasons = [
            {"guard": r.guard.value, "message": r.message, "verdict": r.verdict.value} for r in judgement.reasons
        ]
        document = {"verdict": verdict.value, "reasons": reasons, "warnings": warned, "notes": notes}
        output.write(document | {"changes": [c.to_kubernetes() for c in due]}, args.output)
        return
    header = ("GROUP", "PARTITION", "FROM", "TO", "LOG", "SKIPPED", "READ AGAIN", "WHY")
    rows = [
        (
            c.group,
            str(partition_of(c)),
            str(c.before),
            str(c.after),
            "not known" if c.log_end is None else f"{c.log_start} to {c.log_end}",
            str(c.skipped),
            str(c.read_again),
            c.reason,
        )
        for c in due
    ]
    text = output.table(header, rows) if rows else "every matching committed offset is already at its target\n"
    text += "".join(f"\nwarning: {printable(w)}" for w in warned) + "".join(f"\nnote: {n}" for n in notes)
    text += "\n" if due else ""
    refusals = [(r.verdict.value, r.guard.value, r.message) for r in judgement.refusals]
    text += f"\n{output.word(verdict.value)}\n"
    output.put(text + (output.table(("VERDICT", "GUARD", "REASON"), refusals) if refusals else ""))


def _execute(kafka: Kafka, due: Sequence[OffsetChange], way_back: str) -> None:
    done = 0
    for group, its in by_group(due).items():
        mine = {partition_of(c): (saved(c), wanted(c)) for c in its}
        try:
            set_offsets(kafka, SetOffsets("command", group, mine), lambda: None)
        except WriteFailed as problem:
            message = f"{problem.message}; {done} of {many(len(due), 'offset')} set"
            raise RefusedError(message, f"`offsets restore --from {way_back}` restores them") from None
        done += len(mine)
    output.note(f"{many(done, 'committed offset')} set")


_ACTIONS: dict[str, Callable[[argparse.Namespace, KafkaCluster, Kafka, Observe], int]] = {
    "show": _show,
    "backup": _backup,
    "plan": _plan,
    "restore": _restore,
}
