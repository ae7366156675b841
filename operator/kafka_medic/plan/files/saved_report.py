"""What the report of a plan shows, kept in report.json, so that the page can be made again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from kafka_medic.plan.allowed import LeftOut
from kafka_medic.plan.arrow import Int64s
from kafka_medic.plan.bounds import RAISE, Bound
from kafka_medic.plan.files.inputs import InputError
from kafka_medic.plan.files.report_data import About, ReportData
from kafka_medic.plan.model import Fullest, Spread, Summary, TopicSpread
from kafka_medic.plan.problem import Broker

__all__ = ["read_report", "report_document"]

_TOPIC = ("topic", "partitions", "replicas", "before", "after", "bound", "led_before", "led_after", "led_bound")
_WAVE = ("partitions", "added", "moved", "busiest")


def report_document(data: ReportData) -> dict[str, Any]:
    """report.json: what the plan is of, and its figures per broker, wave and topic."""
    about = data.about
    brokers = [
        {
            "id": broker.id,
            "rack": broker.rack,
            "alive": broker.alive,
            "weight": broker.weight,
            "replicas": [int(side[at]) for side in data.replicas],
            "leaders": [int(side[at]) for side in data.leaders],
        }
        for at, broker in enumerate(data.brokers)
    ]
    waves = {name: None if (of := getattr(data, name)) is None else of.tolist() for name in _WAVE}
    return {
        "title": data.title,
        "cluster": about.cluster,
        "clusterId": about.cluster_id,
        "observedAt": about.observed_at,
        "plannedAt": about.planned_at.isoformat() if about.planned_at else None,
        "requestedBy": about.requester,
        "throttle": data.throttle,
        "sizesUnknown": data.sizes_unknown,
        "topicsUncounted": data.uncounted,
        "brokers": brokers,
        "waves": waves,
        "topics": [{name: getattr(topic, name) for name in _TOPIC} for topic in data.topics],
    }


def read_report(summary: Path, figures: Path) -> ReportData:
    """Of summary.json and report.json, which earlier versions did not write. Raises InputError."""
    document = _object(summary)
    kept = _object(figures) if figures.exists() else {}
    try:
        brokers = tuple(Broker(b["id"], b["rack"], b["alive"], None, b["weight"]) for b in kept.get("brokers", ()))
        sides = {
            name: tuple(_numbers([b[name][at] for b in kept.get("brokers", ())]) for at in (0, 1))
            for name in ("replicas", "leaders")
        }
        waves = kept.get("waves") or {}
        count = [None if waves.get(name) is None else _numbers(waves[name]) for name in _WAVE]
        planned = kept.get("plannedAt")
        return ReportData(
            brokers,
            _summary(document),
            (sides["replicas"][0], sides["replicas"][1]),
            (sides["leaders"][0], sides["leaders"][1]),
            _numbers([]) if count[0] is None else count[0],
            _numbers([]) if count[1] is None else count[1],
            count[2],
            count[3],
            tuple(TopicSpread(**topic) for topic in kept.get("topics", ())),
            kept.get("throttle"),
            kept.get("title", ReportData.title),
            kept.get("topicsUncounted", 0),
            kept.get("sizesUnknown"),
            about=About(
                kept.get("cluster", ""),
                kept.get("clusterId", ""),
                kept.get("observedAt", ""),
                datetime.fromisoformat(planned) if planned else None,
                kept.get("requestedBy", ""),
            ),
        )
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(summary, None, f"is no summary of a plan: {type(error).__name__}: {error}") from None


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InputError(path, None, f"not readable: {error}") from None
    if not isinstance(found, dict):
        raise InputError(path, None, "is no JSON object")
    return found


def _numbers(values: list[int]) -> Int64s:
    return np.array(values, dtype=np.int64)


def _summary(found: Mapping[str, Any]) -> Summary:
    named = {name: Bound(b["over"], b["exact"]) for name, b in found.get("bounds", {}).items()}
    left = found.get("leftOut", {})
    after = found.get("leadersAfterReassignment")
    return Summary(
        partitions=found["partitions"],
        moves=found["moves"],
        lower_bound_moves=found["lowerBoundMoves"],
        replicas_per_broker=_spread(found["replicasPerBroker"]),
        leaders_per_broker=_spread(found["leadersPerBroker"]),
        rack_violations=found["rackViolations"],
        rack_violations_bound=found["rackViolationsBound"],
        waves=found["waves"],
        capacity_unknown=found.get("roomUnknown", 0),
        bytes_per_broker=_spread(found["bytesPerBroker"]) if "bytesPerBroker" in found else None,
        topic_replicas=_fullest(found.get("replicasOfOneTopic")),
        topic_leaders=_fullest(found.get("leadersOfOneTopic")),
        leaders_reassigned=Spread(after["min"], after["max"], 0) if after else None,
        reordered=found.get("preferredOrder", {}).get("partitions", 0),
        left_out={why: left[why.key] for why in LeftOut if left.get(why.key)},
        bounds={**RAISE, **named},
        engine=found.get("engine", ""),
        seconds=found.get("seconds", 0.0),
    )


def _spread(found: Mapping[str, Any]) -> Spread:
    return Spread(found["min"], found["max"], found["bound"], found.get("anyPlan", 0))


def _fullest(found: Mapping[str, Any] | None) -> Fullest | None:
    return None if found is None else Fullest(found["topic"], found["max"], found["bound"], found["ownBound"])
