"""What a plan that sets offsets tells of its costs: offsets skipped and read again, time, and what else to think of."""

from __future__ import annotations

import base64
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pyarrow.compute as pc

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.columns import strings
from kafka_medic.guard.evaluate import some
from kafka_medic.report.units import many
from kafka_medic.resources.durations import format_duration
from kafka_medic.resources.remediation_plan import OffsetChange

SHOWN = 30
"""Lines of a summary that tell of single offsets."""
SECONDS_A_GROUP = 2
"""From the look before a group's offsets are set to the look that sees them."""
COUNTED = "counts are offsets, which are upper bounds for compacted topics and transactions: these hold fewer records"
UNSEEN = "a consumer that assigns its partitions itself is not a group member; check that none runs"

INNER = ("-changelog", "-repartition")
"""How Kafka Streams ends the names of its own topics, which begin with the application's."""


def by_group(planned: Sequence[OffsetChange]) -> dict[str, list[OffsetChange]]:
    """In the order of the plan."""
    found: dict[str, list[OffsetChange]] = defaultdict(list)
    for change in planned:
        found[change.group].append(change)
    return found


def lines(planned: Sequence[OffsetChange], paces: Mapping[str, float]) -> Iterator[str]:
    """A group's sums, and single offsets as far as there is room. `paces`: how fast groups were seen reading, in
    offsets a second."""
    room = SHOWN
    for group, mine in by_group(planned).items():
        sums = (
            f"{many(sum(c.skipped for c in mine), 'offset')} skipped, at most {sum(c.read_again for c in mine)} "
            "read again"
        )
        yield f"  group {group}: {many(len(mine), 'partition')}, {sums}{_time(mine, paces.get(group))}"
        for c in mine[: max(room, 0)]:
            log = "not known" if c.log_end is None else f"{c.log_start} to {c.log_end}"
            yield f"    {c.topic}-{c.partition}: {c.before} to {c.after} (log {log}): {c.reason}"
        room -= len(mine)
    if room < 0:
        yield f"    and {-room} more offsets; see status.plan.offsets"


def _time(mine: Sequence[OffsetChange], pace: float | None) -> str:
    """How long the group will be busy with what lies between its new offsets and the log ends."""
    ahead = sum(max(0, (c.log_end or 0) - max(c.after, c.log_start or 0)) for c in mine)
    if not ahead:
        return ""
    if not pace:
        return f"; {ahead} to the log ends, in an unknown time: the operator has not seen it read"
    took = format_duration(math.ceil(ahead / pace))
    return f"; {ahead} to the log ends, about {took} at {pace:.3g} a second, its fastest observed rate"


def notes(planned: Sequence[OffsetChange], snapshot: Snapshot) -> Iterator[str]:
    """What goes for the plan as a whole."""
    groups = len(by_group(planned))
    yield (
        f"takes about {format_duration(groups * SECONDS_A_GROUP)}; the consumers of these groups are stopped meanwhile"
    )
    yield COUNTED
    yield UNSEEN
    yield "this plan keeps the current offsets; undo-offset-reset restores them"
    yield from warnings(planned, snapshot)


def warnings(planned: Sequence[OffsetChange], snapshot: Snapshot) -> Iterator[str]:
    """Of groups whose reader keeps more than offsets."""
    assert snapshot.partitions is not None
    topics = [t for t in strings(pc.unique(snapshot.partitions["topic"])) if t.endswith(INNER)]
    for group, mine in by_group(planned).items():
        warning = _application(group, topics, [c.before_metadata for c in mine])
        if warning:
            yield warning


def _application(group: str, topics: Sequence[str], committed_with: Sequence[str]) -> str | None:
    """Known by the names that Kafka itself gives, and by what its stream applications commit."""
    inner = [t for t in topics if t.startswith(f"{group}-")]
    if inner or any(_of_streams(text) for text in committed_with):
        by = some(inner, 3) if inner else "by the metadata of its commits"
        return (
            f"{group} looks like a Kafka Streams application ({by}): its state stores and internal topics "
            "stay unchanged; kafka-streams-application-reset resets them"
        )
    if group.startswith("connect-"):
        return (
            f"{group} looks like a sink connector. Stop it with Connect's REST API (PUT .../stop), or it commits "
            "its old offsets again; that API can also change offsets (KIP-875)"
        )
    return None


def _of_streams(metadata: str) -> bool:
    """Base64 of a version, 1 or 2, and a time of 8 bytes (Kafka Streams' TopicPartitionMetadata)."""
    try:
        message = base64.b64decode(metadata, validate=True)
    except ValueError:
        return False
    return len(message) >= 9 and message[0] in (1, 2)
