"""Which incarnation of a topic a Snapshot shows. `authority` decides; here it is given the Snapshot's accounts.

`Snapshot.partitions` has what is decided, and a topic that is not there has no row: one that was deleted, and one of
which the only account that was read is an old one. So a topic counts as deleted only by more than half of the voters.
Metadata leaves out a topic that one may not see. So a broker that reports none, and lists a replica of it, stands
against its deletion.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.cluster.authority import GONE, UNNAMED, incarnation
from kafka_medic.cluster.snapshot import Snapshot


def topic_ids(snapshot: Snapshot, topics: Collection[str]) -> dict[str, str | None]:
    """By topic that the Snapshot has, the id that is decided; None: undecided, or no broker reports ids."""
    return {} if snapshot.partitions is None else _ids(snapshot.partitions, topics)


def deleted(snapshot: Snapshot, planned: Mapping[str, str | None]) -> dict[str, bool | None]:
    """By topic, whether the incarnation with this id is deleted; None: not known. An id that is None stands for
    whatever has the name."""
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
    accounts = _accounts(snapshot, doubtful)
    return found | {
        topic: _witnessed(snapshot, topic, accounts[topic], present.get(topic) or GONE) or None for topic in doubtful
    }


def _witnessed(snapshot: Snapshot, topic: str, accounts: dict[int, str], shown: str) -> bool:
    """Whether the accounts decide what the Snapshot shows, more than half of the voters give it, and no broker lists a
    replica of a topic that it does not report."""
    if any(accounts.get(b.id) == GONE and topic in (b.unknown_topics or ()) for b in snapshot.brokers or ()):
        return False
    voters = len(_voters(snapshot))
    controller = snapshot.controller.id if snapshot.controller else None
    given = sum(account == shown for account in accounts.values())
    return bool(accounts) and incarnation(accounts, controller, voters) == shown and given * 2 > voters


def _voters(snapshot: Snapshot) -> frozenset[int]:
    """The registered brokers, and those of which that is not known."""
    if snapshot.brokers is None:
        return frozenset(v.broker for v in snapshot.views or ())
    return frozenset(b.id for b in snapshot.brokers if b.registered is not False)


def _accounts(snapshot: Snapshot, topics: Collection[str]) -> dict[str, dict[int, str]]:
    """By topic and voter that reported its partitions: the id, GONE or UNNAMED."""
    found: dict[str, dict[int, str]] = {topic: {} for topic in topics}
    if not topics:
        return found
    voters = _voters(snapshot)
    views = [v for v in snapshot.views or () if v.leaders is not None and v.broker in voters]
    tables = {id(v.leaders): v.leaders for v in views if v.leaders is not None}
    read = {key: _ids(table, topics) for key, table in tables.items()}
    for view in views:
        ids = read[id(view.leaders)]
        for topic in topics:
            if view.covers_topic(topic):
                found[topic][view.broker] = (ids[topic] or UNNAMED) if topic in ids else GONE
    return found


def _ids(table: pa.Table, topics: Collection[str]) -> dict[str, str | None]:
    """By topic that the table has."""
    if not topics:
        return {}
    mine = table.filter(pc.is_in(table["topic"], value_set=pa.array(sorted(topics), pa.string())))
    return {row["topic"]: row["topicId"] for row in mine.select(["topic", "topicId"]).to_pylist()}
