"""Where a broker that nobody names was waited for in vain, and when that is tried again."""

from __future__ import annotations

from kafka_medic.clients.kafka_discovery import AGAIN_SECONDS, TRY_SECONDS, InVain

HERE, THERE = ("10.0.0.1", 9092), ("10.0.0.2", 9092)


def test_it_is_waited_for_again_after_a_while() -> None:
    memory = InVain()
    assert not memory.was(2, [HERE], 0.0)
    memory.note(2, [HERE], found=False, began=0.0, now=TRY_SECONDS)
    until = TRY_SECONDS + AGAIN_SECONDS
    assert memory.was(2, [HERE], until - 0.1)
    assert not memory.was(3, [HERE], until - 0.1)
    assert not memory.was(2, [HERE], until)


def test_a_new_address_is_tried_at_once() -> None:
    memory = InVain()
    memory.note(2, [HERE], found=False, began=0.0, now=TRY_SECONDS)
    assert not memory.was(2, [HERE, THERE], TRY_SECONDS)


def test_a_refusal_is_not_remembered() -> None:
    memory = InVain()
    memory.note(2, [HERE], found=False, began=0.0, now=0.1)
    assert not memory.was(2, [HERE], 0.1)


def test_whoever_answered_is_asked_at_every_look() -> None:
    memory = InVain()
    memory.note(2, [HERE], found=False, began=0.0, now=TRY_SECONDS)
    memory.note(2, [HERE], found=True, began=10.0, now=10.0 + TRY_SECONDS)
    assert not memory.was(2, [HERE], 10.0 + TRY_SECONDS)
