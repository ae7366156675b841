"""KafkaCluster.spec.remediation: what the operator may do by itself, when, and with which approvals."""

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
    """Day of the week."""

    MON = "Mon"
    TUE = "Tue"
    WED = "Wed"
    THU = "Thu"
    FRI = "Fri"
    SAT = "Sat"
    SUN = "Sun"


_NOT_EMPTY = "start and end are the same; write two different times"


class Window(Model):
    """A weekly time window."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule("self.start != self.end", _NOT_EMPTY, field_path=".end"),
        )
    )

    days: Annotated[tuple[Day, ...], Field(min_length=1, max_length=7, json_schema_extra=SET_LIST)] = Field(
        description="Days on which the window starts."
    )
    start: ClockTime = Field(description="Start of the window as HH:MM, such as 22:00.")
    end: ClockTime = Field(description="End of the window as HH:MM, exclusive. Earlier than start: on the next day.")
    time_zone: TimeZoneName = Field(
        default="UTC", description="IANA time zone of start and end, such as Europe/Berlin."
    )

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        if self.start == self.end:
            raise ValueError(_NOT_EMPTY)
        if len(set(self.days)) != len(self.days):
            raise ValueError("a day is named twice; name it once")
        return self


class PlaybookOverride(Model):
    """Overrides for one playbook."""

    name: ObjectName = Field(description="The Playbook's name.")
    mode: RemediationMode | None = Field(
        default=None, description="Mode for this playbook. Absent: spec.remediation.mode."
    )
    parameters: Annotated[dict[ParameterName, ShortIntOrString], Field(max_length=MAX_OVERRIDDEN)] = Field(
        default_factory=dict, description="Parameter values that replace the playbook's defaults."
    )


SERVICE_ACCOUNT = "system:serviceaccount:"
"""Prefix of the user names of ServiceAccounts."""
ServiceAccountName = Annotated[
    str,
    StringConstraints(max_length=256, pattern=r"^system:serviceaccount:[a-z0-9-]+:[a-z0-9.-]+$"),
]


class Approvals(Model):
    """The approvals that a plan needs."""

    required: Annotated[int, Field(ge=1, le=5, strict=True)] = Field(
        default=1, description="Number of different people who must approve the same plan."
    )
    allow_requester: Flag = Field(
        default=False, description="Whether the person who requested a remediation may approve its plan."
    )
    expire_after: Annotated[Duration, Between("1m", "168h")] = Field(
        default="24h", description="Time from a plan's proposal to its expiry."
    )
    service_accounts: Annotated[tuple[ServiceAccountName, ...], Field(max_length=20, json_schema_extra=SET_LIST)] = (
        Field(
            default=(),
            description="ServiceAccounts that may approve like people, as system:serviceaccount:NAMESPACE:NAME. "
            "Another ServiceAccount's approval does not count. A run that it requests needs one more approval, unless "
            "allowRequester is true.",
        )
    )

    def is_machine(self, user: str) -> bool:
        """Whether the user is a ServiceAccount that `serviceAccounts` does not list."""
        return user.startswith(SERVICE_ACCOUNT) and user not in self.service_accounts

    def needed(self, requested_by: str | None) -> int:
        """Approvals that a run needs: one more for a machine's request, whose token an approver may hold."""
        by_machine = requested_by is not None and self.is_machine(requested_by)
        return self.required + (by_machine and not self.allow_requester)


class Limits(Model):
    """How often the operator may start remediations."""

    per_day: Annotated[int, Field(ge=0, le=1000, strict=True)] = Field(
        default=10, description="Maximum number of remediations that start within 24 hours."
    )
    cooldown: Annotated[Duration, Between("0s", "168h")] = Field(
        default="10m",
        description="Time from the end of a remediation to the start of the next one. The cure of a more severe "
        "finding does not wait.",
    )


class Breaker(Model):
    """Circuit breaker that stops remediations after failures in a row."""

    failures: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(
        default=3,
        description="Number of failed or ineffective remediations in a row that opens the breaker. While the breaker "
        "is open, no remediation starts, and waiting ones end as Superseded.",
    )
    open_for: Annotated[Duration, Between("1m", "720h")] = Field(
        default="24h",
        description="How long the breaker stays open after the last failure. Then the operator tries one remediation.",
    )
    try_again_at: Timestamp | None = Field(
        default=None,
        description="Time at which a person allowed one try before openFor ends. Set it to the current time. A later "
        "failure opens the breaker again.",
    )


class AutoBounds(Model):
    """Bounds within which the mode Auto acts without approval. A plan beyond any bound needs approval, as in the mode
    Approve, and so does every run that a person requested."""

    findings: Annotated[tuple[FindingType, ...], Field(max_length=32, json_schema_extra=SET_LIST)] = Field(
        default=(), description="Types of findings that Auto may treat. Empty: all types with a playbook."
    )
    max_risk: Risk = Field(default=Risk.MEDIUM, description="Highest risk of a playbook that Auto may run.")
    max_partitions: Count = Field(default=100, description="Maximum number of partitions that one plan may change.")
    max_moves: Count = Field(default=100, description="Maximum number of replicas that one plan may copy.")
    max_bytes: BigCount = Field(default=10_000_000_000, description="Maximum number of bytes that one plan may copy.")
    max_restarts: Count = Field(default=1, description="Maximum number of brokers that one plan may restart.")
    windows: Annotated[tuple[Window, ...], Field(max_length=32)] = Field(
        default=(), description="Windows in which Auto may start a run. Empty: as spec.remediation.windows allows."
    )


class RemediationPolicy(Model):
    """What the operator may do by itself, when, and with which approvals."""

    mode: RemediationMode = Field(
        default=RemediationMode.APPROVE,
        description=(
            "Observe: only report findings. Approve: propose plans, and act after approval. Auto: act without approval "
            "within spec.remediation.auto."
        ),
    )
    playbooks: Annotated[
        tuple[PlaybookOverride, ...],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = Field(default=(), description="Overrides for single playbooks.")
    auto: AutoBounds = Field(
        default_factory=AutoBounds, description="Bounds within which the mode Auto acts without approval."
    )
    windows: Annotated[tuple[Window, ...], Field(max_length=32)] = Field(
        default=(), description="Windows in which the operator may act. Empty: at any time."
    )
    approvals: Approvals = Field(default_factory=Approvals, description="The approvals that a plan needs.")
    limits: Limits = Field(default_factory=Limits, description="How often the operator may start remediations.")
    breaker: Breaker = Field(
        default_factory=Breaker, description="Circuit breaker that stops remediations after failures in a row."
    )
    paused: Flag = Field(
        default=False, description="Whether remediations of this cluster must wait (phase Blocked, guard NotPaused)."
    )
    pause_reason: LineText | None = Field(
        default=None, description="Reason for the pause and its planned end, for other people."
    )

    @model_validator(mode="after")
    def _one_override_each(self) -> Self:
        names = [override.name for override in self.playbooks]
        if len(set(names)) != len(names):
            raise ValueError("playbooks names a playbook twice; merge the two entries")
        return self

    def override(self, playbook: str) -> PlaybookOverride | None:
        """The override of that playbook, or None."""
        return next((entry for entry in self.playbooks if entry.name == playbook), None)

    def mode_for(self, playbook: str) -> RemediationMode:
        """The mode of that playbook."""
        entry = self.override(playbook)
        return entry.mode if entry is not None and entry.mode is not None else self.mode
