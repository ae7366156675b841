"""What Prometheus reads: the right numbers, by its conventions, of clusters that are there, and no secret."""

from __future__ import annotations

import urllib.request
from datetime import timedelta

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kafka_medic.cluster.clock import Skew
from kafka_medic.cluster.snapshot import NO_LEADER, Source, SourceState
from kafka_medic.controller import metrics as metrics_module
from kafka_medic.controller.metrics import Metrics
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.guard.breaker import BreakerReading, BreakerState
from kafka_medic.observe.canary import Outcome
from kafka_medic.resources.phases import Phase
from tests.simulation.world import World, factor_one_cluster
from tests.unit.cluster import worlds
from tests.unit.controller.exposed import KEY, everything, running
from tests.unit.diagnose.test_canary import cluster, reading

HERE = {"namespace": "ns", "cluster": "c"}


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"kafka_medic_{name}", {**HERE, **labels})


def text(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def reconciled(metrics: Metrics, snapshot, at=worlds.NOW, longest=None, runs=()):
    metrics.observed(KEY, snapshot)
    findings = diagnose(snapshot, remembered={"PartitionLeaderless": at - timedelta(seconds=42)})
    metrics.reconciled(KEY, at, snapshot, findings, runs, longest)


def test_gauges_are_as_of_the_last_good_reconcile():
    metrics = Metrics()
    rows = [worlds.partition("orders", 0, (1, 2, 3)), worlds.partition("orders", 1, (1, 2, 3), leader=NO_LEADER)]
    sources = (Source("kafka", worlds.NOW, SourceState.KNOWN, None, 250),
               Source("groups", worlds.NOW, SourceState.UNKNOWN, "refused: password hunter2", 5000),
               Source("log-ends", worlds.NOW, SourceState.UNKNOWN, "not tried"))  # fmt: skip
    reconciled(metrics, worlds.healthy(rows=rows, views=None, sources=sources), longest=61500)
    assert value(metrics, "last_reconcile_timestamp_seconds") == worlds.NOW.timestamp()
    assert value(metrics, "findings", type="PartitionLeaderless", severity="Critical", state="Firing") == 1
    assert value(metrics, "leaderless_partitions") == 1
    assert value(metrics, "leaderless_seconds") == 42
    assert value(metrics, "longest_leaderless_seconds") == 61.5
    assert value(metrics, "probe_duration_seconds_sum", source="kafka") == 0.25
    assert value(metrics, "probe_duration_seconds_count", source="log-ends") is None
    assert value(metrics, "probe_failures_total", source="groups") == 1
    assert value(metrics, "probe_failures_total", source="kafka") is None
    assert value(metrics, "source_known", source="groups") == 0
    assert value(metrics, "source_known", source="kafka") == 1
    assert value(metrics, "diverged_brokers") is None, "not known is not none"
    assert "hunter2" not in text(metrics)


def test_how_far_the_api_servers_clock_is_ahead_is_told_where_it_is_known():
    name = "kafka_medic_api_clock_skew_seconds"
    assert Metrics(lambda: Skew(59.5, 60.5)).registry.get_sample_value(name) == 60.0
    assert Metrics(lambda: Skew(-60.5, -59.5)).registry.get_sample_value(name) == -60.0
    assert Metrics().registry.get_sample_value(name) is None


def test_what_is_not_known_has_no_number():
    metrics = Metrics()
    reconciled(metrics, worlds.healthy(partitions=None, views=None))
    for name in ("leaderless_partitions", "leaderless_seconds", "longest_leaderless_seconds", "diverged_brokers"):
        assert value(metrics, name) is None
    reconciled(metrics, worlds.healthy())
    assert value(metrics, "leaderless_partitions") == 0
    assert value(metrics, "leaderless_seconds") == 0
    assert value(metrics, "diverged_brokers") == 0


def test_brokers_with_another_view_are_counted():
    metrics = Metrics()
    views = (worlds.view(1), worlds.view(2), worlds.view(3, members=(3,)))
    reconciled(metrics, worlds.healthy(views=views))
    assert value(metrics, "diverged_brokers") == 1


def test_the_canary_is_measured_by_broker_and_partition_and_what_is_gone_is_gone():
    metrics = Metrics()
    told = metrics.canary(KEY)
    told(Outcome(0, 1, 0.004, 0.006))
    told(Outcome(1, 2, 0.004, None, "not read back"))
    told(Outcome(1, 2, dropped=True))
    told(Outcome(2, None, error="not acknowledged"))
    reconciled(metrics, cluster(reading(0, 1), reading(1, 2, 1), leaders=(1, 2)))
    latency = "canary_latency_seconds_count"
    assert value(metrics, latency, broker="1", partition="0", stage="produce") == 1
    assert value(metrics, latency, broker="2", partition="1", stage="consume") is None
    assert value(metrics, "canary_failures_total", broker="2", partition="1") == 1
    assert value(metrics, "canary_failures_total", broker="none", partition="2") == 1
    assert value(metrics, "canary_dropped_total") == 1
    reconciled(metrics, cluster(reading(0, 1), reading(1, 3), leaders=(1, 3)))
    assert value(metrics, latency, broker="2", partition="1", stage="produce") is None
    assert value(metrics, "canary_failures_total", broker="2", partition="1") is None
    assert value(metrics, latency, broker="1", partition="0", stage="produce") == 1


def test_a_cluster_that_is_gone_leaves_no_series_and_takes_no_others():
    metrics = Metrics()
    for key in (KEY, ("ns", "other")):
        metrics.observed(key, worlds.healthy())
        metrics.reconciled(key, worlds.NOW, worlds.healthy(), (), (), None)
        metrics.lease(key, True)
        metrics.effect(key, "sent")
        metrics.canary(key)(Outcome(0, 1, 0.1, 0.1, "x"))
        metrics.canary(key)(Outcome(0, 1, dropped=True))
    metrics.gone(KEY)
    assert 'cluster="c"' not in text(metrics)
    assert 'cluster="other"' in text(metrics)


def test_who_loses_the_lease_tells_only_that():
    metrics = Metrics()
    reconciled(metrics, worlds.healthy())
    metrics.lease(KEY, None)
    assert value(metrics, "last_reconcile_timestamp_seconds") is not None
    metrics.lease(KEY, False)
    assert value(metrics, "lease_held") == 0
    assert value(metrics, "last_reconcile_timestamp_seconds") is None
    assert value(metrics, "source_known", source="kafka") is None


def test_a_run_shows_how_far_it_is_and_what_is_left_and_what_it_waits_for():
    metrics, own = everything(), {"remediation": "r", "playbook": "raise-replication-factor"}
    assert value(metrics, "remediation_phase", **own, phase="Running") == 1
    assert value(metrics, "remediation_step_done", **own, step="raise", unit="partitions") == 5
    assert value(metrics, "remediation_step_total", **own, step="raise", unit="partitions") == 10
    assert value(metrics, "remediation_remaining_bytes", **own) == 2_000
    assert value(metrics, "remediation_remaining_seconds", **own) == 90
    assert value(metrics, "remediation_waiting", **own, guard="WithinWindow", verdict="Wait") == 1
    metrics.reconciled(KEY, worlds.NOW, worlds.healthy(), (), [running()], None)
    assert value(metrics, "remediation_remaining_bytes", **own) is None, "a size that is not known is not 0"


def test_a_run_that_ended_keeps_its_series_for_an_hour():
    metrics, own = Metrics(), {"remediation": "r", "playbook": "raise-replication-factor"}
    run = running()
    ended = run.status.model_copy(update={"phase": Phase.SUCCEEDED, "finished_at": worlds.NOW})
    run = run.model_copy(update={"status": ended})
    metrics.reconciled(KEY, worlds.NOW + timedelta(minutes=59), worlds.healthy(), (), [run], None)
    assert value(metrics, "remediation_phase", **own, phase="Succeeded") == 1
    metrics.reconciled(KEY, worlds.NOW + timedelta(minutes=61), worlds.healthy(), (), [run], None)
    assert value(metrics, "remediation_phase", **own, phase="Succeeded") is None
    assert value(metrics, "remediations", phase="Succeeded") == 1


def test_a_run_shows_in_phases_and_effects():
    world = World(factor_one_cluster())
    world.install()
    run = world.until_phase("AwaitingApproval")
    world.step()
    assert value(world.series, "remediations", phase="AwaitingApproval") == 1
    assert value(world.series, "effects_total", outcome="sent") is None
    assert value(world.series, "lease_held") == 1
    world.approve(run)
    world.until_phase("Succeeded")
    world.step()
    assert value(world.series, "remediations", phase="Succeeded") == 1
    assert value(world.series, "remediations", phase="AwaitingApproval") is None
    assert value(world.series, "effects_total", outcome="sent") == len(world.kafka.writes)
    assert world.reconciler is not None
    world.reconciler.close()
    assert 'cluster="c"' not in text(world.series)


def test_the_breaker_is_told_with_what_opened_it():
    metrics = Metrics()
    reconciled(metrics, worlds.healthy())
    assert value(metrics, "breaker_failures") is None, "not known is not none"
    reading = BreakerReading(BreakerState.OPEN, ("a", "b", "c"), worlds.NOW)
    metrics.reconciled(KEY, worlds.NOW, worlds.healthy(), (), (), None, reading)
    states = {state.value: value(metrics, "breaker_state", state=state.value) for state in BreakerState}
    assert states == {"closed": 0, "open": 1, "half open": 0}
    assert value(metrics, "breaker_failures") == 3


LAGGING = worlds.groups(("billing", "Stable", "orders", 0, 90), ("billing", "Stable", "orders", 1, 40),
                        ("audit", "Empty", "orders", 0, 130), ("gone", "Empty", "no-such-topic", 0, 1))  # fmt: skip


def test_lag_is_told_as_it_is_below_zero_too_and_groups_are_named_only_where_wanted():
    metrics = Metrics()
    reconciled(metrics, worlds.healthy(groups=LAGGING))
    assert [value(metrics, f"consumer_lag_{n}") for n in ("lowest", "highest", "sum")] == [-30, 60, 40]
    assert "billing" not in text(metrics)
    reconciled(metrics, worlds.healthy(groups=None))
    assert value(metrics, "consumer_lag_lowest") is None, "not known is not 0"
    named = Metrics(consumer_groups=True)
    reconciled(named, worlds.healthy(groups=LAGGING))
    assert [value(named, f"group_lag_{n}", group="billing") for n in ("lowest", "highest", "sum")] == [10, 60, 70]
    assert value(named, "group_lag_lowest", group="audit") == -30
    assert "gone" not in text(named)


def test_of_many_groups_those_below_zero_and_those_furthest_behind_are_named(monkeypatch):
    monkeypatch.setattr(metrics_module, "MOST_GROUPS", 2)
    metrics = Metrics(consumer_groups=True)
    rows = [(f"g{n}", "Stable", "orders", 0, 100 - n) for n in range(5)] + [("ahead", "Empty", "orders", 0, 101)]
    reconciled(metrics, worlds.healthy(groups=worlds.groups(*rows)))
    told = {n for n in (*(f"g{n}" for n in range(5)), "ahead") if value(metrics, "group_lag_sum", group=n) is not None}
    assert told == {"ahead", "g4"}
    assert value(metrics, "groups_left_out") == 4


def test_the_process_is_measured_and_no_series_says_when_it_was_made():
    metrics = Metrics()
    reconciled(metrics, worlds.healthy(), longest=1)
    metrics.effect(KEY, "sent")
    metrics.canary(KEY)(Outcome(0, 1, 0.1, 0.1, "x"))
    assert metrics.registry.get_sample_value("process_resident_memory_bytes", {}) > 0
    assert metrics.registry.get_sample_value("process_open_fds", {}) > 0
    assert "_created" not in text(metrics)


def test_names_follow_the_conventions():
    metrics = everything()
    allowed = {"namespace", "cluster", "broker", "partition", "stage", "source", "type", "severity", "state", "phase",
               "outcome", "version", "python", "le", "remediation", "playbook", "step", "unit", "guard", "verdict",
               "group"}  # fmt: skip
    families = [
        f for f in text_string_to_metric_families(text(metrics)) if not f.name.startswith(("process", "python"))
    ]
    assert len(families) > 12
    for family in families:
        assert family.name.startswith("kafka_medic_"), family.name
        assert family.documentation.endswith("."), family.name
        for sample in family.samples:
            assert set(sample.labels) <= allowed
    assert value(metrics, "reconciles_total") == 1
    assert 'kafka_medic_build_info{python="' in text(metrics)


def test_it_is_served_until_it_is_stopped():
    metrics = Metrics()
    metrics.lease(KEY, True)
    stop, port = metrics.serve(0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            body = answer.read().decode()
    finally:
        stop()
    assert 'kafka_medic_lease_held{cluster="c",namespace="ns"} 1.0' in body
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2)
