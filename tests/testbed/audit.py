"""What ServiceAccounts asked of the testbed's API server, as it wrote it down itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from tests.testbed.places import own_state


@dataclass(frozen=True)
class Asked:
    """One request, by the words that RBAC uses. `resource` has its subresource behind a slash; one without is a path
    that is no resource's."""

    verb: str
    group: str
    resource: str
    name: str
    allowed: bool


def size() -> int:
    """Where the log ends now."""
    return own_state().audit_log.stat().st_size


def asked_by(account: str, since: int = 0) -> Iterator[Asked]:
    """Every request with that account's own credentials, from that place in the log on. `account`: its user name, or
    how that ends."""
    with own_state().audit_log.open() as log:
        log.seek(since)
        for line in log:
            if f'{account}"' not in line or not line.endswith("\n"):
                continue
            entry = json.loads(line)
            if not entry["user"]["username"].endswith(account):
                continue
            about = entry.get("objectRef") or {}
            resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
            allowed = (entry.get("annotations") or {}).get("authorization.k8s.io/decision") != "forbid"
            yield Asked(entry["verb"], about.get("apiGroup", ""), resource, about.get("name", ""), allowed)
