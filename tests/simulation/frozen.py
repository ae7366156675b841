"""A stage at one moment, to go back to as often as wanted."""

from __future__ import annotations

import io
import pickle
from typing import Any, ClassVar

from kafka_medic.clients.ports import BrokerView
from tests.simulation.api import UNCHANGING
from tests.simulation.images import Image


class _Freezer(pickle.Pickler):
    """What nobody ever changes stays where it is, for all that is thawed in this process."""

    kept: ClassVar[dict[int, Any]] = {}

    def __init__(self, to: io.BytesIO, objects: dict[str, Any]) -> None:
        super().__init__(to, pickle.HIGHEST_PROTOCOL)
        self._unchanging = {id(o) for path, o in objects.items() if UNCHANGING.match(path)}

    def persistent_id(self, found: Any) -> int | None:
        if isinstance(found, BrokerView | Image) or id(found) in self._unchanging:
            self.kept[id(found)] = found
            return id(found)
        return None


class _Thawer(pickle.Unpickler):
    def persistent_load(self, kept: int) -> Any:
        return _Freezer.kept[kept]


def freeze(stage: Any) -> bytes:
    written = io.BytesIO()
    _Freezer(written, stage.api.objects).dump(stage)
    return written.getvalue()


def thaw(frozen: bytes) -> Any:
    return _Thawer(io.BytesIO(frozen)).load()
