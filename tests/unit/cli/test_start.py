"""How soon a command answers: its start loads nothing that it does not need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("confluent_kafka", "kafka", "kazoo", "kubernetes", "numpy", "pandas", "pyarrow", "pydantic", "pyspark", "rich")
LOADED = f"""
import json, sys
from kafka_medic.cli.main import main
code = main(sys.argv[2:], as_plugin=sys.argv[1] == "plugin")
found = sorted({{name.split('.')[0] for name in sys.modules}} & set({HEAVY}))
print(json.dumps([code, found]), file=sys.stderr)
"""


@pytest.mark.parametrize("entry", ["command", "plugin"])
@pytest.mark.parametrize(
    "words", [["--help"], ["plan", "--help"], ["snapshot", "--help"], ["status", "--help"], ["version"], ["misspelt"]]
)
def test_help_loads_no_library(entry, words):
    done = subprocess.run([sys.executable, "-c", LOADED, entry, *words], capture_output=True, text=True, check=True)
    code, loaded = json.loads(done.stderr.splitlines()[-1])
    assert (code, loaded) == (4 if words == ["misspelt"] else 0, [])


def test_a_list_of_runs_loads_neither_arrow_nor_a_kafka_client_nor_rich():
    words = ["plugin", "list", "--kubeconfig", "/nonexistent"]
    done = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, text=True, check=True)
    assert json.loads(done.stderr.splitlines()[-1]) == [4, ["kubernetes", "pydantic"]]


WITH_OIDC = """
import sys
from kafka_medic.clients import kubernetes_api
assert not {"oauthlib.oauth2", "requests", "requests_oauthlib", "websocket"} & set(sys.modules)
import kubernetes.stream
from kubernetes.config import kube_config
session = kube_config.OAuth2Session(client_id="x")
assert type(session).__module__.startswith("requests_oauthlib."), type(session)
assert issubclass(kube_config.oauthlib.oauth2.rfc6749.errors.InvalidClientIdError, Exception)
assert kubernetes.stream.stream.func.__module__ == "kubernetes.stream.stream"
"""


def test_what_only_a_refresh_of_oidc_needs_is_loaded_with_its_first_call():
    subprocess.run([sys.executable, "-c", WITH_OIDC], check=True)
