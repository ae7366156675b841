"""A plan for one cluster of a history: the planner of one process, on the last Snapshot that counts.

Such a plan shows what a cluster's debts cost. It is as old as its Snapshot, so nobody carries it out: for that the
command `plan` and the operator plan anew, on what the brokers report then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_medic.cluster.partition_rows import NOWHERE, Rows
from kafka_medic.fleet.traffic import Floats
from kafka_medic.fleet.whole import Chosen, moment
from kafka_medic.plan.arrow import compute, integers, names
from kafka_medic.plan.bounds import BY_BYTES
from kafka_medic.plan.estimate import estimate
from kafka_medic.plan.files.report import CARRY_OUT, plan_page
from kafka_medic.plan.files.report_data import About, ReportData, report_data
from kafka_medic.plan.model import PLAN_SCHEMA, Plan, Spread, Summary
from kafka_medic.plan.problem import Broker, Problem, ProblemError
from kafka_medic.plan.solver.disk_capacity import arriving
from kafka_medic.plan.solver.local import bytes_spread, finish, place, plan_local
from kafka_medic.plan.verify.rules import verify
from kafka_medic.plan.wanted import Wanted
from kafka_medic.plan.wave_limits import WaveLimits
from kafka_medic.report.render import render
from kafka_medic.report.units import many

__all__ = [
    "FIRST_COLUMNS",
    "FOR_TRAFFIC",
    "LAST_COLUMNS",
    "LARGEST",
    "OUTCOME",
    "Outcome",
    "Wish",
    "plan_cluster",
    "text_of",
    "too_large",
]

HOME = "../index.html"
"""Of the page of all clusters, as seen from the page of one."""
LARGEST = 4_000_000
"""Partitions of a cluster that one task plans: 0.8 GB of memory for each million."""
LAST_COLUMNS = ("clusterId", "snapshot", "topic", "partition", "leader", "replicas", "isr", "moving", "sizeBytes")
"""What is read of the last Snapshot of a cluster."""
FOR_TRAFFIC = ("topicId", "logStart", "logEnd")
"""And this, where traffic counts."""
FIRST_COLUMNS = ("clusterId", "snapshot", "topic", "topicId", "partition", "logEnd")
"""What is read of an earlier one, for traffic."""
KNOWN_SHARE = 0.9
"""Of the partitions: below it their traffic is not known well enough to be evened out."""
TRAFFIC, REPLICAS = "traffic", "replicas"
PLANNED, NOTHING, REFUSED, DEFECT = "planned", "nothing to do", "refused", "defect"

_FIELDS: list[Any] = [
    ("clusterId", pa.string()), ("cluster", pa.string()), ("state", pa.string()), ("reason", pa.string()),
    ("snapshot", pa.string()), ("takenAt", pa.string()), ("partitions", pa.int64()), ("changed", pa.int64()),
    ("leftOut", pa.int64()), ("moves", pa.int64()), ("lowerBoundMoves", pa.int64()),
    ("bytesToCopy", pa.int64()), ("sizesUnknown", pa.int64()),
    ("balancedBy", pa.string()), ("replicasMax", pa.int64()), ("replicasBound", pa.int64()),
    ("leadersMax", pa.int64()), ("leadersBound", pa.int64()), ("trafficMax", pa.int64()), ("trafficBound", pa.int64()),
    ("rackViolations", pa.int64()), ("rackViolationsBound", pa.int64()), ("waves", pa.int64()),
]  # fmt: skip
OUTCOME: pa.Schema = pa.schema(_FIELDS)
"""One row a cluster. traffic: bytes per day that its replicas receive, of the fullest broker, where that was evened
out."""


@dataclass(frozen=True)
class Wish:
    """What is wanted of every cluster. balance: "traffic" or "replicas"."""

    wanted: Wanted
    balance: str = TRAFFIC


@dataclass(frozen=True, eq=False)
class Outcome:
    """row: of OUTCOME. plan: PLAN_SCHEMA, empty where there is none. page: HTML, empty likewise."""

    row: Mapping[str, Any]
    plan: pa.Table
    page: str


def plan_cluster(tables: Mapping[str, pa.Table], chosen: Chosen, wish: Wish) -> Outcome:
    """Plan one cluster. Never raises for what is wrong with its rows.

    tables: `last`, LAST_COLUMNS (and FOR_TRAFFIC) of its last Snapshot that counts; `first`, FIRST_COLUMNS of an
    earlier one; `brokers`, rows of BROKERS of the last one.
    """
    row = about(chosen)
    try:
        return _planned(_rows(tables["last"], chosen), tables, chosen, wish, row)
    except ProblemError as error:
        return Outcome(row | {"state": REFUSED, "reason": error.reason}, PLAN_SCHEMA.empty_table(), "")


def _planned(
    last: pa.Table, tables: Mapping[str, pa.Table], chosen: Chosen, wish: Wish, row: dict[str, Any]
) -> Outcome:
    wanted = wish.wanted
    listed = names(compute.unique(last["topic"].cast(pa.string())))
    columns = last.select(["topic", "partition", "replicas", "leader", "isr", "sizeBytes"])
    problem = Problem(
        columns, brokers_of(tables["brokers"]), wanted.factor, wanted.factors_of(listed), wanted.exempt_of(listed)
    )
    left_out = int((problem.left_out != 0).sum())
    row |= {"partitions": last.num_rows, "leftOut": left_out}
    remarks = [f"{many(left_out, 'partition')} with a replica on a dead broker left unchanged"] if left_out else []
    if not problem.missing.any():
        return Outcome(row | {"state": NOTHING, "reason": "".join(remarks) or None}, PLAN_SCHEMA.empty_table(), "")
    plan, even, note = _by_wish(problem, last, tables["first"], chosen, wish)
    remarks += [note] if note else []
    row |= {"balancedBy": REPLICAS if even is None else TRAFFIC, "reason": "; ".join(remarks) or None}
    if broken := verify(problem, plan):
        return Outcome(row | {"state": DEFECT, "reason": "; ".join(broken[:5])}, PLAN_SCHEMA.empty_table(), "")
    leaders = problem.leaders_of_changed(plan)
    cost, found = estimate(plan, leaders, None), plan.summary
    row |= {"state": PLANNED, "trafficMax": even and even.max, "trafficBound": even and even.bound}
    row |= figures_of(found, cost.bytes_total, cost.unknown)
    title = f"raise replication factor, balanced by {row['balancedBy']}"
    of = About(chosen.cluster, chosen.cluster_id, row["takenAt"] or "")
    return Outcome(row, plan.table, page_of(report_data(problem, plan, leaders, None, title, of, with_list=False)))


def page_of(data: ReportData) -> str:
    """A cluster's plan as a page of a fleet's plans, which nobody carries out."""
    drawn = plan_page(data)
    sections = [section for section in drawn.sections if section.id != CARRY_OUT]
    return render(replace(drawn, state="Not to be carried out", sections=sections, home=HOME))


def figures_of(found: Summary, copied: int, unknown: int) -> dict[str, Any]:
    """What a row of OUTCOME has of a summary; copied, unknown: bytes to copy, partitions of unknown size."""
    return {
        "changed": found.partitions, "moves": found.moves, "lowerBoundMoves": found.lower_bound_moves,
        "bytesToCopy": copied, "sizesUnknown": unknown,
        "replicasMax": found.replicas_per_broker.max, "replicasBound": found.replicas_per_broker.bound,
        "leadersMax": found.leaders_per_broker.max, "leadersBound": found.leaders_per_broker.bound,
        "rackViolations": found.rack_violations, "rackViolationsBound": found.rack_violations_bound,
        "waves": found.waves,
    }  # fmt: skip


def _by_wish(
    problem: Problem, last: pa.Table, first: pa.Table, chosen: Chosen, wish: Wish
) -> tuple[Plan, Spread | None, str | None]:
    """(the plan, bytes per day and broker in the end, a remark); even in traffic where that is wanted, known, and fits
    on the disks."""
    if wish.balance != TRAFFIC:
        return plan_local(problem), None, None
    rate = _traffic(last, first, chosen)
    if np.isnan(rate).mean() > 1 - KNOWN_SHARE:
        return plan_local(problem), None, "balanced by replicas: the traffic of too many partitions is not known"
    per_day = np.rint(_filled(rate, last)).astype(np.int64)
    columns, brokers = problem.columns, problem.brokers
    busy = replace(columns, size=per_day[columns.source_row])
    # A disk fills with bytes that are kept, not with those that arrive, so it is checked below.
    roomy = tuple(replace(broker, disk_free=None) for broker in brokers)
    placed = place(busy, problem.missing, roomy, by_bytes=True)
    try:
        plan = finish(columns, columns.held, brokers, placed, WaveLimits(), problem.left_out)
    except ProblemError:
        return plan_local(problem), None, "balanced by replicas: balanced by traffic it does not fit on the disks"
    come = arriving(placed.added, busy.size[placed.rows], len(brokers))
    plan = replace(plan, summary=replace(plan.summary, bounds=problem.allowed.among(BY_BYTES)))
    return plan, bytes_spread(arriving(columns.held, busy.size, len(brokers)), come, brokers), None


def _traffic(last: pa.Table, first: pa.Table, chosen: Chosen) -> Floats:
    """float64[N] bytes per day that arrive at each partition, NaN where not known: offsets since the first Snapshot
    that counts (or since the topic was made), times the bytes of an offset."""
    seconds = ((chosen.last_whole_time or 0) - (chosen.first_whole_time or 0)) / 1_000_000
    count = last.num_rows
    if seconds <= 0 or chosen.first_whole == chosen.last_whole:
        return np.full(count, np.nan)
    end, start, size = (_floats(last[name]) for name in ("logEnd", "logStart", "sizeBytes"))
    at = Rows.of(first).find(last)
    there = at != NOWHERE
    index = pa.array(at, pa.int64(), mask=~there)
    same = compute.equal(last["topicId"], first["topicId"].take(index))
    there &= np.asarray(compute.fill_null(same, True).to_numpy(), dtype=bool)  # an unknown id is taken for the same
    records = end - np.where(there, _floats(first["logEnd"].take(index)), 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        each = np.where(end > start, size / (end - start), np.where(records == 0, 0.0, np.nan))
        rate = np.where(records >= 0, records * each / seconds * 86_400, np.nan)
    return np.minimum(rate, float(1 << 55))


def _filled(rate: Floats, last: pa.Table) -> Floats:
    """A partition of unknown traffic gets the average of its topic, or else of the cluster: a weight, not a claim."""
    topic = integers(last["topic"].combine_chunks().cast(pa.string()).dictionary_encode().indices)
    known = ~np.isnan(rate)
    count = np.bincount(topic[known], minlength=int(topic.max(initial=0)) + 1)
    total = np.bincount(topic[known], weights=rate[known], minlength=len(count))
    overall = float(rate[known].mean()) if known.any() else 0.0
    average = np.where(count > 0, total / np.maximum(count, 1), overall)
    return np.where(known, rate, average[topic])


def _floats(column: Any) -> Floats:
    return np.asarray(compute.fill_null(column.cast(pa.float64()), float("nan")).to_numpy(), dtype=np.float64)


def _rows(last: pa.Table, chosen: Chosen) -> pa.Table:
    """The partitions of the last Snapshot, each once, all of them, and none on its way. Raises ProblemError."""
    if times_there(last.num_rows, compute.sum(last["moving"]).as_py() or 0, chosen) > 1:  # a file was copied
        order = last.append_column("at", pa.array(np.arange(last.num_rows)))
        first = order.select(["topic", "partition", "at"]).group_by(["topic", "partition"]).aggregate([("at", "min")])
        last = last.take(first["at_min"].combine_chunks().sort())
    return last.combine_chunks()


def times_there(rows: int, moving: int, chosen: Chosen) -> int:
    """How often the partitions of the last Snapshot are there. moving: those of the rows that are being reassigned.
    Raises ProblemError where they are not whole, or not at rest."""
    if chosen.last_whole is None:
        raise ProblemError(None, "no snapshot of it has partitions")
    times, rest = divmod(rows, max(chosen.partitions, 1))
    if rest or not times:
        reason = f"its last snapshot has {rows:,} partitions of {chosen.partitions:,}: append another one"
        raise ProblemError(None, reason)
    if moving:
        raise ProblemError(
            None, f"{many(moving // times, 'partition')} being reassigned: wait until the reassignment ends"
        )
    return times


def brokers_of(rows: pa.Table) -> tuple[Broker, ...]:
    """Raises ProblemError."""
    if not rows.num_rows:
        raise ProblemError(None, "the brokers of its last snapshot are not known", "brokers")
    each = {row["id"]: row for row in rows.select(["id", "rack", "alive", "diskFree"]).to_pylist()}
    return tuple(Broker(row["id"], row["rack"] or None, row["alive"], row["diskFree"]) for row in each.values())


def about(chosen: Chosen) -> dict[str, Any]:
    taken = None if chosen.last_whole_time is None else moment(chosen.last_whole_time)
    return {
        "clusterId": chosen.cluster_id, "cluster": chosen.cluster, "snapshot": chosen.last_whole, "takenAt": taken,
    }  # fmt: skip


def too_large(chosen: Chosen, command: str) -> dict[str, Any]:
    """The row of OUTCOME of a cluster that no task can hold; command: what to run instead."""
    return dict.fromkeys(OUTCOME.names) | about(chosen) | {
        "state": REFUSED, "partitions": chosen.partitions,
        "reason": f"{chosen.partitions:,} partitions are above {LARGEST:,}: {command}",
    }  # fmt: skip


def text_of(row: Mapping[str, Any]) -> str:
    """A row as JSON."""
    return json.dumps({name: row.get(name) for name in OUTCOME.names})
