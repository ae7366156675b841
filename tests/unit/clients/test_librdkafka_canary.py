"""The canary's client against an address where nobody answers: bounded, reported, idle, and gone when it is closed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.librdkafka_canary import QUEUE_RECORDS, LibrdkafkaCanary
from kafka_medic.clients.ports import Connection, TlsMaterial, Undelivered

NOBODY = Connection("127.0.0.1:1")


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_each_record_has_one_report_and_waiting_costs_nothing():
    before = threads()
    client = LibrdkafkaCanary(NOBODY, "canary", 0.3)
    values = [(p, b"record-%d" % p) for p in range(3)]
    assert all(client.send(p, value) for p, value in values)
    events, end, spent = [], time.monotonic() + 20, time.process_time()
    began = time.monotonic()
    while len(events) < 3:
        assert time.monotonic() < end
        events += client.poll(0.1)
    assert sorted((e.partition, e.value) for e in events if isinstance(e, Undelivered)) == values
    assert all("timed out" in e.error for e in events)
    assert time.process_time() - spent < 0.5 * (time.monotonic() - began)
    client.close()
    assert threads() <= before


def test_the_queue_is_bounded_and_full_is_an_answer_and_not_a_wait():
    client = LibrdkafkaCanary(NOBODY, "canary", 60)
    began = time.monotonic()
    taken = [client.send(0, b"x") for _ in range(QUEUE_RECORDS + 100)]
    assert (taken.count(True), taken[-1]) == (QUEUE_RECORDS, False)
    assert time.monotonic() - began < 10
    client.close()
    assert time.monotonic() - began < 20, "what is queued is given up, not waited for"


def test_a_refused_setting_holds_no_secret():
    with pytest.raises(ReadFailed) as refused:
        LibrdkafkaCanary(Connection("127.0.0.1:1", protocol="SSL", tls=TlsMaterial(ca="hunter2 is none")), "canary", 1)
    assert refused.value.kind is FailureKind.OTHER
    assert "hunter2" not in str(refused.value)
