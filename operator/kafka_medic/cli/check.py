"""`kafka-medic check`: may this be done now? The guards' answer, from a saved snapshot."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from kafka_medic.cli import exits, output
from kafka_medic.cli.documents import check_fits, read_cluster, read_snapshot
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.guard.context import RestartContext
from kafka_medic.guard.elect import judge_elect
from kafka_medic.guard.evaluate import GuardFaultError
from kafka_medic.guard.reset_offsets import judge_reset_offsets, offsets_beyond_log_end
from kafka_medic.guard.restart import judge_restart
from kafka_medic.guard.run import judge_run
from kafka_medic.guard.verdict import Judgement, Reason, Verdict, judge
from kafka_medic.resources.vocabulary import Guard

WITHOUT_PODS = "to judge without them give --outside-kubernetes, and check Pods, nodes and rollouts with kubectl"


def run(args: argparse.Namespace) -> int:
    snapshot = read_snapshot(args.snapshot)
    own_rules: tuple[Reason, ...] = ()
    if args.cluster:
        cluster = read_cluster(args.cluster)
        check_fits(cluster, snapshot, args.cluster)
        # Leases and other remediations are Kubernetes' to tell; what the resource itself says is checked.
        guards = {Guard.NOT_PAUSED, Guard.WITHIN_WINDOW}
        rules = judge_run(cluster.spec.remediation, (), None, snapshot.taken_at, starting=False)
        own_rules = tuple(r for r in rules if r.guard in guards)
    try:
        judgement: Judgement = _JUDGES[args.action](snapshot, args)
        judgement = judge((*judgement.reasons, *own_rules))
    except GuardFaultError as fault:
        output.note(str(fault))
        judgement = judge([Reason(fault.guard, Verdict.UNKNOWN, str(fault))])
    if args.action == "restart" and not args.outside_kubernetes and snapshot.source("kubernetes") is None:
        output.note(f"this snapshot has no Pods; {WITHOUT_PODS}")
    # Refusals first, the worst of them before the others: that is what decides.
    worst = (Verdict.DENY, Verdict.UNKNOWN, Verdict.WAIT, Verdict.ALLOW)
    reasons = sorted(judgement.reasons, key=lambda r: worst.index(r.verdict))
    if args.output == "table":
        rows = [(r.verdict.value, r.guard.value, r.message) for r in reasons]
        table = output.table(("VERDICT", "GUARD", "REASON"), rows)
        output.put(f"{args.action}: {output.word(judgement.verdict.value)}\n\n{table}")
    else:
        documents = [{"guard": r.guard.value, "message": r.message, "verdict": r.verdict.value} for r in reasons]
        output.write({"verdict": judgement.verdict.value, "reasons": documents}, args.output)
    return exits.OF_VERDICT[judgement.verdict]


def _restart(snapshot: Snapshot, args: argparse.Namespace) -> Judgement:
    context = RestartContext(
        remaining=frozenset(args.then),
        cures=frozenset(args.cures),
        outside_kubernetes=args.outside_kubernetes,
    )
    return judge_restart(snapshot, args.broker, snapshot.taken_at, context=context)


def _elect(snapshot: Snapshot, args: argparse.Namespace) -> Judgement:
    partitions = [TopicPartition(*tp) for tp in args.partition] if args.partition else None
    return judge_elect(snapshot, snapshot.taken_at, partitions)


def _reset(snapshot: Snapshot, args: argparse.Namespace) -> Judgement:
    given = {TopicPartition(*tp): offset for tp, offset in args.to or ()}
    targets = given or offsets_beyond_log_end(snapshot, args.group)
    return judge_reset_offsets(snapshot, args.group, targets, snapshot.taken_at)


_JUDGES: Mapping[str, Callable[[Snapshot, argparse.Namespace], Judgement]] = {
    "restart": _restart,
    "elect": _elect,
    "reset-offsets": _reset,
}
