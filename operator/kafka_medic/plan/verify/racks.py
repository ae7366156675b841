"""Of the second opinion on a plan: how its replicas share racks, and how they have to."""

from __future__ import annotations

import numpy as np

from kafka_medic.plan.lists import Array, Lists


def uneven(
    after: Lists, racks: Array, staying: Lists, racks_staying: Array, size: list[int], shut: Array, taking: list[int]
) -> tuple[int, int]:
    """(partitions less even over racks than they could be, those that had no choice). racks: the number of each
    replica's rack, parallel to the values of its lists; size, taking: live brokers in each rack, and those of them that
    take replicas; shut: bool, parallel to racks_staying, replicas on brokers that take none."""
    ideal = {int(f): fill([0] * len(size), int(f), size) for f in np.flatnonzero(np.bincount(after.length))}
    allowed = np.array([ideal.get(f, 0) for f in range(int(after.length.max(initial=0)) + 1)])
    best = allowed[after.length]
    bad = _shared(after, racks) > best
    unavoidable = _shared(staying, racks_staying) > 0
    tight = np.flatnonzero(after.length > sum(n > 0 for n in taking))
    if len(tight):
        profile = np.zeros((len(after.length), 2, len(size)), dtype=np.int64)
        np.add.at(profile, (staying.row, shut.astype(np.int64), racks_staying), 1)
        seen: dict[bytes, int] = {}
        for row in tight.tolist():
            gain = int(after.length[row] - staying.length[row])
            key = profile[row].tobytes() + gain.to_bytes(4, "little")
            if key not in seen:
                held, room = profile[row].sum(axis=0).tolist(), (profile[row][1] + taking).tolist()
                seen[key] = fill(held, gain, room)
            unavoidable[row] = seen[key] > best[row]
    return int(bad.sum()), int(unavoidable.sum())


def _shared(lists: Lists, rack: Array) -> Array:
    """int64[N]: pairs of a list's brokers that share a rack."""
    pairs = np.zeros(len(lists.length), dtype=np.int64)
    for lag in range(1, int(lists.length.max(initial=0))):
        alike = np.flatnonzero(rack[lag:] == rack[:-lag])
        row = lists.row[alike]
        pairs += np.bincount(row[row == lists.row[alike + lag]], minlength=len(pairs))
    return pairs


def fill(held: list[int], gain: int, size: list[int]) -> int:
    """Fewest pairs in one rack after `gain` more replicas: one at a time into the emptiest rack with room."""
    count = list(held)
    for _ in range(gain):
        open_racks = [rack for rack in range(len(count)) if count[rack] < size[rack]]
        emptiest = min(open_racks, key=lambda rack: count[rack])
        count[emptiest] += 1
    return sum(n * (n - 1) // 2 for n in count)
