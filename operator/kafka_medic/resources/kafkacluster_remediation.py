"""KafkaCluster.spec.remediation: how far the operator may go by itself, when, and with whose word."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from .base import Model
from .cel import rule, validations
from .scalars import (
    Between,
    BigCount,
    Count,
    Duration,
    Flag,
    LineText,
    ObjectName,
    ParameterName,
    ShortIntOrString,
    Timestamp,
)
from .vocabulary import FindingType, RemediationMode, Risk

ClockTime = Annotated[str, StringConstraints(min_length=5, max_length=5, pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
TimeZoneName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$"),
]
MAX_OVERRIDDEN = 8
"""Parameters of one playbook that a KafkaCluster may set: with more, all overrides at their bounds would be 1 MB."""
SET_LIST = {"x-kubernetes-list-type": "set"}


class Day(StrEnum):
    """Days of the week, in order."""

    MON = "Mon"
    TUE = "Tue"
    WED = "Wed"
    THU = "Thu"
    FRI = "Fri"
    SAT = "Sat"
    SUN = "Sun"


class Window(Model):
    """A stretch of time, every week, in which the operator may act."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule("self.start != self.end", "start and end must differ", field_path=".end"),
        )
    )

    days: Annotated[tuple[Day, ...], Field(min_length=1, max_length=7, json_schema_extra=SET_LIST)] = Field(
        description="Days on which the window starts."
    )
    start: ClockTime = Field(description="First minute, as 22:00.")
    end: ClockTime = Field(description="First minute after it. Earlier than start: on the next day.")
    time_zone: TimeZoneName = Field(default="UTC", description="IANA name of the zone of start and end.")

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        if self.start == self.end:
            raise ValueError("start and end are the same; write two different times")
        if len(set(self.days)) != len(self.days):
            raise ValueError("a day is named twice; name it once")
        return self


class PlaybookOverride(Model):
    """What differs for one playbook."""

    name: ObjectName = Field(description="The Playbook's name.")
    mode: RemediationMode | None = Field(default=None, description="The mode for this playbook.")
    parameters: Annotated[dict[ParameterName, ShortIntOrString], Field(max_length=MAX_OVERRIDDEN)] = Field(
        default_factory=dict, description="Values of the playbook's parameters instead of its defaults."
    )


SERVICE_ACCOUNT = "system:serviceaccount:"
"""How the user names of ServiceAccounts begin."""
ServiceAccountName = Annotated[
    str,
    StringConstraints(max_length=256, pattern=r"^system:serviceaccount:[a-z0-9-]+:[a-z0-9.-]+$"),
]


class Approvals(Model):
    """Whose word a plan needs."""

    required: Annotated[int, Field(ge=1, le=5, strict=True)] = Field(
        default=1, description="How many different people must approve the same plan."
    )
    allow_requester: Flag = Field(
        default=False, description="Whether the person who asked for a remediation may be one of them."
    )
    expire_after: Annotated[Duration, Between("1m", "168h")] = Field(
        default="24h", description="How long a plan may wait for approval, counted from when it was proposed."
    )
    service_accounts: Annotated[tuple[ServiceAccountName, ...], Field(max_length=20, json_schema_extra=SET_LIST)] = (
        Field(
            default=(),
            description="ServiceAccounts that count like people, as system:serviceaccount:NAMESPACE:NAME. Any other "
            "approves nothing, and its requests need one approval more: people may hold its token.",
        )
    )

    def is_machine(self, user: str) -> bool:
        """Whether it is a ServiceAccount that does not count as somebody of its own."""
        return user.startswith(SERVICE_ACCOUNT) and user not in self.service_accounts

    def needed(self, requested_by: str | None) -> int:
        """Approvals that a run needs. Whoever approves a machine's request first may be who made it."""
        by_machine = requested_by is not None and self.is_machine(requested_by)
        return self.required + (by_machine and not self.allow_requester)


class Limits(Model):
    """How often the operator may act."""

    per_day: Annotated[int, Field(ge=0, le=1000, strict=True)] = Field(
        default=10, description="Remediations that may start within 24 hours."
    )
    cooldown: Annotated[Duration, Between("0s", "168h")] = Field(
        default="10m",
        description="Rest after a remediation before the next one may start. A graver finding's cure does not wait.",
    )


class Breaker(Model):
    """When the operator stops trusting itself."""

    failures: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(
        default=3,
        description="Remediations in a row that failed, or did not cure, after which none starts and what waits is "
        "dropped.",
    )
    open_for: Annotated[Duration, Between("1m", "720h")] = Field(
        default="24h", description="How long after the last of them, until one is tried again."
    )
    try_again_at: Timestamp | None = Field(
        default=None,
        description="A person's word that one may be tried sooner: the moment at which they said so. It counts for "
        "what failed before it.",
    )


class AutoBounds(Model):
    """What the mode Auto does without a person's word. Beyond any of these it asks, as in the mode Approve; and what a
    person asked for always needs another's word."""

    findings: Annotated[tuple[FindingType, ...], Field(max_length=32, json_schema_extra=SET_LIST)] = Field(
        default=(), description="Findings that may be treated so. Empty: all that a playbook treats."
    )
    max_risk: Risk = Field(default=Risk.MEDIUM, description="The highest risk of a playbook.")
    max_partitions: Count = Field(default=100, description="Partitions that one plan may touch.")
    max_moves: Count = Field(default=100, description="Replicas that it may copy.")
    max_bytes: BigCount = Field(default=10_000_000_000, description="Bytes that it may copy.")
    max_restarts: Count = Field(default=1, description="Brokers that it may restart.")
    windows: Annotated[tuple[Window, ...], Field(max_length=32)] = Field(
        default=(), description="When a run may start so. Empty: whenever spec.remediation.windows let it."
    )


class RemediationPolicy(Model):
    """How far the operator may go, and when."""

    mode: RemediationMode = Field(
        default=RemediationMode.APPROVE,
        description=("Observe: only say what is wrong. Approve: propose, act when approved. Auto: act within bounds."),
    )
    playbooks: Annotated[
        tuple[PlaybookOverride, ...],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default=(), description="What differs for some playbooks.")
    auto: AutoBounds = Field(default_factory=AutoBounds, description="What the mode Auto does without a person's word.")
    windows: Annotated[tuple[Window, ...], Field(max_length=32)] = Field(
        default=(), description="When the operator may act. Empty: at any time."
    )
    approvals: Approvals = Field(default_factory=Approvals, description="Whose word a plan needs.")
    limits: Limits = Field(default_factory=Limits, description="How often the operator may act.")
    breaker: Breaker = Field(default_factory=Breaker, description="When the operator stops trusting itself.")
    paused: Flag = Field(default=False, description="Whether the operator holds every remediation of this cluster.")
    pause_reason: LineText | None = Field(default=None, description="Why, and until when, for the next person.")

    @model_validator(mode="after")
    def _one_override_each(self) -> Self:
        names = [override.name for override in self.playbooks]
        if len(set(names)) != len(names):
            raise ValueError("playbooks names a playbook twice; merge the two entries")
        return self

    def override(self, playbook: str) -> PlaybookOverride | None:
        """What differs for that playbook, or None."""
        return next((entry for entry in self.playbooks if entry.name == playbook), None)

    def mode_for(self, playbook: str) -> RemediationMode:
        """The mode that counts for that playbook."""
        entry = self.override(playbook)
        return entry.mode if entry is not None and entry.mode is not None else self.mode
