"""A plan that is made in this process does not wait for pandas to load."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("pandas", reason="nothing could be loaded")

PLAN = """
import sys
from kafka_medic.cli.main import main
assert main(sys.argv[1:]) == 0
loaded = [name for name in ("pandas", "pydantic", "pyspark", "kubernetes") if name in sys.modules]
assert not loaded, loaded
import pyarrow
assert pyarrow.table({"a": [1]}).to_pandas().shape == (1, 1)
"""


def test_a_plan_loads_neither_pandas_nor_what_other_subcommands_need(tmp_path):
    partitions, brokers = tmp_path / "partitions.json", tmp_path / "brokers.json"
    partitions.write_text(json.dumps([{"topic": "a", "partition": 0, "replicas": [1]}]))
    brokers.write_text(json.dumps([{"id": 1}, {"id": 2}]))
    words = ["plan", "raise-replication-factor", "--partitions", str(partitions), "--brokers", str(brokers)]
    line = [sys.executable, "-c", PLAN, *words, "--replication-factor", "2", "--output", str(tmp_path / "plan")]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
