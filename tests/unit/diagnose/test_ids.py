"""A finding's id fits into a resource's status, whatever a consumer group is called."""

from __future__ import annotations

from dataclasses import replace

from kafka_medic.diagnose.diagnosis import _named
from kafka_medic.diagnose.finding import Finding
from kafka_medic.resources.vocabulary import Severity

PLAIN = Finding("OffsetBeyondLogEnd/billing", "OffsetBeyondLogEnd", Severity.WARNING, "", (), ())


def test_a_plain_name_stays():
    assert _named(PLAIN) is PLAIN


def test_odd_and_long_names_are_safe_and_told_apart():
    ids = [f"OffsetBeyondLogEnd/{name}" for name in ("my group", "my_group", "x" * 200, "x" * 201, "\u00e9")]
    named = [_named(replace(PLAIN, id=i)).id for i in ids]
    assert len(set(named)) == len(named)
    assert all(len(n) <= 128 and n.isascii() and " " not in n for n in named)
