"""The chart's roles and policies, as in the integration tests; the operator's Pod does not run."""

from __future__ import annotations

from tests.integration.conftest import chart, operator, role

__all__ = ["chart", "operator", "role"]
