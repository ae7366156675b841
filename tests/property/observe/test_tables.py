"""The partitions of a snapshot, put together from columns, are those that single look-ups would put together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafka_medic.clients.answers import LogDir, LogDirs
from kafka_medic.clients.ports import Reassignment
from kafka_medic.cluster.partition_rows import NOWHERE, Rows
from kafka_medic.cluster.snapshot import STATES_SCHEMA, TopicPartition
from kafka_medic.observe import tables
from tests.simulation.log_bounds import bounds_table

BROKERS = range(4)
ids = st.lists(st.sampled_from(BROKERS), max_size=3, unique=True)
partitions = st.builds(TopicPartition, st.sampled_from(["a", "a-b", "b", "c.d"]), st.integers(0, 3))
sizes = st.dictionaries(partitions, st.integers(0, 1 << 40), max_size=8)
moves = st.dictionaries(partitions, st.builds(Reassignment, *[ids.map(tuple)] * 3), max_size=4)
bounds = st.dictionaries(partitions, st.tuples(st.integers(0, 5), st.integers(5, 1 << 60)), max_size=8)
disks = st.dictionaries(
    st.sampled_from(BROKERS),
    st.lists(st.none() | sizes, max_size=2).map(
        lambda told: LogDirs(tuple(LogDir.of(f"/data/{n}", one) for n, one in enumerate(told)))
    ),
)
state = st.fixed_dictionaries(
    {
        "leader": st.none() | st.sampled_from([-1, *BROKERS]),
        "leaderEpoch": st.none() | st.integers(0, 9),
        "replicas": st.none() | ids,
        "isr": st.none() | ids,
    }
)
worlds = st.dictionaries(partitions, state, max_size=10)


def table_of(world: dict[TopicPartition, dict[str, Any]]) -> pa.Table:
    rows = [{"topic": tp.topic, "partition": tp.partition, **row} for tp, row in world.items()]
    return pa.Table.from_pylist(rows, schema=STATES_SCHEMA)


def size(tp: TopicPartition, row: dict[str, Any], told: dict[int, LogDirs]) -> int | None:
    """The leader's replica, else the largest that a replica's broker reports."""
    if row["leader"] in told and tp in (of := told[row["leader"]].sizes):
        return of[tp]
    return max((told[b].sizes[tp] for b in row["replicas"] or () if b in told and tp in told[b].sizes), default=None)


@given(worlds, moves, disks, bounds)
def test_each_row_has_what_was_told_of_its_partition(world, moving, told, ends):
    # One directory of a broker holds a replica, but for the moment in which it moves to another.
    told = {b: LogDirs(dirs.directories[:1]) for b, dirs in told.items()}
    states = table_of(world)
    rows = Rows.of(states)
    resting = tables.columns_at_rest(states, rows, moving, told, None)
    found = tables.partitions(states, rows, resting, bounds_table(ends)).to_pylist()
    assert [TopicPartition(row["topic"], row["partition"]) for row in found] == list(world)
    for row, (tp, state) in zip(found, world.items(), strict=True):
        move = moving.get(tp, Reassignment(state["replicas"], (), ()))  # type: ignore[arg-type]
        assert row["replicas"] == (None if move.replicas is None else list(move.replicas))
        assert (row["adding"], row["removing"]) == (list(move.adding), list(move.removing))
        assert (row["logStart"], row["logEnd"]) == ends.get(tp, (None, None))
        assert row["sizeBytes"] == size(tp, state, told)
        assert (row["leader"], row["isr"]) == (state["leader"], state["isr"])


@given(worlds)
def test_what_was_not_told_is_not_known(world):
    states = table_of(world)
    rows = Rows.of(states)
    resting = tables.columns_at_rest(states, rows, None, None, None)
    for row in tables.partitions(states, rows, resting, None).to_pylist():
        assert {row[name] for name in ("adding", "removing", "logStart", "logEnd", "sizeBytes", "minIsr")} == {None}


@given(worlds)
def test_leaders_are_asked_under_the_epoch_that_is_known(world):
    states = table_of(world)
    every = np.ones(states.num_rows, dtype=np.bool_)
    asked = tables.led(states, every).to_pylist()
    assert {(r["topic"], r["partition"]): (r["leader"], r["epoch"]) for r in asked} == {
        tuple(tp): (row["leader"], row["leaderEpoch"])
        for tp, row in world.items()
        if (row["leader"] or 0) >= 0 and row["leader"] is not None
    }


@given(worlds, st.lists(partitions))
def test_each_partition_is_found_where_it_is(world, wanted):
    rows = Rows.of(table_of(world))
    places = {tp: n for n, tp in enumerate(world)}
    assert rows.find_each(wanted).tolist() == [places.get(tp, NOWHERE) for tp in wanted]
