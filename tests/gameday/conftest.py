"""The operator is the installed one, as in the end-to-end tests."""

from __future__ import annotations

from tests.e2e.conftest import installed

__all__ = ["installed"]
