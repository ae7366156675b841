"""Racks are spread over with the fullest broker as low as it can be, with as few moves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kafka_medic.plan.allowed import LeftOut
from kafka_medic.plan.problem import Broker
from kafka_medic.plan.relocation import Relocation, SpreadRacks
from kafka_medic.plan.solver.relocate import plan_relocation
from kafka_medic.plan.verify.moves import verify_moves


@pytest.mark.parametrize("dead", [(), range(6)])
def test_the_fullest_broker_of_uneven_racks_comes_down_to_its_bound(dead):
    """Before, the replicas that leave were chosen by the loads at first: the fullest broker kept 123, or 122, where 104
    and 107 can be reached."""
    rng = np.random.default_rng(5)
    count, brokers = 3_000, 120
    rack = np.sort(rng.choice(2, size=brokers, p=[0.3, 0.7]))
    share = rng.gamma(3.0, size=brokers)
    lists = np.argsort(rng.gumbel(size=(count, brokers)) + np.log(share), axis=1)[:, -2:].astype(np.int32)
    table = pa.table(
        {
            "topic": pa.array([f"t{n // 100:03}" for n in range(count)]),
            "partition": pa.array(np.arange(count) % 100, pa.int32()),
            "replicas": pa.array(lists.tolist(), pa.list_(pa.int32())),
        }
    )
    request = Relocation(table, tuple(Broker(n, f"r{r}", n not in dead) for n, r in enumerate(rack)), SpreadRacks())
    plan = plan_relocation(request)
    assert verify_moves(request, plan) == []
    spread = plan.summary.replicas_per_broker
    assert spread.max == spread.bound
    assert plan.summary.bounds["replicasPerBroker"].exact
    assert plan.summary.moves == plan.summary.lower_bound_moves
    assert bool(plan.summary.left_out.get(LeftOut.DEAD_REPLICA)) == bool(dead)


def test_partitions_with_fewer_replicas_than_others_lend_no_broker_to_the_search():
    """Where a row is padded there is nothing to exchange: it was taken for a replica on the last broker."""
    lists = [[4, 0], [1, 5], [2, 5], [5, 3], [5, 3], [1, 0], [5, 4, 2]]
    table = pa.table({"topic": [f"t{n}" for n in range(7)], "partition": [0] * 7, "replicas": lists})
    request = Relocation(table, tuple(Broker(n, rack) for n, rack in enumerate("abbcaa")), SpreadRacks())
    plan = plan_relocation(request)
    assert verify_moves(request, plan) == []
    assert (plan.summary.moves, plan.summary.rack_violations) == (2, 0)
