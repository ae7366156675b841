"""Each rule of the verifier is broken once by hand, and it must say so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from kafka_medic.plan.model import PLAN_SCHEMA, Fullest, Spread
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.verify.rules import Check, verify
from kafka_medic.plan.wave_limits import WaveLimits
from tests.unit.plan.cluster_tables import problem

REQUEST = problem(
    {"full": [[0, 1, 2]], "t": [[0], [1], [2], [0]]}, "aabbcc", 3, dead=[5], sizeBytes=pa.array([1, 10, 10, 10, 10])
)
PLAN = plan_local(REQUEST)


def changed(row, **values):
    rows = PLAN.table.to_pylist()
    rows[row].update(values)
    return replace(PLAN, table=pa.Table.from_pylist(rows, PLAN_SCHEMA))


def says(plan, reason, limits=None):
    found = verify(REQUEST, plan, limits)
    assert any(reason in line for line in found), found


def test_a_good_plan_passes():
    assert verify(REQUEST, PLAN) == []


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"replicas": [2, 0, 4]}, "does not keep its replicas first"),
        ({"replicas": [0, 2]}, "does not get exactly its factor"),
        ({"replicas": [0, 2, 4, 3]}, "does not get exactly its factor"),
        ({"replicas": [0, 2, 2]}, "names a broker twice"),
        ({"replicas": [0, 2, 5]}, "not alive"),
        ({"replicas": [0, 2, 77]}, "not alive"),
        ({"replicasBefore": [1]}, "names other replicas before"),
        ({"replicasBefore": [0, 2]}, "other replicas before"),
        ({"preferredOrder": [0, 1, 3]}, "no permutation"),
        ({"preferredOrder": [0, 0, 0]}, "no permutation"),
        ({"preferredOrder": [0]}, "another length"),
        ({"partition": 9}, "not among the partitions"),
        ({"topic": "other"}, "not among the partitions"),
        ({"partition": 1}, "planned twice"),
        ({"topic": "full"}, "has enough replicas and is touched"),
        ({"wave": 5}, "numbered from 0 without a gap"),
        ({"wave": (1 << 31) - 1}, "numbered from 0 without a gap"),
    ],
)
def test_a_broken_row_is_found(values, reason):
    says(changed(0, **values), reason)


def test_a_partition_left_out_is_found():
    says(replace(PLAN, table=PLAN.table.slice(1), sizes=PLAN.sizes.slice(1)), "below their factor are not planned")


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (WaveLimits(records=3), "records"),
        (WaveLimits(bytes_in=10), "bytes in"),
        (WaveLimits(bytes_out=20), "bytes out"),
        (WaveLimits(partitions_per_broker=1), "partitions"),
    ],
)
def test_a_wave_past_its_limits_is_found(limits, reason):
    says(PLAN, reason, limits)


def test_waves_of_a_part_of_a_plan_may_have_any_numbers():
    apart = [3, 2_000_000, 2_000_000, 4_000_001]
    table = PLAN.table.set_column(5, "wave", pa.array(apart, pa.int32())).combine_chunks()
    check = Check(REQUEST, table)
    assert check.placement() == []
    assert check.waves(PLAN.sizes, check.senders(), WaveLimits()) == []
    assert any(
        "wave 2000000 has 2 records" in line for line in check.waves(PLAN.sizes, check.senders(), WaveLimits(records=1))
    )


@pytest.mark.parametrize(
    ("figure", "value"),
    [
        ("partitions", 5),
        ("moves", 7),
        ("lower_bound_moves", 7),
        ("waves", 2),
        ("rack_violations", 1),
        ("rack_violations_bound", 1),
        ("replicas_per_broker", Spread(0, 9, 9)),
        ("leaders_per_broker", Spread(0, 9, 9)),
        ("leaders_per_broker", replace(PLAN.summary.leaders_per_broker, bound=0)),
        ("topic_replicas", None),
        ("topic_leaders", None),
        ("topic_replicas", replace(PLAN.summary.topic_replicas, max=0)),
        ("topic_replicas", replace(PLAN.summary.topic_replicas, bound=9)),
        ("topic_leaders", replace(PLAN.summary.topic_leaders, max=9)),
        ("topic_leaders", replace(PLAN.summary.topic_leaders, topic="of nobody")),
    ],
)
def test_a_figure_that_is_not_so_is_found(figure, value):
    assert verify(REQUEST, replace(PLAN, summary=replace(PLAN.summary, **{figure: value})))


@pytest.mark.parametrize(
    ("figure", "after", "bound"), [("topic_replicas", "after", "bound"), ("topic_leaders", "led_after", "led_bound")]
)
def test_a_topic_that_lies_worse_than_the_one_named_is_found(figure, after, bound, monkeypatch):
    # A plan as it would be if topics were no objective.
    monkeypatch.setattr("kafka_medic.plan.solver.local.spread_replicas", lambda held, added, *_: added)
    monkeypatch.setattr("kafka_medic.plan.solver.local.spread_leaders", lambda replicas, lead, *_: lead)
    rng = np.random.default_rng(5)
    topics = {f"t{n}": [[int(b)] for b in rng.integers(0, 9, 9)] for n in range(10)}
    request = problem({**topics, "alone": [[0]]}, "abcabcabc", 3)
    plan = plan_local(request)
    assert verify(request, plan) == []
    worst = getattr(plan.summary, figure)
    shared = worst.bound - worst.own
    each = [(spread.topic, getattr(spread, after), getattr(spread, bound)) for spread in plan.topics]
    better = min(
        (Fullest(t, most, own + shared, own) for t, most, own in each), key=lambda found: found.max - found.own
    )
    assert worst.max - worst.own > better.max - better.own
    (found,) = verify(request, replace(plan, summary=replace(plan.summary, **{figure: better})))
    assert "another topic is" in found


def test_it_shares_no_code_with_what_it_checks():
    import ast
    from pathlib import Path

    import kafka_medic.plan.verify.rules as module

    makers = {f"kafka_medic.plan.{name}" for name in ("solver", "leaders", "spark", "files", "water_filling")}
    for path in Path(module.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not {name for name in imported if ".".join(name.split(".")[:3]) in makers}
