"""librdkafka in processes of its own: what they say is data, and what they die of stays with them."""

from __future__ import annotations

import io
import os
import pickle
import signal
import threading
import time
from pathlib import Path
from subprocess import Popen

import pytest

from kafka_medic.clients import apart
from kafka_medic.clients.apart import AdminApart, CanaryApart, RecordsApart, _Records
from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.ports import Broken, ClusterDescription, ConfigChange, Connection, OwnRecord, TlsMaterial
from tests.stub_cluster import Size, StubProcess

NOBODY = Connection("127.0.0.1:1", timeout_seconds=1.0)


def gone(pid: int) -> bool:
    over = threading.Event()
    for _ in range(500):
        if not os.path.exists(f"/proc/{pid}"):
            return True
        over.wait(0.01)
    return False


def test_a_server_that_is_not_there_is_a_failed_read_of_the_same_kind():
    with pytest.raises(ReadFailed) as failed:
        AdminApart(NOBODY).members()
    assert failed.value.kind is FailureKind.UNREACHABLE


def test_credentials_that_cannot_be_used_are_told_and_not_shown():
    with pytest.raises(ReadFailed) as failed:
        AdminApart(Connection("127.0.0.1:1", protocol="SSL", tls=TlsMaterial("hunter2 is no certificate"))).members()
    assert failed.value.kind is FailureKind.CREDENTIALS
    assert "hunter2" not in str(failed.value)


def test_a_change_is_asked_for_before_it_is_sent():
    asked = []
    with pytest.raises(WriteFailed, match="stopped after 0 of 1 requests"):
        AdminApart(NOBODY).alter_configs([ConfigChange("TOPIC", "a", "n", "1")], lambda: bool(asked.append(1)))
    assert asked == [1]


def test_a_process_that_dies_is_a_failed_read_and_another_one_comes():
    admin = AdminApart(NOBODY)
    for _ in range(2):
        with pytest.raises(ReadFailed):
            admin.members()
        assert admin._process is not None
        pid = admin._process.pid
        os.kill(pid, signal.SIGSEGV)
        with pytest.raises(ReadFailed, match="its process ended"):
            admin._call("offsets_at", [], 0)
        assert gone(pid)


def test_a_canary_whose_process_dies_is_broken():
    canary = CanaryApart(NOBODY, "canary", 5.0)
    assert canary.send(0, b"x")
    os.kill(canary._process.pid, signal.SIGKILL)
    assert not canary.send(0, b"x")
    assert [type(event) for event in canary.poll(0.0)] == [Broken]
    assert canary.poll(0.0) == []
    canary.close()


def test_a_client_that_is_closed_leaves_no_process():
    canary = CanaryApart(NOBODY, "canary", 5.0)
    pid = canary._process.pid
    canary.close()
    assert gone(pid)


def test_records_go_in_parts_and_their_failure_comes_back():
    began = time.monotonic()
    with pytest.raises(ReadFailed):
        list(RecordsApart(Connection("127.0.0.1:1", timeout_seconds=0.2)).read_topic("a", 0))
    assert time.monotonic() - began < 30
    assert RecordsApart(NOBODY).append("a", 0, iter(())) == 0


def test_memory_is_bounded():
    """As a bomb of compressed records would use it."""
    admin = AdminApart(NOBODY)
    with pytest.raises(ReadFailed):
        admin.members()
    limits = {
        line[:26].strip(): line[26:].split()[0]
        for line in Path(f"/proc/{admin._process.pid}/limits").read_text().splitlines()
    }
    assert apart.MEMORY_BYTES < int(limits["Max data size"]) < 3 * apart.MEMORY_BYTES
    assert Path(f"/proc/{admin._process.pid}/oom_score_adj").read_text().strip() == "1000"
    admin.close()


def test_a_large_cluster_fits_into_the_memory():
    """librdkafka has a thread for each broker, and the stack of each counts."""
    with StubProcess(Size(500, 500), 0) as stubs:
        admin = AdminApart(Connection(stubs.place.bootstrap, timeout_seconds=30.0))
        assert len(admin.members().nodes) == 500
        admin.close()


def test_the_process_that_forks_them_is_started_anew():
    with pytest.raises(ReadFailed):
        AdminApart(NOBODY).members()
    apart._NURSERY._link.close()
    with pytest.raises(ReadFailed) as failed:
        AdminApart(NOBODY).members()
    assert failed.value.kind is FailureKind.UNREACHABLE


@pytest.mark.parametrize("said", [os.system, Popen, ConfigChange, OwnRecord, eval])
def test_what_a_process_says_makes_nothing_but_answers(said):
    with pytest.raises(pickle.UnpicklingError):
        _Records(io.BytesIO(pickle.dumps(said))).load()
    assert _Records(io.BytesIO(pickle.dumps(ClusterDescription("c", (), None)))).load().cluster_id == "c"


def test_what_they_write_is_lines_of_our_log(caplog):
    caplog.set_level("INFO", logger="kafka_medic.clients.apart")
    apart._NURSERY._link.close()
    apart._NURSERY._link = None  # the next one's words are this test's
    canary = CanaryApart(NOBODY, "canary", 5.0)
    Path(f"/proc/{canary._process.pid}/fd/2").write_text("what a server says\x1b[2J\n")
    over = threading.Event()
    for _ in range(500):
        if "what a server says" in caplog.text:
            break
        over.wait(0.01)
    canary.close()
    assert "librdkafka's process: what a server says" in caplog.text
