"""A ZooKeeper server that means harm costs its caller one timeout, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from functools import partial

import pytest
from kazoo.exceptions import ConnectionDropped
from kazoo.protocol.connection import ConnectionHandler

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kazoo_bounds import BoundedConnection
from kafka_medic.clients.ports import EnsembleConnection
from kafka_medic.clients.zookeeper import ZooKeeper
from tests.hostile.zookeepers import Attack, serve

TIMEOUT = 1.0
ENDS_WITHIN = 10.0


@pytest.fixture(scope="module")
def servers():
    loop, found = asyncio.new_event_loop(), {}

    async def start():
        for attack in Attack:
            server = await asyncio.start_server(partial(serve, attack), "127.0.0.1", 0)
            found[attack] = "{}:{}".format(*server.sockets[0].getsockname())

    loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield found

    async def end():
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0.1)

    asyncio.run_coroutine_threadsafe(end(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


@pytest.mark.parametrize("attack", [a for a in Attack if a is not Attack.ENDLESS_WORDS])
def test_registrations_are_a_failed_read(servers, attack):
    before = set(threading.enumerate())
    ensemble = ZooKeeper(EnsembleConnection(servers[attack], None, TIMEOUT))
    began = time.monotonic()
    with pytest.raises(ReadFailed):
        ensemble.registrations()
    ensemble.close()
    assert time.monotonic() - began < ENDS_WITHIN
    assert set(threading.enumerate()) <= before, "threads are left behind"


@pytest.mark.parametrize("attack", [Attack.ENDLESS_WORDS, Attack.SLOW_BYTES])
def test_the_word_srvr(servers, attack):
    began = time.monotonic()
    with contextlib.suppress(ReadFailed):
        ZooKeeper(EnsembleConnection(servers[attack], None, TIMEOUT)).ensemble()
    assert time.monotonic() - began < ENDS_WITHIN


def test_a_wrong_reply_to_the_request_to_close_ends_the_connection_and_not_the_thread(monkeypatch):
    """kazoo tells whoever waits of it, and nobody waits for that one."""

    def nobody(self, timeout):
        raise AttributeError("'NoneType' object has no attribute 'set_exception'")

    monkeypatch.setattr(ConnectionHandler, "_read_socket", nobody)
    with pytest.raises(ConnectionDropped, match="a reply that cannot be read: AttributeError"):
        BoundedConnection._read_socket(BoundedConnection.__new__(BoundedConnection), 1.0)
