"""Of which cluster a Snapshot is, from its first lines: all of it may have hundreds of megabytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_medic.plan.files.inputs import SNAPSHOT
from kafka_medic.plan.files.report_data import About

__all__ = ["about_snapshot"]

HEAD = 16_384
"""Bytes in which a Snapshot that we wrote has its kind, its cluster and its time."""


def about_snapshot(path: Path) -> About:
    """What the file says of its cluster and time; empty where it is no Snapshot, or says so further down."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD).decode("utf-8", "ignore")
    except OSError:
        return About()
    if _value(head, "kind") != SNAPSHOT:
        return About()
    cluster, taken = _value(head, "cluster"), _value(head, "takenAt")
    found: Mapping[str, Any] = cluster if isinstance(cluster, dict) else {}
    name, kafkas = found.get("name"), found.get("id")
    return About(
        cluster=name if isinstance(name, str) else "",
        cluster_id=kafkas if isinstance(kafkas, str) else "",
        observed_at=taken if isinstance(taken, str) else "",
    )


def _value(head: str, key: str) -> object:
    """The value of the first such key."""
    _, found, rest = head.partition(f'"{key}"')
    if not found:
        return None
    try:
        value: object = json.JSONDecoder().raw_decode(rest.lstrip(" \t\r\n:"))[0]
    except ValueError:
        return None
    return value
