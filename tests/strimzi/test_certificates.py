"""New keys of both of Strimzi's CAs in the middle of a run, with a KafkaCluster that rests on certificates of both."""

from __future__ import annotations

import threading
import time

import pytest

from tests.incident import operator
from tests.strimzi.case import ROLL_SECONDS, StrimziCase, Timeline, followed, nothing_of_ours, under_load
from tests.strimzi.test_rolls import one_back
from tests.testbed import kubectl, wait_for
from tests.testbed.steps import granted
from tests.testbed.strimzi import StrimziKafka

USER = "medic"
AT_REST = 20
"""Seconds in which every Pod has what Strimzi wants it to have, after which a change of a CA is over."""
UNREADABLE = 30
"""Seconds, at most, in which Kafka may not be read while Strimzi changes a CA."""


@pytest.mark.parametrize("authority", ["clients", "cluster"])
def test_a_new_key_of_a_ca_in_mid_run(case: StrimziCase, authority: str) -> None:
    kafka, line = case.made_by_strimzi, Timeline(f"a new key of the {authority} CA in mid-run, over TLS")
    case.watch(user=USER)
    case.condition("Ready", "True")
    assert case.status()["strimzi"]["protocol"] == "SSL"
    case.ask("rolling-restart")
    run = case.wait("AwaitingApproval")
    name = run["metadata"]["name"]
    reachable = Reachable(case, line)
    with under_load(case, line), reachable:
        one_back(case, run)
        line.note("one broker of ours is back")
        before = generations(kafka, authority)
        replace_key(kafka, authority)
        line.note("a new key is asked of Strimzi")
        wait_for("every Pod to have the new CA", lambda: settled(kafka, authority, before), ROLL_SECONDS, every=1)
        line.note(f"every Pod trusts the new {authority} CA, and Strimzi is at rest")
        done = followed(case, line, name)
        # Not Ready: until Kafka gives the leaders back by itself, within five minutes, they are LeadersImbalanced.
        case.condition("Reachable", "True", seconds=120)
    print(f"  run ended {operator.phase(done)}; Kafka could not be read for {reachable.longest:.0f} s at most")
    assert reachable.longest <= UNREADABLE
    nothing_of_ours(case)
    assert case.status()["brokers"] == {"expected": 3, "registered": 3, "reachable": 3}


class Reachable:
    """How long the KafkaCluster's condition Reachable is not True; each change is noted."""

    def __init__(self, case: StrimziCase, line: Timeline) -> None:
        self.longest = 0.0
        self._case, self._line, self._over = case, line, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)

    def _watch(self) -> None:
        last, since = "True", time.time()
        while not self._over.wait(0.5):
            found = operator.condition(self._case.namespace, self._case.name, "Reachable")
            if found["status"] != last:
                last, since = (
                    found["status"],
                    self._line.note(f"Reachable is {found['status']}: {found['message'][:160]}"),
                )
            if last != "True":
                self.longest = max(self.longest, time.time() - since)


def replace_key(kafka: StrimziKafka, authority: str) -> None:
    secret = f"secret/{kafka.name}-{authority}-ca"
    kubectl("annotate", secret, "-n", kafka.namespace, "strimzi.io/force-replace=true", "--overwrite")
    kafka.reconcile()


def generations(kafka: StrimziKafka, authority: str) -> set[str]:
    """Of the CA's certificate, as the Pods have it."""
    key = f"strimzi.io/{authority}-ca-cert-generation"
    return {notes.get(key, "") for notes in kafka.annotations().values()}


_rested: dict[str, float] = {}


def settled(kafka: StrimziKafka, authority: str, before: set[str]) -> bool:
    """Whether the Pods have a later generation, and Strimzi has been at rest for a while: a CA takes several rolls."""
    if not generations(kafka, authority).isdisjoint(before) or not kafka.is_ready() or not kafka.at_rest():
        _rested.pop(authority, None)
        return False
    return granted() - _rested.setdefault(authority, granted()) > AT_REST
