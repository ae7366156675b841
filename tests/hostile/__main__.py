"""All hostile servers in this process. Its first line of output is JSON: by kind and attack, where each listens. It
ends at the end of its input."""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from typing import Any

from tests.hostile import brokers, pages, zookeepers


async def main() -> None:
    here: dict[str, dict[str, str]] = {"kafka": {}, "zookeeper": {}, "http": {}}
    for attack in brokers.Attack:
        broker = brokers.HostileBroker(attack)
        await broker.start()
        here["kafka"][attack] = broker.bootstrap
    for kind, module in (("zookeeper", zookeepers), ("http", pages)):
        of: Any = module
        for attack in of.Attack:
            server = await asyncio.start_server(partial(of.serve, attack), "127.0.0.1", 0)
            here[kind][attack] = "{}:{}".format(*server.sockets[0].getsockname())
    print(json.dumps(here), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
