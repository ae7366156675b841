"""Pages about a fleet: one for all clusters, one for each. HTML without a script, a picture or a link elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from kafka_medic.cluster.names import printable

__all__ = ["bytes_text", "cluster_page", "fleet_page", "page_name", "plans_page", "rate_text"]

STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem;color:#1b1f24}"
    "table{border-collapse:collapse;margin:.5rem 0}td,th{padding:.2rem .9rem .2rem 0;text-align:right;"
    "border-bottom:1px solid #d8dee4;vertical-align:top}th:first-child,td:first-child,.l{text-align:left}"
    ".note{color:#9a6700}.bad{color:#cf222e}p.small{color:#57606a}"
)
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
UNKNOWN = "unknown"
PLAIN = re.compile(r"[^A-Za-z0-9_-]+")
Row = Mapping[str, Any]
DERIVED = (
    "Derived: bytes in are offsets between two snapshots times the bytes of an offset on disk. Bytes out are what "
    "groups read by their commits. Measured: by the broker's exporter. p95: for 95 % of the time watched a rate was no "
    "higher. What happens between two snapshots shows as its average."
)


def page_name(row: Row) -> str:
    """The file of a cluster's page: its name for people, and enough of its id to be one file for each."""
    plain = (PLAIN.sub("_", str(row["cluster"]))[:64], PLAIN.sub("_", str(row["clusterId"]))[:40])
    return f"{'-'.join(plain)}.html"


def fleet_page(rows: Sequence[Row], window: str) -> str:
    """One line a cluster; rows: of ACCOUNT, without details."""
    head = (
        "Cluster", "Brokers", "Partitions", "Bytes", "a day", "First disk full", "Bytes in, p95", "out, p95",
        "Hottest topic", "Hottest broker", "Groups falling behind", "Replicas missing", "Sharing racks", "Remarks",
    )  # fmt: skip
    lines = [_line(_fleet_cells(row)) for row in rows]
    total = {key: sum(row[key] or 0 for row in rows) for key in ("partitions", "bytes", "replicasMissing")}
    lead = (
        f"{len(rows):,} clusters, {total['partitions']:,} partitions, {bytes_text(total['bytes'])} in one copy of "
        f"each, {total['replicasMissing']:,} replicas missing. Unknown counts as nothing here."
    )
    return _page(f"Fleet, {window}", f"<p>{lead}</p>{_table(head, lines)}<p class=small>{DERIVED}</p>")


def cluster_page(row: Row, window: str) -> str:
    """All that is known of a cluster; row: of ACCOUNT."""
    details = json.loads(row["details"])
    topics, brokers = details["topics"], details["brokers"]
    parts = [
        _notes(row["notes"]),
        f"<p>id {_text(row['clusterId'])}; {row['snapshots']:,} snapshots, {row['firstSnapshot']} to "
        f"{row['lastSnapshot']}; {_count(row['partitions'])} partitions of {_count(row['topics'])} topics; "
        f"{bytes_text(row['bytes'])} in one copy of each, {_growth(row['growthPerDay'])} a day</p>",
        "<h2>Disks</h2>", _disks(details["disks"]),
        "<h2>Topics that grow most</h2>", _topics(topics["growing"]),
        "<h2>Topics by bytes in</h2>", _topics(topics["in"]),
        "<h2>Topics by bytes out</h2>", _topics(topics["out"]),
        "<h2>Brokers by bytes in</h2>", _brokers(brokers),
        "<h2>Groups that fall behind</h2>", _groups(details["groups"], row["groupsFallingBehind"]),
        "<h2>Debts</h2>", _debts(details["debts"]),
        f"<p class=small>{DERIVED}</p>",
    ]  # fmt: skip
    return _page(f"{row['cluster']}, {window}", "".join(parts))


def plans_page(rows: Sequence[Row], title: str) -> str:
    """One line a cluster; rows: of OUTCOME."""
    head = (
        "Cluster", "State", "Snapshot of", "Partitions", "Changed", "Replicas to add", "at least", "Bytes to copy",
        "Balanced by", "Replicas a broker, most", "bound", "Leaders a broker, most", "bound", "Rack violations",
        "bound", "Waves", "Remark",
    )  # fmt: skip
    keys = (
        "takenAt", "partitions", "changed", "moves", "lowerBoundMoves", "bytesToCopy", "balancedBy", "replicasMax",
        "replicasBound", "leadersMax", "leadersBound", "rackViolations", "rackViolationsBound", "waves",
    )  # fmt: skip
    lines = []
    for row in rows:
        cells = [bytes_text(row[k]) if k == "bytesToCopy" and row[k] is not None else _blank(row[k]) for k in keys]
        name = _text(row["cluster"])
        linked = f'<a href="clusters/{escape(page_name(row))}">{name}</a>' if row["state"] == "planned" else name
        lines.append(
            _line([linked, _state(row["state"]), *cells, f"<span class=note>{_text(row['reason'] or '')}</span>"])
        )
    total = {key: sum(row[key] or 0 for row in rows) for key in ("moves", "bytesToCopy")}
    lead = (
        f"{len(rows):,} clusters: {total['moves']:,} replicas to add, {bytes_text(total['bytesToCopy'])} to copy. Each "
        "plan is as old as its snapshot. To carry one out, plan anew: kafka-medic plan, or the operator's playbook."
    )
    return _page(title, f"<p>{lead}</p>{_table(head, lines)}")


def bytes_text(amount: float | None) -> str:
    """1.5 GiB; "unknown" for None."""
    if amount is None:
        return UNKNOWN
    value, unit = abs(float(amount)), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{'-' if amount < 0 else ''}{value:.{1 if unit else 0}f} {UNITS[unit]}"


def rate_text(rate: float | None) -> str:
    """1.5 MiB/s; "unknown" for None."""
    return UNKNOWN if rate is None else f"{bytes_text(rate)}/s"


def _fleet_cells(row: Row) -> list[str]:
    linked = f'<a href="clusters/{escape(page_name(row))}">{_text(row["cluster"])}</a>'
    full = row["firstDiskFull"] or (f"{row['disksUnknown']} {UNKNOWN}" if row["disksUnknown"] else "not at this rate")
    if not row["brokers"]:
        full = UNKNOWN
    topic, broker = row["hottestTopic"], row["hottestBroker"]
    return [
        linked, _count(row["brokers"]), _count(row["partitions"]), bytes_text(row["bytes"]),
        _growth(row["growthPerDay"]), f"<span class=bad>{full}</span>" if row["firstDiskFull"] else full,
        rate_text(row["bytesInP95"]), rate_text(row["bytesOutP95"]),
        UNKNOWN if topic is None else f"{_text(topic)} {rate_text(row['hottestTopicInP95'])}",
        UNKNOWN
        if broker is None
        else f"{broker} {rate_text(row['hottestBrokerInP95'])} ({row['hottestBrokerSource']})",
        _count(row["groupsFallingBehind"]), _count(row["replicasMissing"]), _count(row["partitionsSharingRacks"]),
        "<br>".join(f"<span class=note>{_text(note)}</span>" for note in row["notes"]),
    ]  # fmt: skip


def _disks(disks: Sequence[Row]) -> str:
    head = ("Broker", "Directory", "Size", "Free", "Growth a day", "Full", "Why unknown")
    lines = [
        _line([
            str(d["broker"]), _text(d["path"]), bytes_text(d["total"]), bytes_text(d["free"]), _growth(d["growth"]),
            d["full"] or d["state"], _text(d["why"]),
        ])
        for d in disks
    ]  # fmt: skip
    return _table(head, lines)


def _topics(topics: Sequence[Row]) -> str:
    head = ("Topic", "Partitions", "Bytes, one copy", "Growth a day", "Bytes in, p95", "Bytes out, p95")
    lines = [
        _line([
            _text(t["topic"]), _count(t["partitions"]), bytes_text(t["bytes"]), _growth(t["growth"]),
            rate_text(t["bytes_in"]), rate_text(t["bytes_out"]),
        ])
        for t in topics
    ]  # fmt: skip
    return _table(head, lines)


def _brokers(brokers: Sequence[Row]) -> str:
    head = ("Broker", "Rack", "Alive", "Bytes in, p95", "from", "Bytes out, p95 (derived)")
    lines = [
        _line([
            str(b["broker"]), _text(b["rack"] or "-"), "yes" if b["alive"] else "no", rate_text(b["bytes_in"]),
            b["source"] or "-", rate_text(b["bytes_out"]),
        ])
        for b in brokers
    ]  # fmt: skip
    return _table(head, lines)


def _groups(groups: Sequence[Row], count: int | None) -> str:
    if count is None:
        return f"<p>{UNKNOWN}: fewer than three days have offsets.</p>"
    head = ("Group", "Topic", "Days", "Least lag of the first day", "of the last", "Growth a day (offsets)")
    lines = [
        _line([
            _text(g["group"]), _text(g["topic"]), str(g["days"]), _count(g["first"]), _count(g["last"]),
            f"{g['per_day']:,.0f}",
        ])
        for g in groups
    ]  # fmt: skip
    return _table(head, lines)


def _debts(owed: Row | None) -> str:
    if owed is None:
        return f"<p>{UNKNOWN}: the last snapshot lacks brokers or rows.</p>"
    topics = f", most of {', '.join(map(_text, owed['topics']))}" if owed["topics"] else ""
    unknown = f" and {owed['unknown']:,} partitions of unknown size" if owed["unknown"] else ""
    racks = UNKNOWN if owed["racks"] is None else f"{owed['racks']:,}"
    moving = f" {owed['moving']:,} partitions are being reassigned and not counted." if owed["moving"] else ""
    copied = f"{bytes_text(owed['bytes'])}{unknown} to copy{topics}"
    return (
        f"<p>{owed['partitions']:,} partitions lack {owed['replicas']:,} replicas, {copied}. Partitions that share a "
        f"rack though there are enough: {racks}.{moving}</p>"
    )


def _notes(notes: Sequence[str]) -> str:
    return "".join(f"<p class=note>{_text(note)}</p>" for note in notes)


def _table(head: Sequence[str], lines: Sequence[str]) -> str:
    if not lines:
        return "<p>None.</p>"
    return f"<table><tr>{''.join(f'<th>{name}' for name in head)}{''.join(lines)}</table>"


def _line(cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<td>{cell}' for cell in cells)}"


def _page(title: str, body: str) -> str:
    plain = _text(title)
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{plain}</title><style>{STYLE}</style><h1>{plain}</h1>{body}</html>\n"
    )


def _text(text: str) -> str:
    return escape(printable(str(text)))


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def _blank(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else _text(value)


def _growth(per_day: float | None) -> str:
    return UNKNOWN if per_day is None else bytes_text(per_day)


def _state(state: str) -> str:
    return f"<span class=bad>{escape(state)}</span>" if state in ("refused", "defect") else escape(state)
