"""kazoo: what one ZooKeeper server may cost.

kazoo believes the length that a server sends, the session timeout that it offers, and waits anew for each byte. To end
a client it waits for its thread without a limit, so that a server could hold the caller for ever.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped
from kazoo.protocol.connection import PING_XID, WATCH_XID, ConnectionHandler

MAX_REPLY = 4 << 20
"""Bytes. A server's own limit (`jute.maxbuffer`) is 1 MiB unless somebody raised it."""
END_SECONDS = 5.0
"""For a client's thread to end once its socket is shut down."""
_AGAIN = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError, InterruptedError)
_UNREADABLE = (RuntimeError, ValueError, LookupError, TypeError, AttributeError, struct.error)
"""What kazoo raises for such a reply. AttributeError: for one with another xid than the request to close the session,
which nobody waits for."""


class BoundedConnection(ConnectionHandler):  # type: ignore[misc]
    """In place of kazoo's own."""

    @classmethod
    def of(cls, client: KazooClient) -> BoundedConnection:
        """With what kazoo gave its own."""
        usual = client._connection
        return cls(client, usual.retry_sleeper, logger=usual.logger, sasl_options=usual.sasl_options)

    @property
    def _longest(self) -> float:
        """Seconds for one reply, from its first byte to its last."""
        return float(self.client._session_timeout) / 1000.0

    def _read(self, length: int, timeout: float) -> bytes:
        if not 0 <= length <= MAX_REPLY:
            raise ConnectionDropped(f"a reply of {length} bytes (limit {MAX_REPLY})")
        parts, left = [], length
        end = time.monotonic() + min(timeout, self._longest)
        while left > 0:
            wait = end - time.monotonic()
            if wait <= 0:
                raise self.handler.timeout_exception("the reply did not end in time")
            part = self._piece(left, wait)
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _piece(self, most: int, wait: float) -> bytes:
        with self._socket_error_handling():
            pending = getattr(self._socket, "pending", lambda: 0)()
            if not pending and not self.handler.select([self._socket], [], [], wait)[0]:
                raise self.handler.timeout_exception("the reply did not end in time")
            try:
                part: bytes = self._socket.recv(min(most, 1 << 16))
            except _AGAIN:
                return b""
            if not part:
                raise ConnectionDropped("socket connection broken")
            return part

    def _read_header(self, timeout: float) -> Any:
        found = super()._read_header(timeout)
        header = found[0]
        # This project sets no watch, and kazoo has one ping on its way at most.
        unsolicited = header.xid == WATCH_XID or (header.xid == PING_XID and not self.ping_outstanding.is_set())
        if unsolicited or (header.xid >= 0 and not self.client._pending):
            raise ConnectionDropped(f"a reply that nothing was asked for (xid {header.xid})")
        return found

    def _read_socket(self, read_timeout: float) -> Any:
        try:
            return super()._read_socket(read_timeout)
        except _UNREADABLE as problem:  # else it ends kazoo's thread, with a traceback on standard error
            raise ConnectionDropped(f"a reply that cannot be read: {type(problem).__name__}") from None

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        """Milliseconds to read and to connect, no longer than was asked for."""
        read, connect = super()._connect(host, hostip, port)
        most = float(self.client._session_timeout)
        return min(read, most), min(connect, most)

    def stop(self, timeout: float | None = None) -> bool:
        """Waits for the server to agree as long as for any reply, and then ends without it."""
        if not self.connection_stopped.wait(self._longest if timeout is None else min(timeout, self._longest)):
            with suppress(OSError, AttributeError):  # the thread may just have closed it
                self._socket.shutdown(socket.SHUT_RDWR)
        routine: Any = self._connection_routine  # type: ignore[has-type]
        if routine is not None:
            routine.join(END_SECONDS)
            self._connection_routine = None
        stopped: bool = self.connection_stopped.is_set()
        return stopped
