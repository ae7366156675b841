"""A webhook on loopback that refuses some of what it is told, and remembers each try."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

KEY, PATH = "the-key-that-signs", "/the-secret-of-a-chat-tool"


@dataclass
class Receiver:
    """The first notice it refuses whenever it comes, the second one once."""

    got: list[tuple[str, str, bytes]] = field(default_factory=list)
    """(signature, delivery, body) of each try, oldest first."""
    taken: list[str] = field(default_factory=list)

    def take(self, signature: str, delivery: str, body: bytes) -> int:
        self.got.append((signature, delivery, body))
        ids = list(dict.fromkeys(d for _, d, _ in self.got))
        if delivery == ids[0] or (delivery == ids[1] and self.tries(delivery) == 1):
            return 500
        self.taken.append(delivery)
        return 204

    def tries(self, delivery: str) -> int:
        return sum(d == delivery for _, d, _ in self.got)

    def told(self, about: str) -> list[str]:
        """The reasons of the notices about that object that were taken."""
        notices = {d: json.loads(body) for _, d, body in self.got}
        return [notices[d]["reason"] for d in self.taken if notices[d]["about"]["name"] == about]


@contextmanager
def receiving(folder: Path) -> Iterator[Receiver]:
    """The folder becomes what the Secret would be that is mounted."""
    its = Receiver()

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            signed, delivery = self.headers["X-Kafka-Medic-Signature"], self.headers["X-Kafka-Medic-Delivery"]
            self.send_response(its.take(signed, delivery, body) if self.path == PATH else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    folder.mkdir()
    (folder / "url").write_text(f"http://127.0.0.1:{server.server_port}{PATH}")
    (folder / "key").write_text(KEY)
    try:
        yield its
    finally:
        server.shutdown()
        server.server_close()
