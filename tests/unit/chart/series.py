"""The queries of the chart's alerts and dashboards, and what the operator's page of metrics holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.controller.exposed import everything
from tests.unit.resources.sources import CHART

SCRAPED = frozenset({"job", "instance", "pod", "container", "service", "endpoint"})
"""Labels that Prometheus adds."""


@dataclass(frozen=True)
class Query:
    """`place`: the alert, or the dashboard with its panel or variable."""

    place: str
    expr: str


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["groups"]
    return list(group["rules"])


def dashboards() -> dict[str, dict[str, Any]]:
    return {file.stem: json.loads(file.read_text()) for file in sorted((CHART / "files" / "dashboards").glob("*.json"))}


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in board["panels"] if one["type"] != "row"]


def queries() -> Iterator[Query]:
    """Of all panels and alerts, with Grafana's variables in place."""
    for alert in alerts():
        yield Query(f"alert {alert['alert']}", alert["expr"])
    for name, board in dashboards().items():
        for panel in panels(board):
            for target in panel["targets"]:
                yield Query(f"{name}, {panel['title']}, {target['refId']}", filled(target["expr"]))


def variables() -> Iterator[tuple[str, str, str]]:
    """(place, what is selected, label) of the dashboards' variables."""
    for name, board in dashboards().items():
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                selected, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"]).groups()
                yield f"{name}, ${variable['name']}", filled(selected), label


def filled(expr: str) -> str:
    chosen = {"namespace": "ns", "cluster": "c", "remediation": "r", "__rate_interval": "5m"}
    return re.sub(r"\$(\w+)", lambda match: chosen[match[1]], expr)


def exposed() -> dict[str, list[tuple[dict[str, str], float]]]:
    """The samples of a page with everything, by name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    page = generate_latest(everything().registry).decode()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found
