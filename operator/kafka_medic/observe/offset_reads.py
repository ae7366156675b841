"""What a run that sets offsets asks for, read when it asks."""

from __future__ import annotations

from kafka_medic.clients.ports import KafkaReads, ReadFailed
from kafka_medic.playbook.offset_questions import Questions
from kafka_medic.playbook.run import Answers


def answers(kafka: KafkaReads, asked: Questions) -> Answers:
    """What cannot be read stays unanswered: a plan then says so, or waits."""
    found = Answers()
    if asked.groups:
        try:
            found = Answers(members=kafka.group_members(asked.groups))
        except ReadFailed:
            found = Answers()
    if asked.ms is not None:
        try:
            return Answers(found.members, kafka.offsets_at(asked.partitions, asked.ms))
        except ReadFailed:
            return found
    return found
