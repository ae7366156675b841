"""What consumers run in, as Kubernetes has it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment or StatefulSet: how many `replicas` it is to have, and how many Pods of it are there, starting ones
    (`running`) included and those that are going not. `uid` None: there is none of that name."""

    uid: str | None
    replicas: int = 0
    running: int = 0
