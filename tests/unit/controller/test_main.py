"""/healthz is served where the kubelet asks for it."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from kafka_medic.controller.__main__ import liveness_endpoint


@pytest.mark.parametrize(
    ("address", "host"), [("fd00::7", "fd00::7"), ("10.0.0.7", "10.0.0.7"), ("", "0.0.0.0"), (None, "0.0.0.0")]
)
def test_on_the_pods_address_of_either_family(monkeypatch, address, host):
    monkeypatch.delenv("POD_IP", raising=False)
    if address is not None:
        monkeypatch.setenv("POD_IP", address)
    parts = urlsplit(liveness_endpoint(8080))
    assert (parts.hostname, parts.port, parts.path) == (host, 8080, "/healthz")


def test_switched_off():
    assert liveness_endpoint(0) is None
