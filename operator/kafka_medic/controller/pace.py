"""How soon a KafkaCluster's next turn is due."""

from __future__ import annotations

INVALID_SECONDS = 60.0
"""Until a KafkaCluster that this version cannot read is looked at again; a change of it wakes the worker sooner."""
NOT_OURS_SECONDS = 5.0
"""At most, until a Lease that somebody else holds is asked for again."""
SHORTEST_PAUSE = 0.1
LONGEST_BREATH = 2.0


def pause(wanted: float, took: float) -> float:
    """Seconds until the next turn that is wanted in so many, after one that took so long. However urgent it is, the
    operator rests as long as it worked, up to LONGEST_BREATH: watching a cluster takes half of a core at most."""
    return max(wanted, SHORTEST_PAUSE, min(took, LONGEST_BREATH))
