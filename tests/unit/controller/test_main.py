"""/healthz is served where the kubelet probes; every reconcile keeps the rules that the chart rendered."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.controller.__main__ import arguments, build, collect_less, liveness_endpoint
from kafka_medic.controller.metrics import Metrics
from kafka_medic.controller.reconciler import Reconciler
from kafka_medic.controller.renewals import Renewals
from tests.simulation.api import SimApi


@pytest.mark.parametrize(
    ("address", "host"), [("fd00::7", "fd00::7"), ("10.0.0.7", "10.0.0.7"), ("", "0.0.0.0"), (None, "0.0.0.0")]
)
def test_on_the_pods_address_of_either_family(monkeypatch, address, host):
    monkeypatch.delenv("POD_IP", raising=False)
    if address is not None:
        monkeypatch.setenv("POD_IP", address)
    parts = urlsplit(liveness_endpoint(8080))
    assert (parts.hostname, parts.port, parts.path) == (host, 8080, "/healthz")


def test_switched_off():
    assert liveness_endpoint(0) is None


class Api(SimApi):
    def addresses(self) -> frozenset[str]:
        return frozenset({"10.96.0.1"})


def wired(tmp_path: Path, *options: str) -> Reconciler:
    """The Reconciler of a KafkaCluster in payments, as the process with these options wires it."""
    entry = {"namespace": "payments", "servers": ["broker.example.com"], "tokenEndpoints": ["login.example.com"]}
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"version": 1, "policies": [], "destinations": [entry]}))
    given = arguments(["--rules", str(file), *options])
    metrics = Metrics()
    fleet, _ = build(Api(), "me", metrics, [], rules=given.rules, loopback=given.loopback_destinations,
                     leases=Api(), renewals=Renewals())  # fmt: skip
    return fleet._make_reconciler(("payments", "c"))


def test_what_the_administrator_listed_bounds_every_namespace(tmp_path: Path) -> None:
    destinations = wired(tmp_path).clients.destinations
    mine, other = destinations("payments"), destinations("orders")
    assert mine is not None
    assert other is not None
    mine.check_servers(["broker.example.com", "kafka.payments.svc"])
    for bounds, host in ((other, "broker.example.com"), (mine, "127.0.0.1"), (mine, "10.96.0.1")):
        with pytest.raises(ReadFailed):
            bounds.check_servers([host])


def test_the_loopback_is_for_tests_that_say_so(tmp_path: Path) -> None:
    bounds = wired(tmp_path, "--loopback-destinations").clients.destinations("payments")
    assert bounds is not None
    bounds.check_servers(["127.0.0.1"])


def test_without_rules_there_are_bounds_all_the_same() -> None:
    fleet, store = build(Api(), "me", Metrics(), [], leases=Api(), renewals=Renewals())
    bounds = fleet._make_reconciler(("payments", "c")).clients.destinations("payments")
    assert bounds is not None
    with pytest.raises(ReadFailed):
        bounds.check_servers(["kafka.orders.svc"])
    standing = store.policies()
    assert standing is not None
    assert standing.since is None


@pytest.mark.parametrize("text", ["{}x", '{"version": 2}', '{"version": 1, "policys": []}'])
def test_rules_that_cannot_be_read_are_refused_at_the_start(tmp_path: Path, text: str, capsys) -> None:
    file = tmp_path / "rules.json"
    file.write_text(text)
    with pytest.raises(SystemExit):
        arguments(["--rules", str(file)])
    assert "use a chart of this version" in capsys.readouterr().err


def test_what_is_loaded_is_left_out_of_collections_and_later_garbage_is_not():
    class Link:
        other: object = None

    before = gc.get_threshold()
    gc.set_threshold(700)  # Python's own; the tests' processes have another
    try:
        collect_less()
        assert gc.get_freeze_count() > 1000
        assert gc.get_threshold()[0] > 700
        assert gc.isenabled()
        one, other = Link(), Link()
        one.other, other.other = other, one
        seen = weakref.ref(one)
        del one, other
        gc.collect()
        assert seen() is None
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
