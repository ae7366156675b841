"""How soon a KafkaCluster's next turn is due, at the earliest and at the latest."""

from __future__ import annotations

from datetime import timedelta

INVALID_SECONDS = 60.0
"""Until a KafkaCluster that this version cannot read is looked at again; a change of it wakes the worker sooner."""
NOT_OURS_SECONDS = 5.0
"""At most, until a Lease that somebody else holds is asked for again."""
SHORTEST_PAUSE = 0.05
"""Between two turns, however urgent the second is."""
RETOLD = timedelta(seconds=5)
"""After which a status of which only the time of the look has changed is written again."""
