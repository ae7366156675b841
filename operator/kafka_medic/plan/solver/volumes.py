"""Which replicas of one broker go to another volume of it: enough bytes leave each volume that is short of room, as few
above that as was found, and no other volume gets more than it has room for.

The sizes are chosen as for `relief`. Each goes, the largest first, to the volume with most room. No replica leaves that
could stay.
"""

from __future__ import annotations

import numpy as np

from kafka_medic.plan.columns import Ints
from kafka_medic.plan.solver.relief import TRIES, fewest_bytes

__all__ = ["STAYS", "to_other_volumes"]

STAYS = -1


def to_other_volumes(size: Ints, volume: Ints, above: Ints) -> Ints:
    """int64[n]: the volume that each replica goes to, or STAYS. size: its bytes; volume: where it is. above: int64[V],
    bytes that a volume has free above what it keeps; below 0, so many have to leave it. Where not so many can, what is
    found is less."""
    room, goes = np.maximum(above, 0), np.full(len(size), STAYS, dtype=np.int64)
    for at in np.argsort(above, kind="stable").tolist():
        if above[at] >= 0:
            break
        rows = np.flatnonzero((volume == at) & (size > 0))
        found = _from_one(size[rows], int(-above[at]), room)
        goes[rows], room = found, room - _arriving(size[rows], found, len(room))
    return goes


def _from_one(size: Ints, need: int, room: Ints) -> Ints:
    """Where the replicas of one volume go, of which `need` bytes have to leave."""
    able = size <= room.max(initial=0)
    for _ in range(TRIES):
        if int(size[able].sum()) < need:
            break
        chosen = np.zeros(len(size), dtype=bool)
        chosen[able] = fewest_bytes(size[able], np.zeros(int(able.sum()), dtype=bool), need)
        goes, misfit = _placed(size, np.flatnonzero(chosen), room)
        if misfit is None:
            return goes
        able[misfit] = False
    return _as_many_as_fit(size, need, room)


def _placed(size: Ints, chosen: Ints, room: Ints) -> tuple[Ints, int | None]:
    """Each of the chosen, the largest first, to the volume with most room; and the first that finds none."""
    goes, left = np.full(len(size), STAYS, dtype=np.int64), room.copy()
    for row in chosen[np.argsort(-size[chosen], kind="stable")].tolist():
        to = int(np.argmax(left))
        if left[to] < size[row]:
            return goes, row
        goes[row], left[to] = to, left[to] - size[row]
    return goes, None


def _as_many_as_fit(size: Ints, need: int, room: Ints) -> Ints:
    """The largest first, until they are enough or no more fit; then those stay that are not needed."""
    goes, left, gone = np.full(len(size), STAYS, dtype=np.int64), room.copy(), 0
    for row in np.argsort(-size, kind="stable").tolist():
        to = int(np.argmax(left))
        if gone < need and left[to] >= size[row]:
            goes[row], left[to], gone = to, left[to] - size[row], gone + int(size[row])
    for row in np.argsort(-size, kind="stable").tolist():
        if goes[row] != STAYS and gone - int(size[row]) >= need:
            goes[row], gone = STAYS, gone - int(size[row])
    return goes


def _arriving(size: Ints, goes: Ints, volumes: int) -> Ints:
    """int64[V]: bytes that each volume gets."""
    moved = goes != STAYS
    return np.bincount(goes[moved], weights=size[moved], minlength=volumes).astype(np.int64)
