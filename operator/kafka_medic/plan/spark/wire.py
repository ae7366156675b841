"""What tasks send to the driver, as JSON: plain data, whatever versions run on the two sides."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from kafka_medic.plan.model import TopicSpread
from kafka_medic.plan.solver.aggregate import Kinds
from kafka_medic.plan.spark.blocks import Classes, Laid, Piece, Refused, Survey, Waiting
from kafka_medic.plan.spark.report_data import WaveBytes
from kafka_medic.plan.verify.part import PartCounts

__all__ = ["laid_of", "survey_of", "text_of"]

_SURVEYED = ("takers", "held", "load", "first", "stored", "gained", "least", "sent")
_COUNTED = (
    "before", "after", "given", "reach", "led_before", "led", "led_reassigned", "fixed", "stored", "arriving",
    "wave", "records", "added",
)  # fmt: skip


def text_of(found: Survey | Refused | Laid) -> str:
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
        "waiting": Waiting(**_arrays(found["waiting"], found["waiting"])),
        "pieces": _pieces(found),
    }
    return Survey(**(found | _arrays(found, _SURVEYED) | parts))


def laid_of(text: str) -> Laid | Refused:
    """The Laid or Refused that `text_of` wrote."""
    found: dict[str, Any] = json.loads(text)
    if "reason" in found:
        return Refused(**found)
    if (counts := found["counts"]) is not None:
        counts = PartCounts(**(counts | _arrays(counts, _COUNTED) | {"problems": tuple(counts["problems"])}))
    parts = {
        "counts": counts,
        "waves": WaveBytes(**_arrays(found["waves"], found["waves"])),
        "topics": tuple(TopicSpread(**topic) for topic in found["topics"]),
        "pieces": _pieces(found),
    }
    return Laid(**(found | _arrays(found, ("sent",)) | parts))


def _pieces(found: dict[str, Any]) -> tuple[Piece, ...]:
    return tuple(Piece(**piece) for piece in found["pieces"])


def _arrays(found: dict[str, Any], names: Any) -> dict[str, Any]:
    return {name: np.array(found[name], dtype=np.int64) for name in names}
