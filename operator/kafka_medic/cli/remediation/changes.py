"""A plan as what would be different afterwards: each thing that it touches, before and after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_medic.cluster.names import printable
from kafka_medic.resources.remediation_plan import Plan


@dataclass(frozen=True, slots=True)
class Change:
    """`before` None: nothing is there now. `after` None: nothing of it is changed for good; `note` says what is
    done."""

    what: str
    before: str | None
    after: str | None
    note: str = ""


def changes(plan: Plan) -> Iterator[Change]:
    """In the order in which they would happen."""
    yield from _before_restarts(plan)
    yield from _restarts(plan)
    yield from _moves(plan)
    yield from _elections(plan)
    yield from _offsets(plan)
    yield from _settings(plan)


def _before_restarts(plan: Plan) -> Iterator[Change]:
    for rescue in plan.rescues:
        where = f"{rescue.topic}-{rescue.partition} on broker {rescue.broker}"
        records = f"copy offsets {rescue.from_offset} to {rescue.to_offset} to topic {plan.rescue_topic}"
        yield Change(f"records of {where}", None, None, records)
    for drain in plan.drains:
        before, meanwhile = _ids(drain.replicas_before), _ids(drain.replicas)
        note = f"{before}, and {meanwhile} while broker {drain.broker} is restarted"
        yield Change(f"order of {drain.topic}, partitions {_some(drain.partitions)}", None, None, note)
    for resignation in plan.resignations:
        note = f"its registration is deleted in ZooKeeper (controller epoch {resignation.epoch}); nothing is restarted"
        yield Change("controller", f"broker {resignation.broker}", "another broker", note)


def _restarts(plan: Plan) -> Iterator[Change]:
    for setting in plan.static_settings:
        what = f"{setting.name} in the configuration of broker {_some(setting.brokers)}"
        yield Change(what, setting.before, setting.after, "changed by you before you approve, read at the restart")
    for restart in plan.restarts:
        why = f": {restart.reason}" if restart.reason else ""
        yield Change(f"broker {restart.broker}", None, None, f"restart Pod {restart.pod} (uid {restart.pod_uid}){why}")


def _moves(plan: Plan) -> Iterator[Change]:
    for change in plan.changes:
        size = f"{change.size_bytes} bytes" if change.size_bytes is not None else "size not known"
        before, after = _ids(change.replicas_before), _ids(change.replicas)
        yield Change(f"replicas of {change.topic}-{change.partition}", before, after, f"{size}, wave {change.wave}")


def _elections(plan: Plan) -> Iterator[Change]:
    for order in plan.reorders:
        before, after = _ids(order.replicas_before), _ids(order.replicas)
        yield Change(f"order of {order.topic}-{order.partition}", before, after, "no data moves")
    for election in plan.elections:
        note = f"partitions {_some(election.partitions)}"
        yield Change(f"leaders of {election.topic}", None, f"broker {election.broker}", note)


def _offsets(plan: Plan) -> Iterator[Change]:
    if plan.workload is not None:
        note = f"{plan.workload.replicas} replicas, and 0 while the offsets are set (uid {plan.workload.uid})"
        yield Change(f"{plan.workload.kind.value} {plan.workload.name}", None, None, note)
    for offset in plan.offsets:
        what = f"offset of group {offset.group} in {offset.topic}-{offset.partition}"
        note = f"{offset.skipped} offsets skipped, up to {offset.read_again} read again"
        why = f"; {offset.reason}" if offset.reason else ""
        yield Change(what, str(offset.before), str(offset.after), note + why)


def _settings(plan: Plan) -> Iterator[Change]:
    for config in plan.config_changes:
        kind = config.resource_type.value.lower()
        whose = f"{kind} {config.resource_name}" if config.resource_name else "all brokers"
        yield Change(f"{config.name} of {whose}", config.before, config.after or "not set")


def as_diff(change: Change) -> list[str]:
    """Lines as diff writes them, with nothing in them that a terminal obeys."""
    note = f"  ({change.note})" if change.note else ""
    lines = [f"  {change.what}{note}"]
    if change.before is not None:
        lines.append(f"- {change.before}")
    if change.after is not None:
        lines.append(f"+ {change.after}")
    return [printable(line) for line in lines]


def as_line(change: Change) -> str:
    """The same in one line."""
    arrow = f": {change.before or 'not set'} -> {change.after}" if change.after is not None else ""
    return printable(f"{change.what}{arrow}" + (f" ({change.note})" if change.note else ""))


def _some(numbers: tuple[int, ...]) -> str:
    more = f" and {len(numbers) - 20} more" if len(numbers) > 20 else ""
    return ", ".join(map(str, numbers[:20])) + more


def _ids(brokers: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, brokers)) + "]"
