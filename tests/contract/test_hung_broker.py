"""A broker that hangs costs a look two timeouts at most, and what it alone could tell is all that is not known."""

from __future__ import annotations

import pytest

from kafka_medic.cluster.snapshot import NO_LEADER, Snapshot
from tests.incident.looks import FAULTS, HUNG, TIMEOUT, Watcher, looks_while, told
from tests.incident.records import create_topic, delete_topic
from tests.testbed import KafkaDeployment, wait_for

WORK_SECONDS = 2.0
"""What a look at a small cluster takes on a busy machine when nothing hangs."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_hung_broker_delays_no_look(kafka: KafkaDeployment, fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    topic = f"hung-{fault}"
    create_topic(kafka.bootstrap, topic, [[HUNG, 0], [0, 1], [1, HUNG]])
    before = Watcher(kafka)
    active = before.look()[1].controller
    controller = active.id if active is not None else None
    before.close()
    try:
        found, first = looks_while(kafka, fault)
        line = told(kafka, fault, found, first)
        with capsys.disabled():
            print(f"\n{line}")
        changing = 0
        for seconds, snapshot in found:
            said = [(s.name, s.duration_ms, s.error) for s in snapshot.sources]
            assert seconds <= 2 * TIMEOUT + WORK_SECONDS, (line, said)
            hung = snapshot.broker(HUNG)
            assert hung is not None
            assert hung.reachable is False, (line, said)
            unknown = {s.name for s in snapshot.sources if not s.known}
            may_be = {"groups"}  # each broker tells of its own groups
            if controller == HUNG:
                # What is for the controller is not known until the brokers have heard of another one.
                may_be |= {"quorum", "reassignments"}
            assert unknown <= may_be, (line, said)
            unknown_ends = [row for row in snapshot.rows() if row.topic == topic and row.log_end is None]
            assert all(HUNG in row.replicas for row in unknown_ends), (line, unknown_ends)
            if any(row.leader not in (HUNG, NO_LEADER) for row in unknown_ends):
                # The session's end shrinks the ISR under a new epoch, and its leader may hear of that a moment later.
                (ends,) = (s.error for s in snapshot.sources if s.name == "log-ends")
                assert "not served by their leader" in (ends or ""), (line, said)
                changing += 1
        assert changing <= (1 if fault == "stopped" else 0), line
        assert first <= 2 * TIMEOUT + WORK_SECONDS, line
        watcher = Watcher(kafka)
        wait_for("a whole look again", lambda: whole(watcher.look()[1]), 60)
        watcher.close()
    finally:
        delete_topic(kafka.bootstrap, topic)


def whole(snapshot: Snapshot) -> bool:
    """Nothing is unknown, and the broker is back: while it is not registered it is not asked, so nothing of it can be
    unknown."""
    hung = snapshot.broker(HUNG)
    return all(s.known for s in snapshot.sources) and hung is not None and hung.reachable is True
