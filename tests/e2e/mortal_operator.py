"""The operator's own process, except that it ends itself with SIGKILL at a chosen write, and writes down each effect.

Usage: python -m tests.e2e.mortal_operator EFFECTS_FILE NAMESPACE [MOMENT]
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import unasked
from kafka_medic.controller import __main__ as controller

MOMENTS = (
    "before-throttle",
    "after-throttle",
    "before-reassign",
    "after-reassign",
    "before-restore",
    "after-restore",
    "before-min-isr",
    "after-min-isr",
)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class MortalKafka(RealKafka):
    effects: Path
    moment: str | None

    def _effect(self, kind: str, what: Any, send: Any) -> Any:
        if self.moment == f"before-{kind}":
            die()
        answer = send()
        with self.effects.open("a") as log:
            log.write(json.dumps({"kind": kind, "what": what}) + "\n")
            log.flush()
            os.fsync(log.fileno())
        if self.moment == f"after-{kind}":
            die()
        return answer

    def alter_reassignments(self, targets: Any) -> Any:
        what = sorted(str(tp) for tp in targets)
        return self._effect("reassign", what, lambda: super(MortalKafka, self).alter_reassignments(targets))

    def alter_configs(self, changes: Any, may_send: Any = unasked) -> None:
        if any(c.name == "min.insync.replicas" for c in changes):
            kind = "min-isr"
        else:
            kind = "throttle" if any(c.value for c in changes) else "restore"
        self._effect(kind, len(changes), lambda: super(MortalKafka, self).alter_configs(changes, may_send))


if __name__ == "__main__":
    MortalKafka.effects = Path(sys.argv[1])
    MortalKafka.moment = sys.argv[3] if len(sys.argv) > 3 else None
    controller.RealKafka = MortalKafka  # type: ignore[attr-defined, misc]
    controller.main(
        ["--liveness-port", "0", "--metrics-port", "0", "--log-format", "plain", "--watch-namespaces", sys.argv[2]]
    )
