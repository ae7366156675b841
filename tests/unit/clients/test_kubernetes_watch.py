"""A watch that is answered 410 begins anew at the present, and what is refused even then is worth another try."""

from __future__ import annotations

import asyncio
import ssl

import aiohttp
import pytest

from kafka_medic.clients.kubernetes_watch import watch_session

OLD = "/apis/kafkamedic.dev/v1alpha1/kafkaclusters?watch=true&resourceVersion=7&timeoutSeconds=300"


def asked(path: str, answers: list[tuple[int, str]]) -> tuple[list[str], tuple[int, str]]:
    """What a server was asked for that path, and what came of it; it gives those answers, one by one."""
    heard: list[str] = []

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append((await reader.readuntil(b"\r\n\r\n")).decode().split()[1])
        status, body = answers.pop(0)
        writer.write(f"HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    async def ask() -> tuple[int, str]:
        server = await asyncio.start_server(speak, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with (
            server,
            watch_session(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), {}) as session,
            session.get(f"http://127.0.0.1:{port}{path}") as answer,
        ):
            return answer.status, await answer.text()

    return heard, asyncio.run(ask())


def test_it_begins_anew_without_the_version_that_is_too_old():
    heard, answer = asked(OLD, [(410, "Expired"), (200, "events")])
    assert heard == [OLD, OLD.replace("&resourceVersion=7", "")]
    assert answer == (200, "events")


def test_what_is_answered_otherwise_is_handed_on():
    for status in (200, 401, 429):
        heard, answer = asked(OLD, [(status, "as it is")])
        assert (heard, answer) == ([OLD], (status, "as it is"))


@pytest.mark.parametrize(("path", "times"), [(OLD, 2), ("/api", 1)])
def test_gone_once_more_is_a_line_that_broke(path, times):
    answers = [(410, "Expired")] * times
    with pytest.raises(aiohttp.ClientConnectionError, match="410 Gone"):
        asked(path, answers)
    assert answers == []
