"""A Store whose process begins with what others have taken apart: a resource that is the same to the last byte is the
same resource, in whichever schedule it is read."""

from __future__ import annotations

import marshal
from typing import Any, TypeVar, cast

from kafka_medic.controller.store import Store
from kafka_medic.resources.base import Resource

R = TypeVar("R", bound=Resource)
MOST = 3000
_PARSED: dict[tuple[type[Resource], bytes], Resource] = {}


class SimStore(Store):
    """Frozen, all of them, so that nobody is disturbed by another's having one."""

    def parsed(self, kind: type[R], raw: dict[str, Any]) -> R:
        key = kind, marshal.dumps(raw)
        if key not in _PARSED:
            if len(_PARSED) >= MOST:
                _PARSED.clear()
            _PARSED[key] = super().parsed(kind, raw)
        return cast("R", _PARSED[key])
