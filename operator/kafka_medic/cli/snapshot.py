"""`kafka-medic snapshot`: look at a cluster once and write down what is there."""

from __future__ import annotations

import argparse
from collections import Counter
from importlib import resources
from pathlib import Path

from kafka_medic.cli import exits, output
from kafka_medic.cli.command_config import Held
from kafka_medic.cli.connecting import described, unanswered
from kafka_medic.cli.exits import UnusableInputError
from kafka_medic.cli.progress import working
from kafka_medic.cli.snapshot_arguments import PARQUET
from kafka_medic.cluster.document import timestamp, to_document
from kafka_medic.cluster.names import printable
from kafka_medic.cluster.snapshot import Broker, Mode, Snapshot, View
from kafka_medic.diagnose.columns import read_partitions
from kafka_medic.report.units import many
from kafka_medic.resources.kafkacluster import KafkaCluster

UNKNOWN = "not known"
WRITER = "kafka-medic snapshot"
"""Whose clock a history's times are. A job that runs on another machine each day has one clock all the same: the
network's."""


def run(args: argparse.Namespace) -> int:
    if args.schema:
        output.put(resources.files("kafka_medic.cluster").joinpath("snapshot.schema.json").read_text("utf-8"))
        return exits.OK
    if (args.output == PARQUET) != (args.append is not None):
        raise UnusableInputError("-o parquet", "goes with --append DIR, and --append with -o parquet")
    cluster, secrets, where = described(args)
    with working(f"observing {cluster.name}"):
        snapshot = _take(cluster, secrets, where)
    nobody = unanswered(snapshot, cluster)
    if nobody is None and (args.output != "table" or args.append is not None):
        output.note_unknown(snapshot)  # the table has the reasons itself
    if args.append is not None and nobody is None:
        return _append(snapshot, args.append)
    if args.output not in ("table", PARQUET):
        output.write(to_document(snapshot), args.output)
    elif nobody is None:
        output.put(_readable(snapshot))
    if nobody is not None:
        raise nobody
    return exits.OK


def _append(snapshot: Snapshot, history: Path) -> int:
    if snapshot.cluster.id is None:
        what = f"{snapshot.cluster.name}: cluster id not known, so nothing was appended"
        raise UnusableInputError(what, "no broker reported it", "check the addresses and the credentials, then retry")
    from kafka_medic.fleet.history import append  # noqa: PLC0415 - no other form needs Parquet

    try:
        path = append(history, snapshot, WRITER)
    except OSError as problem:
        raise UnusableInputError(str(history), f"cannot be written: {problem.strerror or problem}") from None
    output.note(f"appended {path}")
    return exits.OK


def _take(cluster: KafkaCluster, secrets: Path | Held | None, where: str) -> Snapshot:
    # Imported here: the clients' libraries take a while to load, and no other subcommand needs them.
    from kafka_medic.clients.failures import ClientFailure, FailureKind  # noqa: PLC0415
    from kafka_medic.observe.command import take_snapshot  # noqa: PLC0415

    try:
        return take_snapshot(cluster, secrets)
    except ClientFailure as problem:
        told = problem.message if problem.kind in (FailureKind.OTHER, FailureKind.CREDENTIALS) else str(problem)
        raise UnusableInputError(where, told) from None
    except OSError as problem:
        raise UnusableInputError(where, str(problem)) from None


def _readable(snapshot: Snapshot) -> str:
    cluster = snapshot.cluster
    mode = cluster.mode.value if cluster.mode else "mode not known"
    title = f"cluster {cluster.name} ({mode}, version {cluster.version or UNKNOWN}, id {cluster.id or UNKNOWN})"
    text = f"{printable(title)} at {timestamp(snapshot.taken_at)}\n\n"
    sources = [(s.name, s.state.value, s.error or "") for s in snapshot.sources]
    text += output.table(("SOURCE", "STATE", "WHY"), sources) + "\n"
    text += f"controller: {_controller(snapshot)}\n{_quorum(snapshot)}\n"
    if snapshot.brokers is None:
        text += f"brokers: {UNKNOWN}\n"
    else:
        header = ("BROKER", "RACK", "ADDRESS", "REGISTERED", "REACHABLE", "RECOVERING", "CLIENT BYTES/S", "VIEW", "POD")
        views = {v.broker: v for v in snapshot.views or ()}
        text += output.table(header, [_broker(b, views.get(b.id)) for b in snapshot.brokers])
    return f"{text}\npartitions: {_partitions(snapshot)}\ngroups: {_groups(snapshot)}\n"


def _controller(snapshot: Snapshot) -> str:
    if snapshot.controller is None:
        return UNKNOWN
    if snapshot.controller.id is None:
        return "nobody"
    epoch = "" if snapshot.controller.epoch is None else f" (epoch {snapshot.controller.epoch})"
    return f"{snapshot.controller.id}{epoch}"


def _quorum(snapshot: Snapshot) -> str:
    quorum = snapshot.quorum
    what = "ensemble" if snapshot.cluster.mode is Mode.ZOOKEEPER else "quorum"
    if quorum is None:
        return f"{what}: {UNKNOWN}\n"
    voters = ", ".join(f"{v.id} (lag {'not known' if v.lag is None else v.lag})" for v in quorum.voters)
    leader = "not known" if quorum.leader is None else str(quorum.leader)
    return f"{what}: leader {leader}; {voters or 'no member is known'}\n"


def _reported(view: View | None) -> str:
    """How much of its view a broker reported."""
    if view is None or view.members is None:
        return UNKNOWN
    if view.leaders is None:
        return "members only"
    return "whole" if view.covers is None else f"{many(len(view.covers), 'topic')}"


def _broker(broker: Broker, view: View | None) -> tuple[str, ...]:
    reported = _reported(view)
    rate = UNKNOWN if broker.bytes_in_rate is None else f"{broker.bytes_in_rate:.0f}"
    address = f"{broker.host}:{broker.port}" if broker.host else "-"
    ready = "" if broker.pod is None or broker.pod.ready is not False else " (not Ready)"
    pod = f"{broker.pod.name}{ready}" if broker.pod else "-"
    answers = (_yes(broker.registered), _yes(broker.reachable), _yes(broker.recovering))
    return (str(broker.id), broker.rack or "-", address, *answers, rate, reported, pod)


def _partitions(snapshot: Snapshot) -> str:
    table = snapshot.partitions
    if table is None:
        return UNKNOWN
    p = read_partitions(table)
    topics = f"{table.num_rows} of {many(len(p.topics), 'topic')}"
    counts = {
        "without a leader": int((p.leader.known & (p.leader.values < 0)).sum()),
        "with a replica out of sync": int((p.replicas.known & p.isr.known & (p.isr.counts < p.replicas.counts)).sum()),
        "being reassigned": int(p.moving.sum()),
        "with unknown log end": int((~p.log_end.known).sum()),
    }
    return ", ".join([topics, *(f"{count} {what}" for what, count in counts.items())])


def _groups(snapshot: Snapshot) -> str:
    table = snapshot.groups
    if table is None:
        return UNKNOWN
    states = dict(zip(table["group"].to_pylist(), table["state"].to_pylist(), strict=True))
    counts = Counter(state or "in an unknown state" for state in states.values())
    each = "".join(f", {count} {printable(state)}" for state, count in sorted(counts.items()))
    return f"{len(states)} with {many(table.num_rows, 'committed offset')}{each}"


def _yes(value: bool | None) -> str:
    return {True: "yes", False: "no", None: UNKNOWN}[value]
