"""Whose cluster and whose name: the kubeconfig, what is asked with it, and that none of its secrets is told."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml

from kafka_medic.cli.main import main
from kafka_medic.clients.kubernetes_api import KubeconfigError, KubernetesApi


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be used"),
        ("", "cannot be used"),
        ("[1, 2", "not YAML"),
        ("just text", "not a kubeconfig"),
        ("apiVersion: v1\nkind: Config\n", "cannot be used"),
        ("{apiVersion: v1, kind: Config, contexts: [{name: a}], current-context: a, users: [], clusters: []}", ""),
        ("{contexts: 7, current-context: a, users: [], clusters: []}", ""),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_named_without_what_is_in_it(tmp_path, content, told, capsys):
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    assert main(["remediation", "list", "--kubeconfig", str(path)]) == 4
    err = capsys.readouterr().err
    assert str(path) in err
    assert told in err
    assert "Traceback" not in err


def kubeconfig(path, server="http://127.0.0.1:9", **context):
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "one",
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "anna", "user": {"token": "very-secret-token"}}],
        "contexts": [
            {"name": "one", "context": {"cluster": "k", "user": "anna", **context}},
            {"name": "two", "context": {"cluster": "k", "user": "anna", "namespace": "other"}},
        ],
    }  # fmt: skip
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_the_context_gives_the_namespace(tmp_path):
    file = kubeconfig(tmp_path / "k")
    assert KubernetesApi.of_person(file)[1] == "default"
    assert KubernetesApi.of_person(file, "two")[1] == "other"
    with pytest.raises(KubeconfigError, match="no context 'three'; it has one, two"):
        KubernetesApi.of_person(file, "three")


def test_an_api_server_that_is_not_there_has_its_own_code_and_no_token_is_told(tmp_path, capsys):
    assert main(["remediation", "list", "--kubeconfig", kubeconfig(tmp_path / "k")]) == 3
    err = capsys.readouterr().err
    assert err.startswith("kafka-medic: the API server at http://127.0.0.1:9 did not answer: Connection refused\n")
    assert len(err.splitlines()) == 2
    assert "very-secret-token" not in err


def test_each_request_is_the_persons_own_and_no_refusal_tells_their_token(tmp_path, capsys):
    asked = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path.split("?")[0], self.headers["Authorization"]))
            refusal = {"kind": "Status", "message": 'remediations is forbidden: User "anna"', "code": 403}
            body = json.dumps(refusal).encode()
            self.send_response(403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        file = kubeconfig(tmp_path / "k", f"http://127.0.0.1:{server.server_port}")
        code = main(["remediation", "list", "--context", "two", "--kubeconfig", file])
        server.shutdown()
    told = capsys.readouterr()
    assert code == 1
    assert asked == [("/apis/kafkamedic.dev/v1alpha1/namespaces/other/remediations", "Bearer very-secret-token")]
    assert 'User "anna"' in told.err
    assert "very-secret-token" not in told.out + told.err
