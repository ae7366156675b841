"""What tasks send to the driver, as JSON: plain data, whatever versions run on the two sides."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from kafka_medic.plan.model import TopicSpread
from kafka_medic.plan.solver.aggregate import Kinds
from kafka_medic.plan.spark.blocks import Classes, Laid, Refused, Survey
from kafka_medic.plan.spark.report_data import Part, WaveBytes
from kafka_medic.plan.verify.input_checksum import InputChecksum, PlanChecksum

__all__ = ["laid_of", "plan_checksum_of", "survey_of", "text_of"]

_SURVEYED = ("takers", "held", "topic_rows", "topic_last", "topic_checksum", "sent")
_OF_A_PART = ("before", "after", "led_before", "led_after", "led_given")
_COUNTED = ("gained", "before", "lead", "wave", "records", "added")


def text_of(found: Survey | Refused | Laid | PlanChecksum) -> str:
    """What a task found, as JSON."""
    return json.dumps(found, default=lambda value: value.tolist() if hasattr(value, "tolist") else vars(value))


def survey_of(text: str) -> Survey | Refused:
    """The Survey or Refused that `text_of` wrote."""
    found: dict[str, Any] = json.loads(text)
    if "reason" in found:
        return Refused(**found)
    if (kinds := found["kinds"]) is not None:
        missing = np.array(kinds["missing"], dtype=np.int32)
        racks = np.array(kinds["racks"], dtype=np.int32).reshape(len(missing), -1 if len(missing) else 1)
        kinds = Kinds(racks, missing, np.array(kinds["count"], dtype=np.int64))
    parts = {
        "kinds": kinds,
        "classes": Classes(**_arrays(found["classes"], found["classes"])),
        "input": InputChecksum(**(found["input"] | _arrays(found["input"], ("load", "first", "stored")))),
        "topics": tuple(found["topics"]),
    }
    return Survey(**(found | _arrays(found, _SURVEYED) | parts))


def plan_checksum_of(text: str) -> PlanChecksum:
    """The PlanChecksum that `text_of` wrote."""
    found: dict[str, Any] = json.loads(text)
    return PlanChecksum(**(found | _arrays(found, _COUNTED) | {"problems": tuple(found["problems"])}))


def laid_of(text: str) -> Laid:
    """The Laid that `text_of` wrote."""
    found: dict[str, Any] = json.loads(text)
    return Laid(
        np.array(found["arriving"], dtype=np.int64),
        WaveBytes(**_arrays(found["waves"], found["waves"])),
        tuple(TopicSpread(**topic) for topic in found["topics"]),
        tuple(Part(**(part | _arrays(part, _OF_A_PART))) for part in found["parts"]),
    )


def _arrays(found: dict[str, Any], names: Any) -> dict[str, Any]:
    return {name: np.array(found[name], dtype=np.int64) for name in names}
