"""ClientStalled: consumer groups that have members and commit nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.diagnose.columns import Ints, Mask, numbers, some
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.group_progress import STALLED_FOR, codes_of
from kafka_medic.diagnose.scene import Scene
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Severity


def detect(scene: Scene) -> Iterator[Finding]:
    """ClientStalled, one for each group: members alive, records arriving, and nothing committed. A topic of which the
    group commits nothing at all while it gets on with others is one that it has left, and says nothing."""
    if scene.memory is None or scene.snapshot.groups is None or scene.partitions is None:
        return
    table = scene.memory.progress
    if not table.num_rows:
        return
    committed, ends = numbers(table["committed"]).values, numbers(table["logEnd"]).values
    growing = (ends > numbers(table["firstEnd"]).values) & (ends > committed)
    stalled = (numbers(table["observations"]).values > 0) & growing
    if scene.snapshot.unread:  # what stands still by an earlier look alone is not known to do so now
        read = pc.is_in(table["group"], value_set=pc.unique(scene.snapshot.groups["group"]))
        stalled &= np.asarray(read.to_numpy(), dtype=np.bool_)
    if not stalled.any():
        return
    moved = np.asarray(table["moved"].to_numpy(), dtype=np.bool_)
    group, group_names = codes_of(table["group"])
    topic, _ = codes_of(table["topic"])
    stalled &= _on_topics_still_read(group, topic, moved)
    by_group: dict[int, list[int]] = defaultdict(list)
    for i in np.flatnonzero(stalled).tolist():
        by_group[int(group[i])].append(i)
    for code, chosen in sorted(by_group.items(), key=lambda item: group_names[item[0]]):
        yield _finding(scene, table, group_names[code], chosen)


def _finding(scene: Scene, table: pa.Table, group: str, chosen: list[int]) -> Finding:
    rows = table.take(chosen).to_pylist()
    evidence = [
        f"{r['topic']}-{r['partition']} committed {r['committed']} for {r['seconds']:.0f} s "
        f"({many(r['observations'] + 1, 'probe')}), log end then {r['firstEnd']}, now {r['logEnd']}, "
        f"{many(r['logEnd'] - r['committed'], 'record')} behind"
        for r in rows[:10]
    ]
    names = [f"{r['topic']}-{r['partition']}" for r in rows]
    return Finding(
        id=f"ClientStalled/{group}",
        type="ClientStalled",
        severity=Severity.WARNING,
        message=f"group {group} has members but commits nothing on {many(len(rows), 'partition')} with new records",
        affected=(group, *names),
        evidence=(
            some(evidence, 5),
            f"the group is Stable, {scene.read_from('groups', 'kafka')}",
            f"log ends {scene.read_from('log-ends', 'kafka')}",
        ),
        for_seconds=STALLED_FOR,
        since=scene.snapshot.taken_at - timedelta(seconds=max(r["seconds"] for r in rows)),
    )


def _on_topics_still_read(group: Ints, topic: Ints, moved: Mask) -> Mask:
    """Rows of (group, topic) pairs that moved anywhere, or of groups that moved nowhere."""
    pair = (group << 32) | topic
    active_pairs, active_groups = np.unique(pair[moved]), np.unique(group[moved])
    return np.asarray(np.isin(pair, active_pairs) | ~np.isin(group, active_groups), dtype=np.bool_)
