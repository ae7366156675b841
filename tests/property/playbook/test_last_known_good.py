"""However a log was cut and grew again: from the last good offset on a group reads what it has not read, and nothing
twice; and whatever is asked for, the target is in the log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.playbook.offsets.targets import Aim, How, Spot, target

ORDERS = TopicPartition("orders", 0)
CUTS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=4)
"""Each: to how many records the log is cut, and how many are written after that under a new leader epoch."""


@given(written=st.integers(0, 20), read=st.integers(0, 20), deleted=st.integers(0, 20), cuts=CUTS)
def test_nothing_readable_is_skipped_and_nothing_is_read_twice(written, read, deleted, cuts):
    log = [(0, n) for n in range(written)]
    done = set(log[:read])
    committed = Committed(min(read, written), 0)
    for epoch, (kept, more) in enumerate(cuts, 1):
        log = [*log[:kept], *((epoch, n) for n in range(more))]
    start = min(deleted, len(log))
    ended = next((at for at, (epoch, _) in enumerate(log) if epoch > 0), len(log))
    spot = Spot("billing", "Empty", ORDERS, committed, start, len(log), len(cuts), epoch_end=ended)
    found = target(Aim(How.LAST_KNOWN_GOOD), spot)
    offset = committed.offset if found is None else found.offset
    assert found is None or (start <= offset <= len(log) and found.skipped == 0 and found.read_again == 0)
    to_come = log[max(offset, start) :]
    assert not done & set(to_come), "nothing twice"
    assert set(log[start:]) - done <= set(to_come), "nothing skipped"


@given(
    how=st.sampled_from([How.EARLIEST, How.LATEST, How.CURRENT, How.OFFSET, How.SHIFT_BY, How.DATETIME]),
    number=st.integers(-50, 50),
    before=st.integers(0, 60),
    bounds=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    at=st.none() | st.integers(0, 60),
)
def test_what_is_asked_for_is_in_the_log_and_its_costs_are_told(how, number, before, bounds, at):
    start, end = min(bounds), max(bounds)
    spot = Spot("billing", "Empty", ORDERS, Committed(before), start, end)
    found = target(Aim(how, number=abs(number) if how is How.OFFSET else number), spot, at)
    if found is None:
        return
    assert start <= found.offset <= end
    log = set(range(start, end))
    assert found.skipped == len(log & set(range(before, found.offset)))
    assert found.read_again == len(log & set(range(found.offset, before)))
