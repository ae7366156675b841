"""A stuck controller on ZooKeeper gives way through the operator's own reconciles: once, and no broker is restarted."""

from __future__ import annotations

import pytest

from kafka_medic.clients.zookeeper import Registrations
from kafka_medic.cluster.snapshot import Controller, Quorum, Voter
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BROKERS, NO_ELECTIONS, Killed, World
from tests.thorough import only


class Stuck(SimKafka):
    def stop(self, broker):
        self.up.discard(broker)  # and nobody elects


class Ensemble:
    """Broker 0 is the controller under epoch 7 and hears nothing; whoever comes next elects."""

    def __init__(self, kafka, dies=None):
        self.kafka, self.dies, self.holder, self.epoch, self.asked = kafka, dies, 0, 7, 0

    def registrations(self):
        return Registrations(tuple(sorted(self.kafka.members)), Controller(self.holder, self.epoch))

    def ensemble(self):
        return Quorum(0, tuple(Voter(n, 0) for n in range(3)))

    def resign_controller(self, broker, epoch):
        dies, self.dies = self.dies, None
        if dies == "before":
            raise Killed
        if (broker, epoch) == (self.holder, self.epoch):
            self.asked += 1
            self.holder = self.kafka.voted = 1
            self.epoch += 1
            for part in self.kafka.partitions.values():
                part.isr = [b for b in part.isr if b in self.kafka.up]
                if part.leader not in self.kafka.up:
                    part.elect(part.isr[0])
        if dies == "after":
            raise Killed

    def close(self):
        pass


def stuck(dies=None):
    kafka = Stuck(zookeeper=True)
    kafka.voted = 0
    kafka.topic("orders", [2, 1, 0], [0, 1, 2])
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    world = World(kafka, ensemble=Ensemble(kafka, dies))
    world.install(brokers=BROKERS, metadata={"zookeeper": {"connect": "zk:2181"}}, remediation=NO_ELECTIONS)
    world.with_pods()
    world.step()
    kafka.stop(2)
    return world


@pytest.mark.parametrize("dies", only([1], ["before", "after"]))
def test_a_stuck_controller_resigns_once_despite_kills(dies):
    world = stuck(dies)
    world.until(lambda: any(r.status.phase == "AwaitingApproval" for r in cures(world)))
    assert world.ensemble.epoch == 7, "nothing before its approval"
    world.approve(cures(world)[0])
    assert world.to_the_end(reconciles=30, seconds=5.0) == 1
    assert cures(world)[0].status.phase == "Succeeded", cures(world)[0].status.message
    assert (world.ensemble.asked, world.ensemble.holder, world.ensemble.epoch) == (1, 1, 8)
    assert world.pods.restarts == []
    assert all(p.leader in world.kafka.up for p in world.kafka.partitions.values())


def test_a_controller_that_recovers_is_left_alone():
    world = stuck()
    world.until(lambda: any(r.status.phase == "AwaitingApproval" for r in cures(world)))
    world.kafka.up.add(2)
    world.approve(cures(world)[0])
    for _ in range(10):
        world.step()
    assert world.ensemble.asked == 0
    assert cures(world)[0].status.phase == "Superseded", cures(world)[0].status.message


def cures(world):
    return [r for r in world.runs() if r.spec.playbook.name == "restart-controller"]
