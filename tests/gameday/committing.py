"""Kafka's own Java consumer, as an application runs it, with the one setting that outages are survived by."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import build, wait_for
from tests.testbed.kafka_settings import Shape
from tests.testbed.preflight import java_home

_SOURCE = Path(__file__).with_name("CommittingConsumer.java")


@dataclass
class Committing:
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def commits(self) -> list[int]:
        """Milliseconds that each took that came back."""
        return [int(ms) for ms in re.findall(r"^committed after (\d+) ms$", self.log.read_text(), re.MULTILINE)]

    def death(self) -> str:
        """What it said before it died; empty while it lives."""
        return next((line for line in self.log.read_text().splitlines() if line.startswith("failed ")), "")


@contextlib.contextmanager
def committing(shape: Shape, bootstrap: str, group: str, topic: str, timeout_ms: int) -> Iterator[Committing]:
    """A member of the group that has committed by now, with that `default.api.timeout.ms`."""
    home = java_home()
    assert home is not None, "the preflight has asked for a Java"
    options = ["-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{build.kafka(shape)}/*"]
    with tempfile.TemporaryDirectory() as folder:
        log, errors = Path(folder, "out"), Path(folder, "errors")
        with log.open("wb") as out, errors.open("wb") as wrong:
            command = [f"{home}/bin/java", *options, str(_SOURCE), bootstrap, group, topic, str(timeout_ms)]
            process = subprocess.Popen(command, stdout=out, stderr=wrong)
        try:
            found = Committing(process, log)
            wait_for(f"{group} to commit", lambda: bool(found.commits()) or not found.alive, 120)
            assert found.alive, errors.read_text()[-2000:] + log.read_text()[-2000:]
            yield found
        finally:
            process.kill()
            process.wait(30)


def coordinated_by(partition: int, partitions: int, prefix: str) -> str:
    """A group name whose offsets are in that partition of `__consumer_offsets`: by Java's String.hashCode."""
    for number in range(1000):
        name, code = f"{prefix}-{number}", 0
        for letter in name:
            code = (31 * code + ord(letter)) & 0xFFFFFFFF
        if (code & 0x7FFFFFFF) % partitions == partition:
            return name
    raise AssertionError(f"no name found for partition {partition}")
