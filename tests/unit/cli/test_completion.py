"""Completions: words of the command line, and names that the API server has, as kubectl and as shells ask for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

LISTS = {
    "/apis/kafkamedic.dev/v1alpha1/namespaces/kafka/remediations": ["orders-roll-1", "orders-roll-2"],
    "/apis/kafkamedic.dev/v1alpha1/namespaces/other/remediations": ["elsewhere-1"],
    "/apis/kafkamedic.dev/v1alpha1/namespaces/kafka/kafkaclusters": ["orders", "payments"],
    "/apis/kafkamedic.dev/v1alpha1/playbooks": ["rolling-restart", "restart-broker"],
}


class _Names(BaseHTTPRequestHandler):
    def do_GET(self):
        names = LISTS.get(self.path.partition("?")[0], [])
        body = json.dumps({"items": [{"metadata": {"name": name}} for name in names], "metadata": {}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with ThreadingHTTPServer(("127.0.0.1", 0), _Names) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        path = tmp_path_factory.mktemp("kube") / "config"
        path.write_text(
            json.dumps(
                {
                    "current-context": "x",
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "kafka"}}],
                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                    "users": [{"name": "u", "user": {}}],
                }
            )
        )
        yield str(path)
        server.shutdown()


def completed(kubeconfig, *words):
    """What `kubectl_complete-kafka_medic` answers: words without their meanings, and the last line."""
    line = [sys.executable, "-c", "import sys; from kafka_medic.cli.main import complete_plugin as c; sys.exit(c())"]
    done = subprocess.run(
        [*line, *words], env=os.environ | {"KUBECONFIG": kubeconfig}, capture_output=True, text=True, check=True
    )
    *found, directive = done.stdout.splitlines()
    return [name.split("\t")[0] for name in found], directive


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("st",), ["status"]),
        (("show", ""), ["orders-roll-1", "orders-roll-2"]),
        (("show", "-n", "other", ""), ["elsewhere-1"]),
        (("approve", "orders-roll-2"), ["orders-roll-2"]),
        (("status", "p"), ["payments"]),
        (("run", "ro"), ["rolling-restart"]),
        (("run", "rolling-restart", "--cluster", ""), ["orders", "payments"]),
        (("pause", "orders", "--rea"), ["--reason"]),
        (("list", "-o", "w"), ["wide"]),
    ],
)
def test_kubectl_is_told_words_and_names(kubeconfig, words, expected):
    found, directive = completed(kubeconfig, *words)
    assert [name for name in found if not name.startswith("-") or expected[0].startswith("-")] == expected
    assert directive == ":4"


def test_an_api_server_that_is_away_has_no_names_and_no_error(tmp_path):
    (tmp_path / "config").write_text("nonsense")
    assert completed(str(tmp_path / "config"), "show", "x") == ([], ":4")


def test_a_shell_is_told_the_same(kubeconfig):
    line = "kafka-medic remediation show "
    environment = {
        "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_STDOUT_FILENAME": "/dev/stdout", "KUBECONFIG": kubeconfig,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "kafka_medic.cli.main"], env=os.environ | environment, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert "orders-roll-1" in done.stdout.split()
