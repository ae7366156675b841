"""An OAuth token endpoint on the loopback, which hands out JSON Web Signatures without a signature (RFC 7515, A.5)."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

CLIENT_ID = "kafka-medic:1"
CLIENT_SECRET = "hunter2-of-the-client/%"


class TokenEndpoint:
    """`lifetime` is that of the tokens in seconds; `answer`, if set, is sent instead: status, headers, body. `ahead`:
    of its clock, in seconds."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.lifetime, self.ahead = 60.0, 0.0
        self.asked: list[dict[str, list[str]]] = []
        self.answer: tuple[int, dict[str, str], bytes] | None = None
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.asked.append(parse_qs(form.decode()))
                status, headers, body = endpoint.answer or endpoint.reply(self.headers["Authorization"])
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def date_time_string(self, timestamp: float | None = None) -> str:
                return super().date_time_string(int(time.time() + endpoint.ahead))

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self.server.server_port}/oauth/token"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def reply(self, authorization: str) -> tuple[int, dict[str, str], bytes]:
        pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        if pair != "kafka-medic%3A1:hunter2-of-the-client%2F%25":
            return 401, {}, b'{"error": "invalid_client"}'
        now = time.time()
        claims = {"sub": "operator", "iat": now, "exp": now + self.lifetime}
        token = f"{_part({'alg': 'none'})}.{_part(claims)}."
        return 200, {}, json.dumps({"access_token": token, "expires_in": 60, "token_type": "Bearer"}).encode()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def _part(claims: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
