"""The kubectl plugin as one file: built, and run by a Python that has nothing else, against an API server here.

What stands behind the API server is the simulation, so this needs neither the testbed nor root.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from tests.testbed.build import plugin_packages
from tests.unit.cli.remediation.api_of_people import BASE, ApiOfPerson, proposed

ROOT = Path(__file__).parents[2]
FILE = ROOT / "build" / "kubectl-kafka_medic"
MOST_BYTES = 15_000_000
LISTS = ("kafkaclusters", "remediations", "remediationapprovals", "playbooks", "planparts")


def build(**variables: str) -> None:
    env = os.environ | {"UV_CACHE_DIR": str(plugin_packages()), "UV_OFFLINE": "1", **variables}
    subprocess.run([sys.executable, "-m", "plugin.build"], cwd=ROOT, check=True, timeout=540, env=env)


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build()
    assert FILE.stat().st_size <= MOST_BYTES
    return FILE


class Run:
    """The file, run as a person would who has Python 3.11 and no package."""

    def __init__(self, plugin: Path, home: Path, kubeconfig: Path) -> None:
        self.plugin, self.home, self.kubeconfig = plugin, home, kubeconfig

    def __call__(self, *words: str, name: str = "") -> subprocess.CompletedProcess[str]:
        # -I: nothing of the environment or of the person's own packages. -S: nothing that is installed beside Python.
        python = Path(sys.base_prefix) / "bin" / "python3.11"
        return subprocess.run(
            [str(python), "-I", "-S", str(self.plugin.with_name(name) if name else self.plugin), *words],
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin", "KUBECONFIG": str(self.kubeconfig)},
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip


@pytest.fixture(scope="module")
def api() -> ApiOfPerson:
    return ApiOfPerson(proposed())


@pytest.fixture(scope="module")
def run(plugin: Path, api: ApiOfPerson, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path.rsplit("/", 1)[1] in LISTS or "rbac" in path:
                self.answer(lambda: {"items": api.list(path), "metadata": {}})
            else:
                self.answer(lambda: api.get(path))

        def do_POST(self) -> None:
            self.answer(lambda: api.create(self.path, self.body()))

        def do_PATCH(self) -> None:
            self.answer(lambda: api.merge(self.path, self.body()))

        def body(self) -> Any:
            return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

        def answer(self, call: Any) -> None:
            try:
                status, found = 200, call()
            except ApiFailure as problem:
                status, found = problem.status, {"message": problem.message}
            data = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def date_time_string(self, timestamp: float | None = None) -> str:
            """The simulation's own time, by which the command tells what is stale."""
            return format_datetime(api.world.now, usegmt=True)

        def log_message(self, *_: object) -> None:
            pass

    home = tmp_path_factory.mktemp("home")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "ns"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        (home / "config").write_text(json.dumps(config))
        yield Run(plugin, home, home / "config")
        server.shutdown()


def test_it_reads_decides_and_requests_with_python_alone(run: Run, api: ApiOfPerson) -> None:
    name = api.world.run().name
    for words, needed in (
        (("version",), "kafka-medic "),
        (("--help",), "findings, runs that wait"),
        (("status",), "1 cluster: 2 Critical; 1 run waits"),
        (("status", "-o", "json"), '"controller": 0'),
        (("list", "-o", "wide"), "AwaitingApproval"),
        (("show", name), "replicas of orders-0: [1] -> [1, 0, 2] (5.0 MB, wave 0)"),
        (("diff", name), "+ [1, 0, 2]"),
        (("explain", name), "ApprovalValid"),
        (("history", name), "Planned"),
        (("pause", "c", "--reason", "until Monday"), "is paused: until Monday (paused by alice)"),
        (("resume", "c", "--yes"), "is resumed"),
        (("run", "raise-replication-factor", "--cluster", "c", "--yes"), "created Remediation"),
        (("approve", name, "--yes"), "approved by alice"),
        (("reject", name, "--yes"), "rejected by alice"),
        (("abort", name, "--yes"), "rejected by alice"),
        (("report", name), name),
    ):
        done = run(*words)
        assert done.returncode == 0, (words, done.stderr)
        assert needed in done.stdout, (words, done.stdout)
    decisions = [item["spec"]["decision"] for item in api.list(f"{BASE}/remediationapprovals")]
    assert sorted(decisions) == ["Approve", "Reject", "Reject"]


def test_what_needs_arrow_is_said_not_to_be_there(run: Run) -> None:
    done = run("snapshot", "--bootstrap-servers", "a:1")
    assert done.returncode == 4
    assert "snapshot is not part of the one-file plugin\n  pip install kafka-medic" in done.stderr


def test_a_link_to_it_completes(run: Run) -> None:
    link = run.plugin.with_name("kubectl_complete-kafka_medic")
    link.unlink(missing_ok=True)
    link.symlink_to(run.plugin.name)
    done = run("st", name=link.name)
    assert done.stdout.splitlines()[0].startswith("status")
    assert done.stdout.splitlines()[-1] == ":4"


def test_it_unpacks_once_for_the_person_alone(run: Run) -> None:
    assert run("version").returncode == 0
    cache = run.home / ".cache" / "kafka-medic"
    (folder,) = cache.iterdir()
    assert folder.name.startswith("plugin-")
    assert cache.stat().st_mode & 0o077 == 0
    before = folder.stat().st_mtime_ns
    assert run("version").returncode == 0
    assert [p.name for p in cache.iterdir()] == [folder.name]
    assert folder.stat().st_mtime_ns == before


def test_without_a_home_it_runs_all_the_same(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    done = Run(run.plugin, tmp_path / "file", run.kubeconfig)("version")
    assert (done.returncode, done.stdout[:12]) == (0, "kafka-medic ")


def test_the_same_sources_give_the_same_bytes(plugin: Path) -> None:
    before = hashlib.sha256(plugin.read_bytes()).digest()
    build(TZ="X")
    assert hashlib.sha256(plugin.read_bytes()).digest() == before
