"""Pages to look at: plans, runs and a fleet, with names as long and as hostile as Kafka and its pretenders allow."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from kafka_medic.cli.main import main
from kafka_medic.cli.remediation.report_command import page_of
from kafka_medic.plan.broker import Broker
from kafka_medic.plan.files.report import render_report
from kafka_medic.plan.files.report_data import About, report_data
from kafka_medic.plan.problem import Problem
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.report.render import render
from kafka_medic.resources.kafkacluster import KafkaCluster
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World

ABOUT = About(
    "orders-production", "7Qz0Y5rjTpWnPpCk3QyT0g", "2026-01-31T07:59:30Z", datetime(2026, 1, 31, 8, tzinfo=UTC),
    "ann on ops-1", "9f2c8a7d5b1e4f60" * 4,
)  # fmt: skip
ROOT = Path(__file__).parents[2]
LONGEST = "t" * 249
HOSTILE = ("<script>document.title='x'</script>", "\u202etxt.exe", "ייבוא-הזמנות", "a&b\"c'd", "$\\or{der$s", LONGEST)


def plan_page(partitions: int, brokers: int, racks: int = 3, names: tuple[str, ...] = ()) -> str:
    """A raise to three replicas, of sizes as they are: few large ones."""
    draw = np.random.default_rng(7)
    topics = names or tuple(
        f"team-{n % 17}.{('orders', 'payments', 'clicks')[n % 3]}.{n}" for n in range(partitions // 40)
    )
    each = partitions // len(topics)
    held = [draw.choice(brokers, 2, replace=False).tolist() for _ in range(each * len(topics))]
    table = pa.table(
        {
            "topic": pa.array([topic for topic in topics for _ in range(each)]),
            "partition": pa.array([n for _ in topics for n in range(each)], pa.int32()),
            "replicas": pa.array(held, pa.list_(pa.int32())),
            "leader": pa.array([replicas[0] for replicas in held], pa.int32()),
            "isr": pa.array(held, pa.list_(pa.int32())),
            "sizeBytes": pa.array((draw.pareto(1.5, len(held)) * 2e8).astype(np.int64)),
        }
    )
    of = tuple(Broker(n, f"eu-west-1{'abcdefgh'[n % racks]}") for n in range(brokers))
    problem = Problem(table, of, 3)
    plan = plan_local(problem)
    return render_report(report_data(problem, plan, problem.leaders_of_changed(plan), 50_000_000, about=ABOUT))


def run_pages() -> dict[str, str]:
    """A raise that waits for its approval, one that copies and one that has ended, on a simulated cluster."""
    kafka = SimKafka(racks={n: "abc"[n % 3] for n in range(6)})
    kafka.topic("orders", *([n % 3] for n in range(40)))
    kafka.topic("payments.settled.v2", *([n % 2] for n in range(20)))
    kafka.topic("__consumer_offsets", *([n % 3] for n in range(10)))
    world = World(kafka)
    world.install()
    world.until_phase("AwaitingApproval")
    world.step()
    pages = {"run-waits": _page(world)}
    world.kafka.copies_per_tick = 5
    world.step(240)
    world.approve(world.run())
    world.until_phase("Running")
    for _ in range(5):
        world.step()
    pages["run-copies"] = _page(world)
    world.until_phase("Succeeded")
    pages["run-ended"] = _page(world)
    return pages


def _page(world: World) -> str:
    run = world.run()
    return render(page_of(run, KafkaCluster.parse(world.cluster()), (), None, world.now))


def fleet_pages(directory: Path) -> dict[str, str]:
    """Of the example of three clusters."""
    history = directory / "history"
    subprocess.run([sys.executable, ROOT / "examples" / "fleet" / "make_history.py", history], check=True)
    asked = ["--history", str(history), "--until", "2026-01-14", "--engine", "local", "--output"]
    for what in ("report", "plan"):
        assert main(["fleet", what, *asked, str(directory / what)]) == 0
    return {
        "fleet": (directory / "report" / "index.html").read_text("utf-8"),
        "fleet-cluster": (directory / "report" / "clusters" / "payments-id-of-payments.html").read_text("utf-8"),
        "fleet-plans": (directory / "plan" / "index.html").read_text("utf-8"),
        "fleet-plan": (directory / "plan" / "clusters" / "logs-id-of-logs.html").read_text("utf-8"),
    }


def every_page(directory: Path) -> dict[str, Path]:
    """By name, each in a file."""
    pages = {
        "plan-small": plan_page(240, 6),
        "plan-middle": plan_page(4_000, 60),
        "plan-large": plan_page(200_000, 300),
        "plan-hostile": plan_page(60, 9, names=HOSTILE),
        **run_pages(),
        **fleet_pages(directory / "fleet"),
    }
    paths = {name: directory / f"{name}.html" for name in pages}
    for name, path in paths.items():
        path.write_text(pages[name], "utf-8")
    return paths
