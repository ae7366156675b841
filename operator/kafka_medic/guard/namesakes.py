"""KafkaClusters that are for the same Kafka cluster: of their runs one acts at a time.

The Lease is each KafkaCluster's own, and does not tell them apart. What does is what their runs' status says. A run
claims Kafka by the intent in its journal. It writes the claim, then reads the others', then sends the effect. So of two
that begin at once at least one sees the other, and neither sends while it sees a claim. A claim that led to nothing
lapses, and then the older KafkaCluster goes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.resources.vocabulary import Guard


@dataclass(frozen=True, slots=True)
class Namesake:
    """A run that has begun, of another KafkaCluster (namespace/name) for the same Kafka cluster.

    `claims`: it holds something, or may have sent something that is not seen settled. `owes`: it has changed something
    and takes it back later. `wants`: nothing keeps it from acting but the runs of other KafkaClusters. `readable`:
    whether this version can read it as a whole."""

    name: str
    run: str
    older: bool
    claims: bool
    owes: bool = False
    wants: bool = False
    readable: bool = True


def alone_on_kafka(namesakes: Sequence[Namesake] | None, owes: bool) -> Reason:
    """Whether a run may act beside what other KafkaClusters do to the same Kafka cluster. `owes`: as a Namesake's, of
    the KafkaCluster's own runs. None: what the others do could not be read."""
    guard = Guard.NO_OTHER_KAFKA_CLUSTER
    if namesakes is None:
        message = "whether another KafkaCluster acts on the same Kafka cluster is not known"
        return Reason(guard, Verdict.UNKNOWN, message)
    first = next((n for n in namesakes if _goes_first(n, owes)), None)
    if first is None:
        return Reason(guard, Verdict.ALLOW, "no other KafkaCluster acts on this Kafka cluster")
    text = f"Remediation {first.run} of KafkaCluster {first.name} acts on the same Kafka cluster; one at a time"
    if not first.readable:
        text += ". This version cannot read that Remediation; end it with the version that wrote it"
    return Reason(guard, Verdict.WAIT, text)


def _goes_first(other: Namesake, owes: bool) -> bool:
    """Nothing comes between the change and the restore of a run; of two in that state the older goes on."""
    if owes:
        return other.owes and other.older
    return other.claims or (other.wants and other.older)
