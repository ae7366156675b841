"""Which incarnation of a topic a Snapshot shows. `authority` decides; here it is given the Snapshot's accounts.

`Snapshot.partitions` has what is decided, and a topic that is not there has no row: one that was deleted, and one of
which the only account that was read is an old one. So a topic counts as deleted only by more than half of the brokers,
those that are down included. Metadata leaves out a topic that one may not see. So a broker that reports none stands
against its deletion as long as it lists a replica of it, or its log directories are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.authority import GONE, UNNAMED, incarnation
from kafka_medic.cluster.snapshot import Snapshot


def topic_ids(snapshot: Snapshot, topics: Collection[str]) -> dict[str, str | None]:
    """By topic that the Snapshot has, the id that is decided; None: undecided, or no broker reports ids."""
    return {} if snapshot.partitions is None else ids_in(snapshot.partitions, topics)


def deleted(
    snapshot: Snapshot, planned: Mapping[str, str | None], holders: Collection[int] = ()
) -> dict[str, bool | None]:
    """By topic, whether the incarnation with this id is deleted; None: not known. An id that is None stands for
    whatever has the name. holders: brokers that had a replica of some of them, so that they are brokers also when
    nobody reports them any more."""
    present = topic_ids(snapshot, planned)
    found: dict[str, bool | None] = {}
    doubtful = []
    for topic, id_ in planned.items():
        if topic in present and (id_ is None or present[topic] == id_):
            found[topic] = False
        elif snapshot.partitions is None or (topic in present and present[topic] is None):
            found[topic] = None
        else:
            doubtful.append(topic)
    if not doubtful or snapshot.brokers is None:
        return found | dict.fromkeys(doubtful)
    accounts, voters = _accounts(snapshot, doubtful), len({*holders, *(b.id for b in snapshot.brokers)})
    return found | {
        topic: _witnessed(snapshot, topic, accounts[topic], voters, present.get(topic) or GONE) or None
        for topic in doubtful
    }


def _witnessed(snapshot: Snapshot, topic: str, accounts: dict[int, str], voters: int, shown: str) -> bool:
    """Whether the accounts decide what the Snapshot shows, more than half of the voters give it, and each broker that
    does not report the topic is known to list no replica of it."""
    without = (b for b in snapshot.brokers or () if accounts.get(b.id) == GONE)
    if any(b.unknown_topics is None or topic in b.unknown_topics for b in without):
        return False
    controller = snapshot.controller.id if snapshot.controller else None
    given = sum(account == shown for account in accounts.values())
    return bool(accounts) and incarnation(accounts, controller, voters) == shown and given * 2 > voters


def _accounts(snapshot: Snapshot, topics: Collection[str]) -> dict[str, dict[int, str]]:
    """By topic and broker that reported its partitions: the id, GONE or UNNAMED."""
    found: dict[str, dict[int, str]] = {topic: {} for topic in topics}
    views = [v for v in snapshot.views or () if v.leaders is not None]
    tables = {id(v.leaders): v.leaders for v in views if v.leaders is not None}
    read = {key: ids_in(table, topics) for key, table in tables.items()}
    for view in views:
        ids = read[id(view.leaders)]
        for topic in topics:
            if view.covers_topic(topic):
                found[topic][view.broker] = (ids[topic] or UNNAMED) if topic in ids else GONE
    return found


def ids_in(table: pa.Table, topics: Collection[str]) -> dict[str, str | None]:
    """By topic that the table has."""
    if not topics:
        return {}
    mine = table.select(["topic", "topicId"])
    mine = mine.filter(pc.is_in(mine["topic"], value_set=pa.array(sorted(topics), pa.string()))).combine_chunks()
    # A row of each topic: dictionaries of all rows would take twenty times as long.
    encoded: Any = pc.dictionary_encode(mine["topic"]).combine_chunks()
    codes, first = np.unique(np.asarray(encoded.indices.to_numpy()), return_index=True)
    ids: Any = mine["topicId"].take(pa.array(first, pa.int64()))
    return dict(zip(encoded.dictionary.take(pa.array(codes, pa.int64())).to_pylist(), ids.to_pylist(), strict=True))
