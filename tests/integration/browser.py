"""Chromium without a window, over its DevTools protocol: how a page looks at a width, and what it complains about."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import websocket

START_SECONDS = 30.0


@dataclass
class Browser:
    """One tab. `complaints`: what the console said and what failed since the last `open`. `requested`: addresses of
    everything that was asked for."""

    socket: websocket.WebSocket
    complaints: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    _number: int = 0
    _events: list[dict[str, Any]] = field(default_factory=list)

    def open(self, page: Path, width: int, *, dark: bool = False, height: int = 900, script: bool = True) -> None:
        """The page at this width, once it has loaded and its own script has run."""
        self.complaints.clear()
        self.requested.clear()
        mobile = width < 600
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="", features=[scheme])
        self._events.clear()
        self.call("Page.navigate", url=page.absolute().as_uri())
        self._until(lambda event: event["method"] == "Page.loadEventFired")
        if not script:
            return
        self.run(
            "new Promise((done) => { const root = document.querySelector('.partitions');"
            "const look = () => !root || root.dataset.ready ? done() : setTimeout(look, 20); look(); })"
        )

    def run(self, script: str) -> Any:
        """The value of an expression, or of what it promises."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(json.dumps(found["exceptionDetails"])[:2000])
        return found["result"].get("value")

    def screenshot(self, *, whole: bool = True) -> bytes:
        shot: dict[str, Any] = {"format": "png"}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            shot |= {"captureBeyondViewport": True, "clip": {**size, "scale": 1, "x": 0, "y": 0}}
        return base64.b64decode(self.call("Page.captureScreenshot", **shot)["data"])

    def pdf(self) -> bytes:
        found = self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        return base64.b64decode(found["data"])

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        self.socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self._number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                found: dict[str, Any] = message["result"]
                return found
            self._heard(message)

    def _until(self, wanted: Any) -> None:
        while not any(wanted(event) for event in self._events):
            self._heard(json.loads(self.socket.recv()))

    def _heard(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            return
        self._events.append(message)
        params = message["params"]
        match message["method"]:
            case "Runtime.consoleAPICalled":
                self.complaints.append(f"console.{params['type']}: {json.dumps(params['args'])[:500]}")
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(params["exceptionDetails"])[:500])
            case "Log.entryAdded":
                self.complaints.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requested.append(params["request"]["url"])


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's package, which `make test` installs. It ends with the block, and leaves nothing behind."""
    program = shutil.which("chromium")
    assert program is not None, "chromium is missing: make browser"
    with tempfile.TemporaryDirectory(prefix="kafka-medic-browser-") as profile:
        options = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run"]
        options += ["--disable-background-networking", "--disable-extensions", "--disable-sync"]
        options += ["--remote-debugging-port=0", "--remote-allow-origins=*", f"--user-data-dir={profile}"]
        options += ["--no-sandbox"] if os.geteuid() == 0 else []  # as root it has none
        with subprocess.Popen([program, *options, "about:blank"], stdout=-3, stderr=-3, start_new_session=True) as own:
            try:
                port = _port(Path(profile) / "DevToolsActivePort", own)
                with urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
                    tab = next(tab for tab in json.load(answer) if tab["type"] == "page")
                socket = websocket.create_connection(tab["webSocketDebuggerUrl"], timeout=60)
                browser = Browser(socket)
                for domain in ("Page", "Runtime", "Log", "Network"):
                    browser.call(f"{domain}.enable")
                yield browser
                socket.close()
            finally:
                _end(own)


def _port(file: Path, own: subprocess.Popen[bytes]) -> int:
    began = time.monotonic()
    while time.monotonic() - began < START_SECONDS:
        assert own.poll() is None, f"chromium ended with {own.returncode}"
        if file.exists() and (text := file.read_text()).count("\n"):
            return int(text.split("\n")[0])
        time.sleep(0.05)
    raise AssertionError(f"chromium did not start within {START_SECONDS:g} s")


def _end(own: subprocess.Popen[bytes]) -> None:
    """It and the processes that it started, which are a group of their own."""
    for signal in (15, 9):
        try:
            os.killpg(own.pid, signal)
            own.wait(10)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
