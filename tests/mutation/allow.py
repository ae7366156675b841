"""One guard permits everything: the tests are to notice. A pytest plugin, and for the simulation a context."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka_medic.guard import cluster_wide, restart
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.resources.vocabulary import Guard

VARIABLE = "KAFKA_MEDIC_PERMISSIVE_GUARD"


def pytest_configure() -> None:
    permissive(os.environ[VARIABLE])


@contextmanager
def without(mutant: str) -> Iterator[None]:
    """The same, and taken back afterwards."""
    module = importlib.import_module(f"kafka_medic.guard.{mutant.split(':', maxsplit=1)[0]}")
    before = dict(vars(module))
    permissive(mutant)
    try:
        yield
    finally:
        vars(module).update(before)


def permissive(mutant: str) -> None:
    """`module:function:GuardName`; `restart:GuardName` or `cluster_wide:GuardName` for one of those lists."""
    chosen = mutant.split(":")
    name = Guard(chosen[-1])

    def permits(*_: Any, **__: Any) -> tuple[Reason, ...]:
        return (Reason(name, Verdict.ALLOW, "permits everything"),)

    if chosen[0] == "cluster_wide":
        cluster_wide.CLUSTER_WIDE = {**cluster_wide.CLUSTER_WIDE, name: permits}
        return
    if len(chosen) == 2:
        restart.RESTART_GUARDS = tuple((n, permits if n == name else g) for n, g in restart.RESTART_GUARDS)
        return
    module = importlib.import_module(f"kafka_medic.guard.{chosen[0]}")
    single = chosen[0] in ("run", "precedence", "owners")
    getattr(module, chosen[1])  # one that is called otherwise by now would be missed by nobody
    setattr(module, chosen[1], (lambda *a, **k: permits()[0]) if single else permits)
