"""aiohttp and prometheus_client: the brokers' Prometheus exporters.

Whatever answers on that port is not trusted: a page is read line by line, within bounds on bytes, line, samples and
time, and what breaks one of them is a failed read with its reason.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from kafka_medic.clients.destinations import Destinations
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import LONGEST_TIMEOUT

PATH = "/metrics"
MAX_BYTES = 64 * 1024 * 1024
"""Of one page: a broker of 4,000 partitions whose exporter leaves nothing out has about 10 MB."""
MAX_LINE_BYTES = 64 * 1024
MAX_SAMPLES = 20_000
"""Of those that are wanted."""
AT_ONCE = 32
_KINDS = {aiohttp.ClientConnectionError: FailureKind.UNREACHABLE, OSError: FailureKind.UNREACHABLE}


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a page: name and label names in small letters, since exporters differ in them."""

    name: str
    labels: Mapping[str, str]
    value: float


def scrape(
    addresses: Mapping[int, tuple[str, int]],
    wanted: Callable[[bytes], bool],
    seconds: float,
    destinations: Destinations | None = None,
) -> Mapping[int, list[Sample] | ReadFailed]:
    """The wanted samples of each broker's page (`wanted` sees a line in small letters), or why there are none.
    All are asked at once, as far as AT_ONCE goes, and the answer is there after `seconds` at the latest."""
    seconds = min(seconds, LONGEST_TIMEOUT)
    loop = asyncio.new_event_loop()  # asyncio.run would wait for a name that is still being resolved
    try:
        return loop.run_until_complete(_scrape_all(addresses, wanted, seconds, destinations))
    finally:
        loop.close()


async def _scrape_all(
    addresses: Mapping[int, tuple[str, int]],
    wanted: Callable[[bytes], bool],
    seconds: float,
    destinations: Destinations | None,
) -> dict[int, list[Sample] | ReadFailed]:
    places = asyncio.Semaphore(AT_ONCE)
    late = ReadFailed(FailureKind.UNREACHABLE, f"no whole page within {seconds:g} s")
    found: dict[int, list[Sample] | ReadFailed] = dict.fromkeys(addresses, late)

    async def one(session: aiohttp.ClientSession, broker: int, host: str, port: int) -> None:
        async with places:
            try:
                found[broker] = await _page(session, host, port, wanted)
            except ReadFailed as problem:
                found[broker] = problem
            except (aiohttp.ClientError, OSError, ValueError) as problem:
                kind = next((k for t, k in _KINDS.items() if isinstance(problem, t)), FailureKind.OTHER)
                found[broker] = ReadFailed(kind, f"{type(problem).__name__}: {str(problem)[:200]}")

    def open_socket(place: Any) -> socket.socket:
        family, kind, proto, _, address = place
        if destinations is not None:
            destinations.address(str(address[0]))
        return socket.socket(family, kind, proto)

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=seconds)
    try:
        async with asyncio.timeout(seconds):
            connector = aiohttp.TCPConnector(socket_factory=open_socket)
            async with aiohttp.ClientSession(
                connector=connector, timeout=timeout, auto_decompress=False, trust_env=False
            ) as session:
                await asyncio.gather(*(one(session, b, host, port) for b, (host, port) in addresses.items()))
    except TimeoutError:
        pass  # who has not answered is late
    return found


async def _page(session: aiohttp.ClientSession, host: str, port: int, wanted: Callable[[bytes], bool]) -> list[Sample]:
    where = f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"
    headers = {"Accept": "text/plain; version=0.0.4", "Accept-Encoding": "identity"}
    async with session.get(where, headers=headers, allow_redirects=False) as answer:
        if answer.status != 200:
            raise ReadFailed(FailureKind.OTHER, f"{PATH} answered {answer.status}")
        samples: list[Sample] = []
        async for line in _lines(answer.content):
            if wanted(line.lower()):
                if len(samples) >= MAX_SAMPLES:
                    raise ReadFailed(FailureKind.OTHER, f"the page has more than {MAX_SAMPLES} of the wanted samples")
                samples += _samples(line)
        return samples


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    rest, total = b"", 0
    async for chunk in content.iter_any():
        total += len(chunk)
        if total > MAX_BYTES:
            raise ReadFailed(FailureKind.OTHER, f"the page is longer than {MAX_BYTES} bytes")
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line and not line.startswith(b"#"):
                yield line
        if len(rest) > MAX_LINE_BYTES:
            raise ReadFailed(FailureKind.OTHER, f"a line is longer than {MAX_LINE_BYTES} bytes")
    if rest and not rest.startswith(b"#"):
        yield rest


def _samples(line: bytes) -> list[Sample]:
    try:
        families = list(text_string_to_metric_families(line.decode()))
    except (ValueError, LookupError) as problem:
        message = f"a line is not in Prometheus' text format: {line[:80]!r} ({type(problem).__name__})"
        raise ReadFailed(FailureKind.OTHER, message) from None
    return [
        Sample(s.name.lower(), {k.lower(): v for k, v in s.labels.items()}, s.value)
        for family in families
        for s in family.samples
    ]
