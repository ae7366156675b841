"""What each broker holds before and after a plan, counted one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa

from kafka_medic.playbook.reassign.loads import broker_loads
from kafka_medic.resources.remediation_plan import Reorders, ReplicaMoves
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World
from tests.unit.playbook.test_restart_step import restarted


def proposed():
    kafka = SimKafka(racks={n: "abc"[n % 3] for n in range(5)})
    kafka.topic("orders", *([n % 2] for n in range(20)))
    kafka.topic("whole", [0, 1, 2], [1, 2, 3])
    world = World(kafka)
    world.install()
    return world, world.until_phase("AwaitingApproval").status.plan


def test_loads_are_those_of_the_whole_cluster():
    world, plan = proposed()
    before = {(tp.topic, tp.partition): list(part.replicas) for tp, part in world.kafka.partitions.items()}
    after = dict(before)
    for kind, listed in ((ReplicaMoves, "changes"), (Reorders, "reorders")):
        after |= {(c.topic, c.partition): list(c.replicas) for c in getattr(plan.part(kind), listed)}
    loads = plan.part(ReplicaMoves).loads
    assert loads.brokers == (0, 1, 2, 3, 4)
    assert loads.racks == ("a", "b", "c", "a", "b")
    for held, leads, shown, led in (
        (before, before, loads.replicas_before, loads.leaders_before),
        (after, after, loads.replicas_after, loads.leaders_after),
    ):
        counted = Counter(broker for replicas in held.values() for broker in replicas)
        first = Counter(replicas[0] for replicas in leads.values())
        assert shown == tuple(counted[broker] for broker in loads.brokers)
        assert led == tuple(first[broker] for broker in loads.brokers)


def test_loads_of_what_is_not_known_are_not_shown():
    known = restarted()
    assert broker_loads(known, (), ()) is not None
    assert broker_loads(replace(known, brokers=None), (), ()) is None
    assert broker_loads(replace(known, partitions=None), (), ()) is None
    table = known.partitions
    unknown = pa.array([None, *table["replicas"].to_pylist()[1:]], table.schema.field("replicas").type)
    at = table.column_names.index("replicas")
    assert broker_loads(replace(known, partitions=table.set_column(at, "replicas", unknown)), (), ()) is None
