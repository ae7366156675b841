"""The operator's own process on a real API server, over a Kafka that several processes share through a file.

Usage: python -m tests.process.sim_operator FOLDER NAMESPACE LIVENESS_PORT [stop-before-effect] [OPTION...]

FOLDER has a file for each cluster, named as its bootstrap server. With stop-before-effect the process stops itself
(SIGSTOP) when an effect is decided on and all checks but the last have been made. Options are the operator's own. Times
that are minutes in the field are seconds here.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_medic.controller import __main__ as controller
from kafka_medic.controller import lease, roll_call, turn
from tests.simulation.canary import SimCanary
from tests.simulation.kafka import SimKafka

LEASE_SECONDS = 6
DEAF_AFTER = 6


class SharedKafka:
    """A SimKafka that lives in a file. `told` gets a line for each write, with the process that made it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def told(self) -> Path:
        return self._file.with_name(f"{self._file.name}.writes")

    @contextmanager
    def open(self) -> Iterator[SimKafka]:
        """The one that all share, alone for the moment."""
        with self._file.open("r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            kafka: SimKafka = pickle.load(held)
            before = len(kafka.writes)
            yield kafka
            with self.told.open("a") as log:
                log.writelines(f"{os.getpid()} {write}\n" for write in kafka.writes[before:])
            held.seek(0)
            held.truncate()
            pickle.dump(kafka, held)

    def create(self, kafka: SimKafka) -> None:
        self._file.write_bytes(pickle.dumps(kafka))
        self.told.touch()

    def writes(self) -> list[tuple[int, str]]:
        """Who wrote what, oldest first."""
        return [
            (int(pid), what) for pid, _, what in (line.partition(" ") for line in self.told.read_text().splitlines())
        ]

    def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.open() as kafka:
                return getattr(kafka, name)(*args, **kwargs)

        return call


def stop_before_effects(send: Callable[..., None]) -> Callable[..., None]:
    def stopped(*args: Any, **kwargs: Any) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)
        send(*args, **kwargs)

    return stopped


if __name__ == "__main__":
    folder, namespace, port, *options = sys.argv[1:]
    lease.DURATION_SECONDS = LEASE_SECONDS
    roll_call.EVERY_SECONDS, roll_call.MISSED_SECONDS = 1.0, float(DEAF_AFTER)
    if "stop-before-effect" in options:
        options.remove("stop-before-effect")
        turn.carry_out = stop_before_effects(turn.carry_out)  # type: ignore[attr-defined]
    of: Any = lambda connection: SharedKafka(Path(folder) / connection.bootstrap_servers)  # noqa: E731
    canary: Any = lambda *to: SimCanary(of(to[0]), to[1])  # noqa: E731
    controller.RealKafka, controller.LibrdkafkaCanary = of, canary  # type: ignore[attr-defined, misc]
    ports = ["--liveness-port", port, "--metrics-port", "0"]
    controller.main([*ports, "--log-format", "plain", "--watch-namespaces", namespace, *options])
