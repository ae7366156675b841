"""The operator's own process on a real API server, over a Kafka that several processes share through a file.

Usage: python -m tests.process.sim_operator FOLDER NAMESPACE LIVENESS_PORT [STOP] [slow-reads] [OPTION...]

FOLDER has a file for each cluster, named as its bootstrap server. STOP is one of two moments at which the process stops
itself (SIGSTOP): stop-before-effect, when an effect is decided on and all checks but the last have been made;
stop-after-renewal, when the API server has answered the renewal of the Lease right before an effect. With slow-reads
each observation takes longer than the Lease lasts. Options are the operator's own. Times that are minutes in the field
are seconds here.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_medic.controller import __main__ as controller
from kafka_medic.controller import lease, run_reconciler, watch_audit
from tests.simulation.canary import SimCanary
from tests.simulation.kafka import SimKafka

LEASE_SECONDS = 6
SLOW_SECONDS = 2.0 * LEASE_SECONDS
STALLED_AFTER = 6


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


def stop_here() -> None:
    """Stop at this statement: a signal to the process would let this thread run on for a while, perhaps into a lock."""
    signal.raise_signal(signal.SIGSTOP)


def stop_before_effects(send: Callable[..., None]) -> Callable[..., None]:
    def stopped(*args: Any, **kwargs: Any) -> None:
        stop_here()
        send(*args, **kwargs)

    return stopped


class StopsAfterRenewal(lease.ClusterLease):
    """Once an effect is being sent: after the compare-and-set, before the time that is left is read."""

    sending = False

    def confirm(self) -> bool | None:
        answer = super().confirm()
        if StopsAfterRenewal.sending:
            stop_here()
        return answer


def marked(send: Callable[..., None]) -> Callable[..., None]:
    def sending(*args: Any, **kwargs: Any) -> None:
        StopsAfterRenewal.sending = True
        try:
            send(*args, **kwargs)
        finally:
            StopsAfterRenewal.sending = False

    return sending


class SlowKafka(SharedKafka):
    def describe_cluster(self) -> Any:
        time.sleep(SLOW_SECONDS)
        with self.open() as kafka:
            return kafka.describe_cluster()


if __name__ == "__main__":
    folder, namespace, port, *options = sys.argv[1:]
    lease.DURATION_SECONDS = LEASE_SECONDS
    watch_audit.EVERY_SECONDS, watch_audit.MISSED_SECONDS = 1.0, float(STALLED_AFTER)
    if "stop-before-effect" in options:
        options.remove("stop-before-effect")
        run_reconciler.carry_out = stop_before_effects(run_reconciler.carry_out)  # type: ignore[attr-defined]
    if "stop-after-renewal" in options:
        options.remove("stop-after-renewal")
        run_reconciler.carry_out = marked(run_reconciler.carry_out)  # type: ignore[attr-defined]
        controller.ClusterLease = StopsAfterRenewal  # type: ignore[attr-defined, misc]
    kind = SlowKafka if "slow-reads" in options else SharedKafka
    options = [option for option in options if option != "slow-reads"]
    of: Any = lambda connection: kind(Path(folder) / connection.bootstrap_servers)  # noqa: E731
    canary: Any = lambda *to: SimCanary(of(to[0]), to[1])  # noqa: E731
    controller.RealKafka, controller.CanaryApart = of, canary  # type: ignore[attr-defined, misc]
    ports = ["--liveness-port", port, "--metrics-port", "0"]
    controller.main(
        [*ports, "--log-format", "plain", "--loopback-destinations", "--watch-namespaces", namespace, *options]
    )
