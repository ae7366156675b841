from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.solver.waves import assign_waves, exposure_order
from kafka_medic.plan.wave_limits import WaveLimits
from tests.unit.plan.cluster_tables import problem


def waves(added, source, size, **limits):
    given = (np.array(added, np.int32), np.array(source, np.int32), np.array(size, np.int64))
    return assign_waves(*given, 4, WaveLimits(**limits)).tolist()


def test_the_most_exposed_data_goes_first():
    request = problem(
        {"__consumer_offsets": [[0]], "a": [[0]], "b": [[0, 1], [0, 1]]}, 3, 3,
        isr=pa.array([[0], [0], [0, 1], [0]], pa.list_(pa.int32())),
    )  # fmt: skip
    columns = request.columns
    order = exposure_order(columns, np.arange(4))
    assert [columns.name(at) for at in order] == ["__consumer_offsets-0", "a-0", "b-1", "b-0"]


def test_a_wave_is_bounded_by_bytes_received():
    assert waves([[1], [1], [2]], [0, 3, 3], [6, 6, 6], bytes_in=10) == [0, 1, 0]


def test_a_wave_is_bounded_by_bytes_sent_for_every_new_replica():
    assert waves([[1, 2], [2, 3]], [0, 0], [5, 5], bytes_out=10) == [0, 1]


def test_a_wave_is_bounded_by_partitions_and_by_records():
    assert waves([[1]] * 4, [0] * 4, [-1] * 4, partitions_per_broker=2) == [0, 0, 1, 1]
    assert waves([[1]] * 4, [0] * 4, [-1] * 4, records=3) == [0, 0, 0, 1]


def test_a_partition_larger_than_the_limit_goes_alone_instead_of_never():
    assert waves([[1], [1], [2]], [0, 0, 3], [99, 4, 4], bytes_in=10) == [0, 1, 0]


def test_a_limit_of_nothing_is_refused():
    with pytest.raises(ValueError, match="records"):
        WaveLimits(records=0)


def test_a_plan_carries_its_waves():
    plan = plan_local(problem({"t": [[0]] * 6}, 3, 2), WaveLimits(records=4))
    assert plan.table.column("wave").to_pylist() == [0, 0, 0, 0, 1, 1]
    assert plan.summary.waves == 2
