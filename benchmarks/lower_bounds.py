"""What no reader of the stub brokers can beat, and what kafka-python's decoder alone takes: measured for one view.

python -m benchmarks.lower_bounds --bootstrap HOST:PORT
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import struct
import time
from collections.abc import Callable
from typing import Any

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

VERSION = 13
COPIED = 64 << 20
RUNS = 3


def seconds_of(work: Callable[[], Any], runs: int = RUNS) -> tuple[float, float]:
    """Medians of the clock and of this process's processor time, after one run that does not count."""
    work()
    found = []
    for _ in range(runs):
        began, used = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - began, time.process_time() - used))
    wall, processor = zip(*found, strict=True)
    return statistics.median(wall), statistics.median(processor)


class View:
    """One broker's metadata of all topics, read from a plain socket into a buffer that is there already."""

    def __init__(self, host: str, port: int) -> None:
        self._link = socket.create_connection((host, port), 60)
        request = MetadataRequest(
            topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        request.API_VERSION = VERSION
        request.with_header(correlation_id=1, client_id="bench")
        self._request = bytes(request.encode(header=True, framed=True))
        self._link.sendall(self._request)
        self.size = struct.unpack(">i", self._exactly(bytearray(4)))[0]
        self._buffer = self._exactly(bytearray(self.size))

    def read(self) -> None:
        self._link.sendall(self._request)
        self._exactly(bytearray(4))
        self._exactly(self._buffer)

    def decode(self) -> None:
        MetadataResponse.decode(bytes(self._buffer[5:]), version=VERSION)

    def close(self) -> None:
        self._link.close()

    def _exactly(self, buffer: bytearray) -> bytearray:
        rest = memoryview(buffer)
        while rest:
            got = self._link.recv_into(rest)
            if not got:
                raise EOFError("the broker closed the connection")
            rest = rest[got:]
        return buffer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True)
    host, _, port = parser.parse_args().bootstrap.partition(",")[0].rpartition(":")
    source, target = bytearray(COPIED), bytearray(COPIED)

    def copy() -> None:
        target[:] = source

    view = View(host, int(port))
    copied, read, decoded = seconds_of(copy), seconds_of(view.read), seconds_of(view.decode)
    view.close()
    print(
        json.dumps(
            {
                "view_bytes": view.size,
                "copy_bytes_a_second": COPIED / copied[0],
                "read": {"wall": read[0], "processor": read[1]},
                "decode": {"wall": decoded[0], "processor": decoded[1]},
            }
        )
    )


if __name__ == "__main__":
    main()
