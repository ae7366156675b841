"""The probe of the exporters lives as long as the spec names the same port: a rate needs the page before."""

from __future__ import annotations

from typing import Any

from kafka_medic.observe.metrics import BrokerMetrics, BrokerSigns
from tests.simulation.world import World, factor_one_cluster


class Probe:
    def __init__(self, port: int, seconds: float) -> None:
        self.port, self.seconds, self.reconciles = port, seconds, 0

    def begin(self, hosts: Any) -> Any:
        self.reconciles += 1
        return lambda: {b: BrokerSigns(BrokerMetrics(state=3, version="4.3.1")) for b in hosts}


def test_one_probe_for_one_port() -> None:
    world = World(factor_one_cluster())
    world.install()
    reconciler = world.operator()
    made: list[Probe] = []

    def make(port: int, seconds: float, _: object) -> Probe:
        made.append(Probe(port, seconds))
        return made[-1]

    reconciler.clients.metrics = make
    key = next(p for p in world.api.objects if "/kafkaclusters/" in p)

    def run(port: int | None) -> Any:
        probes = world.api.touch(key)["spec"].setdefault("probes", {})
        probes.pop("metricsPort", None)
        if port is not None:
            probes["metricsPort"] = port
        reconciler.reconcile()
        return world.api.objects[key]["status"].get("version")

    run(None)
    assert made == []
    assert run(9404) == "4.3.1"
    run(9404)
    assert [(p.port, p.reconciles) for p in made] == [(9404, 2)]
    run(9405)
    run(None)
    run(9405)
    assert [(p.port, p.reconciles) for p in made] == [(9404, 2), (9405, 1), (9405, 1)]
