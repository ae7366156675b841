"""A plan waits for approval, and a person who may approve sits at a terminal."""

from __future__ import annotations

import pytest

from tests.unit.cli.remediation.api_of_people import ApiOfPerson, Terminal, proposed


@pytest.fixture
def sim():
    return proposed()


@pytest.fixture
def terminal(monkeypatch, capsys, sim):
    return Terminal(monkeypatch, capsys, ApiOfPerson(sim))
