"""Run stub brokers in a process of their own.

    python -m tests.stub_cluster --size 30x20000 --groups 1000

The first line of output is JSON, printed when every broker listens: bootstrap servers, start-up seconds, memory. After
that, write one JSON command per line to the standard input. Each command gets one line of output:

    {"do": "counts"}                                          requests and bytes so far, by request and by broker
    {"do": "reset"}                                           reset all counts
    {"do": "conduct", "broker": 3, "conduct": "hangs"}        or "silent", "answers"
    {"do": "stale", "broker": 3, "stale": true}               the broker has earlier epochs of --stale-topics topics
    {"do": "deaf", "broker": 3}                               from now on the broker hears of no change
    {"do": "go", "broker": 3}                                 the broker hands over, leaves and ends
    {"do": "come", "broker": 3}                               the broker returns and catches up
    {"do": "pace", "copying": 5, "returning": 2}              seconds until an added replica, and one of a broker that
                                                              returned, is in sync; null: never
    {"do": "fill", "topic": "a", "bytes": 1000}               the size of each partition of a topic
    {"do": "orders"}                                          every order so far: when, what, to what, with what answer

The process ends at the end of its input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import threading
import time
from typing import Any

from tests.stub_cluster.description import Size, made_up
from tests.stub_cluster.server import Conduct, StubCluster

VERSIONS = (12, 13)
"""Of Metadata, as librdkafka and kafka-python request it."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.stub_cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=Size.parse, default="3x300", metavar="BROKERSxPARTITIONS", help="default: 3x300")
    parser.add_argument("--groups", type=int, default=10, help="consumer groups, of 10 offsets each (default: 10)")
    parser.add_argument("--stale-topics", type=int, default=5, help="of a stale broker (default: 5)")
    parser.add_argument("--stale", type=int, nargs="*", default=[], metavar="BROKER", help="stale from the start")
    parser.add_argument("--silent", type=int, nargs="*", default=[], metavar="BROKER", help="refuse connections")
    parser.add_argument("--hangs", type=int, nargs="*", default=[], metavar="BROKER", help="answer nothing")
    asyncio.run(_serve(parser.parse_args()))


async def _serve(args: argparse.Namespace) -> None:
    began = time.monotonic()
    cluster = StubCluster(made_up(args.size, args.groups), args.stale_topics)
    for broker in args.stale:
        cluster.make_stale(broker)
    view_bytes = cluster.warm(VERSIONS)
    await cluster.start()
    for conduct, brokers in ((Conduct.SILENT, args.silent), (Conduct.HANGS, args.hangs)):
        for broker in brokers:
            await cluster.conduct_now(broker, conduct)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    _told(
        {
            "bootstrap": cluster.bootstrap,
            "seconds": round(time.monotonic() - began, 2),
            "megabytes": round(megabytes),
            "view_bytes": view_bytes,
        }
    )
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str] = asyncio.Queue()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")

    threading.Thread(target=read, name="commands", daemon=True).start()
    while line := await lines.get():
        try:
            _told(await _done(cluster, json.loads(line)))
        except (ValueError, KeyError, TypeError) as problem:
            _told({"error": f"{type(problem).__name__}: {problem}"})
    await cluster.stop()


async def _done(cluster: StubCluster, command: dict[str, Any]) -> dict[str, Any]:
    match command["do"]:
        case "counts":
            return cluster.traffic.document()
        case "reset":
            cluster.traffic.reset()
        case "conduct":
            await cluster.conduct_now(command["broker"], Conduct(command["conduct"]))
        case "stale":
            cluster.make_stale(command["broker"], stale=command["stale"])
        case "deaf":
            cluster.make_deaf(command["broker"])
        case "go":
            await cluster.go(command["broker"])
        case "come":
            await cluster.come(command["broker"])
        case "pace":
            cluster.pace(command["copying"], command["returning"])
        case "fill":
            cluster.fill(command["topic"], command["bytes"])
        case "orders":
            return {"orders": cluster.orders}
        case other:
            known = "counts, reset, conduct, stale, deaf, go, come, pace, fill or orders"
            raise ValueError(f"no command {other!r}: {known}")
    return {}


def _told(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
