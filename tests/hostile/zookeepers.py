"""ZooKeeper servers that mean harm. Each takes sessions, and answers what comes after in its way."""

from __future__ import annotations

import asyncio
import struct
from enum import StrEnum

LARGE = 100_000_000
ZEROS = bytes(1 << 20)
GET_CHILDREN, GET_DATA = 8, 4
PING = -2
STAT = bytes(68)


class Attack(StrEnum):
    LARGE_FRAMES = "large-frames"  # replies of 100 MB
    ENDLESS_FRAME = "endless-frame"  # 2^31 - 1 bytes
    NEGATIVE_LENGTH = "negative-length"
    SLOW_BYTES = "slow-bytes"  # one byte a second
    WRONG_ID = "wrong-id"
    PINGS = "pings"  # replies to pings that nobody sent, without end
    LONG_SESSION = "long-session"  # a session timeout of 24 days, and silence
    ABSURD_COUNTS = "absurd-counts"  # 2^31 - 1 children
    MANY_CHILDREN = "many-children"  # 15 million of them
    DEEP_JSON = "deep-json"
    ENDLESS_WORDS = "endless-words"  # what `srvr` is answered


async def serve(attack: Attack, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await _session(attack, reader, writer)
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def _session(attack: Attack, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readexactly(4)
    if head == b"srvr":
        if attack is Attack.ENDLESS_WORDS:
            while True:
                await _put(writer, b"Mode " * 1000)
        if attack is Attack.SLOW_BYTES:
            await _slowly(writer, b"Mode: standalone\n" * 100)
        await _put(writer, b"Zookeeper version: 3.8\nMode: standalone\n")
        return
    await reader.readexactly(struct.unpack(">i", head)[0])
    timeout = 2**31 - 1 if attack is Attack.LONG_SESSION else 4000
    await _put(writer, _framed(struct.pack(">iiqi16s?", 0, timeout, 77, 16, bytes(16), False)))
    while True:
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        request = await reader.readexactly(size)
        xid, kind = struct.unpack(">ii", request[:8])
        await _answer(attack, writer, xid, kind, request)


async def _answer(attack: Attack, writer: asyncio.StreamWriter, xid: int, kind: int, request: bytes) -> None:
    head = struct.pack(">iqi", xid, 1, 0)
    if attack in (Attack.LARGE_FRAMES, Attack.ENDLESS_FRAME):
        size = LARGE if attack is Attack.LARGE_FRAMES else 2**31 - 1
        await _put(writer, struct.pack(">i", size))
        for _ in range(size >> 20):
            await _put(writer, ZEROS)
    elif attack is Attack.NEGATIVE_LENGTH:
        await _put(writer, struct.pack(">i", -5) + head)
    elif attack is Attack.SLOW_BYTES:
        await _slowly(writer, _framed(head + bytes(100)))
    elif attack is Attack.WRONG_ID:
        await _put(writer, _framed(struct.pack(">iqi", xid + 7, 1, 0)))
    elif attack is Attack.PINGS:
        while True:
            await _put(writer, _framed(struct.pack(">iqi", PING, 1, 0)) * 1000)
    elif attack is Attack.LONG_SESSION:
        return
    elif attack is Attack.ABSURD_COUNTS:
        await _put(writer, _framed(head + struct.pack(">i", 2**31 - 1)))
    elif attack is Attack.MANY_CHILDREN:
        count = 15_000_000
        await _put(writer, struct.pack(">i", len(head) + 4 + 6 * count) + head + struct.pack(">i", count))
        for _ in range(count // 100_000):
            await _put(writer, b"\0\0\0\x0212" * 100_000)
    elif kind == GET_CHILDREN:
        await _put(writer, _framed(head + struct.pack(">i", 1) + b"\0\0\0\x011"))
    elif attack is Attack.DEEP_JSON:
        data = b"[" * 900_000
        await _put(writer, _framed(head + struct.pack(">i", len(data)) + data + STAT))
    else:
        data = b'{"brokerid":1}' if b"epoch" not in request else b"1"
        await _put(writer, _framed(head + struct.pack(">i", len(data)) + data + STAT))


async def _put(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


async def _slowly(writer: asyncio.StreamWriter, data: bytes) -> None:
    for byte in data:
        await _put(writer, bytes((byte,)))
        await asyncio.sleep(1)


def _framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
