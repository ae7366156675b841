"""Pages about a fleet: one for all clusters, one for each. They are made as every page is (`kafka_medic.report`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafka_medic.report import units
from kafka_medic.report.model import Cell, Column, Fact, Page, Row, Section, Table, Text, Tone
from kafka_medic.report.render import render
from kafka_medic.report.units import UNKNOWN, many

__all__ = ["HOME", "bytes_text", "cluster_page", "fleet_page", "page_name", "plans_page", "rate_text"]

HOME = "../index.html"
"""Of the page of all clusters, as seen from the page of one."""
PLAIN = re.compile(r"[^A-Za-z0-9_-]+")
Answer = Mapping[str, Any]
DERIVED = (
    "Derived bytes in are offsets between two snapshots times the bytes of an offset on disk. Derived bytes out are "
    "what groups read by their commits. Measured bytes are those of the broker's exporter.",
    "p95: for 95 % of the time watched a rate was no higher. What happens between two snapshots shows as its average.",
)


def page_name(row: Answer) -> str:
    """The file of a cluster's page: its name for people, and enough of its id to be one file for each."""
    plain = (PLAIN.sub("_", str(row["cluster"]))[:64], PLAIN.sub("_", str(row["clusterId"]))[:40])
    return f"{'-'.join(plain)}.html"


def fleet_page(rows: Sequence[Answer], window: str) -> str:
    """One line a cluster; rows: of ACCOUNT, without details."""
    columns = _columns(
        "Cluster", "#Brokers", "#Partitions", "#Bytes", "#Growth a day", "First disk full", "#Bytes in, p95",
        "#Bytes out, p95", "Hottest topic", "Hottest broker", "#Groups falling behind", "#Replicas missing",
        "#Sharing racks", "Remarks",
    )  # fmt: skip
    total = {key: sum(row[key] or 0 for row in rows) for key in ("partitions", "bytes", "replicasMissing")}
    lead = (
        f"{many(len(rows), 'cluster')}, {many(total['partitions'], 'partition')}, {bytes_text(total['bytes'])} in one "
        f"copy of each, {many(total['replicasMissing'], 'replica')} missing. Unknown counts as nothing here."
    )
    table = Table("Clusters", columns, [_fleet_cells(row) for row in rows], "" if rows else "None.")
    return render(
        Page("Fleet", f"Fleet, {window}", [lead], sections=[_section("Clusters", table)], foot=DERIVED, wide=True)
    )


def cluster_page(row: Answer, window: str) -> str:
    """All that is known of a cluster; row: of ACCOUNT."""
    details = json.loads(row["details"])
    topics = details["topics"]
    facts = [
        Fact("Cluster id", str(row["clusterId"]), code=True),
        Fact("Snapshots", f"{row['snapshots']:,}"),
        Fact("From", str(row["firstSnapshot"])),
        Fact("To", str(row["lastSnapshot"])),
        Fact("Partitions", f"{units.count(row['partitions'])} of {units.count(row['topics'])} topics"),
        Fact("Bytes, one copy of each", bytes_text(row["bytes"])),
        Fact("Growth a day", bytes_text(row["growthPerDay"])),
    ]
    sections = [
        *([Section("remarks", "Remarks", [Text(row["notes"], Tone.WARN)])] if row["notes"] else []),
        _section("Disks", _disks(details["disks"])),
        _section("Topics that grow most", _topics(topics["growing"])),
        _section("Topics by bytes in", _topics(topics["in"])),
        _section("Topics by bytes out", _topics(topics["out"])),
        _section("Brokers by bytes in", _brokers(details["brokers"])),
        _section("Groups that fall behind", _groups(details["groups"], row["groupsFallingBehind"])),
        _section("Debts", _debts(details["debts"])),
    ]
    return render(
        Page("Cluster", f"{row['cluster']}, {window}", facts=facts, sections=sections, foot=DERIVED, home=HOME)
    )


def plans_page(rows: Sequence[Answer], title: str) -> str:
    """One line a cluster; rows: of OUTCOME."""
    columns = _columns(
        "Cluster", "State", "Snapshot of", "#Partitions", "#Changed", "#Replicas to add", "#At least", "#Bytes to copy",
        "Balanced by", "#Replicas a broker, most", "#Bound", "#Leaders a broker, most", "#Bound", "#Rack violations",
        "#Bound", "#Waves", "Remark",
    )  # fmt: skip
    keys = (
        "takenAt", "partitions", "changed", "moves", "lowerBoundMoves", "bytesToCopy", "balancedBy", "replicasMax",
        "replicasBound", "leadersMax", "leadersBound", "rackViolations", "rackViolationsBound", "waves",
    )  # fmt: skip
    lines: list[Row] = []
    for row in rows:
        cells = [bytes_text(row[k]) if k == "bytesToCopy" and row[k] is not None else _blank(row[k]) for k in keys]
        state = Cell(row["state"], Tone.BAD if row["state"] in ("refused", "defect") else Tone.PLAIN)
        link = f"clusters/{page_name(row)}" if row["state"] == "planned" else ""
        lines.append([Cell(str(row["cluster"]), href=link), state, *cells, _remark(row["reason"] or "")])
    total = {key: sum(row[key] or 0 for row in rows) for key in ("moves", "bytesToCopy")}
    copied = bytes_text(total["bytesToCopy"])
    lead = [
        f"{many(len(rows), 'cluster')}: {many(total['moves'], 'replica')} to add, {copied} to copy.",
        "Each plan is as old as its snapshot. To carry one out, plan again with kafka-medic plan or the operator.",
    ]
    table = Table("Clusters", columns, lines, "" if lines else "None.")
    return render(Page("Fleet", title, lead, sections=[_section("Clusters", table)], wide=True))


def bytes_text(amount: float | None) -> str:
    """1.5 GB; "unknown" for None."""
    if amount is None:
        return UNKNOWN
    return f"-{units.bytes_text(round(-amount))}" if amount < 0 else units.bytes_text(round(amount))


def rate_text(rate: float | None) -> str:
    """1.5 MB/s; "unknown" for None."""
    return UNKNOWN if rate is None else f"{bytes_text(rate)}/s"


def _fleet_cells(row: Answer) -> Row:
    full = row["firstDiskFull"] or (f"{row['disksUnknown']} {UNKNOWN}" if row["disksUnknown"] else "not at this rate")
    if not row["brokers"]:
        full = UNKNOWN
    topic, broker = row["hottestTopic"], row["hottestBroker"]
    return [
        Cell(str(row["cluster"]), href=f"clusters/{page_name(row)}"), units.count(row["brokers"]),
        units.count(row["partitions"]), bytes_text(row["bytes"]), bytes_text(row["growthPerDay"]),
        Cell(full, Tone.BAD) if row["firstDiskFull"] else full, rate_text(row["bytesInP95"]),
        rate_text(row["bytesOutP95"]),
        UNKNOWN if topic is None else f"{topic} {rate_text(row['hottestTopicInP95'])}",
        UNKNOWN
        if broker is None
        else f"{broker} {rate_text(row['hottestBrokerInP95'])} ({row['hottestBrokerSource']})",
        units.count(row["groupsFallingBehind"]), units.count(row["replicasMissing"]),
        units.count(row["partitionsSharingRacks"]), _remark("; ".join(row["notes"])),
    ]  # fmt: skip


def _remark(text: str) -> str | Cell:
    return Cell(text, Tone.WARN) if text else ""


def _disks(disks: Sequence[Answer]) -> Table:
    columns = _columns("Broker", "Directory", "#Size", "#Free", "#Growth a day", "Full", "Why unknown")
    return _table(
        columns,
        [
            [
                str(d["broker"]), str(d["path"]), bytes_text(d["total"]), bytes_text(d["free"]),
                bytes_text(d["growth"]), d["full"] or d["state"], str(d["why"]),
            ]
            for d in disks
        ],
    )  # fmt: skip


def _topics(topics: Sequence[Answer]) -> Table:
    columns = _columns(
        "Topic", "#Partitions", "#Bytes, one copy", "#Growth a day", "#Bytes in, p95", "#Bytes out, p95"
    )  # fmt: skip
    return _table(
        columns,
        [
            [
                str(t["topic"]), units.count(t["partitions"]), bytes_text(t["bytes"]), bytes_text(t["growth"]),
                rate_text(t["bytes_in"]), rate_text(t["bytes_out"]),
            ]
            for t in topics
        ],
    )  # fmt: skip


def _brokers(brokers: Sequence[Answer]) -> Table:
    columns = _columns("Broker", "Rack", "Alive", "#Bytes in, p95", "From", "#Bytes out, p95 (derived)")
    return _table(
        columns,
        [
            [
                str(b["broker"]), str(b["rack"] or "-"), "yes" if b["alive"] else "no", rate_text(b["bytes_in"]),
                b["source"] or "-", rate_text(b["bytes_out"]),
            ]
            for b in brokers
        ],
    )  # fmt: skip


def _groups(groups: Sequence[Answer], count: int | None) -> Table | Text:
    if count is None:
        return Text([f"{UNKNOWN}: fewer than three days have offsets."])
    columns = _columns(
        "Group", "Topic", "#Days", "#Least lag of the first day", "#Of the last day", "#Growth a day (offsets)"
    )  # fmt: skip
    return _table(
        columns,
        [
            [
                str(g["group"]), str(g["topic"]), str(g["days"]), units.count(g["first"]), units.count(g["last"]),
                f"{g['per_day']:,.0f}",
            ]
            for g in groups
        ],
    )  # fmt: skip


def _debts(owed: Answer | None) -> Text:
    if owed is None:
        return Text([f"{UNKNOWN}: the last snapshot lacks brokers or rows."])
    topics = f", most of {', '.join(map(str, owed['topics']))}" if owed["topics"] else ""
    unknown = f" and {many(owed['unknown'], 'partition')} of unknown size" if owed["unknown"] else ""
    racks = UNKNOWN if owed["racks"] is None else f"{owed['racks']:,}"
    lines = [
        f"{many(owed['partitions'], 'partition')} lack {many(owed['replicas'], 'replica')}, {bytes_text(owed['bytes'])}"
        f"{unknown} to copy{topics}.",
        f"Partitions that share a rack though there are enough: {racks}.",
    ]
    if owed["moving"]:
        lines.append(f"{many(owed['moving'], 'partition')} are being reassigned and not counted.")
    return Text(lines)


def _columns(*names: str) -> list[Column]:
    """Numeric where the name begins with #."""
    return [Column(name.removeprefix("#"), numeric=name.startswith("#")) for name in names]


def _table(columns: Sequence[Column], rows: Sequence[Row]) -> Table:
    return Table("", columns, rows, "" if rows else "None.")


def _section(title: str, block: Table | Text) -> Section:
    block = replace(block, title="") if isinstance(block, Table) else block
    return Section(PLAIN.sub("-", title).lower(), title, [block])


def _blank(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
