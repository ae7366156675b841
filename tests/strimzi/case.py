"""One KafkaCluster of ours on a cluster that Strimzi made, and when what happened to it."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.e2e.conftest import Case
from tests.incident import operator, records
from tests.incident.watcher import Watcher
from tests.testbed import get, kubectl, wait_for
from tests.testbed.strimzi import ROLL_ANNOTATION, StrimziKafka

ROLL_SECONDS = 900
ENDED = ("Succeeded", "Failed", "Aborted", "Rejected", "Superseded", "Expired")
SETTLED = (*ENDED, "AwaitingApproval")
"""A run that has ended, or that requires another approval."""


class StrimziCase(Case):
    """As users of Strimzi write it; `kafka` is a StrimziKafka, of which the rest of Case reads what both have."""

    def __init__(self, kafka: StrimziKafka, name: str) -> None:
        super().__init__(kafka, name)  # type: ignore[arg-type]  # it has all that a Case reads
        self.made_by_strimzi = kafka

    def watch(self, user: str | None = None, **spec: Any) -> None:
        """The one line, and what makes tests quicker. user: a KafkaUser, by whose listener Kafka is reached."""
        line = {"cluster": self.made_by_strimzi.name, **({"user": user} if user else {})}
        body = {
            "strimzi": line,
            "probes": {"interval": "2s", "timeout": "5s"},
            "remediation": {"limits": {"cooldown": "0s"}},
        }
        meta = {"name": self.name, "namespace": self.namespace}
        kind = {"apiVersion": operator.API_VERSION, "kind": "KafkaCluster"}
        operator.apply([kind | {"metadata": meta, "spec": body | spec}])

    def status(self) -> operator.Object:
        found: operator.Object = get("kafkacluster", self.name, namespace=self.namespace).get("status", {})
        return found

    def run(self, name: str | None = None) -> operator.Object:
        """The run of that name, or the one that was asked for last."""
        return next(r for r in self.runs() if r["metadata"]["name"] == (name or self.asked))

    def approved(self, playbook: str, **parameters: str) -> operator.Object:
        """A run that a person asked for, and that alice approved."""
        self.ask(playbook, **parameters)
        run = self.wait("AwaitingApproval")
        assert operator.approve(run, "alice").returncode == 0
        return run

    def firing(self) -> list[str]:
        return [found["id"] for found in self.status().get("findings", []) if found["state"] == "Firing"]

    def end(self) -> None:
        kubectl("delete", "kafkacluster", self.name, "-n", self.namespace, "--ignore-not-found")
        for topic in self.topics:
            gone = kubectl("delete", "kafkatopic", topic, "-n", self.namespace, "--ignore-not-found").stdout
            if not gone:
                records.delete_topic(self.boot, topic)


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


@contextmanager
def under_load(case: StrimziCase, line: Timeline) -> Iterator[Watcher]:
    """Records flow and Pods are watched; afterwards nothing is lost, and never two brokers were away."""
    topic = case.topic([0, 1, 2], [1, 2, 0], [2, 0, 1], suffix=f"load-{len(case.topics)}", config=SAFE)
    watcher = Watcher(case.made_by_strimzi)
    zero = time.time() - time.monotonic()
    with records.flowing(case.boot, topic) as traffic:
        watcher.start()
        try:
            yield watcher
        finally:
            watcher.stop()
            for broker, restart in watcher.restarts.items():
                line.note(f"node {broker}: its Pod is told to go", restart.told + zero)
                if restart.ready is not None:
                    line.note(f"node {broker}: its successor is Ready", restart.ready + zero)
                    line.note(f"node {broker}: in every ISR again", watcher.in_sync.get(broker, restart.ready) + zero)
            line.show()
    print(
        f"  {len(traffic.acked)} records acknowledged and read, {len(traffic.failed)} failed, {len(traffic.lost)} "
        f"lost, {len(traffic.doubled)} doubled; at most {watcher.most_away} away, smallest ISR {watcher.thinnest}, "
        f"{watcher.looks} looks"
    )
    assert traffic.acked
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    assert watcher.most_away <= 1
    assert watcher.thinnest >= 2


SAFE = {"min.insync.replicas": "2"}


def followed(
    case: StrimziCase, line: Timeline, name: str, seconds: float = ROLL_SECONDS, until: Collection[str] = SETTLED
) -> operator.Object:
    """The run once it is in one of these phases; each of its states is noted."""
    found: list[operator.Object] = []

    def settled() -> bool:
        found[:] = [case.run(name)]
        line.run(found[0])
        return operator.phase(found[0]) in until

    wait_for(f"{name} to be {' or '.join(until)}", settled, seconds, every=0.5)
    line.note(found[0]["status"]["message"][:200])
    return found[0]


def change_a_static_setting(kafka: StrimziKafka, line: Timeline) -> None:
    """Of the kind that brokers read only when they start: Strimzi rolls all of them."""
    value = 104857600 + 1048576 + int(time.time()) % 100000
    patch = {"spec": {"kafka": {"config": {"socket.request.max.bytes": value}}}}
    kubectl("patch", "kafka", kafka.name, "-n", kafka.namespace, "--type=merge", "-p", json.dumps(patch))
    line.note("a static setting is changed in the Kafka resource")


def roll_by_strimzi(kafka: StrimziKafka) -> None:
    for pool in kafka.pools:
        sets = f"strimzipodset/{kafka.name}-{pool.name}"
        kubectl("annotate", sets, "-n", kafka.namespace, f"{ROLL_ANNOTATION}=true", "--overwrite")
    kafka.reconcile()


def every_pod_is_another_one(kafka: StrimziKafka, before: dict[int, str]) -> bool:
    now = kafka.uids_of_those_there()
    return now.keys() == before.keys() and not set(before.values()) & set(now.values())


def nothing_of_ours(case: StrimziCase) -> None:
    """No annotation on any Pod or on the Kafka resource, no finalizer on any run that has ended."""
    assert case.made_by_strimzi.asked_to_roll() == []
    assert "kafkamedic.dev/" not in json.dumps(case.made_by_strimzi.resource()["metadata"].get("annotations", {}))
    # The operator takes the finalizer off right after it has written the end down.
    wait_for("no finalizer", lambda: not any(r["metadata"].get("finalizers") for r in case.runs()), 30)
