"""HTTP servers that mean harm: as an exporter, and as a token endpoint."""

from __future__ import annotations

import asyncio
from enum import StrEnum

SAMPLE = b'kafka_server_kafkaserver_brokerstate{a="%s"} 3\n' % (b"x" * 300)
OK = b"HTTP/1.1 200 OK\r\n"
HEAD = OK + b"Content-Type: text/plain\r\n\r\n"


class Attack(StrEnum):
    ENDLESS_BODY = "endless-body"  # of samples that are wanted
    ENDLESS_LINE = "endless-line"
    ENDLESS_HEADERS = "endless-headers"
    ENDLESS_HEADER = "endless-header"
    ENDLESS_CONTINUE = "endless-continue"  # 100 Continue, again and again
    ENDLESS_CHUNKS = "endless-chunks"  # comments, in chunks of one byte
    SLOW_BYTES = "slow-bytes"
    COSTLY_LINES = "costly-lines"  # lines that take long to parse
    BOMB = "bomb"  # a body that grows a thousandfold
    HUGE_NUMBER = "huge-number"  # of a token's lifetime
    DEEP_JSON = "deep-json"


async def serve(attack: Attack, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.readuntil(b"\r\n\r\n")
        await _answer(attack, writer)
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()


async def _answer(attack: Attack, writer: asyncio.StreamWriter) -> None:
    async def endless(head: bytes, part: bytes) -> None:
        writer.write(head)
        while True:
            writer.write(part)
            await writer.drain()

    match attack:
        case Attack.ENDLESS_BODY:
            await endless(HEAD, SAMPLE * 1000)
        case Attack.ENDLESS_LINE:
            await endless(HEAD, b"kafka_server_kafkaserver_" * 1000)
        case Attack.ENDLESS_HEADERS:
            await endless(OK, b"X-A: b\r\n" * 1000)
        case Attack.ENDLESS_HEADER:
            await endless(OK + b"X-A: ", b"b" * 10000)
        case Attack.ENDLESS_CONTINUE:
            await endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
        case Attack.ENDLESS_CHUNKS:
            await endless(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1;" + b"e" * 200 + b"\r\n#\r\n")
        case Attack.SLOW_BYTES:
            for byte in HEAD + SAMPLE * 100:
                writer.write(bytes((byte,)))
                await writer.drain()
                await asyncio.sleep(1)
        case Attack.COSTLY_LINES:
            line = b"kafka_server_app" + b'{a="' + b'\\"' * 30_000 + b'"} 1\n'
            await endless(HEAD, line)
        case Attack.BOMB:
            import gzip

            body = gzip.compress(SAMPLE * 300_000)
            writer.write(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
        case Attack.HUGE_NUMBER:
            body = b'{"access_token": "a", "expires_in": 1' + b"0" * 4000 + b"}"
            writer.write(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
        case Attack.DEEP_JSON:
            body = b"[" * 60_000
            writer.write(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
