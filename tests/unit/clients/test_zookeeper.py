"""An ensemble that does not answer costs one timeout, whatever its size; one server that answers is an answer."""

from __future__ import annotations

import socket
import threading
import time
from types import SimpleNamespace

import pytest
from kazoo.exceptions import BadVersionError, NoAuthError, NoNodeError, RolledBackError, RuntimeInconsistency
from kazoo.handlers.threading import SequentialThreadingHandler

from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.ports import EnsembleConnection
from kafka_medic.clients.zookeeper import ZooKeeper


def _zookeeper(connect: str, timeout_seconds: float = 5.0) -> ZooKeeper:
    return ZooKeeper(EnsembleConnection(connect, timeout_seconds=timeout_seconds))


LEADER = b"Zookeeper version: 3.8\nMode: leader\nNode count: 5\n"
NOT_SERVING = b"This ZooKeeper instance is not currently serving requests\n"
NOT_ENABLED = b"srvr is not executed because it is not in the whitelist.\n"


@pytest.fixture
def server():
    """Starts servers that answer `srvr` with the given bytes, or accept and say nothing."""
    links = []

    def start(answer: bytes | None, host: str = "127.0.0.1") -> str:
        listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        links.append(listener)
        port = listener.getsockname()[1]

        def serve():
            while True:
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                links.append(link)
                if answer is not None:
                    link.recv(16)
                    link.sendall(answer)
                    link.close()

        threading.Thread(target=serve, daemon=True).start()
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    yield start
    for link in links:
        link.close()


def test_servers_that_say_nothing_cost_one_timeout_and_are_a_failed_read(server):
    dead = _zookeeper(",".join(server(None) for _ in range(5)), timeout_seconds=0.6)
    begun = time.monotonic()
    with pytest.raises(ReadFailed) as failed:
        dead.ensemble()
    assert time.monotonic() - begun < 1.5
    assert failed.value.kind is FailureKind.UNREACHABLE


def test_one_that_answers_is_an_answer(server):
    quorum = _zookeeper(f"{server(None)},{server(LEADER)}/chroot", timeout_seconds=0.6).ensemble()
    assert quorum.leader == 2
    assert [(v.id, v.lag) for v in quorum.voters] == [(1, None), (2, 0)]


def test_servers_that_answer_that_they_do_not_serve_are_a_lost_quorum(server):
    quorum = _zookeeper(f"{server(NOT_SERVING)},{server(NOT_SERVING)}", timeout_seconds=2).ensemble()
    assert quorum.leader is None
    assert [v.lag for v in quorum.voters] == [None, None]


def test_servers_that_may_not_say_are_no_lost_quorum(server):
    with pytest.raises(ReadFailed):
        _zookeeper(server(NOT_ENABLED), timeout_seconds=2).ensemble()


def test_an_address_of_version_6(server):
    try:
        where = server(LEADER, "::1")
    except OSError:
        pytest.skip("no IPv6 here")
    assert _zookeeper(where, timeout_seconds=2).ensemble().leader == 1


def test_a_connect_string_that_is_none():
    for wrong in ("zk:port", "zk:1,,"):
        with pytest.raises(ReadFailed):
            _zookeeper(wrong, timeout_seconds=0.2).ensemble()
        with pytest.raises(ReadFailed):
            _zookeeper(wrong, timeout_seconds=0.2).registrations()


class Holding:
    """A session in which `/controller` is broker 1's; `later`: the epoch moves on between the read and the deletion."""

    connected = True

    def __init__(self, epoch=7, later=False, acl=None):
        self.epoch, self.version, self.holder, self.later, self.acl = epoch, 3, 1, later, acl

    def get_async(self, path):
        values = {"/controller_epoch": b"%d" % self.epoch, "/controller": b'{"brokerid": %d}' % self.holder}
        found = SequentialThreadingHandler().async_result()
        found.set((values[path], SimpleNamespace(version=self.version)))
        return found

    def transaction(self):
        asked = {}

        def commit():
            done = SequentialThreadingHandler().async_result()
            version = self.version + self.later
            if asked["check"] != ("/controller_epoch", version):
                done.set([BadVersionError(), RuntimeInconsistency()])
            elif self.acl:
                done.set([RolledBackError(), NoAuthError()])
            else:
                self.holder = -1 if asked["delete"] == ("/controller",) else self.holder
                done.set([True, True])
            return done

        return SimpleNamespace(
            check=lambda *a: asked.update(check=a), delete=lambda *a: asked.update(delete=a), commit_async=commit
        )


def held(**how):
    writer = _zookeeper("zk:2181", timeout_seconds=0.3)
    writer._client = Holding(**how)
    return writer, writer._client


def test_a_controller_gives_way_only_under_the_epoch_that_was_seen():
    writer, session = held()
    writer.resign_controller(1, 6)
    writer.resign_controller(2, 7)
    assert session.holder == 1
    writer.resign_controller(1, 7)
    assert session.holder == -1
    writer.resign_controller(1, 7)  # who is nobody's any more is left alone


@pytest.mark.parametrize(("how", "words"), [({"later": True}, "BadVersionError"), ({"acl": True}, "zookeeper.set.acl")])
def test_a_controller_that_may_not_be_touched_is_not(how, words):
    writer, session = held(**how)
    with pytest.raises(WriteFailed, match=words):
        writer.resign_controller(1, 7)
    assert session.holder == 1


def test_a_read_that_is_never_answered_ends_with_the_timeout_and_a_close_that_fails_is_no_fault():
    class Silent:
        connected = True

        def get_children_async(self, path):
            return SequentialThreadingHandler().async_result()

        def stop(self):
            raise RuntimeError("did not stop")

        def close(self):
            pass

    reader = _zookeeper("zk:2181", timeout_seconds=0.3)
    reader._client = Silent()
    begun = time.monotonic()
    with pytest.raises(ReadFailed) as failed:
        reader.registrations()
    assert time.monotonic() - begun < 2
    assert failed.value.kind is FailureKind.UNREACHABLE
    assert reader._client is None


class Tree:
    """A session over these nodes; what a path leads to is its bytes, or its children's names."""

    connected = True

    def __init__(self, nodes):
        self.nodes, self.synced = nodes, []

    def sync_async(self, path):
        self.synced.append(path)
        return self._answer(True)

    def get_async(self, path):
        return self._answer((self.nodes[path], None) if path in self.nodes else NoNodeError())

    def get_children_async(self, path):
        return self._answer(self.nodes.get(path, NoNodeError()))

    @staticmethod
    def _answer(value):
        done = SequentialThreadingHandler().async_result()
        if isinstance(value, Exception):
            done.set_exception(value)
        else:
            done.set(value)
        return done


def test_a_topics_record_and_that_one_which_is_marked_for_deletion_does_not_exist():
    """Its node goes last, and a broker that the controller cannot reach holds that up for as long as it is cut off."""
    topic = b'{"version":3,"topic_id":"6fV1yRq5TUmLzRwqXo2h0g","partitions":{"0":[2,1],"1":[1,2]}}'
    state = b'{"controller_epoch":4,"leader":2,"version":1,"leader_epoch":7,"isr":[2]}'
    nodes = {"/k/admin/delete_topics": ["doomed"]}
    for name in ("orders", "doomed", "going"):
        nodes[f"/k/brokers/topics/{name}"] = topic
        nodes[f"/k/brokers/topics/{name}/partitions/0/state"] = state
    reader = _zookeeper("zk:2181/k", timeout_seconds=1)
    reader._client = session = Tree(nodes)
    found = reader.topics(["orders", "doomed", "gone"])
    assert session.synced == ["/k/brokers/topics"]
    assert found["doomed"] is None
    assert found["gone"] is None
    record = found["orders"]
    assert record is not None
    assert record.topic_id == "e9f575c9-1ab9-4d49-8bcd-1c2a5e8da1d2"
    assert record.partitions == {0: (2, 7, (2,), (2, 1)), 1: (None, None, None, (1, 2))}


def test_what_zookeeper_holds_of_a_topic_and_cannot_be_is_a_failed_read():
    reader = _zookeeper("zk:2181", timeout_seconds=1)
    reader._client = Tree({"/brokers/topics/orders": b'{"partitions": 3}'})
    reader._client.stop = reader._client.close = lambda: None
    with pytest.raises(ReadFailed, match="topics"):
        reader.topics(["orders"])
