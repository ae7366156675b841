"""What a step says of itself when it looks at the world."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from kafka_medic.playbook.effects import Intent
from kafka_medic.resources.remediation_status import Progress


class StepState(Enum):
    """ACT: an effect is due. WAIT: sent, and the world is on its way. REACHED: its goal is observed. DRIFTED: the world
    is not the one the plan was made for. UNKNOWN: what is needed could not be read."""

    ACT = "act"
    WAIT = "wait"
    REACHED = "reached"
    DRIFTED = "drifted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StepReport:
    """A step's state. `observed` are journal ids whose effect is visible; `saved` is what an intent will overwrite, as
    `setting_text` -> value; `restores` marks an intent that only puts back what we changed. `streak` counts the
    observations in a row that a part of the step is well; `stuck` says what has taken longer than it may, so that a
    person is told. `otherwise`: how the step stands if no guard lets this intent pass, which it need not wait for.
    `void`: journal ids whose effect was seen to have missed its purpose."""

    state: StepState
    message: str
    intent: Intent | None = None
    target: str = ""
    saved: dict[str, str | None] = field(default_factory=dict)
    observed: tuple[str, ...] = ()
    restores: bool = False
    progress: Progress | None = None
    streak: int | None = None
    stuck: str | None = None
    otherwise: StepReport | None = None
    void: tuple[str, ...] = ()
