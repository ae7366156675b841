"""One KafkaCluster of ours on a cluster that Strimzi made, and when what happened to it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.e2e.conftest import Case
from tests.incident import operator
from tests.testbed import get, kubectl, strimzi
from tests.testbed.strimzi import StrimziKafka


class StrimziCase(Case):
    """As users of Strimzi write it; `kafka` is a StrimziKafka, of which the rest of Case reads what both have."""

    def __init__(self, kafka: StrimziKafka, name: str) -> None:
        super().__init__(kafka, name)  # type: ignore[arg-type]  # it has all that a Case reads
        self.made_by_strimzi = kafka

    def watch(self, **spec: Any) -> None:
        labels = {strimzi.CLUSTER_LABEL: self.made_by_strimzi.name, "strimzi.io/broker-role": "true"}
        brokers = {"podSelector": {"matchLabels": labels}, "restart": "StrimziAnnotation"}
        body = {
            "bootstrapServers": self.boot,
            "brokers": brokers,
            "probes": {"interval": "2s", "timeout": "5s"},
            "remediation": {"limits": {"cooldown": "0s"}},
        }
        meta = {"name": self.name, "namespace": self.namespace}
        kind = {"apiVersion": operator.API_VERSION, "kind": "KafkaCluster"}
        operator.apply([kind | {"metadata": meta, "spec": body | spec}])

    def firing(self) -> list[str]:
        status = get("kafkacluster", self.name, namespace=self.namespace).get("status", {})
        return [found["id"] for found in status.get("findings", []) if found["state"] == "Firing"]

    def end(self) -> None:
        kubectl("delete", "kafkacluster", self.name, "-n", self.namespace, "--ignore-not-found")


@dataclass
class Timeline:
    """What happened when; `show` prints it in seconds since the first entry."""

    title: str
    _entries: list[tuple[float, str]] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def note(self, what: str, at: float | None = None) -> float:
        """`at`: seconds since the epoch; now if left out."""
        moment = time.time() if at is None else at
        self._entries.append((moment, what))
        return moment

    def run(self, run: operator.Object) -> None:
        """A state of a Remediation: each phase, step and reason to wait is noted once."""
        status = run.get("status", {})
        waits = "; ".join(sorted(wait["guard"] for wait in status.get("waitingFor", [])))
        told = f"{run['metadata']['name']}: {status.get('phase')}" + (f", waiting for {waits}" if waits else "")
        if told not in self._seen:
            self._seen.add(told)
            self.note(told)

    def journal(self, run: operator.Object) -> None:
        for entry in run["status"].get("journal", []):
            for moment in ("intendedAt", "doneAt"):
                if entry.get(moment):
                    at = datetime.fromisoformat(entry[moment]).timestamp()
                    self.note(f"{entry['id'].rpartition('/')[2]} {moment.removesuffix('At')}", at)

    def show(self) -> None:
        first = min(moment for moment, _ in self._entries)
        print(f"\n== {self.title}")
        for moment, what in sorted(self._entries):
            print(f"  {moment - first:6.1f} s  {what}")
