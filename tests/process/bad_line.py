"""A line to the API server on which things go wrong when told: answers that refuse, break off or never come.

Speaks plain HTTP to the operator, on the loopback, and passes everything on with the operator's own credentials.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable
from typing import Any

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

WATCH, WRITE, READ = "watch", "write", "read"
Fault = Callable[[web.Request, str], str | int | None]
"""From a request and its kind to what goes wrong: a status, "reset", "truncated", "silent", or "told 410" and the like,
which is a watch that begins well and then tells of that instead of an event; None: nothing."""
_HOPS = {"host", "connection", "transfer-encoding", "content-length", "content-encoding", "accept-encoding"}


class BadLine:
    """Serves until closed. `fault` may be changed at any time, and counts for requests that come after."""

    def __init__(self, server: str, authority: str) -> None:
        self._server = server.rstrip("/")
        self._trust = ssl.create_default_context(cafile=authority)
        self.fault: Fault | None = None
        self.hit = 0
        """How many requests met the fault."""
        self.url = ""
        self._watches: set[asyncio.Transport] = set()
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()), daemon=True)

    def __enter__(self) -> BadLine:
        self._thread.start()
        assert self._up.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(10)

    def break_watches(self) -> None:
        """So that they are opened anew."""

        def cut() -> None:
            for transport in self._watches:
                transport.abort()

        self._loop.call_soon_threadsafe(cut)

    async def _serve(self) -> None:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        connector = TCPConnector(ssl=self._trust, limit=0)
        async with ClientSession(connector=connector, timeout=ClientTimeout(total=None), auto_decompress=False) as out:
            self._out = out
            self._up.set()
            await self._end.wait()
            await runner.cleanup()

    async def _pass_on(self, asked: web.Request) -> web.StreamResponse:
        kind = WATCH if "watch" in asked.query else READ if asked.method == "GET" else WRITE
        wrong = self.fault(asked, kind) if self.fault is not None else None
        if wrong is not None:
            self.hit += 1
        if isinstance(wrong, str) and wrong.startswith("told "):
            event = {"type": "ERROR", "object": _refusal(int(wrong.removeprefix("told ")))}
            return web.Response(text=f"{json.dumps(event)}\n", content_type="application/json")
        if isinstance(wrong, int):
            return web.json_response(_refusal(wrong), status=wrong)
        if wrong == "reset":
            return self._cut(asked)
        headers = {k: v for k, v in asked.headers.items() if k.lower() not in _HOPS}
        body = await asked.read()
        async with self._out.request(
            asked.method, self._server + asked.raw_path, headers=headers, data=body or None
        ) as answer:
            if kind == WATCH:
                return await self._stream(asked, answer, silent=wrong == "silent")
            content = await answer.read()
            told = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            told.content_length = len(content)
            await told.prepare(asked)
            if wrong == "truncated":
                # The API server has done it; the answer is cut off in the middle.
                await told.write(content[: len(content) // 2])
                return self._cut(asked)
            await told.write(content)
            return told

    async def _stream(self, asked: web.Request, answer: Any, *, silent: bool) -> web.StreamResponse:
        told = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
        await told.prepare(asked)
        transport = asked.transport
        assert transport is not None
        self._watches.add(transport)
        try:
            async for chunk in answer.content.iter_any():
                # One that fell silent stays so, and open: nobody is told that nothing comes any more.
                silent = silent or self._silences(asked)
                if not silent:
                    await told.write(chunk)
        except ConnectionError:
            pass  # the operator has left
        finally:
            self._watches.discard(transport)
        return told

    def _silences(self, asked: web.Request) -> bool:
        return self.fault is not None and self.fault(asked, WATCH) == "silent"

    def _cut(self, asked: web.Request) -> web.StreamResponse:
        assert asked.transport is not None
        asked.transport.abort()
        raise asyncio.CancelledError


def _refusal(status: int) -> dict[str, Any]:
    reasons = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError"}
    told = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "made up by the test"}
    return {**told, "code": status, "reason": reasons[status]}
