"""What `make check` leaves to `make simulate`: scenarios that take long, and all but a few of many of a kind."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

THOROUGH = bool(os.environ.get("THOROUGH"))
thorough = pytest.mark.thorough


def only(check: Iterable[int], cases: Iterable[Any]) -> list[Any]:
    """For parametrize: every case, of which `make check` runs those at these places."""
    kept = frozenset(check)
    return [
        case if place in kept else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=thorough)
        for place, case in enumerate(cases)
    ]
