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
from kafka_medic.clients.kubernetes_api import KubernetesApi
from kafka_medic.clients.ports import always
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


BROKERS = 3 if os.environ.get("EVERY_WRITE") else 1
MOMENTS_OF_A_ROLL = (
    "before-intent",
    "after-intent",
    *("before-evict", "after-evict", "before-done", "after-done") * BROKERS,
    "before-end",
    "after-end",
)
"""Each by a process of its own: around the writes for the first broker, or with EVERY_WRITE=1 for each. The write that
notes that a broker is back also holds the intent of the next."""
MOMENTS_OF_A_ROLL_BY_STRIMZI = (
    *("before-intent", "after-intent", "before-annotate", "after-annotate", "before-done", "after-done"),
    *("before-annotate", "after-annotate", "before-done", "after-done") * 2,
    *("before-end", "after-end"),
)
"""The same where Strimzi is asked for the restarts."""
_NOTED = ("before-intent", "after-intent"), ("before-done", "after-done")
MOMENTS_OF_A_DRAIN = (
    *(*_NOTED[0], "before-reassign", "after-reassign", *_NOTED[1]),
    *(*_NOTED[0], "before-elect", "after-elect", *_NOTED[1]) * 2,
    "before-end",
    "after-end",
)
"""Around each write of a drain that changes the order of the replicas once and elects in two batches."""


def _around(kind: str) -> tuple[str, ...]:
    return (*_NOTED[0], f"before-{kind}", f"after-{kind}", *_NOTED[1])


MOMENTS_OF_A_RAISE = (
    *_around("throttle"),
    *_around("reassign"),
    *("before-restore", "after-restore", "before-min-isr", "after-min-isr"),
    *("before-reassign", "after-reassign"),
    *_around("elect"),
    *("before-end", "after-end"),
)
"""Around each write of a raise: waves, settings, the order of replicas, elections."""
MOMENTS_OF_A_REPLACEMENT = (
    *("before-intent", "after-intent", "before-throttle", "after-throttle", "before-reassign", "after-reassign"),
    *("before-restore", "after-restore", "before-end", "after-end"),
)
"""Around each write of a run that replaces a broker."""

GROUPS = 2
MOMENTS_OF_A_RESET = (
    "before-intent",
    "after-intent",
    *("before-commit", "after-commit", "before-done", "after-done") * GROUPS,
    "before-end",
    "after-end",
)
"""The same of a run that sets the offsets of so many groups, or puts them back."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class MortalKafka(RealKafka):
    effects: Path
    moment: str | None

    def _effect(self, kind: str, what: Any, send: Any) -> Any:
        if self.moment == f"before-{kind}":
            die()
        try:
            return send()
        finally:  # also when there was no answer in time: it has been sent
            with self.effects.open("a") as log:
                log.write(json.dumps({"kind": kind, "what": what}) + "\n")
                log.flush()
                os.fsync(log.fileno())
            if self.moment == f"after-{kind}":
                die()

    def alter_reassignments(self, targets: Any) -> Any:
        what = sorted(str(tp) for tp in targets)
        return self._effect("reassign", what, lambda: super(MortalKafka, self).alter_reassignments(targets))

    def commit_offsets(self, group: str, offsets: Any) -> Any:
        what = [group, sorted((str(tp), *committed) for tp, committed in offsets.items())]
        return self._effect("commit", what, lambda: super(MortalKafka, self).commit_offsets(group, offsets))

    def elect_preferred(self, partitions: Any) -> Any:
        what = sorted(map(str, partitions))
        return self._effect("elect", what, lambda: super(MortalKafka, self).elect_preferred(partitions))

    def alter_configs(self, changes: Any, may_send: Any = always) -> None:
        if any(c.name == "min.insync.replicas" for c in changes):
            kind = "min-isr"
        else:
            kind = "throttle" if any(c.value for c in changes) else "restore"
        self._effect(kind, len(changes), lambda: super(MortalKafka, self).alter_configs(changes, may_send))


class MortalApi(KubernetesApi):
    effects: Path
    moment: str | None

    def create(self, path: str, body: Any) -> Any:
        if not path.endswith("/eviction"):
            return super().create(path, body)
        uid = body["deleteOptions"]["preconditions"]["uid"]
        return self._noted("evict", uid, lambda: super(MortalApi, self).create(path, body))

    def merge(self, path: str, body: Any) -> Any:
        if "/pods/" not in path or None in body["metadata"]["annotations"].values():
            return super().merge(path, body)
        return self._noted("annotate", body["metadata"]["uid"], lambda: super(MortalApi, self).merge(path, body))

    def _noted(self, kind: str, what: str, send: Any) -> Any:
        self._at(f"before-{kind}")
        answer = send()
        with self.effects.open("a") as log:
            log.write(json.dumps({"kind": kind, "what": what}) + "\n")
            log.flush()
            os.fsync(log.fileno())
        self._at(f"after-{kind}")
        return answer

    def replace(self, path: str, body: Any) -> Any:
        if "/remediations/" not in path or not path.endswith("/status"):
            return super().replace(path, body)
        before = self._facts(self.get(path.removesuffix("/status")).get("status") or {})
        now = self._facts(body["status"])
        news = [kind for kind, had, has in zip(("intent", "done", "end"), before, now, strict=True) if has > had]
        for kind in news:
            self._at(f"before-{kind}")
        answer = super().replace(path, body)
        for kind in news:
            self._at(f"after-{kind}")
        return answer

    def _at(self, moment: str) -> None:
        if self.moment == moment:
            die()

    @staticmethod
    def _facts(status: Any) -> tuple[int, int, int]:
        """Intents noted, those seen to have happened, and whether the run is over."""
        journal = status.get("journal") or []
        return len(journal), sum(e["state"] == "Done" for e in journal), int(status.get("phase") == "Succeeded")


if __name__ == "__main__":
    MortalKafka.effects = MortalApi.effects = Path(sys.argv[1])
    MortalKafka.moment = MortalApi.moment = sys.argv[3] if len(sys.argv) > 3 else None
    controller.RealKafka = MortalKafka  # type: ignore[attr-defined, misc]
    controller.KubernetesApi = MortalApi  # type: ignore[attr-defined, misc]
    rules = Path(os.environ["KUBECONFIG"]).with_name("rules.json")
    ports = ["--liveness-port", "0", "--metrics-port", "0"]
    controller.main([*ports, "--log-format", "plain", "--watch-namespaces", sys.argv[2], "--rules", str(rules)])
