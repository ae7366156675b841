"""A list of partitions in a page: what is unpacked is what was packed, and no list is larger than its bound."""

from __future__ import annotations

import base64
import json
import zlib
from itertools import chain, repeat

import numpy as np
import pyarrow as pa
import pytest

from kafka_medic.plan.files.partition_columns import listed_of, listed_of_batches
from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.report import partition_list
from kafka_medic.report.partition_list import listed


def unpacked(found):
    """As the page's script reads it."""
    columns = json.loads(zlib.decompress(base64.b64decode(found.packed)))
    topics = chain.from_iterable(map(repeat, columns["topics"], columns["counts"]))
    texts = (columns[name].split(" ") for name in ("partition", "before", "after", "leads", "wave"))
    rows = []
    for topic, number, before, after, leads, wave in zip(topics, *texts, strict=True):
        old = ids(before)
        now = [*old, *ids(after[1:])] if after.startswith("+") else ids(after)
        rows.append((topic, int(number), old, now, now[int(leads)], int(wave)))
    return rows


def ids(text):
    return [int(number) for number in text.split(",") if number]


ROWS = [
    ("a", 0, [1, 2], [1, 2, 3], 1, 0),
    ("a", 1, [2, 1], [2, 1, 3], 3, 1),
    ("b.c", 7, [1], [4], 4, 0),
    ("b.c", 12, [3, 1, 2], [1, 2], 2, 2),
    ("d", 0, [2, 1], [2, 1], 1, 0),
    ("d", 2, [9, 8], [8, 9, 7], 7, 10),
]


def planned(rows):
    keys = ("topic", "partition", "replicasBefore", "replicas", "preferredOrder", "wave")
    order = [[leader, *(b for b in after if b != leader)] for _, _, _, after, leader, _ in rows]
    whole = [(t, p, before, after, o, wave) for (t, p, before, after, _, wave), o in zip(rows, order, strict=True)]
    return pa.Table.from_pylist([dict(zip(keys, row, strict=True)) for row in whole], PLAN_SCHEMA)


@pytest.mark.parametrize("made", ["of rows", "of a table", "of batches"])
def test_what_is_unpacked_is_what_was_packed(made):
    if made == "of rows":
        found = listed([(*row, None) for row in ROWS])
    elif made == "of a table":
        found = listed_of(planned(ROWS))
    else:
        found = listed_of_batches(iter([planned(ROWS[:2]), planned(ROWS[2:])]), len(ROWS))
    assert unpacked(found) == ROWS
    assert (found.total, found.listed, found.rest) == (6, 6, "")
    assert [row.after for row in found.first][2:4] == ["4", "1, 2"]


def test_sizes_are_listed_where_one_is_known():
    found = listed([("t", 0, [1], [1, 2], 1, 0, None), ("t", 1, [1], [1, 2], 1, 0, 1500)])
    assert found.sizes
    assert [row.size for row in found.first] == ["unknown", "1.5 kB"]


def test_a_name_that_a_browser_would_obey_is_escaped_before_it_is_packed():
    found = listed([("a\u202eb", 0, [1], [1, 2], 1, 0, None)])
    assert unpacked(found)[0][0] == "a\\u202eb"


def test_a_list_is_bounded_and_says_what_it_leaves_out(monkeypatch):
    monkeypatch.setattr(partition_list, "MOST_PACKED", 4000)
    rng = np.random.default_rng(5)
    rows = [("t", n, rng.choice(900, 3, replace=False).tolist(), [901, 902], 901, 0) for n in range(4000)]
    found = listed_of(planned(rows))
    assert len(found.packed) <= 4000
    assert found.total == 4000
    assert 0 < found.listed < 4000
    assert unpacked(found) == rows[: found.listed]
    assert found.rest


def test_of_a_plan_that_lies_in_files_no_more_is_read_than_is_listed(monkeypatch):
    monkeypatch.setattr("kafka_medic.plan.files.partition_columns.MOST_ROWS", 4)
    monkeypatch.setattr(partition_list, "MOST_ROWS", 4)

    def batches():
        yield planned(ROWS[:3])
        yield planned(ROWS[3:])
        pytest.fail("more was read")

    found = listed_of_batches(batches(), 1_000_000)
    assert (found.total, found.listed) == (1_000_000, 4)
    assert unpacked(found) == ROWS[:4]
